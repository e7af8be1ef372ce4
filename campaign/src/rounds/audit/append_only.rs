//! Redis: the append-only file, and how the store keeps holds in keys.
//!
//! A script's writes are between `MULTI` and `EXEC`. The difference between the state before and
//! after gives its changes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use stanchion_core::{FencingToken, Kind, Name, Ticket};

use crate::history::{Entry, HoldChange, ObjectId};

type Words = Vec<String>;

/// The read position in the record.
#[derive(Debug, Default)]
pub(in crate::rounds) struct AofTail {
    /// The offset of the next command in the concatenated files.
    offset: usize,
}

impl AofTail {
    /// Returns the record of a namespace since the last call. `folder` is the server's data folder.
    ///
    /// # Errors
    /// If a file cannot be read or parsed.
    pub(in crate::rounds) fn take(&mut self, folder: &Path, namespace: &str) -> io::Result<Vec<Entry>> {
        let bytes = read(folder)?;
        let mut keys = Keys::new(namespace);
        let mut commands = Commands { bytes: bytes.get(self.offset..).unwrap_or_default() };
        while let Some(words) = commands.next()? {
            keys.command(&words)?;
        }
        self.offset = bytes.len() - commands.bytes.len();
        Ok(keys.entries)
    }
}

/// Reads the increments of the file, in their order.
fn read(folder: &Path) -> io::Result<Vec<u8>> {
    let mut paths = Vec::new();
    for entry in folder.join("appendonlydir").read_dir()? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".incr.aof") {
            paths.push(path);
        }
    }
    // appendonly.aof.1.incr.aof, appendonly.aof.2.incr.aof, …
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(fs::read(path)?);
    }
    Ok(bytes)
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the append-only file: {what}"))
}

/// Commands, each an array of the Redis protocol.
struct Commands<'b> {
    bytes: &'b [u8],
}

impl Commands<'_> {
    /// Returns the next command; `None` if no complete one is left.
    fn next(&mut self) -> io::Result<Option<Words>> {
        let start = self.bytes;
        let words = self.whole();
        if !matches!(words, Ok(Some(_))) {
            self.bytes = start;
        }
        words
    }

    fn whole(&mut self) -> io::Result<Option<Words>> {
        let Some(mut line) = self.line()? else { return Ok(None) };
        // Annotations.
        while line.starts_with('#') {
            let Some(next) = self.line()? else { return Ok(None) };
            line = next;
        }
        let count: usize = number(&line, '*')?;
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(line) = self.line()? else { return Ok(None) };
            let length: usize = number(&line, '$')?;
            let Some((word, rest)) = self.bytes.split_at_checked(length + 2) else { return Ok(None) };
            words.push(String::from_utf8_lossy(&word[..length]).into_owned());
            self.bytes = rest;
        }
        Ok(Some(words))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let Some(end) = self.bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&self.bytes[..end]).map_err(wrong)?.to_owned();
        self.bytes = &self.bytes[end + 2..];
        Ok(Some(line))
    }
}

fn number(line: &str, mark: char) -> io::Result<usize> {
    let number = line.strip_prefix(mark).and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| wrong(format_args!("{line:?} where a number was to follow {mark:?}")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    token: FencingToken,
    weight: u32,
    at: u64,
    until: u64,
}

type Rows = HashMap<Ticket, Row>;

/// The keys of a namespace that keep holds.
struct Keys {
    /// The prefix of its keys, before the number of the stripe.
    prefix: String,
    now: HashMap<ObjectId, Rows>,
    /// The objects that the current script has changed, as they were before it.
    before: HashMap<ObjectId, Rows>,
    /// The mutexes that are kept as strings, which expire with their leases.
    strings: HashSet<ObjectId>,
    in_script: bool,
    entries: Vec<Entry>,
}

impl Keys {
    fn new(namespace: &str) -> Self {
        Self {
            prefix: format!("{{{namespace}/"),
            now: HashMap::new(),
            before: HashMap::new(),
            strings: HashSet::new(),
            in_script: false,
            entries: Vec::new(),
        }
    }

    fn command(&mut self, words: &[String]) -> io::Result<()> {
        let Some((command, rest)) = words.split_first() else { return Ok(()) };
        match (command.to_ascii_uppercase().as_str(), rest) {
            ("MULTI", _) => self.in_script = true,
            ("EXEC", _) => {
                self.in_script = false;
                self.settle();
            }
            ("DEL" | "UNLINK", keys) => {
                for key in keys {
                    self.object(key).map(|object| self.strings.remove(&object));
                    self.change(key, |rows| {
                        rows.clear();
                        Ok(())
                    })?;
                }
            }
            ("SET", [key, value, ..]) if self.is_semaphore(key) => self.change(key, |rows| {
                *rows = permits(value).ok_or_else(|| wrong(value))?;
                Ok(())
            })?,
            ("SET", [key, value, options @ ..]) => {
                self.strings.extend(self.object(key));
                self.change(key, |rows| {
                    let before = rows.drain().next().map(|(_, row)| row.until);
                    let until = expiry(options).or(before).ok_or_else(|| wrong(value))?;
                    let (ticket, row) = held(value, until)?;
                    rows.insert(ticket, row);
                    Ok(())
                })?;
            }
            ("PEXPIREAT", [key, at, ..]) if self.object(key).is_some_and(|o| self.strings.contains(&o)) => {
                let until = at.parse::<u64>().map_err(wrong)? * 1_000;
                self.change(key, |rows| {
                    rows.values_mut().for_each(|row| row.until = until);
                    Ok(())
                })?;
            }
            ("HSET" | "HMSET", [key, fields @ ..]) => self.change(key, |rows| {
                for pair in fields.chunks_exact(2) {
                    if let Some(ticket) = ticket(&pair[0]) {
                        rows.insert(ticket, hold(&pair[1])?);
                    }
                }
                Ok(())
            })?,
            ("HDEL", [key, fields @ ..]) => self.change(key, |rows| {
                for ticket in fields.iter().filter_map(|field| ticket(field)) {
                    rows.remove(&ticket);
                }
                Ok(())
            })?,
            ("FLUSHALL" | "FLUSHDB" | "RENAME" | "RESTORE", _) => return Err(wrong(words.join(" "))),
            _ => {}
        }
        if !self.in_script {
            self.settle();
        }
        Ok(())
    }

    fn change(&mut self, key: &str, change: impl FnOnce(&mut Rows) -> io::Result<()>) -> io::Result<()> {
        let Some(object) = self.object(key) else { return Ok(()) };
        let rows = self.now.entry(object.clone()).or_default();
        self.before.entry(object).or_insert_with(|| rows.clone());
        change(rows)
    }

    /// Parses `{NAMESPACE/STRIPE}:m:NAME`; `s` and `w` stand for semaphores and wait groups.
    fn object(&self, key: &str) -> Option<ObjectId> {
        let (_, rest) = key.strip_prefix(&self.prefix)?.split_once("}:")?;
        let (kind, name) = rest.split_once(':')?;
        let kind = match kind {
            "m" => Kind::Mutex,
            "s" => Kind::Semaphore,
            "w" => Kind::WaitGroup,
            _ => return None,
        };
        Some(ObjectId::new(kind, Name::new(name).ok()?))
    }

    fn is_semaphore(&self, key: &str) -> bool {
        self.object(key).is_some_and(|object| object.kind == Kind::Semaphore)
    }

    /// Adds the changes of a script to the entries, the ended holds first.
    fn settle(&mut self) {
        for (object, before) in self.before.drain() {
            let now = self.now.entry(object.clone()).or_default();
            let mut changes: Vec<(u8, u64, Ticket, HoldChange)> = Vec::new();
            // A ticket that asks again after its lease gets a new hold.
            let goes_on =
                |ticket: &Ticket, row: &Row| before.get(ticket).is_some_and(|old| old.token == row.token);
            for ticket in before.keys() {
                if !now.get(ticket).is_some_and(|row| goes_on(ticket, row)) {
                    changes.push((0, 0, *ticket, HoldChange::Ended));
                }
            }
            for (ticket, row) in now.iter().filter(|(ticket, row)| before.get(ticket) != Some(row)) {
                let Row { token, weight, at, until } = *row;
                if goes_on(ticket, row) {
                    changes.push((1, 0, *ticket, HoldChange::Renewed { until }));
                } else {
                    changes.push((2, token.get(), *ticket, HoldChange::Granted { token, weight, at, until }));
                }
            }
            changes.sort_by_key(|change| (change.0, change.1, change.2));
            self.entries.extend(changes.into_iter().map(|(_, _, ticket, change)| Entry {
                object: object.clone(),
                ticket,
                change,
            }));
        }
    }
}

fn ticket(field: &str) -> Option<Ticket> {
    field.strip_prefix('h')?.parse().ok()
}

/// Finds the expiry of a `SET`, in µs.
fn expiry(options: &[String]) -> Option<u64> {
    let at = options.iter().position(|option| option.eq_ignore_ascii_case("PXAT"))?;
    options.get(at + 1)?.parse::<u64>().ok().map(|milliseconds| milliseconds * 1_000)
}

/// Parses a held mutex that nobody waits for: `TICKET TOKEN GRANTED LEASE LABEL`, which expires
/// with the lease.
fn held(value: &str, until: u64) -> io::Result<(Ticket, Row)> {
    let words: Vec<&str> = value.splitn(5, ' ').collect();
    let [ticket, token, at, _, ..] = words[..] else { return Err(wrong(value)) };
    let ticket = ticket.parse().map_err(|_| wrong(value))?;
    Ok((ticket, row(&until.to_string(), at, "1", token).ok_or_else(|| wrong(value))?))
}

/// Parses a semaphore that nobody waits for: `p LIMIT LAST-END EXPIRES`, and for each hold ` TICKET
/// EXPIRY LEASE GRANTED TOKEN WEIGHT LENGTH` and a label of that length.
fn permits(value: &str) -> Option<Rows> {
    let mut rows = Rows::new();
    let mut rest = value.strip_prefix("p ")?;
    rest = &rest[rest.match_indices(' ').nth(2).map_or(rest.len(), |(at, _)| at)..];
    while !rest.is_empty() {
        let words: Vec<&str> = rest.splitn(9, ' ').collect();
        let [_, ticket, until, _, at, token, weight, length, ..] = words[..] else { return None };
        rows.insert(ticket.parse().ok()?, row(until, at, weight, token)?);
        let label = rest.match_indices(' ').nth(7).map_or(rest.len(), |(at, _)| at);
        rest = rest.get(label + length.parse::<usize>().ok()?..)?;
    }
    Some(rows)
}

/// Parses `EXPIRY GRANTED WEIGHT TOKEN LABEL`.
fn hold(value: &str) -> io::Result<Row> {
    let words: Vec<&str> = value.splitn(5, ' ').collect();
    let [until, at, weight, token, ..] = words[..] else { return Err(wrong(value)) };
    row(until, at, weight, token).ok_or_else(|| wrong(value))
}

fn row(until: &str, at: &str, weight: &str, token: &str) -> Option<Row> {
    let token = token.parse().ok()?;
    Some(Row { token, weight: weight.parse().ok()?, at: at.parse().ok()?, until: until.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "00000000000000000000000000000001";
    const TWO: &str = "00000000000000000000000000000002";

    fn file(commands: &[&[&str]]) -> Vec<u8> {
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let command =
            |words: &&[&str]| format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>());
        commands.iter().map(command).collect::<String>().into_bytes()
    }

    fn taken(bytes: &[u8]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("appendonlydir")).unwrap();
        fs::write(folder.path().join("appendonlydir/appendonly.aof.1.incr.aof"), bytes).unwrap();
        let entries = AofTail::default().take(folder.path(), "ns").unwrap();
        entries.iter().map(Entry::to_string).collect()
    }

    #[test]
    fn a_mutex_that_nobody_waits_for_and_one_in_a_hash_are_the_same_hold() {
        let (key, lease) = ("{ns/3}:m:a", format!("{ONE} 0007 0050 9 label of two words"));
        let hash = format!("h{ONE}");
        let bytes = file(&[
            &["SELECT", "0"],
            &["SET", key, &lease, "PXAT", "9"],
            &["PEXPIREAT", key, "10"],
            &["MULTI"],
            &["DEL", key],
            &["HSET", key, "used", "1", &hash, "10000 50 1 7 label"],
            &["PEXPIREAT", key, "99"],
            &["EXEC"],
            &["HSET", key, &hash, "20000 50 1 7 label"],
            &["MULTI"],
            &["HDEL", key, &hash],
            &["HSET", key, &format!("h{TWO}"), "300 60 1 8"],
            &["EXEC"],
            &["SET", "{other/3}:m:a", &lease],
            &["HSET", "{ns/3}:l:a", "s", "1 2 3"],
            &["DEL", key],
        ]);
        let line = |ticket: &str, rest: &str| format!("v1 object=mutex:a ticket={ticket} what={rest}");
        let expected = vec![
            line(ONE, "granted token=7 weight=1 at=50 until=9000"),
            line(ONE, "renewed until=10000"),
            line(ONE, "renewed until=20000"),
            line(ONE, "ended"),
            line(TWO, "granted token=8 weight=1 at=60 until=300"),
            line(TWO, "ended"),
        ];
        assert_eq!(taken(&bytes), expected);
        // The file may end anywhere.
        for end in 0..bytes.len() {
            let part = taken(&bytes[..end]);
            assert_eq!(part, expected[..part.len()], "{end}");
        }
    }

    #[test]
    fn permits_in_a_string_and_in_a_hash_are_the_same_holds() {
        let key = "{ns/3}:s:a";
        let (one, two) = (format!(" {ONE} 900 850 50 7 2 8 a label"), format!(" {TWO} 950 890 60 8 1 0"));
        let bytes = file(&[
            &["SET", key, &format!("p 4 50 99{one}"), "PXAT", "9"],
            &["SET", key, &format!("p 4 50 99{one}{two}"), "PXAT", "9"],
            &["PEXPIREAT", key, "10"],
            &["MULTI"],
            &["DEL", key],
            &["HSET", key, &format!("h{ONE}"), "900 50 2 7 a label", &format!("h{TWO}"), "950 60 1 8"],
            &["EXEC"],
            &["MULTI"],
            &["DEL", key],
            &["SET", key, &format!("p 4 70 99{two}"), "PXAT", "9"],
            &["EXEC"],
            &["SET", key, "p 4 80 99", "PXAT", "9"],
        ]);
        let line = |ticket: &str, rest: &str| format!("v1 object=semaphore:a ticket={ticket} what={rest}");
        let expected = [
            line(ONE, "granted token=7 weight=2 at=50 until=900"),
            line(TWO, "granted token=8 weight=1 at=60 until=950"),
            line(ONE, "ended"),
            line(TWO, "ended"),
        ];
        assert_eq!(taken(&bytes), expected);
    }

    #[test]
    fn a_ticket_that_comes_back_after_its_lease_has_a_hold_of_its_own() {
        let (key, hash) = ("{ns/3}:w:a", format!("h{ONE}"));
        let bytes =
            file(&[&["HSET", key, &hash, "100 50 1 7 label"], &["HSET", key, &hash, "250 150 1 8 label"]]);
        let line = |rest: &str| format!("v1 object=wait_group:a ticket={ONE} what={rest}");
        let expected = [
            line("granted token=7 weight=1 at=50 until=100"),
            line("ended"),
            line("granted token=8 weight=1 at=150 until=250"),
        ];
        assert_eq!(taken(&bytes), expected);
    }

    #[test]
    fn a_free_mutex_holds_nothing() {
        let key = "{ns/15}:m:a:b";
        let bytes = file(&[
            &["SET", key, &format!("{ONE} 7 50 900"), "PXAT", "1"],
            &["SET", key, &format!("{ONE} 7 50 950"), "KEEPTTL"],
            &["DEL", key],
        ]);
        let taken = taken(&bytes);
        assert_eq!(taken.len(), 2, "{taken:?}");
        assert_eq!(taken[1], format!("v1 object=mutex:a:b ticket={ONE} what=ended"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let mut keys = Keys::new("ns");
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(keys.command(&words(&["FLUSHALL"])).is_err());
        assert!(keys.command(&words(&["SET", "{ns/1}:m:a", "nonsense"])).is_err());
        assert!(keys.command(&words(&["SET", "{ns/1}:m:a", &format!("{ONE} 7 50 900")])).is_err());
        assert!(keys.command(&words(&["SET", "{ns/1}:mark", "7"])).is_ok());
        for value in ["nonsense", "p 4 1 2 x", &format!("p 4 1 2 {ONE} 9 9 9 7 1 5")] {
            assert!(keys.command(&words(&["SET", "{ns/1}:s:a", value])).is_err(), "{value}");
        }
    }
}
