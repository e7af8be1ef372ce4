//! Totals by kind, in the format of
//! [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/).

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use stanchion_core::Kind;

use crate::App;
use crate::look::Look;
use crate::row::Row;

const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let look = app.watch.look().await;
    ([(CONTENT_TYPE, FORMAT)], text(&look))
}

fn text(look: &Look) -> String {
    let mut out = String::new();
    // Figures of an earlier look are not given as present ones.
    if look.error.is_none() {
        by_kind(&mut out, look, "stanchion_store_names", "Names that have state.", |_| Some(1));
        by_kind(&mut out, look, "stanchion_store_holds", "Holds that have not expired.", |row| row.holders);
        by_kind(&mut out, look, "stanchion_store_waiters", "Queued acquisitions.", |row| row.waiters);
    }
    let up = u8::from(look.error.is_none());
    gauge(&mut out, "stanchion_store_up", "Whether the latest look at the store succeeded.");
    let _ = writeln!(out, "stanchion_store_up {up}");
    gauge(&mut out, "stanchion_store_names_cut", "Whether there are more names than were looked at.");
    let _ = writeln!(out, "stanchion_store_names_cut {}", u8::from(look.more));
    gauge(&mut out, "stanchion_store_look_seconds", "How long the latest look took.");
    let _ = writeln!(out, "# UNIT stanchion_store_look_seconds seconds");
    let _ = writeln!(out, "stanchion_store_look_seconds {}", look.took.as_secs_f64());
    out.push_str("# EOF\n");
    out
}

fn gauge(out: &mut String, name: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}");
}

fn by_kind(out: &mut String, look: &Look, name: &str, help: &str, of: fn(&Row) -> Option<u64>) {
    gauge(out, name, help);
    for kind in Kind::ALL {
        let rows = look.rows.values().filter(|row| row.kind == kind.as_str());
        let values: Vec<_> = rows.map(|row| of(row)).collect();
        // A kind of which nothing is known has no figure.
        if values.is_empty() || values.iter().any(Option::is_some) {
            let sum: u64 = values.into_iter().flatten().sum();
            let _ = writeln!(out, "{name}{{kind=\"{}\"}} {sum}", kind.as_str());
        }
    }
}
