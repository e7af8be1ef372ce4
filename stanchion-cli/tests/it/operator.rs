//! The operator's commands.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::SystemTime;

use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

use crate::common::{FOR_EVER, Fixture, errors, on_each_store, text};

on_each_store!(
    a_stuck_lock_is_found_and_freed,
    members_are_added_finished_and_waited_for,
    the_exit_code_says_whether_a_limiter_admits,
    a_limiter_is_changed_for_everybody,
    a_semaphore_is_resized,
    a_permit_is_freed_by_its_ticket,
    ping_and_check_say_yes,
    a_store_is_measured,
    names_are_listed,
    a_reader_of_names_can_go_away,
);

fn a_stuck_lock_is_found_and_freed(fixture: &Fixture) {
    let name = format!("{:?}", fixture.name);
    let free = fixture.output(&["inspect", "NAME"]);
    assert_eq!(text(&free), format!("mutex {name}: free\n"));
    assert!(errors(&free).contains("nobody uses this name in this namespace"), "{free:?}");
    assert_eq!(fixture.code(&["unlock", "NAME", "--yes"]), 1, "there is nothing to free");
    assert_eq!(fixture.code(&["wait-group", "NAME", "add", "--ttl", "1h"]), 0);
    let hint = errors(&fixture.output(&["inspect", "NAME"]));
    assert!(hint.ends_with("a wait group of this name is in use: --kind wait-group\n"), "{hint}");

    let mut running = fixture.start(&["--label", "nightly"], &fixture.ledger.writes_on());
    let token = fixture.ledger.wait_for_word("alive").token;
    let shown = text(&fixture.output(&["inspect", "NAME"]));
    assert!(shown.starts_with(&format!("mutex {name}: held\n  \"nightly\", for ")), "{shown}");
    assert!(shown.contains(&format!("token {token}, ticket ")), "{shown}");
    assert!(shown.contains(", since 2") && shown.contains("Z, lease ends in "), "{shown}");
    let json = text(&fixture.output(&["inspect", "NAME", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["holders"][0]["token"], &json["waiters"]), (&token.into(), &0.into()));
    // By this machine's clock, and the age by the store's: its second may end between the two.
    let begun = humantime::parse_rfc3339(json["holders"][0]["since"].as_str().unwrap()).unwrap();
    let since = SystemTime::now().duration_since(begun).unwrap();
    assert!(since < FOR_EVER && since.as_secs() >= json["holders"][0]["age_ms"].as_u64().unwrap() / 1_000);

    assert_eq!(fixture.code(&["unlock", "NAME"]), 64, "nobody can be asked");
    let other = "0".repeat(32);
    assert_eq!(fixture.code(&["unlock", "NAME", "--yes", "--ticket", &other]), 1);
    let ticket = json["holders"][0]["ticket"].as_str().unwrap();
    let freed = fixture.output(&["unlock", "NAME", "--yes", "--ticket", ticket]);
    assert!(text(&freed).starts_with(&format!("freed {name}, held by \"nightly\", for ")), "{freed:?}");
    assert_eq!(running.code(), 125, "{}", running.errors());
}

fn members_are_added_finished_and_waited_for(fixture: &Fixture) {
    let [first, second] =
        [(); 2].map(|()| text(&fixture.output(&["wait-group", "NAME", "add", "--ttl", "1m"])));
    assert_eq!(text(&fixture.output(&["wait-group", "NAME", "count"])), "2\n");
    assert_eq!(fixture.code(&["wait-group", "NAME", "wait", "--wait", "50ms"]), 124);
    let shown = text(&fixture.output(&["inspect", "NAME", "--kind", "wait-group"]));
    assert!(shown.contains(": 2 members\n"), "{shown}");
    assert_eq!(fixture.code(&["wait-group", "NAME", "done", first.trim()]), 0);
    assert_eq!(fixture.code(&["wait-group", "NAME", "done", first.trim()]), 1, "it is finished");
    let waits =
        fixture.program(&["wait-group", "NAME", "wait", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(fixture.code(&["wait-group", "NAME", "done", second.trim()]), 0);
    let output = waits.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["expired"], &json["abandoned"]), (&0.into(), &0.into()));
}

fn the_exit_code_says_whether_a_limiter_admits(fixture: &Fixture) {
    let limit = |options: &[&str]| {
        let arguments = [&["limit", "NAME", "--per", "2/h", "--burst", "2"], options].concat();
        fixture.code(&arguments)
    };
    let look = || text(&fixture.output(&["inspect", "NAME", "--kind", "limiter"]));
    assert!(look().ends_with("not in use\n"), "{}", look());
    assert_eq!((limit(&[]), limit(&["--cost", "2"]), limit(&[]), limit(&[])), (0, 1, 0, 1));
    assert!(look().contains("0 of 2 tokens left"), "{}", look());
    assert_eq!(limit(&["--wait", "50ms"]), 1);
    assert_eq!(limit(&["--cost", "3"]), 64, "more than the burst");
    assert!(look().ends_with("; 2 per hour, burst 2\n"), "{}", look());
    for other in [&["--per", "3/h"][..], &["--per", "2/h"], &["--per", "2/min", "--burst", "2"]] {
        for more in [&[][..], &["--cost", "0"], &["--cost", "0", "--wait", "1s"]] {
            let output = fixture.output(&[&["limit", "NAME"], other, more].concat());
            let is_same = other == ["--per", "2/h"];
            assert_eq!(output.status.code(), Some(if is_same { i32::from(more.is_empty()) } else { 78 }));
            let told = errors(&output);
            assert!(
                is_same || told.contains("the store's is 2 per hour, burst 2; --per and --burst"),
                "{told}"
            );
        }
    }
    let fast = format!("{} fast", fixture.name);
    let wait = ["limit", &fast, "--per", "20/s", "--burst", "1", "--wait", "10s"];
    assert_eq!((fixture.code(&wait), fixture.code(&wait)), (0, 0));
}

fn a_limiter_is_changed_for_everybody(fixture: &Fixture) {
    let take = ["limit", "NAME", "--per", "1/h"];
    assert_eq!((fixture.code(&take), fixture.code(&take)), (0, 1));
    assert_eq!(text(&fixture.output(&["limit", "NAME", "--reset"])), format!("{:?} is full\n", fixture.name));
    assert_eq!((fixture.code(&take), fixture.code(&take)), (0, 1));
    let set = fixture.output(&["limit", "NAME", "--per", "5/h", "--burst", "2", "--set"]);
    assert_eq!(text(&set), format!("{:?} admits 5 per hour, burst 2\n", fixture.name));
    assert_eq!(fixture.code(&take), 78, "it is another limit now");
    assert_eq!(fixture.code(&["limit", "NAME", "--per", "5/h", "--burst", "2"]), 1, "its tokens stay");
    assert_eq!(text(&fixture.output(&["limit", "NAME", "--reset", "--json"])), "{\"changed\":true}\n");
    assert_eq!(fixture.code(&["limit", "NAME", "--per", "5/h", "--burst", "2", "--cost", "2"]), 0);
}

/// Returns the ticket of the only hold of a semaphore of that many permits.
fn only_ticket(fixture: &Fixture, permits: u32) -> String {
    let inspect = ["inspect", "NAME", "--kind", "semaphore", "--json"];
    let json: serde_json::Value = serde_json::from_str(&text(&fixture.output(&inspect))).unwrap();
    assert_eq!((&json["limit"], json["holders"].as_array().unwrap().len()), (&permits.into(), 1));
    json["holders"][0]["ticket"].as_str().unwrap().to_owned()
}

fn a_semaphore_is_resized(fixture: &Fixture) {
    let mut running = fixture.start(&["--semaphore", "1"], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    let run = |options: &[&str]| {
        fixture.code(&[&["run", "NAME", "--skip-if-held"], options, &["--", "true"]].concat())
    };
    assert_eq!(run(&["--semaphore", "2"]), 78);
    assert_eq!(run(&["--semaphore", "2", "--on-mismatch", "adopt"]), 75, "the store has one");
    assert_eq!(fixture.code(&["resize", "NAME", "2"]), 0);
    assert_eq!((run(&["--semaphore", "2"]), run(&["--semaphore", "1"])), (0, 78));
    assert_eq!(run(&["--semaphore", "3", "--on-mismatch", "replace"]), 0);
    let ticket = only_ticket(fixture, 3);
    let unlock = ["unlock", "NAME", "--kind", "semaphore", "--yes", "--ticket", &ticket];
    assert_eq!(fixture.code(&unlock), 0);
    assert_eq!(running.code(), 125, "{}", running.errors());
}

fn a_permit_is_freed_by_its_ticket(fixture: &Fixture) {
    let mut running = fixture.start(&["--semaphore", "2"], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    let ticket = only_ticket(fixture, 2);
    let unlock = ["unlock", "NAME", "--kind", "semaphore", "--yes", "--ticket", &ticket];
    assert_eq!(fixture.code(&unlock), 0);
    assert_eq!(running.code(), 125, "{}", running.errors());
    assert_eq!(fixture.code(&unlock), 1, "it is freed");
}

fn ping_and_check_say_yes(fixture: &Fixture) {
    assert!(text(&fixture.output(&["ping"])).contains(" answered in "));
    let output = fixture.output(&["check", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["safe"], true);
    assert!(text(&fixture.output(&["check"])).starts_with("ok "));
}

fn a_store_is_measured(fixture: &Fixture) {
    let output = fixture.output(&["bench", "--time", "100ms", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    for measure in ["round_trip", "lock_and_release", "hand_over", "limiter_decision"] {
        let [p50, p99, max] =
            ["p50_us", "p99_us", "max_us"].map(|figure| json[measure][figure].as_u64().unwrap());
        assert!(json[measure]["count"].as_u64() >= Some(1) && 0 < p50 && p50 <= p99 && p99 <= max, "{json}");
    }
    let lines = text(&fixture.output(&["bench", "--time", "100ms"]));
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert_eq!(fixture.code(&["bench", "--time", "1ms"]), 64);
    assert_eq!(fixture.code(&["top"]), 64, "there is no terminal");
}

/// Returns the lines of a listing, each once.
fn listed(fixture: &Fixture, arguments: &[&str]) -> BTreeSet<String> {
    let output = fixture.output(&[&["ls"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output).lines().map(str::to_owned).collect()
}

fn names_are_listed(fixture: &Fixture) {
    assert_eq!(listed(fixture, &[]), BTreeSet::new());
    let mut running = fixture.start(&["--label", "nightly"], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    let mut waiting = fixture.start(&[], "true");
    fixture.wait_for_waiters(1);
    let escape = format!("limit*{}\u{1b}[2J", fixture.name);
    assert_eq!(fixture.code(&["limit", &escape, "--per", "3/h"]), 0);
    assert_eq!(fixture.code(&["wait-group", "NAME", "add", "--ttl", "1h"]), 0);

    let lines = listed(fixture, &[]);
    let starts = |kind: &str, name: &str| {
        lines.iter().find(|line| line.starts_with(&format!("{kind:<12} {name:?}: ")))
    };
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(starts("mutex", &fixture.name).unwrap().ends_with(": 1 holder, 1 waiting"), "{lines:?}");
    assert!(starts("wait-group", &fixture.name).unwrap().contains(": 1 member"), "{lines:?}");
    assert!(starts("limiter", &escape).unwrap().contains(": 2 of 3 tokens"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains('\u{1b}')));

    assert_eq!(listed(fixture, &["limit*"]).len(), 1, "a prefix is no pattern");
    assert_eq!(listed(fixture, &["name", "--kind", "wait-group"]).len(), 1);
    assert_eq!(listed(fixture, &["", "--kind", "semaphore"]).len(), 0);
    let json = listed(fixture, &["NAME", "--kind", "mutex", "--json"]).pop_first().unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["kind"], &json["name"]), (&"mutex".into(), &fixture.name.clone().into()));
    assert_eq!((&json["holders"], &json["waiters"], &json["tokens"]), (&1.into(), &1.into(), &().into()));

    assert_eq!(fixture.code(&["unlock", "NAME", "--yes"]), 0);
    assert_eq!((running.code(), waiting.code()), (125, 0), "{}", running.errors());
    assert_eq!(listed(fixture, &["NAME", "--kind", "mutex"]).len(), 0, "it is free");
}

fn a_reader_of_names_can_go_away(fixture: &Fixture) {
    assert_eq!(fixture.code(&["limit", "NAME", "--per", "3/h"]), 0);
    let mut child = fixture.program(&["ls"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.contains("panicked")), (Some(141), false), "{errors}");
}

#[test]
fn an_unsafe_store_is_refused() {
    let options = RedisOptions::default().config("maxmemory 64mb").config("maxmemory-policy allkeys-lru");
    let server = RedisServer::start(options).unwrap();
    let fixture = Fixture::at(&server.url());
    let output = fixture.output(&["check"]);
    assert_eq!(output.status.code(), Some(78));
    let shown = text(&output);
    assert!(shown.contains("refused    settings") && shown.contains("maxmemory-policy"), "{shown}");
    assert_eq!(fixture.code(&["run", "NAME", "--", "true"]), 78);
}

/// Returns the code and the text of `check`.
fn checked(fixture: &Fixture, url: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = fixture.program_at(url, &[&["check"], more].concat()).output().unwrap();
    (output.status.code(), text(&output))
}

#[test]
fn a_user_of_redis_who_may_not_run_the_steps_is_told_so() {
    let everything = "~* &* +@all";
    let options = RedisOptions::default()
        .user("all", &format!(">pw {everything}"))
        .user("reads", &format!(">pw {everything} -eval -evalsha -script"))
        .user("looks", &format!(">pw {everything} -zadd -hset"));
    let server = RedisServer::start(options).unwrap();
    let fixture = Fixture::at(&server.url());
    let of = |user: &str| fixture.url.replace("://", &format!("://{user}:pw@"));
    let (code, told) = checked(&fixture, &of("all"), &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("ok         rights       the steps of each kind can be run"), "{told}");
    let keys = server.command(&["DBSIZE"]).unwrap();
    let before = text(&fixture.output(&["check"]));
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), keys, "check leaves nothing: {before}");
    assert_eq!(checked(&fixture, &of("all"), &["--write"]).0, Some(0));

    let (code, told) = checked(&fixture, &of("reads"), &[]);
    assert_eq!(code, Some(77), "{told}");
    assert!(told.contains("refused    rights") && told.contains("lacks a right"), "{told}");
    // What only grants need is tried on demand.
    assert_eq!(checked(&fixture, &of("looks"), &[]).0, Some(0));
    let (code, told) = checked(&fixture, &of("looks"), &["--write"]);
    assert_eq!(code, Some(77), "{told}");
    assert!(told.contains("refused    rights"), "{told}");
}

#[test]
fn a_role_of_postgres_that_may_not_run_the_steps_is_told_so() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let fixture = Fixture::at(&server.url());
    server.script(&stanchion::postgres::schema_sql("stanchion", None, 0).unwrap()).unwrap();
    let grants = |role: &str| {
        let sql = stanchion::postgres::schema_sql("stanchion", Some(role), 0).unwrap();
        sql.lines().filter(|line| line.starts_with("GRANT ")).collect::<Vec<_>>().join("\n")
    };
    let role = |name: &str, but: &str| {
        let own = server.role(name, "pw", &(grants(name) + but)).unwrap();
        own + fixture.url.trim_start_matches(&server.url())
    };
    let all = role("whole", "");
    let (code, told) = checked(&fixture, &all, &["--json"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(r#"{"check":"rights","#), "{told}");
    let rows = || server.sql("SELECT count(*) AS rows FROM stanchion.objects").unwrap();
    let before = rows();
    assert_eq!(checked(&fixture, &all, &[]).0, Some(0));
    assert_eq!(rows(), before, "check leaves nothing");
    assert_eq!(checked(&fixture, &all, &["--write"]).0, Some(0));
    let sessions = all.replace("namespace=t", "namespace=s") + "&mutex=session";
    for more in [&[][..], &["--write"]] {
        let (code, told) = checked(&fixture, &sessions, more);
        assert_eq!(code, Some(0), "{more:?}: {told}");
    }

    let looks = role("looks", "; REVOKE DELETE ON stanchion.holds FROM looks");
    assert_eq!(checked(&fixture, &looks, &[]).0, Some(0));
    assert_eq!(checked(&fixture, &looks, &["--write"]).0, Some(77));
    server
        .sql("REVOKE EXECUTE ON FUNCTION stanchion.force FROM PUBLIC; GRANT EXECUTE ON FUNCTION stanchion.force TO looks")
        .unwrap();
    let (code, told) = checked(&fixture, &all, &[]);
    assert_eq!(code, Some(77), "{told}");
    assert!(told.contains("refused    rights") && told.contains("function force"), "{told}");
    let (_, told) = checked(&fixture, &all, &["--json"]);
    assert!(told.starts_with(r#"{"checks":"#) && told.contains(r#""safe":false"#), "{told}");
    server.sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA stanchion FROM PUBLIC").unwrap();
    let (code, told) = checked(&fixture, &all, &[]);
    assert_eq!(code, Some(77), "{told}");
    assert!(told.contains("function"), "{told}");
}

#[test]
fn a_store_that_is_away_has_a_code_of_its_own() {
    let fixture = Fixture::at("redis://127.0.0.1:1/");
    for arguments in
        [&["ping"][..], &["check"], &["run", "NAME", "--wait", "0s", "--", "true"], &["inspect", "NAME"]]
    {
        assert_eq!(fixture.code(arguments), 69, "{arguments:?}");
    }
}

#[test]
fn the_url_may_be_in_a_file() {
    let fixture = Fixture::redis();
    let file = fixture.folder.path().join("url");
    fs::File::create(&file).unwrap().write_all(format!("{}\n", fixture.url).as_bytes()).unwrap();
    let program = |arguments: &[&str]| {
        let mut command = fixture.program(arguments);
        command.env_remove("STANCHION_URL").output().unwrap().status.code()
    };
    for (mode, is_told) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = fixture.program(&["ping", "--url-file", file.to_str().unwrap()]);
        let output = command.env_remove("STANCHION_URL").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(errors(&output).contains("every user of this machine may read"), is_told, "{output:?}");
    }
    assert_eq!(program(&["ping", "--url", &fixture.url]), Some(0));
    assert_eq!(program(&["ping"]), Some(64));
    assert_eq!(program(&["ping", "--url-file", "/no/such/file"]), Some(64));
    assert_eq!(program(&["ping", "--url", "memory:"]), Some(64));
}
