//! The semaphore of threads.

use std::time::Duration;

use super::{Object, Permit};
use crate::{Detached, Inspection, Result, Ticket};

/// A named counting semaphore, as [`stanchion::Semaphore`](crate::Semaphore), for threads.
pub type Semaphore = Object<dyn crate::Semaphore>;

impl Semaphore {
    /// Takes one permit, waiting without a time limit.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self) -> Result<Permit> {
        self.blocked("acquire", self.0.acquire()).map(Permit::from)
    }

    /// Takes `count` permits together, waiting without a time limit.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub fn acquire_many(&self, count: u32) -> Result<Permit> {
        self.blocked("acquire_many", self.0.acquire_many(count)).map(Permit::from)
    }

    /// Takes one permit if one is free and there is no live waiter; `None` otherwise.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        self.blocked("try_acquire", self.0.try_acquire()).map(|permit| permit.map(Permit::from))
    }

    /// Takes `count` permits if they are free and there is no live waiter; `None` otherwise.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    pub fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        self.blocked("try_acquire_many", self.0.try_acquire_many(count))
            .map(|permit| permit.map(Permit::from))
    }

    /// Takes one permit, waiting at most `timeout`; `None` if the time ran out. Zero is one
    /// attempt.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::acquire_for`](crate::Semaphore::acquire_for).
    pub fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.blocked("acquire_for", self.0.acquire_for(timeout)).map(|permit| permit.map(Permit::from))
    }

    /// Takes `count` permits, waiting at most `timeout`; `None` if the time ran out. Zero is one
    /// attempt.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::acquire_many_for`](crate::Semaphore::acquire_many_for).
    pub fn acquire_many_for(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        self.blocked("acquire_many_for", self.0.acquire_many_for(count, timeout))
            .map(|permit| permit.map(Permit::from))
    }

    /// Takes over a detached permit.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::attach`](crate::Semaphore::attach).
    pub fn attach(&self, detached: &Detached) -> Result<Permit> {
        self.blocked("attach", self.0.attach(detached)).map(Permit::from)
    }

    /// Returns the number of free permits at this instant.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::available`](crate::Semaphore::available).
    pub fn available(&self) -> Result<u32> {
        self.blocked("available", self.0.available())
    }

    /// Changes the limit for all processes.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::resize`](crate::Semaphore::resize).
    pub fn resize(&self, permits: u32) -> Result<()> {
        self.blocked("resize", self.0.resize(permits))
    }

    /// Returns the holders and the number of waiters.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::inspect`](crate::Semaphore::inspect).
    pub fn inspect(&self) -> Result<Inspection> {
        self.blocked("inspect", self.0.inspect())
    }

    /// Releases the permits of that ticket; `true` if it held any.
    ///
    /// # Errors
    /// As [`stanchion::Semaphore::force_release`](crate::Semaphore::force_release).
    pub fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.blocked("force_release", self.0.force_release(ticket))
    }
}
