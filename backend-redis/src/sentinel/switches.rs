//! Leaves a primary once a sentinel announces that another server has taken its place: it may go on
//! answering, cut off from the sentinels, and what it grants then is known to nobody else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use stanchion_core::Result;
use stanchion_core::clock::{sleep, timeout};
use stanchion_core::spi::{Chore, Reports};
use tokio::sync::Mutex;

use super::connector::SentinelConnector;
use crate::address::Address;
use crate::connector::Connector;
use crate::pool::Pool;
use crate::wake::ServerWake;

/// The channel on which sentinels announce it: service, old host and port, new host and port.
const CHANNEL: &str = "+switch-master";
/// Pause before another sentinel is listened to.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which another sentinel is listened to if this one is silent: its connection may be
/// dead.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Listens to one sentinel at a time, on one connection for all namespaces of a store.
pub(crate) struct SwitchWatch {
    pub(crate) sentinels: Arc<SentinelConnector>,
    pub(crate) pools: [Arc<Pool>; 2],
    pub(crate) wake: Arc<ServerWake>,
    /// The engine that has this watches for all.
    watching: Mutex<()>,
}

impl SwitchWatch {
    pub(crate) fn new(
        sentinels: &Arc<SentinelConnector>,
        pools: [Arc<Pool>; 2],
        wake: &Arc<ServerWake>,
    ) -> Arc<Self> {
        let (sentinels, wake) = (Arc::clone(sentinels), Arc::clone(wake));
        Arc::new(Self { sentinels, pools, wake, watching: Mutex::default() })
    }

    /// Listens to a sentinel until its connection ends.
    ///
    /// # Errors
    /// That of a sentinel that cannot be listened to.
    async fn listen(&self, sentinel: &Connector) -> Result<()> {
        let mut switches = sentinel.subscribe(CHANNEL).await?;
        // What was announced while nobody listened.
        if let (Some(primary), Some(connected)) = (self.sentinels.agreed().await, self.sentinels.connected())
            && primary != connected
        {
            self.leave(primary);
        }
        while let Ok(Some(switch)) = timeout(MAX_SILENCE, switches.next()).await {
            let message: Option<String> = switch.get_payload().ok();
            if let Some(primary) = message.and_then(|message| switched(&message, &self.sentinels.service)) {
                self.leave(primary);
            }
        }
        Ok(())
    }

    /// The next requests find the new primary. Those under way get the answer of the old one, or
    /// none.
    fn leave(&self, primary: Address) {
        tracing::info!(
            name: "stanchion.redis.switched",
            {
                stanchion.redis.service = self.sentinels.service,
                server.address = primary.host,
                server.port = primary.port,
            },
            "the sentinels announce another primary"
        );
        self.sentinels.promote(primary);
        self.pools.iter().for_each(|pool| pool.leave());
        self.wake.leave();
    }
}

#[async_trait]
impl Chore for SwitchWatch {
    async fn run(&self, _: &Reports) {
        let _watching = self.watching.lock().await;
        for sentinel in self.sentinels.sentinels.iter().cycle() {
            if let Err(error) = self.listen(sentinel).await {
                tracing::debug!(
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                    "no sentinel to listen to for now"
                );
            }
            sleep(PAUSE).await;
        }
    }
}

/// Returns the new primary, if the message is about this service.
fn switched(message: &str, service: &str) -> Option<Address> {
    let mut words = message.strip_prefix(service)?.strip_prefix(' ')?.split(' ').skip(2);
    Some(Address { host: words.next()?.to_owned(), port: words.next()?.parse().ok()? })
}

impl std::fmt::Debug for SwitchWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SwitchWatch").field("sentinels", &self.sentinels).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_of_another_service_is_none() {
        let message = "billing 10.0.0.1 6379 10.0.0.2 6380";
        let primary = Address { host: "10.0.0.2".to_owned(), port: 6_380 };
        assert_eq!(switched(message, "billing"), Some(primary));
        for (message, service) in
            [(message, "bill"), (message, "other"), ("billing 1 2", "billing"), ("", "")]
        {
            assert_eq!(switched(message, service), None, "{message}");
        }
    }
}
