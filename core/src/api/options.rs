//! Options of the objects. They are checked, without I/O, when a handle is made.

use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Result, Ttl};

/// The reaction to a parameter that differs from the store's ([C20]). A store MUST refuse a choice
/// that it does not know.
///
/// [C20]: crate::contract#c20
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMismatch {
    /// Return `ConfigMismatch`, which names both values.
    #[default]
    Refuse,
    /// Use the store's value.
    Adopt,
    /// Change the store's value, once, for all processes.
    Replace,
}

/// The longest time that an option can set, TTLs apart.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Maximum number of members that one call adds ([C27]).
///
/// [C27]: crate::contract#c27
const MAX_MEMBERS: u32 = 10_000;

/// Checks the number of members of one `add_many` ([C27]).
///
/// # Errors
/// `InvalidArgument` unless it is 1 to 10,000.
///
/// [C27]: crate::contract#c27
pub fn check_members(count: u32) -> Result<()> {
    if (1..=MAX_MEMBERS).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("one call adds 1 to 10,000 members, not {count}")))
}

/// Maximum number of items of one call on a Bloom filter ([C27]).
///
/// [C27]: crate::contract#c27
const MAX_ITEMS: usize = 10_000;

/// Checks the number of items of one call on a Bloom filter ([C27]).
///
/// # Errors
/// `InvalidArgument` if it is more than 10,000.
///
/// [C27]: crate::contract#c27
pub fn check_items(count: usize) -> Result<()> {
    if count <= MAX_ITEMS {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("one call has at most 10,000 items, not {count}")))
}

/// Checks the times that the options of every store have: the time limit of one request ([C17]),
/// and how long the state of an idle name is kept ([C25]).
///
/// # Errors
/// `InvalidArgument` unless the limit is 1 ms to 1 h and each retention time 1 s to 366 days.
///
/// [C17]: crate::contract#c17
/// [C25]: crate::contract#c25
pub fn check_times(request_timeout: Duration, retention: &[Duration]) -> Result<()> {
    if !(Duration::from_millis(1)..=Duration::from_secs(60 * 60)).contains(&request_timeout) {
        return Err(Error::invalid_argument("request_timeout is between 1 ms and 1 h"));
    }
    if !retention.iter().all(|time| (Duration::from_secs(1)..=LONGEST).contains(time)) {
        return Err(Error::invalid_argument("a retention time is between 1 s and 366 days"));
    }
    Ok(())
}

/// Options of every hold of a handle; part of [`MutexOptions`], [`SemaphoreOptions`] and
/// [`WaitGroupOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldOptions {
    /// Lease of a hold, 100 ms to 24 h. `None`: 30 s on a networked store, no lease in this
    /// process.
    pub ttl: Option<Duration>,
    /// Whether a live guard's lease is renewed.
    pub renew: bool,
    /// Maximum time of a hold: renewal ends so that no hold outlives it. `None`: no maximum.
    pub max_hold: Option<Duration>,
    /// Text that `inspect` shows, at most 512 bytes.
    pub label: Option<Arc<str>>,
    /// Maximum number of waiters of the name ([C26]). `None`: no maximum.
    ///
    /// [C26]: crate::contract#c26
    pub max_waiters: Option<u32>,
}

impl Default for HoldOptions {
    fn default() -> Self {
        Self { ttl: None, renew: true, max_hold: None, label: None, max_waiters: None }
    }
}

impl HoldOptions {
    /// Returns the lease, with the default of networked stores.
    ///
    /// # Errors
    /// `InvalidArgument` outside 100 ms to 24 h.
    pub fn ttl_or_default(&self) -> Result<Ttl> {
        self.ttl.map_or(Ok(Ttl::DEFAULT), Ttl::new)
    }

    /// Returns the first lease: the TTL, or `max_hold` if that is shorter.
    ///
    /// # Errors
    /// `InvalidArgument` outside 100 ms to 24 h.
    pub fn first_lease(&self) -> Result<Ttl> {
        let ttl = self.ttl_or_default()?;
        self.max_hold.map_or(Ok(ttl), |max| Ttl::new(max.min(ttl.get())))
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        self.ttl_or_default()?;
        if self.max_hold.is_some_and(|max| !(Ttl::MIN..=LONGEST).contains(&max)) {
            return Err(Error::invalid_argument("max_hold is between 100 ms and 366 days"));
        }
        if self.max_waiters == Some(0) {
            return Err(Error::invalid_argument("max_waiters is at least 1"));
        }
        match &self.label {
            Some(label) if label.len() > 512 => Err(Error::invalid_argument("a label has at most 512 bytes")),
            Some(label) if label.contains('\0') => Err(Error::invalid_argument("a label must not hold NUL")),
            _ => Ok(()),
        }
    }
}

macro_rules! hold_setters {
    () => {
        /// Sets the lease of a hold, 100 ms to 24 h.
        #[must_use]
        pub fn ttl(mut self, ttl: Duration) -> Self {
            self.hold.ttl = Some(ttl);
            self
        }

        /// Sets whether a live guard's lease is renewed (default: yes). Without renewal the hold
        /// ends after one TTL.
        #[must_use]
        pub fn renew(mut self, renew: bool) -> Self {
            self.hold.renew = renew;
            self
        }

        /// Sets the maximum time of a hold (100 ms to 366 days), at which renewal ends.
        #[must_use]
        pub fn max_hold(mut self, max_hold: Duration) -> Self {
            self.hold.max_hold = Some(max_hold);
            self
        }

        /// Sets a text of at most 512 bytes that `inspect` shows with each hold.
        #[must_use]
        pub fn label(mut self, label: impl AsRef<str>) -> Self {
            self.hold.label = Some(Arc::from(label.as_ref()));
            self
        }

        /// Sets the maximum number of waiters of the name, at least 1; beyond it a call ends at
        /// once with `Overloaded` ([C26]).
        ///
        /// [C26]: crate::contract#c26
        #[must_use]
        pub fn max_waiters(mut self, max_waiters: u32) -> Self {
            self.hold.max_waiters = Some(max_waiters);
            self
        }
    };
}

/// Options of a mutex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MutexOptions {
    /// Options of every hold.
    pub hold: HoldOptions,
}

impl MutexOptions {
    /// Makes the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    hold_setters!();

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }
}

/// Options of a semaphore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreOptions {
    /// The limit: the number of permits.
    pub permits: u32,
    /// Reaction if the store's limit differs.
    pub on_mismatch: OnMismatch,
    /// Options of every hold.
    pub hold: HoldOptions,
}

impl SemaphoreOptions {
    /// Maximum number of permits of one semaphore: 2^31 − 1.
    pub const MAX_PERMITS: u32 = i32::MAX.unsigned_abs();

    /// Makes options of a semaphore with that number of permits, at least 1.
    #[must_use]
    pub fn new(permits: u32) -> Self {
        Self { permits, on_mismatch: OnMismatch::default(), hold: HoldOptions::default() }
    }

    hold_setters!();

    /// Sets the reaction if the store's limit differs ([C20]).
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        check_count("permits", self.permits)?;
        self.hold.check()
    }
}

/// Options of a wait group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitGroupOptions {
    /// Maximum number of live members ([W7]). `None`: no limit.
    ///
    /// [W7]: crate::contract#w7
    pub limit: Option<u32>,
    /// Reaction if the store's limit differs.
    pub on_mismatch: OnMismatch,
    /// Options of every hold.
    pub hold: HoldOptions,
}

impl WaitGroupOptions {
    /// Makes the default options: no limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    hold_setters!();

    /// Sets the maximum number of live members, at least 1.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the reaction if the store's limit differs ([C20]).
    ///
    /// [C20]: crate::contract#c20
    #[must_use]
    pub fn on_mismatch(mut self, on_mismatch: OnMismatch) -> Self {
        self.on_mismatch = on_mismatch;
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        self.limit.map_or(Ok(()), |limit| check_count("limit", limit))?;
        self.hold.check()
    }
}

/// Checks a number of permits or members: 1 to 2^31 − 1.
///
/// # Errors
/// `InvalidArgument` naming the parameter.
pub fn check_count(parameter: &'static str, count: u32) -> Result<()> {
    if (1..=SemaphoreOptions::MAX_PERMITS).contains(&count) {
        Ok(())
    } else {
        let max = SemaphoreOptions::MAX_PERMITS;
        Err(Error::invalid_argument(format!("{parameter} is between 1 and {max}, not {count}")))
    }
}
