//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

/// The usage text.
pub const USAGE: &str = "\
usage: ingest [OPTION VALUE]…
  --store PLACE         a folder or a URL (default: payloads)
  --listen ADDRESS      where to listen (default: 127.0.0.1:8080; port 0 is any free one)
  --workers N           number of workers that gather and store (default: 4)
  --queue N             maximum number of requests that wait for a worker (default: 8192)
  --room BYTES          maximum number of bytes on their way to the store (default: 67108864)
  --body BYTES          maximum length of a body (default: 262144)
  --batch BYTES         size at which a batch is stored (default: 1048576)
  --batch-age MS        age at which a batch is stored although it is not full (default: 100)
  --patience MS         timeout for a request's head to arrive, and for its body (default: 10000)
  --connections N       maximum number of connections served at a time (default: 1024)
  --grace MS            time for each part of a shutdown (default: 20000)";

/// The settings of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// A folder or a URL.
    pub store: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Workers that gather and store.
    pub workers: NonZeroUsize,
    /// Maximum number of requests that wait for a worker.
    pub queue: NonZeroUsize,
    /// Maximum number of bytes on their way to the store.
    pub room: NonZeroUsize,
    /// Maximum length of a body, in bytes.
    pub body: u32,
    /// The size at which a batch is full, in bytes.
    pub batch: NonZeroUsize,
    /// The age at which a batch is stored although it is not full.
    pub batch_age: Duration,
    /// Timeout for a request's head to arrive, and for its body.
    pub patience: Duration,
    /// Maximum number of connections served at a time.
    pub connections: NonZeroUsize,
    /// The time for requests under way to finish at shutdown, and again for queued payloads to be
    /// stored.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let positive = |number| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        Self {
            store: "payloads".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            workers: positive(4),
            queue: positive(8192),
            room: positive(64 << 20),
            body: 256 << 10,
            batch: positive(1 << 20),
            batch_age: Duration::from_millis(100),
            patience: Duration::from_secs(10),
            connections: positive(1024),
            grace: Duration::from_secs(20),
        }
    }
}

impl Settings {
    /// Reads a command line, without the program's name.
    ///
    /// # Errors
    ///
    /// A message about the first mistake, to be shown above [`USAGE`].
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} without a value"))?;
            settings.set(&option, &value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--store" => value.clone_into(&mut self.store),
            "--listen" => self.listen = read(option, value)?,
            "--workers" => self.workers = read(option, value)?,
            "--queue" => self.queue = read(option, value)?,
            "--room" => self.room = read(option, value)?,
            "--body" => self.body = read(option, value)?,
            "--batch" => self.batch = read(option, value)?,
            "--batch-age" => {
                self.batch_age = Duration::from_millis(read::<u32>(option, value)?.max(1).into())
            }
            "--patience" => self.patience = Duration::from_millis(read::<u32>(option, value)?.max(1).into()),
            "--connections" => self.connections = read(option, value)?,
            "--grace" => self.grace = Duration::from_millis(read::<u32>(option, value)?.into()),
            _ => return Err(format!("no option {option}")),
        }
        Ok(())
    }
}

fn read<T: FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} does not take {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::Settings;

    fn parse(line: &str) -> Result<Settings, String> {
        Settings::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn an_option_is_followed_by_its_value() {
        assert_eq!(parse(""), Ok(Settings::default()));
        let settings = parse("--queue 3 --store s3://bucket/folder --listen [::1]:0 --batch-age 5").unwrap();
        assert_eq!((settings.queue.get(), settings.store.as_str()), (3, "s3://bucket/folder"));
        assert!(settings.listen.is_ipv6());
        for line in ["--queue", "--queue 0", "--queue -1", "--what 1", "queue 1", "--listen here"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
