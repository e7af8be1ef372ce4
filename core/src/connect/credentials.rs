//! Credentials that change: a user's program gives those of each connection.

use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::{Error, ErrorKind, Result};

/// The credentials of a user of a server. `Debug` does not show the password.
#[derive(Clone)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// The password of the server's default user, or of the user that the store was told otherwise.
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// The name and the password of a user.
    #[must_use]
    pub fn user(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// For authors of stores: returns the name, if there is one, and the password.
    #[must_use]
    pub fn into_parts(self) -> (Option<String>, String) {
        (self.user, self.password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

type Provided = std::result::Result<Credentials, Box<dyn StdError + Send + Sync>>;

/// For authors of stores: asks the user's program for the credentials of each new connection.
#[derive(Clone)]
pub struct CredentialsProvider(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>);

impl CredentialsProvider {
    /// Makes a provider of the function that a user gives.
    pub fn new<F>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Provided> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(provide())))
    }

    /// Returns the credentials of this moment.
    ///
    /// # Errors
    /// `Unavailable` if the user's program has none, or panics.
    pub async fn credentials(&self) -> Result<Credentials> {
        let failed = |detail| Error::new(ErrorKind::Unavailable, detail);
        let provided = AssertUnwindSafe(async { self.0().await }).catch_unwind().await;
        provided
            .map_err(|_| failed("the program panicked when it was asked for credentials"))?
            .map_err(|error| failed("the program gave no credentials").with_source(error))
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsProvider").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c21_debug_shows_no_password() {
        assert!(!format!("{:?}", Credentials::user("me", "s3cret")).contains("s3cret"));
    }
}
