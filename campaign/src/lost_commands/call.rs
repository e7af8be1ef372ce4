//! The calls, their contention, and the losses.

use std::fmt;

use stanchion_core::Kind;

use stanchion_testbed::faults::{Action, Then};

/// A call that acquires or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// `Mutex::lock`.
    Lock,
    /// `Mutex::try_lock`.
    TryLock,
    /// `Mutex::lock_for`.
    TryLockFor,
    /// `Mutex::attach`.
    AttachMutex,
    /// `Semaphore::acquire_many`, two of three.
    Acquire,
    /// `Semaphore::try_acquire_many`, two of three.
    TryAcquire,
    /// `Semaphore::acquire_many_for`, two of three.
    TryAcquireFor,
    /// `Semaphore::attach`.
    AttachPermit,
    /// `WaitGroup::add_many`, two of three.
    Add,
    /// `WaitGroup::add_for`.
    TryAddFor,
    /// `WaitGroup::attach`.
    AttachMember,
    /// `WaitGroup::wait`.
    Wait,
    /// `WaitGroup::wait_for`.
    WaitFor,
    /// `Limiter::allow_n`.
    Allow,
    /// `Limiter::reserve_n`.
    Reserve,
    /// `Limiter::wait_n`.
    WaitTokens,
    /// `Limiter::wait_n_for`.
    WaitTokensFor,
}

impl Call {
    /// All calls.
    pub const ALL: [Self; 17] = [
        Self::Lock,
        Self::TryLock,
        Self::TryLockFor,
        Self::AttachMutex,
        Self::Acquire,
        Self::TryAcquire,
        Self::TryAcquireFor,
        Self::AttachPermit,
        Self::Add,
        Self::TryAddFor,
        Self::AttachMember,
        Self::Wait,
        Self::WaitFor,
        Self::Allow,
        Self::Reserve,
        Self::WaitTokens,
        Self::WaitTokensFor,
    ];

    /// Returns the kind of its object.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Lock | Self::TryLock | Self::TryLockFor | Self::AttachMutex => Kind::Mutex,
            Self::Acquire | Self::TryAcquire | Self::TryAcquireFor | Self::AttachPermit => Kind::Semaphore,
            Self::Add | Self::TryAddFor | Self::AttachMember | Self::Wait | Self::WaitFor => Kind::WaitGroup,
            Self::Allow | Self::Reserve | Self::WaitTokens | Self::WaitTokensFor => Kind::Limiter,
        }
    }

    /// Returns whether the call takes over a detached hold (C24).
    #[must_use]
    pub fn attaches(self) -> bool {
        matches!(self, Self::AttachMutex | Self::AttachPermit | Self::AttachMember)
    }

    /// Returns whether the call waits through outages: only an error that waiting cannot fix ends
    /// it (C17).
    pub(super) fn rides_out(self) -> bool {
        matches!(self, Self::Lock | Self::Acquire | Self::Add | Self::Wait)
    }

    /// Returns whether the call makes only one attempt.
    pub(super) fn is_one_attempt(self) -> bool {
        matches!(self, Self::TryLock | Self::TryAcquire | Self::Allow | Self::Reserve) || self.attaches()
    }

    /// Returns the contentions under which the call is tried.
    pub(super) fn contentions(self) -> &'static [Contention] {
        match self {
            Self::Lock | Self::Acquire | Self::Add | Self::Wait => &[Contention::Free, Contention::Releasing],
            Self::TryLock | Self::TryAcquire | Self::Allow | Self::Reserve | Self::WaitTokens => {
                &[Contention::Free, Contention::Held]
            }
            Self::TryLockFor | Self::TryAcquireFor | Self::TryAddFor => {
                &[Contention::Free, Contention::Releasing, Contention::Held]
            }
            Self::WaitFor => &[Contention::Releasing, Contention::Held],
            Self::AttachMutex | Self::AttachPermit | Self::AttachMember => &[Contention::Free],
            Self::WaitTokensFor => &[Contention::Free, Contention::Held],
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lock => "mutex.lock",
            Self::TryLock => "mutex.try_lock",
            Self::TryLockFor => "mutex.lock_for",
            Self::AttachMutex => "mutex.attach",
            Self::Acquire => "semaphore.acquire_many",
            Self::TryAcquire => "semaphore.try_acquire_many",
            Self::TryAcquireFor => "semaphore.acquire_many_for",
            Self::AttachPermit => "semaphore.attach",
            Self::Add => "wait_group.add_many",
            Self::TryAddFor => "wait_group.add_for",
            Self::AttachMember => "wait_group.attach",
            Self::Wait => "wait_group.wait",
            Self::WaitFor => "wait_group.wait_for",
            Self::Allow => "limiter.allow_n",
            Self::Reserve => "limiter.reserve_n",
            Self::WaitTokens => "limiter.wait_n",
            Self::WaitTokensFor => "limiter.wait_n_for",
        })
    }
}

/// The state of the object before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contention {
    /// Free: no holder, no member, a full bucket.
    Free,
    /// Another holder has everything, and releases it while the call waits.
    Releasing,
    /// Another holder keeps everything, or the bucket is empty.
    Held,
}

/// The loss of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Whether the request arrives, and only its reply is lost.
    pub arrives: bool,
    /// What happens to the connection afterwards.
    pub then: Then,
    /// Whether the call's future is dropped after the loss.
    pub dropped: bool,
}

impl Loss {
    /// Returns all losses.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for then in [Then::Fin, Then::Reset, Then::Silence] {
            all.push(Self { arrives: true, then, dropped: false });
            all.push(Self { arrives: false, then, dropped: false });
            all.push(Self { arrives: true, then, dropped: true });
        }
        all
    }

    pub(super) fn action(self) -> Action {
        if self.arrives { Action::DropReply(self.then) } else { Action::DropRequest(self.then) }
    }
}

/// The selection of losses to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Losses {
    /// All losses for a call with one attempt, and for any call on a free object. A waiting call
    /// has more commands: each command is lost with only one kind of connection end, which changes
    /// with the command and the call. Across the calls, all are tried.
    Rotated,
    /// All losses for every call.
    All,
}

/// The environment variable that selects [`Losses::All`], whatever its value.
pub const ALL_LOSSES_VARIABLE: &str = "STANCHION_ALL_LOSSES";

impl Losses {
    /// Returns the selection by [`ALL_LOSSES_VARIABLE`].
    #[must_use]
    pub fn of_environment() -> Self {
        if std::env::var_os(ALL_LOSSES_VARIABLE).is_some() { Self::All } else { Self::Rotated }
    }

    /// Returns the losses to try for the k-th command.
    pub(super) fn of(self, call: Call, contention: Contention, k: u64) -> Vec<Loss> {
        let mut losses = Loss::all();
        if self == Self::Rotated
            && (contention == Contention::Releasing
                || !call.is_one_attempt() && contention == Contention::Held)
        {
            let turn = k.wrapping_add(call as u64) % 3;
            losses.retain(|loss| loss.then as u64 == turn);
        }
        losses
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.arrives { "reply" } else { "request" };
        let end = if self.dropped { ", then the future dropped" } else { "" };
        write!(f, "{what} lost ({:?}){end}", self.then)
    }
}
