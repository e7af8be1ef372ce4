//! Calls as fields of a line.

use std::time::Duration;

use stanchion_core::Quota;

use super::Call;
use super::fields::{Fields, Line};

pub(super) fn add_call(line: &mut Line, call: &Call) {
    match call {
        Call::Acquire { weight, permits, ttl, waits } => {
            line.add("call", "acquire").add("weight", weight).maybe("permits", *permits);
            line.maybe("ttl", *ttl).add("waits", waits);
        }
        Call::Attach { ticket, ttl } => {
            line.add("call", "attach").add("ticket", ticket).maybe("ttl", *ttl);
        }
        Call::Resize { permits } => {
            line.add("call", "resize").add("permits", permits);
        }
        Call::Force { ticket } => {
            line.add("call", "force").maybe("ticket", *ticket);
        }
        Call::Add { limit, ttl } => {
            line.add("call", "add").maybe("limit", *limit).maybe("ttl", *ttl);
        }
        Call::Done { ticket } => {
            line.add("call", "done").add("ticket", ticket);
        }
        Call::Wait => {
            line.add("call", "wait");
        }
        Call::Count => {
            line.add("call", "count");
        }
        Call::Take { cost, quota } => {
            add_quota(line.add("call", "take").add("cost", cost), quota);
        }
        Call::Reserve { cost, quota } => {
            add_quota(line.add("call", "reserve").add("cost", cost), quota);
        }
        Call::SetQuota { quota } => add_quota(line.add("call", "set_quota"), quota),
        Call::Reset => {
            line.add("call", "reset");
        }
    }
}

pub(super) fn call(fields: &mut Fields<'_>) -> Result<Call, String> {
    Ok(match fields.text("call")? {
        "acquire" => Call::Acquire {
            weight: fields.get("weight")?,
            permits: fields.maybe("permits")?,
            ttl: fields.maybe("ttl")?,
            waits: fields.get("waits")?,
        },
        "attach" => Call::Attach { ticket: fields.get("ticket")?, ttl: fields.maybe("ttl")? },
        "resize" => Call::Resize { permits: fields.get("permits")? },
        "force" => Call::Force { ticket: fields.maybe("ticket")? },
        "add" => Call::Add { limit: fields.maybe("limit")?, ttl: fields.maybe("ttl")? },
        "done" => Call::Done { ticket: fields.get("ticket")? },
        "wait" => Call::Wait,
        "count" => Call::Count,
        "take" => Call::Take { cost: fields.get("cost")?, quota: quota(fields)? },
        "reserve" => Call::Reserve { cost: fields.get("cost")?, quota: quota(fields)? },
        "set_quota" => Call::SetQuota { quota: quota(fields)? },
        "reset" => Call::Reset,
        other => return Err(format!("there is no call {other:?}")),
    })
}

fn add_quota(line: &mut Line, quota: &Quota) {
    line.add("amount", quota.amount()).add("period", quota.period().as_micros());
    line.add("burst", quota.burst_tokens());
}

fn quota(fields: &mut Fields<'_>) -> Result<Quota, String> {
    let (amount, period) = (fields.get("amount")?, fields.get("period")?);
    Ok(Quota::per(amount, Duration::from_micros(period)).burst(fields.get("burst")?))
}
