//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

/// The usage text.
pub(crate) const USAGE: &str = "\
usage: ingest-load [OPTION VALUE]… [-- OPTION VALUE…]
  --seconds N       seconds before the server gets SIGTERM (default: 10)
  --connections N   connections that are kept alive (default: 8)
  --depth N         maximum number of requests under way on each of them (default: 32)
  --payloads N      payloads in a request (default: 1)
  --bytes N         the length of a payload's data (default: 64)
  --server PATH     the program `ingest` (default: the one beside this)
options after the dashes are for the server";

/// The settings of a run.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) seconds: u32,
    pub(crate) connections: u32,
    pub(crate) depth: u32,
    pub(crate) payloads: u32,
    pub(crate) bytes: usize,
    pub(crate) server: PathBuf,
    pub(crate) options: Vec<String>,
}

impl Settings {
    /// Reads a command line, without the program's name.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let beside = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("ingest");
        let mut settings = Self {
            seconds: 10,
            connections: 8,
            depth: 32,
            payloads: 1,
            bytes: 64,
            server: beside,
            options: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            if option == "--" {
                settings.options = arguments.by_ref().collect();
                break;
            }
            let value = arguments.next().ok_or_else(|| format!("{option} without a value"))?;
            settings.set(&option, &value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "--seconds" => self.seconds = read(option, value)?,
            "--connections" => self.connections = read::<u32>(option, value)?.max(1),
            "--depth" => self.depth = read::<u32>(option, value)?.max(1),
            "--payloads" => self.payloads = read::<u32>(option, value)?.max(1),
            "--bytes" => self.bytes = read(option, value)?,
            "--server" => self.server = value.into(),
            _ => return Err(format!("no option {option}")),
        }
        Ok(())
    }
}

fn read<T: FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} does not take {value:?}"))
}
