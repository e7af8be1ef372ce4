//! The store: the engine over the steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::engine::{Background, Engine, StepsWrap};
use stanchion_core::spi::{Steps, WakeSource};
use stanchion_core::{
    Capabilities, Limiter, LimiterOptions, Mutex, MutexMode, MutexOptions, Result, Semaphore,
    SemaphoreOptions, Stats, Store, WaitGroup, WaitGroupOptions,
};

use crate::client::Client;
use crate::server::Server;
use crate::steps::ThirdSteps;
use crate::wake::{Mailbox, Sweep};

impl Client {
    /// Returns the steps of this process and its source of wake-ups, for tests without an engine.
    pub async fn steps(self, server: &Arc<Server>) -> (Arc<dyn Steps>, Arc<dyn WakeSource>) {
        let mailbox = tokio::sync::Mutex::new(server.mailbox(self.process).await);
        let steps = ThirdSteps { server: Arc::clone(server), client: self };
        (Arc::new(steps), Arc::new(Mailbox(mailbox)))
    }

    /// Starts a store of this process.
    ///
    /// # Errors
    /// `Unavailable` if the system refuses to start a thread.
    pub async fn connect(self, server: &Arc<Server>) -> Result<ThirdStore> {
        self.connect_wrapped(server, None).await
    }

    /// Starts a store with a wrapper between the steps and the engine: the suite puts faults there.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_wrapped(self, server: &Arc<Server>, wrap: Option<&StepsWrap>) -> Result<ThirdStore> {
        // A networked store gives the engine steps with their own connection: see `Background`.
        let (steps, wake) = self.steps(server).await;
        let sweep = Sweep(ThirdSteps { server: Arc::clone(server), client: self });
        let own = Background {
            wake: Some(wake),
            chores: vec![Arc::new(sweep)],
            ..Background::new(Arc::clone(&steps))
        };
        Ok(ThirdStore { engine: Engine::start_wrapped(wrap, capabilities(), steps, own)? })
    }
}

/// Returns the declared capabilities. The suite checks that they are true.
fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::full("third", MutexMode::Lease);
    capabilities.wait_groups = false;
    capabilities.limiters = false;
    capabilities.bloom_filters = false;
    capabilities.namespaces = false;
    capabilities.listing = false;
    // The map is in this process and ends with it.
    capabilities.shared = false;
    capabilities.survives_restart = Some(false);
    capabilities
}

/// Mutexes and semaphores of a [`Server`].
#[derive(Clone, Debug)]
pub struct ThirdStore {
    engine: Engine,
}

#[async_trait]
impl Store for ThirdStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.engine.mutex(name, options)
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.engine.semaphore(name, options)
    }

    /// Returns `Unsupported`: the steps know no wait groups.
    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.engine.wait_group(name, options)
    }

    /// As [`wait_group`](Self::wait_group).
    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        self.engine.limiter(name, options)
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn stats(&self) -> Stats {
        self.engine.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.engine.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn drain(&self) -> Result<()> {
        self.engine.drain().await
    }

    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.engine.drain_blocking(timeout)
    }
}
