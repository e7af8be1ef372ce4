//! The engines of a store object, one for each of its namespaces, on one thread (C28).

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Background, Engine, EngineThread, StepsWrap, WeakEngine};
use crate::spi::Steps;
use crate::{Capabilities, Error, Result};

/// Checks the name of a namespace: 1 to 64 of `A-Z a-z 0-9 _ . -`.
///
/// # Errors
/// `InvalidArgument` for any other.
pub fn check_namespace(namespace: &str) -> Result<()> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if namespace.is_empty() || namespace.len() > 64 || !namespace.bytes().all(legal) {
        return Err(Error::invalid_argument("a namespace is 1 to 64 of A-Z a-z 0-9 _ . -"));
    }
    Ok(())
}

/// A namespace that was opened, before its engine is started.
#[derive(Debug)]
pub struct Begun<T> {
    /// What the backend keeps of the namespace.
    pub kept: T,
    /// What the store offers.
    pub capabilities: Capabilities,
    /// The steps over the callers' connection.
    pub callers: Arc<dyn Steps>,
    /// What the engine's thread works with. It gets the name, the thread and the times of the
    /// [`Namespaces`].
    pub own: Background,
}

/// The engines of a store object, each with what the backend keeps of its namespace. It keeps no
/// engine alive.
#[derive(Debug)]
pub struct Namespaces<T> {
    thread: Arc<EngineThread>,
    drain: Duration,
    slow_wait: Duration,
    wrap: Option<StepsWrap>,
    open: Mutex<HashMap<String, (WeakEngine, T)>>,
}

impl<T: Clone> Namespaces<T> {
    /// Makes a store object's namespaces, of which none is open yet. `drain` and `slow_wait` are
    /// those of each [`Background`].
    #[must_use]
    pub fn new(
        thread: Arc<EngineThread>,
        drain: Duration,
        slow_wait: Duration,
        wrap: Option<StepsWrap>,
    ) -> Self {
        Self { thread, drain, slow_wait, wrap, open: Mutex::default() }
    }

    /// Returns a namespace. Unless it is open, `opening` runs on the engines' thread, and what it
    /// returns is begun. `engine` is any of the store object's.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; `Closed` if `engine` is; those of `opening`; as
    /// [`Engine::start`].
    pub async fn open(
        &self,
        engine: &Engine,
        namespace: &str,
        opening: impl Future<Output = Result<Begun<T>>>,
    ) -> Result<(Engine, T)> {
        engine.check_open("namespace")?;
        check_namespace(namespace)?;
        if let Some(open) = find(&self.opened(), namespace) {
            return Ok(open);
        }
        let begun = self.thread.on(Box::pin(opening)).await?;
        self.begin(namespace, begun)
    }

    /// Starts the engine of a namespace, unless it is open. Returns what is open then.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn begin(&self, namespace: &str, begun: Begun<T>) -> Result<(Engine, T)> {
        let Begun { kept, capabilities, callers, own } = begun;
        let mut open = self.opened();
        if let Some(known) = find(&open, namespace) {
            return Ok(known);
        }
        let thread = Some(Arc::clone(&self.thread));
        let (drain, slow_wait) = (self.drain, self.slow_wait);
        let own = Background { namespace: Arc::from(namespace), drain, slow_wait, thread, ..own };
        let engine = Engine::start_wrapped(self.wrap.as_ref(), capabilities, callers, own)?;
        open.retain(|_, (engine, _)| !engine.is_gone());
        open.insert(namespace.to_owned(), (engine.downgrade(), kept.clone()));
        Ok((engine, kept))
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<String, (WeakEngine, T)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<T: Clone>(open: &HashMap<String, (WeakEngine, T)>, namespace: &str) -> Option<(Engine, T)> {
    let (engine, kept) = open.get(namespace)?;
    let engine = engine.upgrade().filter(|engine| engine.check_open("namespace").is_ok())?;
    Some((engine, kept.clone()))
}
