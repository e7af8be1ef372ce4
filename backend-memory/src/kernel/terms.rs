//! The terms of a handle's holds: lease and label.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{HoldOptions, Result, Ttl};

/// The lease of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The deadline `D`, from which on the guard no longer relies on the hold (C10).
    pub(crate) deadline: Instant,
    /// The end, from which on other callers may be granted (C8).
    pub(crate) end: Instant,
}

impl Lease {
    /// Returns a lease that is not renewed.
    pub(crate) fn fixed(start: Instant, ttl: Ttl) -> Self {
        Self { deadline: start + ttl.belief(), end: start + ttl.get() }
    }
}

/// The terms of a handle's holds. One word, without an allocation for holds that have neither lease
/// nor label.
#[derive(Clone, Debug)]
pub(crate) struct Terms(Option<Arc<Details>>);

#[derive(Debug)]
struct Details {
    /// Deadline and end of a lease, counted from the grant; `None` if a live guard's hold never
    /// ends.
    times: Option<(Duration, Duration)>,
    /// Shown by `inspect`.
    label: Option<Arc<str>>,
}

impl Terms {
    /// Returns the terms of checked options. A lease that would be renewed counts as no lease: the
    /// renewal of a guard in this process cannot fail.
    pub(crate) fn new(options: &HoldOptions) -> Result<Self> {
        let first = options.first_lease()?;
        let ttl = if options.renew || options.ttl.is_none() { None } else { Some(first.get()) };
        let end = match (ttl, options.max_hold) {
            (Some(ttl), Some(max)) => Some(ttl.min(max)),
            (ttl, max) => ttl.or(max),
        };
        let margin = first.get().saturating_sub(first.belief());
        let times = end.map(|end| (end.saturating_sub(margin), end));
        let details = Details { times, label: options.label.clone() };
        let plain = details.times.is_none() && details.label.is_none();
        Ok(Self((!plain).then(|| Arc::new(details))))
    }

    /// Returns the lease of a hold granted now. A time that the clock cannot express means no
    /// lease.
    pub(crate) fn lease(&self, now: Instant) -> Option<Box<Lease>> {
        let (deadline, end) = self.0.as_ref()?.times?;
        Some(Box::new(Lease { deadline: now.checked_add(deadline)?, end: now.checked_add(end)? }))
    }

    pub(crate) fn label(&self) -> Option<&str> {
        self.0.as_ref()?.label.as_deref()
    }
}
