//! The addresses of a store: several servers, of which one takes writes at a time.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use stanchion_core::{Error, Result};

/// Maximum number of addresses.
pub(crate) const MAX_ADDRESSES: usize = 16;
/// Minimum timeout of one attempt to connect to an address. An attempt that began in an outage ends
/// this long after it at the latest, unless a quarter of the request timeout is longer.
pub(crate) const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Which servers a store connects to, in the words of `libpq`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetSessionAttrs {
    /// The first server that answers (the default with one host). If it is a standby, or takes no
    /// writes, connecting is refused with `UnsafeStore` ([C22]).
    ///
    /// [C22]: stanchion_core::contract#c22
    Any,
    /// The first server that takes writes (the default with several hosts). A standby, or a server
    /// where `default_transaction_read_only` is on, is passed over. The check costs one round trip
    /// for each new connection.
    ///
    /// A session that keeps mutexes in [`MutexMode::Session`](stanchion_core::MutexMode::Session)
    /// ends when its server has stopped taking writes and another host takes them, and its holds
    /// are lost: other processes may be granted the same names there.
    ReadWrite,
}

/// The addresses of a store, in the user's order. Contains passwords.
#[derive(Clone)]
pub(crate) struct Addresses {
    /// The client's options of each address; never empty.
    options: Vec<PgConnectOptions>,
    target: Option<TargetSessionAttrs>,
    /// Why the user's addresses were not taken.
    refused: Option<&'static str>,
}

impl From<PgConnectOptions> for Addresses {
    fn from(options: PgConnectOptions) -> Self {
        Self { options: vec![options], target: None, refused: None }
    }
}

impl Addresses {
    /// Makes the addresses of a URL.
    ///
    /// # Errors
    /// `InvalidArgument` for none, or too many.
    pub(crate) fn new(options: Vec<PgConnectOptions>) -> Result<Self> {
        if !(1..=MAX_ADDRESSES).contains(&options.len()) {
            return Err(Error::invalid_argument(format!("a store has 1 to {MAX_ADDRESSES} hosts")));
        }
        Ok(Self { options, target: None, refused: None })
    }

    /// Replaces host and port of all addresses. All else stays as it is.
    pub(crate) fn replace(&mut self, hosts: impl IntoIterator<Item = (String, u16)>) {
        let base = self.options[0].clone();
        let is_socket = base.get_socket().is_some();
        let hosts: Vec<_> = hosts.into_iter().take(MAX_ADDRESSES + 1).collect();
        self.refused = match hosts.len() {
            0 => Some("the list of hosts is empty"),
            1..=MAX_ADDRESSES if hosts.iter().any(|(host, _)| host.is_empty()) => Some("a host has no name"),
            1..=MAX_ADDRESSES if is_socket => Some("connect options with a socket have no other hosts"),
            1..=MAX_ADDRESSES => None,
            _ => Some("a store has 1 to 16 hosts"),
        };
        if self.refused.is_none() {
            let of_host = |(host, port): (String, u16)| base.clone().host(unbracketed(&host)).port(port);
            self.options = hosts.into_iter().map(of_host).collect();
        }
    }

    pub(crate) fn set_target(&mut self, target: TargetSessionAttrs) {
        self.target = Some(target);
    }

    /// Checks the options of the user.
    ///
    /// # Errors
    /// `InvalidArgument` for addresses that cannot be used.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.map_or(Ok(()), |why| Err(Error::invalid_argument(why)))
    }

    /// Returns the client's options of each address.
    pub(crate) fn options(&self) -> &[PgConnectOptions] {
        &self.options
    }

    /// Returns whether servers that take no writes are passed over.
    pub(crate) fn must_take_writes(&self) -> bool {
        match self.target {
            Some(target) => target == TargetSessionAttrs::ReadWrite,
            None => self.options.len() > 1,
        }
    }

    /// Returns the timeout of one address, for a caller that gives `limit` to a single one.
    pub(crate) fn timeout_of_each(&self, limit: Duration) -> Duration {
        if self.options.len() == 1 { limit } else { limit.min(MIN_ATTEMPT_TIMEOUT.max(limit / 4)) }
    }

    /// Returns the timeout of all addresses together, for a caller that gives `limit` to a single
    /// one.
    pub(crate) fn timeout_of_all(&self, limit: Duration) -> Duration {
        u32::try_from(self.options.len()).map_or(limit, |hosts| limit.saturating_mul(hosts))
    }

    /// Returns all addresses, for errors.
    pub(crate) fn text(&self) -> String {
        self.options.iter().map(address).collect::<Vec<_>>().join(",")
    }
}

/// Returns the address that these options lead to.
pub(crate) fn address(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None if host.starts_with('/') => host.to_owned(),
        None if host.contains(':') => format!("[{host}]:{port}"),
        None => format!("{host}:{port}"),
    }
}

/// Returns an IPv6 address without the brackets that it has in a URL.
pub(crate) fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}
