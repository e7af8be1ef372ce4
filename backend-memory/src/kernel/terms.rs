//! What a handle's holds get: lease and label.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::Instant;
use stanchion_core::{HoldOptions, Result, Ttl};

/// The lease of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// From here on its guard does not believe in it: the deadline `D` (C10).
    pub(crate) deadline: Instant,
    /// From here on others may be granted (C8).
    pub(crate) end: Instant,
}

impl Lease {
    /// A lease that is not renewed.
    pub(crate) fn fixed(start: Instant, ttl: Ttl) -> Self {
        Self { deadline: start + ttl.belief(), end: start + ttl.get() }
    }
}

/// The terms of a handle's holds. One word, and nothing behind it for holds without lease and label.
#[derive(Clone, Debug)]
pub(crate) struct Terms(Option<Arc<Details>>);

#[derive(Debug)]
struct Details {
    /// Deadline and end of a lease, counted from the grant; `None` where a live guard's hold never ends.
    times: Option<(Duration, Duration)>,
    /// Shown by `inspect`.
    label: Option<Arc<str>>,
}

impl Terms {
    /// Terms of checked options. A lease that would be renewed is none here: the renewal of a guard in this process
    /// cannot fail.
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

    /// The lease of a hold granted now. A time beyond what the clock can express is no lease.
    pub(crate) fn lease(&self, now: Instant) -> Option<Box<Lease>> {
        let (deadline, end) = self.0.as_ref()?.times?;
        Some(Box::new(Lease { deadline: now.checked_add(deadline)?, end: now.checked_add(end)? }))
    }

    pub(crate) fn label(&self) -> Option<&str> {
        self.0.as_ref()?.label.as_deref()
    }
}
