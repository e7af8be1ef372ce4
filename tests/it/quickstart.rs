//! The quickstart example does what the README says, alone and in two processes at once.

#![cfg(feature = "memory")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime and fails by a panic"
)]

use std::env;
use std::path::PathBuf;
use std::process::Output;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Timeout far above what a run takes, for a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the example as this test was built, and returns its path: `cargo test --test quickstart`
/// alone would not have built it.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // The same features as `cargo xtask test`, so that nothing is built again: the peers in the
        // benches turn features on.
        let features: &[&str] = if cfg!(feature = "redis") {
            &["--workspace", "--exclude=stanchion-bench", "--features=bloom,postgres,redis"]
        } else {
            &[]
        };
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let mut build = std::process::Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "--example", "quickstart"]).args(features).args(profile);
        // A build script that watches these variables, like `ring`'s, would run again, and its
        // dependents be built again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if ["OUT_DIR", "RUSTC_BOOTSTRAP"].contains(&&*name)
                || name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
            {
                build.env_remove(&*name);
            }
        }
        let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        assert!(status.success(), "the example does not build");
        // This test is `target/PROFILE/deps/quickstart-HASH`.
        let test = env::current_exe().unwrap();
        test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join("quickstart")
    })
}

async fn run(arguments: &[&str]) -> Output {
    let output = Command::new(program()).args(arguments).kill_on_drop(true).output();
    timeout(TIMEOUT, output).await.expect("the example hangs").unwrap()
}

/// Returns the output of a run, in which every check must have held.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}{errors}", output.status);
    assert!(!text.contains("FAILED"), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// Returns the checks at the end, without the numbers that differ from run to run.
fn checks(lines: &[String]) -> Vec<&str> {
    let last = lines.iter().rev().take_while(|line| line.starts_with("ok: "));
    let mut checks: Vec<_> = last.map(|line| line.split(':').nth(1).unwrap_or_default().trim()).collect();
    checks.reverse();
    checks
}

#[tokio::test]
async fn in_this_process_every_invariant_is_checked() {
    let lines = lines(&run(&[]).await);
    let expected = [
        "every worker reported back",
        "never faster than 50 calls a second after the first 5",
        "never more than 3 slots at once",
        "nothing lost",
        "the ledger refused a holder that came too late",
    ];
    assert_eq!(checks(&lines), expected);
    assert!(lines[0].starts_with("memory store: 6 workers with 5 jobs each"), "{}", lines[0]);
    assert!(lines.contains(&"ok: nothing lost: 30 entries in the ledger, 0 missing".to_owned()));
    assert_eq!(lines.iter().filter(|line| line.contains(" booked job ")).count(), 30);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_ends_it_with_1() {
    let output = run(&["reddis://127.0.0.1/"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("redis://"));
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn two_processes_share_slots_and_ledger_on_redis() {
    use std::collections::HashSet;
    use std::fs;

    use stanchion::{Ticket, connect};
    use stanchion_testbed::servers;

    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let mut url = servers::redis().unwrap().url().to_owned();
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(&format!("namespace=quickstart-{}", Ticket::random()));
    let arguments = [url.as_str(), "--ledger", ledger.to_str().unwrap()];

    let (one, other) = tokio::join!(run(&arguments), run(&arguments));

    let able = connect(&url).await.unwrap().capabilities();
    let mut left_out = 0;
    for output in [&one, &other] {
        let lines = lines(output);
        let checks = checks(&lines);
        for check in [
            "never more than 3 slots at once",
            "nothing lost",
            "the ledger refused a holder that came too late",
        ] {
            assert!(checks.contains(&check), "{check} was not checked: {lines:?}");
        }
        left_out += lines.iter().filter(|line| line.starts_with("left out: ")).count();
        assert_eq!(checks.len(), 3 + usize::from(able.limiters) + usize::from(able.wait_groups));
    }
    assert_eq!(left_out, 2 * (usize::from(!able.limiters) + usize::from(!able.wait_groups)));

    let text = fs::read_to_string(&ledger).unwrap();
    let tokens: Vec<u64> =
        text.lines().map(|entry| entry.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(tokens.is_sorted(), "fencing tokens went back: {tokens:?}");
    assert_eq!(
        tokens.iter().collect::<HashSet<_>>().len(),
        60,
        "an entry of one of the processes is missing"
    );
    let journal = fs::read_to_string(ledger.with_extension("journal")).unwrap();
    assert_eq!(journal.lines().filter(|line| line.starts_with("leave ")).count(), 60);
}
