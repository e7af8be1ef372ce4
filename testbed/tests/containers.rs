//! Servers in containers behave like the others. Needs a Docker daemon: `cargo xtask containers`.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

use std::env;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use stanchion_testbed::servers::{self, Container, wait_until};

const LIMIT: Duration = Duration::from_secs(20);
const CHILD: &str = "STANCHION_CONTAINERS_TEST_CHILD";

/// Returns whether the daemon has a container of that name.
fn is_there(name: &str) -> bool {
    let filter = format!("name={name}");
    let output =
        Command::new("docker").args(["ps", "--all", "--quiet", "--filter", &filter]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    !output.stdout.is_empty()
}

#[test]
fn shared_servers_are_in_containers_where_a_daemon_answers() {
    let (redis, postgres) = (servers::redis().unwrap(), servers::postgres().unwrap());
    assert!(redis.is_in_container() && postgres.is_in_container());
    assert!(!redis.is_external() && !postgres.is_external());
    assert!(redis.url().starts_with("redis://127.0.0.1:"), "{}", redis.url());
    assert!(postgres.url().starts_with("postgres://postgres@127.0.0.1:"), "{}", postgres.url());
}

#[test]
fn a_killed_server_comes_back_on_its_port() {
    for container in [Container::redis().unwrap(), Container::postgres().unwrap()] {
        assert!(container.answers());
        let (name, port) = (container.name().to_owned(), container.port());
        container.kill().unwrap();
        assert!(!container.answers());
        container.restart().unwrap();
        assert!(container.answers() && container.port() == port);
        assert!(is_there(&name));
        drop(container);
        assert!(!is_there(&name) && TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn a_container_is_gone_with_a_killed_process() {
    if env::var_os(CHILD).is_some() {
        let container = Container::redis().unwrap();
        println!("container {}", container.name());
        loop {
            std::thread::park();
        }
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_container_is_gone_with_a_killed_process", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The test runner writes the first part of the line.
    let name = lines.map(Result::unwrap).find_map(|line| Some(line.split_once("container ")?.1.to_owned()));
    let name = name.expect("the child has a container");
    assert!(is_there(&name));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(LIMIT, || (!is_there(&name)).then_some(())).is_some(), "{name} is left over");
}
