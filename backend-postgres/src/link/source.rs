//! The origin of connections.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use tokio::runtime::{Handle, Id};

use crate::access::{Sessions, Settings, Way};

/// The origin of the connections of a link.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The link makes its own.
    Own(Sessions),
    /// The link borrows them from the user's pool.
    UserPool {
        pool: PgPool,
        /// For requests on the engine's runtime: a connection that it drives ends with the store, and the pool must get none.
        own: Sessions,
        engine: Option<Id>,
    },
}

impl Source {
    /// Returns the pool, for requests on the current runtime.
    pub(super) fn pool(&self) -> std::result::Result<&PgPool, &Sessions> {
        match self {
            Self::UserPool { own, engine, .. }
                if engine.is_some() && *engine == Handle::try_current().ok().map(|current| current.id()) =>
            {
                Err(own)
            }
            Self::UserPool { pool, .. } => Ok(pool),
            Self::Own(sessions) => Err(sessions),
        }
    }
}

impl From<PgConnectOptions> for Source {
    /// Connections of the link's own, directly to the server.
    fn from(options: PgConnectOptions) -> Self {
        let request_timeout = Duration::from_secs(2);
        let settings =
            Settings { way: Way::Direct, request_timeout, lock_wait: request_timeout, raise: false };
        Self::Own(Sessions { access: options.into(), settings })
    }
}
