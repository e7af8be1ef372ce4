//! The sessions of a store object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stanchion_core::Result;
use stanchion_core::engine::check_namespace;

use crate::namespaces::States;
use crate::session::Session;

/// The sessions of a store object, one for each namespace that is open.
pub(crate) struct Sessions {
    pub(crate) states: Arc<States>,
    open: Mutex<HashMap<String, Weak<Session>>>,
}

impl Sessions {
    /// Returns the sessions of a new store object, and that of its own namespace.
    pub(crate) fn begin(states: Arc<States>, namespace: &str) -> (Arc<Self>, Arc<Session>) {
        let sessions = Self { states, open: Mutex::default() };
        let session = sessions.open(namespace);
        (Arc::new(sessions), session)
    }

    /// Returns the session of a namespace; it begins unless it is open.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name.
    pub(crate) fn of(&self, namespace: &str) -> Result<Arc<Session>> {
        check_namespace(namespace)?;
        Ok(self.open(namespace))
    }

    fn open(&self, namespace: &str) -> Arc<Session> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = open.get(namespace).and_then(Weak::upgrade);
        if let Some(session) = begun.filter(|session| !session.is_closed()) {
            return session;
        }
        open.retain(|_, session| session.strong_count() > 0);
        let session = Session::new(namespace, self.states.of(namespace), Arc::clone(&self.states));
        open.insert(namespace.to_owned(), Arc::downgrade(&session));
        session
    }
}
