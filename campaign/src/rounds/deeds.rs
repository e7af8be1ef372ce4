//! A neighbour's deeds: what another client of the same Postgres, or its administrator, does to
//! what is ours.
//!
//! Each deed blocks the thread until it is over, and returns a number by which it shows that it
//! happened.

#![expect(clippy::disallowed_methods, reason = "it has a thread of its own, outside of any runtime")]

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use stanchion_core::Kind;
use stanchion_testbed::servers::PostgresServer;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The time limit for new sessions to see a changed setting.
const RELOAD_LIMIT: Duration = Duration::from_secs(10);

/// Replaces the function that sends hints by one that fails as a full queue makes it fail, which
/// takes 8 GB. A sequence counts the calls: a transaction that fails does not take its numbers
/// back.
const FULL_QUEUE: &str = "
CREATE SCHEMA IF NOT EXISTS neighbour;
CREATE SEQUENCE IF NOT EXISTS neighbour.refused MINVALUE 0 START 0;
CREATE OR REPLACE FUNCTION stanchion.tell(p_processes uuid[], p_tickets uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('neighbour.refused');
    RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '53400';
END $$;
SELECT nextval('neighbour.refused')";

const REFUSED: &str = "SELECT last_value FROM neighbour.refused";
const TELL: &str = "SELECT pg_get_functiondef('stanchion.tell'::regproc)";

/// Messages of the server's log.
const WRITE_REFUSED: &str = "in a read-only transaction";
const CANCELLED: &str = "canceling statement due to user request";
const TERMINATED: &str = "terminating connection due to administrator command";

/// An administrator's signal to a backend.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Cancel,
    Terminate,
}

/// Keeps all rows of some names in a table locked, if there are any; returns their number.
pub(super) fn lock_rows(
    server: &PostgresServer,
    namespace: &str,
    kind: Kind,
    names: &[String],
    table: &str,
    length: Duration,
) -> Result<u64> {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let mut of_names = format!("x.namespace = '{namespace}' AND x.name IN ({})", names.join(", "));
    if kind != Kind::Limiter {
        of_names += &format!(" AND x.kind = '{}'", letter(kind));
    }
    let rows = match table {
        "objects" | "limiters" => {
            format!("SELECT 1 FROM stanchion.{table} x WHERE {of_names} FOR UPDATE OF x")
        }
        _ => format!(
            "SELECT 1 FROM stanchion.{table} r JOIN stanchion.objects x ON x.id = r.object WHERE {of_names} FOR UPDATE OF r"
        ),
    };
    keep_open(server, "", &format!("SELECT count(*) FROM ({rows}) locked"), length, SEEN)
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Semaphore => 's',
        Kind::WaitGroup => 'w',
        _ => 'm',
    }
}

/// Keeps a table locked, and changes a setting of it that it does not have; returns 1 if the lock
/// was there.
pub(super) fn lock_table(server: &PostgresServer, table: &str, length: Duration) -> Result<u64> {
    let lock = format!(
        "LOCK TABLE stanchion.{table} IN ACCESS EXCLUSIVE MODE;
         ALTER TABLE stanchion.{table} RESET (autovacuum_analyze_threshold);"
    );
    let is_locked = format!(
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND granted
         AND mode = 'AccessExclusiveLock' AND relation = 'stanchion.{table}'::regclass"
    );
    keep_open(server, &lock, &is_locked, length, SEEN)
}

/// Keeps a snapshot; returns how many transactions began meanwhile.
pub(super) fn keep_snapshot(server: &PostgresServer, length: Duration) -> Result<u64> {
    let read = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM stanchion.objects LIMIT 0;";
    let age = "SELECT age(backend_xmin) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    keep_open(server, read, "SELECT 1", length, age)
}

/// The number that the transaction has seen.
const SEEN: &str = "SELECT :seen";

/// Keeps a transaction open: runs `first`, sees the number that `seen` selects, is idle for some
/// time unless that is 0, and returns the number that `last` selects.
fn keep_open(server: &PostgresServer, first: &str, seen: &str, length: Duration, last: &str) -> Result<u64> {
    let pause = length.as_secs_f64();
    let script = format!(
        "BEGIN;
         {first}
         SELECT seen, seen > 0 AS some FROM ({seen}) AS all_of_it (seen) \\gset
         \\if :some
         \\! sleep {pause}
         \\endif
         {last};
         COMMIT;
        "
    );
    number(&server.script(&script)?)
}

/// Has the queue of notifications full for some time; returns the number of hints that were
/// refused.
pub(super) fn refuse_hints(server: &PostgresServer, length: Duration) -> Result<u64> {
    let original = server.sql(TELL)?;
    let before = number(&server.script(FULL_QUEUE)?)?;
    sleep(length);
    let after = number(&server.sql(REFUSED)?)?;
    server.script(&format!("{original};"))?;
    if server.sql(TELL)? != original {
        return Err("the function that sends hints is not as it was".into());
    }
    Ok(after - before)
}

/// Makes the server take no writes for some time; returns the number of requests that it refused
/// for that.
pub(super) fn switch_read_only(server: &PostgresServer, length: Duration) -> Result<u64> {
    let before = log_end(server)?;
    set_read_only(server, "SET default_transaction_read_only = on", "on")?;
    sleep(length);
    set_read_only(server, "RESET default_transaction_read_only", "off")?;
    logged(server, before, WRITE_REFUSED)
}

fn set_read_only(server: &PostgresServer, change: &str, becomes: &str) -> Result<()> {
    server.sql(&format!("ALTER SYSTEM {change}"))?;
    server.sql("SELECT pg_reload_conf()")?;
    let end = Instant::now() + RELOAD_LIMIT;
    while server.sql("SHOW default_transaction_read_only")? != becomes {
        if Instant::now() > end {
            return Err("the server does not take the setting".into());
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Signals a random backend of ours `times` times, an active one if one is found within some 20 ms,
/// with a `pause` in between. Returns the number of statements or backends that the signals ended.
pub(super) fn signal_backends(
    server: &PostgresServer,
    signal: Signal,
    times: u64,
    pause: Duration,
) -> Result<u64> {
    let (function, message) = match signal {
        Signal::Cancel => ("pg_cancel_backend", CANCELLED),
        Signal::Terminate => ("pg_terminate_backend", TERMINATED),
    };
    let before = log_end(server)?;
    server.sql(&format!(
        "DO $$
         DECLARE
             victim integer;
             is_active boolean;
         BEGIN
             FOR time IN 1 .. {times} LOOP
                 FOR look IN 1 .. 20 LOOP
                     PERFORM pg_stat_clear_snapshot();
                     SELECT a.pid, a.state = 'active' INTO victim, is_active FROM pg_stat_activity a
                     WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
                     ORDER BY a.state IS DISTINCT FROM 'active', random() LIMIT 1;
                     EXIT WHEN is_active;
                     PERFORM pg_sleep(0.001);
                 END LOOP;
                 PERFORM {function}(victim);
                 PERFORM pg_sleep({});
             END LOOP;
         END $$",
        pause.as_secs_f64()
    ))?;
    logged(server, before, message)
}

fn log_end(server: &PostgresServer) -> Result<usize> {
    Ok(fs::read(server.dir().join("server.log"))?.len())
}

/// Returns how often a message was logged after a position of the log.
fn logged(server: &PostgresServer, from: usize, message: &str) -> Result<u64> {
    let log = fs::read(server.dir().join("server.log"))?;
    let new = String::from_utf8_lossy(&log[from.min(log.len())..]);
    Ok(u64::try_from(new.matches(message).count())?)
}

/// Reads the only number of an output.
fn number(output: &str) -> Result<u64> {
    let number = output.split_whitespace().find_map(|word| word.parse().ok());
    number.ok_or_else(|| format!("{output:?} has no number").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_among_empty_lines() {
        assert_eq!(number("\n\n17\n").unwrap(), 17);
        assert!(number("\n").is_err());
    }
}
