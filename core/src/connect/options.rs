//! The options that every networked store has.

use std::time::Duration;

use super::UrlParameters;
use crate::Result;
use crate::api::check_times;
use crate::engine::{Background, StepsWrap, check_namespace};
use crate::observe::events::SLOW_WAIT;

/// For authors of stores: the options that every networked store has. The builder of a store keeps
/// them in its field `options`, and has their methods by
/// [`network_options!`](crate::network_options).
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// The namespace.
    pub namespace: String,
    /// Time limit of one request.
    pub request_timeout: Duration,
    /// How long the drop of the last thing of the store waits.
    pub drain: Duration,
    /// From which duration on a finished wait is logged.
    pub slow_wait: Duration,
    /// What wraps the steps before the engine uses them.
    pub wrap: Option<StepsWrap>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            namespace: "stanchion".to_owned(),
            request_timeout: Duration::from_secs(2),
            drain: Background::DRAIN,
            slow_wait: SLOW_WAIT,
            wrap: None,
        }
    }
}

impl NetworkOptions {
    /// Takes `namespace` and `request_timeout_ms` off a URL.
    ///
    /// # Errors
    /// `InvalidArgument` if one is malformed or given twice.
    pub fn of_url(parameters: &mut UrlParameters) -> Result<Self> {
        let mut options = Self::default();
        options.namespace = parameters.text("namespace")?.unwrap_or(options.namespace);
        let timeout = parameters.milliseconds("request_timeout_ms")?;
        options.request_timeout = timeout.unwrap_or(options.request_timeout);
        Ok(options)
    }

    /// Checks them, and the retention times of the store.
    ///
    /// # Errors
    /// `InvalidArgument` naming an option that is out of range.
    pub fn check(&self, retention: &[Duration]) -> Result<()> {
        check_namespace(&self.namespace)?;
        check_times(self.request_timeout, retention)
    }
}

/// For authors of stores: the methods of a builder that set its
/// [`NetworkOptions`](crate::connect::NetworkOptions).
#[doc(hidden)]
#[macro_export]
macro_rules! network_options {
    () => {
        /// Sets the namespace, 1 to 64 of `A-Z a-z 0-9 _ . -` (default `stanchion`). Namespaces do
        /// not see each other.
        #[must_use]
        pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
            self.options.namespace = namespace.into();
            self
        }

        /// Sets the time limit of one request, 1 ms to 1 h (default 2 s). If a third of the lease
        /// is less, that is the limit ([C17]).
        ///
        /// [C17]: stanchion_core::contract#c17
        #[must_use]
        pub fn request_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.options.request_timeout = timeout;
            self
        }

        /// Sets how long the drop of the last thing of this store blocks its thread (default 250
        /// ms, at most 1 min), until what earlier drops queued is sent: releases, cancels, refunds
        /// ([C12]). Zero does not wait.
        ///
        /// A program that drops its store before it ends so leaves nothing held. The drop uses the
        /// engine's own thread and connections. It blocks the worker of a runtime on which it
        /// happens: [`close`](stanchion_core::Store::close) before avoids that.
        ///
        /// [C12]: stanchion_core::contract#c12
        #[must_use]
        pub fn drain(mut self, time: ::std::time::Duration) -> Self {
            self.options.drain = time;
            self
        }

        /// Sets the duration from which a finished wait for a hold is logged at `info`, with its
        /// name and how it ended (default 1 s). Any duration is legal: zero logs every acquisition,
        /// `Duration::MAX` none.
        #[must_use]
        pub fn slow_wait(mut self, time: ::std::time::Duration) -> Self {
            self.options.slow_wait = time;
            self
        }

        /// For authors of stores: wraps the steps before the engine uses them, as
        /// `stanchion_conformance::faulty` does to lose and double requests.
        #[must_use]
        pub fn with_steps(
            mut self,
            wrap: impl Fn($crate::engine::EngineSteps) -> $crate::engine::EngineSteps + Send + Sync + 'static,
        ) -> Self {
            self.options.wrap = Some($crate::engine::StepsWrap::new(wrap));
            self
        }
    };
}
