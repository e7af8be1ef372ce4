//! The engine's thread and its runtime.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::{Builder, Handle, Id};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::clock::real;
use crate::observe::availability::Outages;
use crate::runtime::call_runtime::CallRuntime;
use crate::{Error, ErrorKind, Result};

/// An engine whose last handle is dropped, with what it has still to send.
pub(crate) trait Unfinished: Send + Sync {
    /// Waits until everything queued is sent, for `time` at most.
    fn send_queued(&self, time: Duration);
}

/// The thread of the engines of one store object, one for each of its namespaces, and its runtime.
/// It can be had before there is an engine: what connects a store from a thread without a runtime,
/// or from a test with paused time, runs here.
pub struct EngineThread {
    call_runtime: Arc<CallRuntime>,
    outages: OnceLock<Arc<Outages>>,
    /// What it does for each of them.
    engines: UnboundedSender<BoxFuture<'static, ()>>,
    /// Engines without handles that may have something to send, and the maximum time for which the
    /// last drop waits for them.
    to_drain: Mutex<(Vec<Weak<dyn Unfinished>>, Duration)>,
}

impl EngineThread {
    /// Starts the thread. It ends once this value is dropped and the engines that it was given have
    /// ended.
    ///
    /// # Errors
    /// `Unavailable` if the system has no thread or no runtime to give.
    #[expect(clippy::disallowed_methods, reason = "the engine's thread owns its runtime")]
    pub fn start() -> Result<Arc<Self>> {
        let failed = |what| move |error| Error::new(ErrorKind::Unavailable, what).with_source(error);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("no runtime for the engine"))?;
        let call_runtime = Arc::new(CallRuntime::new(Some(runtime.handle().clone())));
        let (engines, begun) = unbounded_channel();
        let thread = std::thread::Builder::new().name("stanchion".into());
        let thread = thread.spawn(move || runtime.block_on(work(begun)));
        thread.map_err(failed("no thread for the engine"))?;
        let (outages, to_drain) = (OnceLock::new(), Mutex::default());
        Ok(Arc::new(Self { call_runtime, outages, engines, to_drain }))
    }

    /// Does some work on the runtime that polls it, which then has connections of its own until it
    /// ends ([C28]). On that of this thread if another has them, if there is none, or if it has a
    /// clock of its own, as a test with paused time has.
    ///
    /// [C28]: crate::contract#c28
    pub async fn on<T>(&self, work: impl Future<Output = T>) -> T {
        self.call_runtime.call(work).await
    }

    /// Does some work on the runtime of this thread, whose connections are the engine's. Dropped,
    /// it goes on.
    ///
    /// # Errors
    /// `Unavailable` if the thread has ended.
    pub async fn of_engine<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        self.begin(async move {
            // Whoever waited may have gone.
            let _ = done.send(work.await);
        })?;
        let ended =
            |error| Error::new(ErrorKind::Unavailable, "the engine's thread has ended").with_source(error);
        result.await.map_err(ended)
    }

    /// Returns where calls on the engine's store run.
    pub(crate) fn call_runtime(&self) -> Arc<CallRuntime> {
        Arc::clone(&self.call_runtime)
    }

    /// Returns the id of the thread's runtime. A call that polls there may come from any thread.
    #[must_use]
    pub fn runtime_id(&self) -> Option<Id> {
        self.call_runtime.runtime.as_ref().map(Handle::id)
    }

    /// Returns what the log says of the store.
    pub(crate) fn outages(&self, store: &'static str) -> Arc<Outages> {
        Arc::clone(self.outages.get_or_init(|| Outages::new(store)))
    }

    /// Has the last drop wait for an engine whose last handle is dropped, for `drain` at most.
    pub(crate) fn drain_at_end(&self, engine: Weak<dyn Unfinished>, drain: Duration) {
        let mut to_drain = self.to_drain.lock().unwrap_or_else(PoisonError::into_inner);
        let (engines, longest) = &mut *to_drain;
        engines.retain(|engine| engine.strong_count() > 0);
        engines.push(engine);
        *longest = drain.max(*longest);
    }

    /// Gives the thread the work of an engine, which must not panic.
    ///
    /// # Errors
    /// `Unavailable` if the thread has ended.
    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let begun = self.engines.send(Box::pin(work));
        begun.map_err(|_| Error::new(ErrorKind::Unavailable, "the engine's thread has ended"))
    }
}

/// The last thing of a store is dropped ([C12](crate::contract#c12)).
impl Drop for EngineThread {
    fn drop(&mut self) {
        if self.call_runtime.is_forked() {
            return;
        }
        // The process may end right after this, and the thread with it.
        let (engines, drain) = self.to_drain.get_mut().unwrap_or_else(PoisonError::into_inner);
        let end = real() + *drain;
        for engine in engines.iter().filter_map(Weak::upgrade) {
            engine.send_queued(end.saturating_duration_since(real()));
        }
    }
}

/// What the thread does: the work of all engines.
async fn work(mut begun: UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut engines = FuturesUnordered::new();
    loop {
        tokio::select! {
            engine = begun.recv() => match engine {
                Some(engine) => engines.push(engine),
                None => break,
            },
            Some(()) = engines.next() => {}
        }
    }
    while engines.next().await.is_some() {}
}

impl fmt::Debug for EngineThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineThread").field("call_runtime", &self.call_runtime).finish_non_exhaustive()
    }
}
