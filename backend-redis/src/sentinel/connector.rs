//! Connects to the primary that sentinels announce, which it finds anew for every connection.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::{ServerErrorKind, Value};
use stanchion_core::clock::{Instant, now, sleep, timeout};
use stanchion_core::connect::Backoff;
use stanchion_core::{Error, ErrorKind, Result};

use crate::address::Address;
use crate::connection::Connection;
use crate::connector::{Connect, Connector, ConnectorSettings};
use crate::error;

/// Interval after which the sentinels are asked once more while no connection was made, beside the
/// attempts under way. They may have announced a primary that is about to be replaced.
const ROUND_INTERVAL: Duration = Duration::from_millis(250);
/// Time in which all sentinels should have heard of a switch.
const LAG: Duration = Duration::from_secs(10);

/// A connector to the primary of a service that sentinels watch.
#[derive(Debug)]
pub(crate) struct SentinelConnector {
    /// One to each sentinel.
    pub(super) sentinels: Vec<Connector>,
    pub(super) service: String,
    /// The credentials and settings for the servers of the service.
    servers: Connector,
    backoff: Backoff,
    /// Where the last connection leads.
    connected: Mutex<Option<Address>>,
    /// The primary that took another's place, and when that was announced. Some sentinels may not
    /// know it yet.
    promoted: Mutex<Option<(Address, Instant)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SentinelConnector {
    /// Makes a connector with these settings. Their credentials are for the servers of the service,
    /// which `servers` has the login for.
    pub(crate) fn new(
        sentinels: &[Connector],
        service: String,
        servers: &Connector,
        settings: &ConnectorSettings,
    ) -> Self {
        let bare = settings.for_sentinels();
        let sentinels = sentinels.iter().map(|sentinel| sentinel.configured(&bare)).collect();
        let (backoff, connected, promoted) = (Backoff::new("redis"), Mutex::default(), Mutex::default());
        Self { sentinels, service, servers: servers.configured(settings), backoff, connected, promoted }
    }

    /// Returns where the last connection leads.
    pub(crate) fn connected(&self) -> Option<Address> {
        locked(&self.connected).clone()
    }

    /// Notes that this server took the place of another.
    pub(crate) fn promote(&self, primary: Address) {
        *locked(&self.promoted) = Some((primary, now()));
    }

    /// Returns the primary that most of the sentinels announce.
    pub(crate) async fn agreed(&self) -> Option<Address> {
        let asked = self.sentinels.iter().map(|sentinel| async move {
            timeout(sentinel.connect_timeout(), self.announced(sentinel)).await.ok()?.ok()
        });
        let answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        let most = |address: &&Address| {
            answers.iter().filter(|other| other == address).count() * 2 > self.sentinels.len()
        };
        answers.iter().find(most).cloned()
    }

    async fn connect_at_once(&self) -> Result<Connection> {
        let mut attempts = FuturesUnordered::new();
        let mut failed: Option<Error> = None;
        loop {
            attempts.extend(
                self.sentinels
                    .iter()
                    .map(|sentinel| async move { self.through(sentinel).await.map_err(error::certain) }),
            );
            let mut round = std::pin::pin!(sleep(ROUND_INTERVAL));
            loop {
                tokio::select! {
                    attempt = attempts.next() => match attempt {
                        Some(Ok(connected)) => return Ok(connected),
                        Some(Err(error)) => if failed.as_ref().is_none_or(|failed| !failed.kind().is_final()) {
                            failed = Some(error);
                        },
                        None => return Err(failed.take().unwrap_or_else(|| {
                            Error::new(ErrorKind::Unavailable, "no sentinel is known")
                        })),
                    },
                    () = &mut round => break,
                }
            }
        }
    }

    fn no_answer(&self) -> Error {
        let all: Vec<_> = self.sentinels.iter().map(Connector::target).collect();
        self.servers.no_answer().at(&all.join(","))
    }

    async fn through(&self, sentinel: &Connector) -> Result<Connection> {
        let announced = self.announced(sentinel).await.map_err(|error| error.at(&sentinel.target()))?;
        let promoted = locked(&self.promoted).clone().filter(|(_, since)| since.elapsed() < LAG);
        if promoted.is_some_and(|(primary, _)| primary != announced) {
            let detail = "the sentinel announces a primary that another has replaced";
            return Err(Error::new(ErrorKind::Unavailable, detail).at(&sentinel.target()));
        }
        let mut connection = self.servers.at(&announced).connect_at_once().await?;
        let role = match connection.ask(&redis::cmd("ROLE")).await {
            Ok(Value::Array(parts)) => parts.into_iter().next(),
            Ok(_) => None,
            // A user without the right to ask relies on the sentinels.
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoPerm) => {
                *locked(&self.connected) = Some(announced);
                return Ok(connection);
            }
            Err(error) => return Err(error::of_question(error).at(&announced.to_string())),
        };
        match role {
            Some(Value::BulkString(role)) if role == b"master" => {
                *locked(&self.connected) = Some(announced);
                Ok(connection)
            }
            _ => {
                let detail = "the announced server is not the primary yet";
                Err(Error::new(ErrorKind::Unavailable, detail).at(&announced.to_string()))
            }
        }
    }

    async fn announced(&self, sentinel: &Connector) -> Result<Address> {
        let mut connection = sentinel.connect_at_once().await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let answer = connection.ask(&command).await.map_err(error::of_sentinel)?;
        let text = |value: &Value| match value {
            Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        match answer {
            Value::Nil => {
                let detail = format!("the sentinel knows no service {}", Error::shown(&self.service));
                Err(Error::new(ErrorKind::Unavailable, detail))
            }
            Value::Array(parts) => match parts.as_slice() {
                [host, port] => text(host).zip(text(port).and_then(|port| port.parse().ok())),
                _ => None,
            }
            .map(|(host, port)| Address { host, port })
            .ok_or_else(error::unexpected),
            _ => Err(error::unexpected()),
        }
    }
}

/// Connects to a server that a sentinel announces, and that says itself that it is the primary. All
/// sentinels are asked at once, so that a sentinel that is away costs nothing. Errors are those of
/// the last attempt, if all fail; an error that no further attempt would mend comes first.
#[async_trait]
impl Connect for SentinelConnector {
    async fn connect(&self) -> Result<Connection> {
        let connecting = async {
            let made = timeout(self.servers.connect_timeout(), self.connect_at_once()).await;
            made.map_err(|_| self.no_answer()).and_then(|made| made)
        };
        self.backoff.attempt(&self.service, connecting).await
    }

    fn unanswered(&self) -> Error {
        self.backoff.last_error(&self.service).unwrap_or_else(|| self.no_answer())
    }

    fn is_refused(&self) -> bool {
        self.backoff.last_error(&self.service).is_some_and(|error| !error.kind().is_final())
    }

    fn locate(&self, error: Error) -> Error {
        error
    }
}
