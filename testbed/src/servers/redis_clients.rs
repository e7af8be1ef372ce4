//! An operator's actions on the clients of a Redis.

use std::io;
use std::time::Duration;

use super::error::ServerError;
use super::redis::RedisServer;

impl RedisServer {
    /// Closes the connections of all normal clients (`CLIENT KILL TYPE normal`), but not of
    /// replicas and subscribers. Returns how many connections there were.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the server does not answer within 10 s.
    pub fn kill_clients(&self) -> Result<u64, ServerError> {
        count(&self.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?)
    }

    /// Closes the connections of clients with this name (`CLIENT SETNAME`). Returns how many
    /// connections there were.
    ///
    /// # Errors
    ///
    /// As [`kill_clients`](Self::kill_clients).
    pub fn kill_clients_named(&self, name: &str) -> Result<u64, ServerError> {
        let list = self.command(&["CLIENT", "LIST"])?;
        let mut killed = 0;
        for id in ids_of(&list, name) {
            killed += count(&self.command(&["CLIENT", "KILL", "ID", id])?)?;
        }
        Ok(killed)
    }

    /// Answers no client for `time`, in whole milliseconds (`CLIENT PAUSE`), not even a client that
    /// asks to end the pause. Connections stay open, and their requests are executed afterwards.
    ///
    /// # Errors
    ///
    /// As [`kill_clients`](Self::kill_clients).
    pub fn pause_clients(&self, time: Duration) -> Result<(), ServerError> {
        done(&self.command(&["CLIENT", "PAUSE", &time.as_millis().to_string(), "ALL"])?)
    }
}

/// Returns the ids of clients with this name in the reply to `CLIENT LIST`.
fn ids_of<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let name = format!("name={name}");
    let lines = list.lines().filter(|line| line.split(' ').any(|field| field == name));
    lines.filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("id="))).collect()
}

fn count(answer: &str) -> Result<u64, ServerError> {
    let number = answer.strip_prefix(':').and_then(|number| number.trim_end().parse().ok());
    number.ok_or_else(|| refused(answer))
}

fn done(answer: &str) -> Result<(), ServerError> {
    if answer.starts_with("+OK") { Ok(()) } else { Err(refused(answer)) }
}

fn refused(answer: &str) -> ServerError {
    ServerError::io("have the server do it")(io::Error::other(answer.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::ids_of;

    #[test]
    fn clients_are_found_by_their_whole_name() {
        let list = "id=3 addr=a name=worker age=1\r\nid=4 addr=b name=worker2 age=1\r\nid=5 name= age=1\r\n";
        assert_eq!(ids_of(list, "worker"), ["3"]);
        assert_eq!(ids_of(list, "name"), [""; 0]);
    }
}
