//! The harness of the cases about steps: it reads and changes the keys of a namespace.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_campaign::Outage;
use stanchion_conformance::steps::{Outages, Process, StepHarness, Tally};
use stanchion_core::Kind;
use stanchion_core::spi::Object;
use stanchion_testbed::servers::{RedisOptions, RedisServer};

use super::{Fixture, PATIENT, driven};

#[async_trait]
impl StepHarness for Fixture {
    async fn process(&self) -> Process {
        Self::process(self).await
    }

    async fn forgetful_process(&self, _: Duration, state: Duration) -> Process {
        let builder = self.builder().request_timeout(PATIENT).retention(state);
        driven(builder.steps().await.expect("steps"))
    }

    async fn other_namespace(&self) -> Process {
        Self::on(&self.url).process().await
    }

    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>) {
        let server = RedisServer::start(RedisOptions::default().append_only(true)).expect("a redis-server");
        (Box::new(Self::on(&server.url())), Box::new(Outage(server)))
    }

    async fn keep_busy(&self, _: &Object, time: Duration) {
        // The server answers this command at once, and then nothing until the pause ends.
        let milliseconds = u64::try_from(time.as_millis()).expect("a short time");
        let mut pause = redis::cmd("CLIENT");
        pause.arg("PAUSE").arg(milliseconds);
        let () = pause.query_async(&mut self.shared_raw().await).await.expect("a pause");
    }

    async fn lose_data(&self) {
        let keys = self.keys_by(self.shared_raw().await).await;
        let _: u64 = self.shared_raw().await.del(keys).await.expect("a deletion");
    }

    async fn records(&self) -> usize {
        let keys = self.keys_by(self.shared_raw().await).await;
        let names = keys.iter().filter_map(|key| {
            let (kind, name) = key.split_once("}:")?.1.split_once(':')?;
            // The silent waiters of a process stand apart.
            let name = if kind.len() == 2 && kind.ends_with('d') { name.split_once(':')?.1 } else { name };
            (kind != "box").then(|| (&kind[..1], name))
        });
        names.collect::<HashSet<_>>().len()
    }

    async fn watched(&self) -> usize {
        self.keys_by(self.shared_raw().await).await.iter().filter(|key| key.contains("}:wv:")).count()
    }

    async fn set_token(&self, _: &Object, token: u64) {
        for stripe in 0..16 {
            let mark = format!("{{{}/{stripe}}}:mark", self.namespace);
            let _: () = self.shared_raw().await.set(mark, token).await.expect("it is set");
        }
    }

    async fn tally(&self, group: &Object) -> Tally {
        let keys = Keys::of(self, group).await.expect("a record");
        let fields: HashMap<String, String> =
            self.shared_raw().await.hgetall(keys.record).await.expect("its fields");
        let text = |field: &str| fields.get(field).map_or("", String::as_str);
        let sum = |text: &str| -> u64 {
            let words = text.split([' ', ';']).filter(|word| !word.is_empty());
            words.map(|word| word.parse::<u64>().expect("a number")).sum()
        };
        let outcomes = text("past").split(';').filter(|outcome| !outcome.starts_with('='));
        let past: u64 = outcomes.map(sum).sum();
        let holds = fields.iter().filter(|(field, _)| field.len() == 33 && field.starts_with('h'));
        Tally {
            used: sum(text("used")),
            live: holds.map(|(_, record)| word(record, 2)).sum(),
            ended: past + sum(text("old")) + sum(text("ends")),
            generation: sum(text("gen")),
        }
    }

    async fn check(&self, object: &Object) {
        let Some(keys) = Keys::of(self, object).await else { return };
        let mut raw = self.shared_raw().await;
        let kind: String = redis::cmd("TYPE").arg(&keys.record).query_async(&mut raw).await.expect("a type");
        match kind.as_str() {
            "none" => {}
            "string" if object.kind == Kind::Semaphore => keys.check_permits(&mut raw).await,
            "string" => keys.check_string(&mut raw).await,
            _ => keys.check_hash(&mut raw).await,
        }
    }
}

/// Returns the number at a place of a record.
fn word(record: &str, index: usize) -> u64 {
    record.split(' ').nth(index).expect("a word").parse().expect("a number")
}

/// The contents of H, E and Q of a mutex, semaphore or wait group.
type Contents = (HashMap<String, String>, Vec<(String, f64)>, Vec<String>);

/// The keys of an object.
struct Keys {
    record: String,
    expiries: String,
    queue: String,
    /// The silent waiters, by process.
    aside: Vec<String>,
}

impl Keys {
    async fn of(fixture: &Fixture, object: &Object) -> Option<Self> {
        let kind = object.kind.letter();
        let end = format!("}}:{kind}:{}", object.name);
        let all = fixture.keys_by(fixture.shared_raw().await).await;
        let record = all.iter().find(|key| key.ends_with(&end))?.clone();
        let of_kind = |part: &str| record.replacen(&format!("}}:{kind}:"), &format!("}}:{kind}{part}:"), 1);
        let (begin, name) = (format!("}}:{kind}d:"), format!(":{}", object.name));
        let aside = all.into_iter().filter(|key| key.contains(&begin) && key.ends_with(&name)).collect();
        Some(Self { expiries: of_kind("e"), queue: of_kind("q"), aside, record })
    }

    async fn check_hash(&self, raw: &mut MultiplexedConnection) {
        let mut silent = Vec::new();
        for key in &self.aside {
            let tickets: Vec<String> = raw.zrange(key, 0, -1).await.expect("tickets");
            silent.extend(tickets);
        }
        let (fields, expiries, queue): Contents = redis::pipe()
            .atomic()
            .hgetall(&self.record)
            .cmd("ZRANGE")
            .arg(&[&self.expiries, "0", "-1", "WITHSCORES"])
            .cmd("ZRANGE")
            .arg(&[&self.queue, "0", "-1"])
            .query_async(raw)
            .await
            .expect("what is kept");
        let number =
            |field: &str| fields.get(field).map_or(0, |value| value.parse::<u64>().expect("a number"));
        let of_kind = |kind: char| -> BTreeSet<&str> {
            let long = fields.keys().filter(|field| field.len() == 33);
            long.filter_map(|field| field.strip_prefix(kind)).collect()
        };
        let holds = of_kind('h');
        let used: u64 = holds.iter().map(|ticket| word(&fields[&format!("h{ticket}")], 2)).sum();
        assert_eq!(number("used"), used, "{fields:?}");
        assert_eq!(of_kind('w'), queue.iter().chain(&silent).map(String::as_str).collect(), "{fields:?}");
        assert_eq!((number("n"), number("out")), (queue.len() as u64, silent.len() as u64), "{fields:?}");
        let expiring: BTreeSet<&str> = expiries.iter().map(|(member, _)| member.as_str()).collect();
        let tombstones: Vec<_> = of_kind('x').iter().map(|ticket| format!("x{ticket}")).collect();
        let processes: Vec<_> = of_kind('d').iter().map(|process| format!("d{process}")).collect();
        let recorded = holds.iter().copied().chain(tombstones.iter().chain(&processes).map(String::as_str));
        assert_eq!(expiring, recorded.chain(["!"]).collect(), "{fields:?}");
        for (member, expiry) in &expiries {
            assert!(*expiry >= number("next") as f64, "{member} at {expiry}: {fields:?}");
            if holds.contains(member.as_str()) {
                assert_eq!(word(&fields[&format!("h{member}")], 0) as f64, *expiry);
            }
        }
    }

    /// Checks a semaphore that nobody waits for: one string of holds, which ends after all of them,
    /// and no other key.
    async fn check_permits(&self, raw: &mut MultiplexedConnection) {
        let (value, left, beside): (String, i64, u32) = redis::pipe()
            .atomic()
            .get(&self.record)
            .cmd("PEXPIRETIME")
            .arg(&self.record)
            .exists(&[&self.expiries, &self.queue])
            .query_async(raw)
            .await
            .expect("what is kept");
        assert_eq!(beside, 0, "{value}");
        let (head, mut rest) =
            value.split_at(value.match_indices(' ').nth(3).map_or(value.len(), |(at, _)| at));
        assert_eq!(head.split(' ').next(), Some("p"), "{value}");
        let ends = word(head, 3);
        assert_eq!(u64::try_from(left).expect("an end"), ends.div_ceil(1_000), "{value}");
        while !rest.is_empty() {
            let (ticket, expiry, length) = (rest.split(' ').nth(1), word(rest, 2), word(rest, 7));
            assert_eq!(ticket.map(str::len), Some(32), "{value}");
            assert!(expiry <= ends && word(rest, 6) > 0, "{value}");
            // The label, and the next hold, begin with a space.
            let label = rest.match_indices(' ').nth(7).map_or(rest.len(), |(at, _)| at);
            rest = &rest[label + usize::try_from(length).expect("a length")..];
        }
    }

    /// Checks a held mutex that nobody waits for: one string and no other key.
    async fn check_string(&self, raw: &mut MultiplexedConnection) {
        let (value, left, beside): (String, i64, u32) = redis::pipe()
            .atomic()
            .get(&self.record)
            .pttl(&self.record)
            .exists(&[&self.expiries, &self.queue])
            .query_async(raw)
            .await
            .expect("what is kept");
        assert_eq!(beside, 0, "{value}");
        let words: Vec<_> = value.splitn(5, ' ').collect();
        let widths: Vec<_> = words[..3].iter().map(|word| word.len()).collect();
        assert_eq!(widths, [32, 16, 16], "{value}");
        let lease: i64 = words[3].parse().expect("a lease");
        assert!((0..=lease).contains(&left), "{value} stays for {left} ms");
    }
}
