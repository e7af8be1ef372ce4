//! The test servers: they answer, survive a restart, can be paused and resumed, and end with their
//! process.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use stanchion_testbed::servers::{
    self, PgBouncer, PostgresOptions, PostgresServer, RedisCluster, RedisOptions, RedisSentinel, RedisServer,
    Server, wait_until,
};

const LIMIT: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_millis(300);
const CHILD: &str = "STANCHION_SERVERS_TEST_CHILD";

/// Sends one line to the server, and returns its reply within `limit`.
fn redis_says(server: &RedisServer, line: &str, limit: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(format!("{line}\r\n").as_bytes())?;
    let mut answer = [0; 256];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[test]
fn redis_answers_and_is_gone_after_drop() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    assert!(server.answers());
    assert_eq!(redis_says(&server, "PING", LIMIT).unwrap(), "+PONG\r\n");
    let (pid, folder, port) = (server.pid().unwrap(), server.dir().to_owned(), server.port());
    drop(server);
    assert!(!is_alive(pid) && !folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn redis_takes_a_password_and_more_settings() {
    let options = RedisOptions::default().password("a \"b@c").config("maxmemory 7mb");
    let server = RedisServer::start(options).unwrap();
    assert!(server.answers());
    assert!(redis_says(&server, "PING", LIMIT).unwrap().starts_with("-NOAUTH"));
    assert_eq!(server.url(), format!("redis://:a%20%22b%40c@127.0.0.1:{}/", server.port()));
    let settings = std::fs::read_to_string(server.dir().join("redis.conf")).unwrap();
    assert!(settings.contains("\nmaxmemory 7mb\n"));
}

#[test]
fn redis_with_a_bad_setting_says_what_is_wrong() {
    let error = RedisServer::start(RedisOptions::default().config("no-such-setting 1")).unwrap_err();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn redis_keeps_appended_data_when_killed() {
    let server = RedisServer::start(RedisOptions::default().append_only(true)).unwrap();
    assert_eq!(redis_says(&server, "SET key kept", LIMIT).unwrap(), "+OK\r\n");
    let (pid, port) = (server.pid().unwrap(), server.port());
    server.kill().unwrap();
    assert!(!is_alive(pid) && !server.answers());
    assert_eq!(server.pid(), None);
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), Some(pid));
    assert_eq!(redis_says(&server, "GET key", LIMIT).unwrap(), "$4\r\nkept\r\n");
}

#[test]
fn a_restart_ends_the_running_server_and_its_memory() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    assert_eq!(redis_says(&server, "SET key lost", LIMIT).unwrap(), "+OK\r\n");
    let pid = server.pid().unwrap();
    server.restart().unwrap();
    assert!(!is_alive(pid));
    assert_eq!(redis_says(&server, "GET key", LIMIT).unwrap(), "$-1\r\n");
}

#[test]
fn a_paused_redis_is_silent_until_resumed() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    server.pause().unwrap();
    let error = redis_says(&server, "PING", STALL).unwrap_err();
    assert!(is_silence(&error), "{error}");
    server.resume().unwrap();
    assert_eq!(redis_says(&server, "PING", LIMIT).unwrap(), "+PONG\r\n");
}

#[test]
fn a_paused_server_can_be_killed_and_dropped() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    server.pause().unwrap();
    server.restart().unwrap();
    assert!(server.answers());
    server.pause().unwrap();
    let (pid, folder) = (server.pid().unwrap(), server.dir().to_owned());
    drop(server);
    assert!(!is_alive(pid) && !folder.exists());
}

/// The kernel continues stopped processes of a process group when the group's parent ends.
#[test]
fn a_server_that_is_continued_while_it_is_stopped_dies_all_the_same() {
    for _ in 0..5 {
        let server = RedisServer::start(RedisOptions::default()).unwrap();
        let pid = server.pid().unwrap();
        let continued = format!("for i in $(seq 100); do kill -s CONT {pid} || exit 0; sleep 0.001; done");
        let mut shell = Command::new("sh").args(["-c", &continued]).stderr(Stdio::null()).spawn().unwrap();
        let (done, ended) = mpsc::channel();
        let killer = thread::spawn(move || done.send(server.kill().is_ok()));
        assert!(ended.recv_timeout(LIMIT).unwrap());
        killer.join().unwrap().unwrap();
        shell.wait().unwrap();
        assert!(!is_alive(pid));
    }
}

#[test]
fn many_servers_start_at_once() {
    let servers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| RedisServer::start(RedisOptions::default()).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(servers.iter().all(|server| server.answers()));
}

#[test]
fn redis_with_tls_answers_nobody_without() {
    let server = RedisServer::start(RedisOptions::default().tls(true).password("pw")).unwrap();
    assert!(server.answers());
    assert_eq!(server.command(&["PING"]).unwrap(), "+PONG\r\n");
    assert!(!redis_says(&server, "PING", LIMIT).unwrap_or_default().contains("PONG"));
    let ca = std::fs::read_to_string(server.ca().unwrap()).unwrap();
    assert!(ca.starts_with("-----BEGIN CERTIFICATE-----"), "{ca}");
    assert!(server.url().starts_with("rediss://:pw@127.0.0.1:") && server.url().contains("/?ca="));
}

#[test]
fn a_cluster_serves_all_slots_and_moves_them() {
    let cluster = RedisCluster::start(RedisOptions::default().failover_after(SECOND)).unwrap();
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
    assert_eq!([0, 5_461, 16_383].map(|slot| cluster.owner(slot).unwrap()), [0, 1, 2]);
    assert_eq!(cluster.replica(1), Some(4));
    // The slot of the key `a`.
    assert_eq!(cluster.owner(15_495).unwrap(), 2);
    assert_eq!(cluster.nodes()[2].command(&["SET", "a", "kept"]).unwrap(), "+OK\r\n");
    cluster.move_slot(15_495, 0).unwrap();
    assert_eq!(cluster.owner(15_495).unwrap(), 0);
    assert_eq!(cluster.nodes()[0].command(&["GET", "a"]).unwrap(), "$4\r\nkept\r\n");
    cluster.nodes()[1].kill().unwrap();
    assert_eq!(cluster.owner(5_461).unwrap(), 4);
    cluster.await_ready().unwrap();
}

#[test]
fn sentinels_announce_the_replica_of_a_dead_primary() {
    let options = RedisOptions::default().password("p w").failover_after(SECOND);
    let sentinel = RedisSentinel::start(options).unwrap();
    assert!(sentinel.url().starts_with("redis+sentinel://:p%20w@127.0.0.1:"), "{}", sentinel.url());
    assert!(sentinel.url().ends_with("/test?sentinel_password=p%20w"), "{}", sentinel.url());
    assert_eq!(sentinel.primary().unwrap(), 0);
    sentinel.servers()[0].kill().unwrap();
    let promoted = wait_until(LIMIT * 9, || (sentinel.primary().ok() == Some(1)).then_some(()));
    assert_eq!(promoted, Some(()));
}

fn query(server: &PostgresServer, sql: &str) -> String {
    server.sql(sql).unwrap()
}

/// Returns the output or the error of `psql` for a statement at a URL.
fn said(server: &PostgresServer, url: &str, sql: &str) -> Result<String, String> {
    let psql = Command::new(server.programs().join("psql"))
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--no-password", "--command", sql, url])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if psql.status.success() { Ok(text(&psql.stdout)) } else { Err(text(&psql.stderr)) }
}

#[test]
fn postgres_answers_and_is_gone_after_drop() {
    let options = PostgresOptions::default().fsync(true).setting("max_connections", "23");
    let server = PostgresServer::start(options).unwrap();
    assert!(server.answers());
    assert_eq!(query(&server, "select current_user"), "postgres");
    assert_eq!(query(&server, "show fsync"), "on");
    assert_eq!(query(&server, "show max_connections"), "23");
    let (pid, folder) = (server.pid().unwrap(), server.dir().to_owned());
    drop(server);
    assert!(!is_alive(pid) && !folder.exists());
}

#[test]
fn postgres_keeps_committed_data_when_killed() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    query(&server, "create table kept as select 42 as value");
    let segment = std::fs::read_to_string(server.dir().join("data/postmaster.pid")).unwrap();
    let segment = segment.lines().nth(6).unwrap().split_whitespace().last().unwrap().to_owned();
    server.kill().unwrap();
    assert!(!server.answers());
    let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    assert!(!segments.lines().any(|line| line.split_whitespace().nth(1) == Some(&segment)), "{segments}");
    server.restart().unwrap();
    assert_eq!(query(&server, "select value from kept"), "42");
}

#[test]
fn a_paused_postgres_is_silent_until_resumed() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(STALL)).unwrap();
    server.pause().unwrap();
    // SSLRequest, which the server answers with one byte.
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    assert!(is_silence(&stream.read(&mut [0]).unwrap_err()));
    server.resume().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    assert!(server.answers());
}

#[test]
fn postgres_with_tls_answers_nobody_without() {
    let server = PostgresServer::start(PostgresOptions::default().tls(true)).unwrap();
    assert!(server.answers());
    assert_eq!(query(&server, "show ssl"), "on");
    let ca = std::fs::read_to_string(server.ca().unwrap()).unwrap();
    assert!(ca.starts_with("-----BEGIN CERTIFICATE-----"), "{ca}");
    // Before version 15, libpq does not support addresses in certificates.
    let verified = server.url().replace("127.0.0.1", "localhost");
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(said(&server, &verified, encrypted).as_deref(), Ok("t"));
    let (plain, _) = server.url().split_once('?').map(|(url, rest)| (url.to_owned(), rest)).unwrap();
    assert!(said(&server, &format!("{plain}?sslmode=disable"), "select 1").is_err());
    server.restart().unwrap();
    assert_eq!(said(&server, &verified, encrypted).as_deref(), Ok("t"));
}

#[test]
fn postgres_has_roles_with_passwords_and_rights() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    query(&server, "create table a as select 1 as value; create table b as select 2 as value");
    let url = server.role("reader", "p 'w@", "grant select on a to reader").unwrap();
    assert!(url.starts_with("postgres://reader:p%20%27w%40@127.0.0.1:"), "{url}");
    assert_eq!(said(&server, &url, "select value from a").as_deref(), Ok("1"));
    assert!(said(&server, &url, "select value from b").unwrap_err().contains("permission denied"));
    let wrong = url.replace("%20", "");
    assert!(said(&server, &wrong, "select 1").unwrap_err().contains("password authentication failed"));
    let error = server.role("nobody", "pw", "grant select on c to nobody").unwrap_err();
    assert!(error.to_string().contains("\"c\" does not exist"), "{error}");
    assert_eq!(query(&server, "select count(*) from pg_roles where rolname = 'nobody'"), "0");
}

#[test]
fn pgbouncer_pools_transactions() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let url = server.role("app", "pw", "").unwrap();
    let pooler = PgBouncer::start(&server, 1, &["app"]).unwrap();
    assert!(pooler.answers() && pooler.url().starts_with("postgres://postgres@127.0.0.1:"));
    let (_, behind) = url.split_once('@').unwrap();
    assert!(!pooler.url().ends_with(behind));
    let mut clients: Vec<_> = (0..2)
        .map(|_| {
            Command::new(server.programs().join("psql"))
                .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", &pooler.url()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut readers: Vec<_> =
        clients.iter_mut().map(|client| BufReader::new(client.stdout.take().unwrap())).collect();
    // With a single connection to the server, both clients are served in turn by the same backend.
    let backends: Vec<_> = [0, 1, 0]
        .map(|index| {
            let client = &mut clients[index];
            writeln!(client.stdin.as_mut().unwrap(), "select pg_backend_pid();").unwrap();
            let mut line = String::new();
            readers[index].read_line(&mut line).unwrap();
            line
        })
        .to_vec();
    assert!(backends[0] == backends[1] && backends[1] == backends[2], "{backends:?}");
    for mut client in clients {
        drop(client.stdin.take());
        assert!(client.wait().unwrap().success());
    }
    let app = pooler.url().replace("postgres@", "app@");
    assert_eq!(said(&server, &app, "select current_user").as_deref(), Ok("app"));
    let (pid, folder) = (pooler.pid().unwrap(), pooler.dir().to_owned());
    pooler.kill().unwrap();
    assert!(!pooler.answers() && server.answers());
    pooler.restart().unwrap();
    assert!(pooler.answers() && pooler.pid() != Some(pid));
    drop(pooler);
    assert!(!folder.exists());
}

#[test]
fn the_shared_server_is_one() {
    let first = servers::redis().unwrap();
    assert_eq!(first, servers::redis().unwrap());
    assert_eq!(first.is_external(), env::var_os(servers::REDIS_URL_VARIABLE).is_some());
    let postgres = servers::postgres().unwrap();
    assert_eq!(postgres, servers::postgres().unwrap());
    assert!(postgres.url().starts_with("postgres"));
}

/// The child process of the test below: starts servers, prints their addresses, and waits to be
/// killed.
fn be_killed() {
    let redis = RedisServer::start(RedisOptions::default()).unwrap();
    let paused = RedisServer::start(RedisOptions::default()).unwrap();
    paused.pause().unwrap();
    let postgres = PostgresServer::start(PostgresOptions::default()).unwrap();
    let pooler = PgBouncer::start(&postgres, 5, &[]).unwrap();
    println!();
    let servers: [&Server; 4] = [&redis, &paused, &postgres, &pooler];
    for (pid, folder) in servers.map(|server| (server.pid(), server.dir())) {
        println!("server {} {}", pid.unwrap(), folder.display());
    }
    println!("ready");
    let _ = io::stdin().read(&mut [0]);
    unreachable!("it is killed while it waits");
}

#[test]
fn a_killed_process_takes_its_servers_with_it() {
    if env::var_os(CHILD).is_some() {
        return be_killed();
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "servers::a_killed_process_takes_its_servers_with_it", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<_> = lines.take_while(|line| line != "ready").collect();
    let servers: Vec<(u32, &Path)> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("server ")?.split_once(' '))
        .map(|(pid, folder)| (pid.parse().unwrap(), Path::new(folder)))
        .collect();
    assert_eq!(servers.len(), 4, "{lines:?}");
    assert!(servers.iter().all(|(pid, folder)| is_alive(*pid) && folder.exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = || servers.iter().all(|(pid, folder)| !is_alive(*pid) && !folder.exists()).then_some(());
    assert_eq!(wait_until(LIMIT, gone), Some(()), "{servers:?}");
}
