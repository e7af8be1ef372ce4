//! The engine's thread and its runtime.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Id, Runtime};
use tokio::sync::oneshot;

use crate::engine::call_runtime::CallRuntime;
use crate::{Error, ErrorKind, Result};

/// What the thread does with its runtime.
type Work = Box<dyn FnOnce(&Runtime) + Send>;

/// The engine's thread and its runtime. It can be had before there is an engine: what connects a store from a thread without
/// a runtime, or from a test with paused time, runs here.
pub struct EngineThread {
    call_runtime: Arc<CallRuntime>,
    begin: Mutex<Option<oneshot::Sender<Work>>>,
}

impl EngineThread {
    /// Starts the thread. It waits for its engine, and ends with it, or once this value is dropped without one.
    ///
    /// # Errors
    /// `Unavailable` if the system has no thread or no runtime to give.
    #[expect(clippy::disallowed_methods, reason = "the engine's thread owns its runtime")]
    pub fn start() -> Result<Arc<Self>> {
        let failed = |what| move |error| Error::new(ErrorKind::Unavailable, what).with_source(error);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("no runtime for the engine"))?;
        let call_runtime = Arc::new(CallRuntime::new(Some(runtime.handle().clone())));
        let (begin, begun) = oneshot::channel::<Work>();
        let thread = std::thread::Builder::new().name("stanchion".into()).spawn(move || {
            if let Ok(work) = runtime.block_on(begun) {
                work(&runtime);
            }
        });
        thread.map_err(failed("no thread for the engine"))?;
        Ok(Arc::new(Self { call_runtime, begin: Mutex::new(Some(begin)) }))
    }

    /// Does some work on the runtime that polls it, which then has connections of its own until it ends ([C28]). On that of this
    /// thread if another has them, if there is none, or if it has a clock of its own, as a test with paused time has.
    ///
    /// [C28]: crate::contract#c28
    pub async fn on<T>(&self, work: impl Future<Output = T>) -> T {
        self.call_runtime.call(work).await
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

    /// Gives the thread its work, after which it ends.
    ///
    /// # Errors
    /// `Unavailable` if the thread has work already, or has ended.
    pub(crate) fn begin(&self, work: impl FnOnce(&Runtime) + Send + 'static) -> Result<()> {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begun = begin.and_then(|begin| begin.send(Box::new(work)).ok());
        begun.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the engine's thread is taken"))
    }
}

impl fmt::Debug for EngineThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineThread").field("call_runtime", &self.call_runtime).finish_non_exhaustive()
    }
}
