//! The part of the Redis protocol that starting servers needs.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::launch::ANSWER_LIMIT;

/// The endpoint of a client.
#[derive(Debug)]
pub(super) enum RedisEndpoint {
    Port(u16),
    Socket(PathBuf),
}

/// Sends commands and returns their raw replies, without the reply to the login. Waits for each
/// part of the answer at most `limit`.
pub(super) fn ask(
    endpoint: &RedisEndpoint,
    password: Option<&str>,
    commands: &[&[&str]],
    limit: Duration,
) -> io::Result<String> {
    let mut request = Vec::new();
    if let Some(password) = password {
        request.extend(encoded(&["AUTH", password]));
    }
    commands.iter().for_each(|command| request.extend(encoded(command)));
    let answer = match endpoint {
        RedisEndpoint::Port(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let stream = TcpStream::connect_timeout(&address, limit)?;
            stream.set_read_timeout(Some(limit))?;
            (&stream).write_all(&request)?;
            // Ends the requests, so that the server closes after its replies: not every version's
            // sentinel knows `QUIT`.
            stream.shutdown(Shutdown::Write)?;
            read_all(stream)?
        }
        RedisEndpoint::Socket(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(limit))?;
            (&stream).write_all(&request)?;
            stream.shutdown(Shutdown::Write)?;
            read_all(stream)?
        }
    };
    let login = password.and_then(|_| answer.strip_prefix("+OK\r\n"));
    Ok(login.unwrap_or(&answer).to_owned())
}

/// Returns whether the process with this id answers at the endpoint.
pub(super) fn says_its_pid(endpoint: &RedisEndpoint, password: Option<&str>, pid: u32) -> io::Result<bool> {
    let answer = ask(endpoint, password, &[&["PING"], &["INFO", "server"]], ANSWER_LIMIT)?;
    Ok(answer.contains("+PONG\r\n") && answer.contains(&format!("process_id:{pid}\r\n")))
}

fn read_all(mut stream: impl Read) -> io::Result<String> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn encoded(words: &[&str]) -> Vec<u8> {
    let count = words.len();
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{count}\r\n{words}").into_bytes()
}

/// Quotes a value for `redis.conf`.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Escapes a password or a path for a URL.
pub(super) fn url_escaped(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::{quoted, url_escaped};

    #[test]
    fn any_password_survives_the_url_and_the_file() {
        assert_eq!(url_escaped("a b@c:é"), "a%20b%40c%3A%C3%A9");
        assert_eq!(quoted(r#"a "b\c"#), r#""a \"b\\c""#);
    }
}
