//! The end of commands: with all their descendants, before the lock is free or the lease ends.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture, on_each_store};

/// The lease of a stubborn command: long enough for renewals on a busy machine.
pub(crate) const TTL: Duration = Duration::from_secs(8);

on_each_store!(
    what_is_left_of_a_command_is_ended_before_the_release,
    a_freed_lock_ends_a_stubborn_command,
    a_process_whose_name_is_cut_in_a_letter_is_ended,
    nobody_has_to_read_the_messages,
    what_a_command_needs_to_clean_up_is_left_alone,
    a_process_is_asked_to_end_once,
);

/// Returns shell code that writes on from processes of three sessions, none of which `SIGTERM`
/// ends.
pub(crate) fn stubborn(fixture: &Fixture) -> String {
    let on = fixture.ledger.writes_on().replace('"', "\\\"").replace('$', "\\$");
    let stubborn = format!("trap '' TERM INT HUP QUIT; {on}");
    format!(
        "trap '' TERM INT HUP QUIT; setsid sh -c \"{stubborn}\" & (setsid sh -c \"({stubborn}) &\" &); {}",
        fixture.ledger.writes_on()
    )
}

/// The first process ends, and leaves others that ignore `SIGTERM`.
fn what_is_left_of_a_command_is_ended_before_the_release(fixture: &Fixture) {
    let on = fixture.ledger.writes_on().replace('"', "\\\"").replace('$', "\\$");
    let leaves = format!(
        "setsid sh -c \"trap '' TERM; {on}\" & until grep -q alive '{}'; do sleep 0.01; done; exit 3",
        fixture.folder.path().join("ledger").display()
    );
    let mut first = fixture.start(&[], &leaves);
    fixture.ledger.wait_for_word("alive");
    let mut second = fixture.start(&[], &fixture.ledger.short_work());
    assert_eq!(first.code(), 3, "{}", first.errors());
    assert_eq!(second.code(), 0, "{}", second.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
    assert_eq!(fixture.processes(), []);
}

fn a_freed_lock_ends_a_stubborn_command(fixture: &Fixture) {
    let mut running = fixture.start(&["--ttl", "8s"], &stubborn(fixture));
    wait_for_all(fixture);
    let watch = Stopwatch::start();
    assert_eq!(fixture.code(&["unlock", "NAME", "--yes"]), 0);
    fixture.wait_until_gone();
    let took = watch.elapsed();
    assert!(took < stanchion::Ttl::new(TTL).unwrap().belief(), "{took:?}");
    assert_eq!(running.code(), 125, "{}", running.errors());
    assert!(running.errors().contains("is lost"), "{}", running.errors());
    assert_eq!(fixture.start(&[], &fixture.ledger.short_work()).code(), 0);
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
}

/// The kernel keeps 15 bytes of a name: here the first of the two that make the last letter.
fn a_process_whose_name_is_cut_in_a_letter_is_ended(fixture: &Fixture) {
    let program = fixture.folder.path().join("datensicherung\u{e4}");
    fs::copy("/bin/sh", &program).unwrap();
    let script = fixture.ledger.writes_on().replace('"', "\\\"").replace('$', "\\$");
    let named = format!("exec '{}' -c \"{script}\"", program.display());
    let mut running = fixture.start(&["--ttl", "8s"], &named);
    fixture.ledger.wait_for_word("alive");
    assert_eq!(fixture.code(&["unlock", "NAME", "--yes"]), 0);
    assert_eq!(running.code(), 125, "{}", running.errors());
    assert_eq!(fixture.processes(), []);
}

/// The command fills the standard error that it shares with the program, and nobody reads it.
fn nobody_has_to_read_the_messages(fixture: &Fixture) {
    let fills = format!("head -c 1000000 /dev/zero >&2 & {}", fixture.ledger.writes_on());
    let mut command = fixture.program(&["run", "NAME", "--ttl", "8s", "--", "sh", "-c", &fills]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    fixture.ledger.wait_for_word("alive");
    assert_eq!(fixture.code(&["unlock", "NAME", "--yes"]), 0);
    let code = wait_until(FOR_EVER, || child.try_wait().unwrap()).and_then(|status| status.code());
    assert_eq!(code, Some(125));
    assert_eq!(fixture.processes(), []);
}

/// While it ends, a command starts another process, which it waits for.
fn what_a_command_needs_to_clean_up_is_left_alone(fixture: &Fixture) {
    let [alive, cleaned] = ["alive", "cleaned"].map(|word| fixture.ledger.writes(word));
    let script = format!(
        "ends() {{ sleep 0.8 && {cleaned}; exit 9; }}; trap ends TERM; {alive}; while :; do sleep 0.01; done"
    );
    // Processes are killed 5 s after they were asked to end.
    let mut running = fixture.start(&["--ttl", "25s"], &script);
    fixture.ledger.wait_for_word("alive");
    running.process.kill().unwrap();
    fixture.ledger.wait_for_word("cleaned");
    fixture.wait_until_gone();
}

/// Its parent ends first, so that it has another one.
fn a_process_is_asked_to_end_once(fixture: &Fixture) {
    let [alive, asked, done] = ["alive", "asked", "done"].map(|word| fixture.ledger.writes(word));
    let worker = fixture.folder.path().join("worker");
    let script = format!(
        "asked() {{ {asked}; }}; trap asked TERM; {alive}; for i in $(seq 60); do sleep 0.01; done; {done}"
    );
    fs::write(&worker, script).unwrap();
    let mut running = fixture.start(&["--ttl", "25s"], &format!("sh '{}'; true", worker.display()));
    fixture.ledger.wait_for_word("alive");
    running.process.kill().unwrap();
    fixture.ledger.wait_for_word("done");
    fixture.wait_until_gone();
    let words: Vec<_> = fixture.ledger.entries().into_iter().map(|entry| entry.word).collect();
    assert_eq!(words, ["alive", "asked", "done"]);
}

/// Waits until the three shells of a stubborn command run.
pub(crate) fn wait_for_all(fixture: &Fixture) {
    use std::collections::HashSet;

    let sessions = || -> HashSet<String> {
        let stat = |pid: rustix::process::Pid| {
            std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()
        };
        let session = |stat: String| Some(stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.to_owned());
        fixture.processes().into_iter().filter_map(stat).filter_map(session).collect()
    };
    let seen = wait_until(FOR_EVER, || (sessions().len() == 3).then_some(()));
    assert!(seen.is_some(), "{:?}", sessions());
    fixture.ledger.wait_for_word("alive");
}
