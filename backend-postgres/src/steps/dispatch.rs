//! Dispatches requests about mutexes, and all others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Kind;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Lane, Request, Response, Steps, by};

/// The first server number of mutexes: their lanes are away by themselves.
const MUTEXES: usize = 1;

/// Sends requests about mutexes to one set of steps, on lanes of their own, and all others to
/// another set.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    pub(crate) mutexes: Arc<dyn Steps>,
    pub(crate) rest: Arc<dyn Steps>,
}

fn is_of_mutex(request: &Request) -> bool {
    request.object().is_some_and(|object| object.kind == Kind::Mutex)
}

#[async_trait]
impl Steps for Dispatch {
    fn lane(&self, request: &Request) -> Lane {
        if !is_of_mutex(request) {
            return self.rest.lane(request);
        }
        let lane = self.mutexes.lane(request);
        Lane { server: MUTEXES + lane.server, ..lane }
    }

    /// Sends both parts concurrently, so that neither waits for the other.
    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let Some(first) = batch.first().map(is_of_mutex) else { return Vec::new() };
        if batch.iter().all(|request| is_of_mutex(request) == first) {
            let steps = if first { &self.mutexes } else { &self.rest };
            return steps.send(batch, end).await;
        }
        by(batch, is_of_mutex, |is_of_mutex, entries| {
            let (steps, entries) = (if is_of_mutex { &self.mutexes } else { &self.rest }, owned(&entries));
            async move { steps.send(&entries, end).await }
        })
        .await
    }

    fn request_timeout(&self) -> Duration {
        self.rest.request_timeout()
    }

    fn maximum_positions(&self) -> usize {
        self.rest.maximum_positions()
    }
}

fn owned(entries: &[&Request]) -> Vec<Request> {
    entries.iter().copied().cloned().collect()
}

/// A batch that is split into two, with the half of each entry.
pub(crate) struct Halves<T> {
    pub(crate) ones: Vec<T>,
    pub(crate) rest: Vec<T>,
    is_one: Vec<bool>,
}

impl<T: Clone> Halves<T> {
    pub(crate) fn of(batch: &[T], is_one: impl Fn(&T) -> bool) -> Self {
        let is_one: Vec<bool> = batch.iter().map(is_one).collect();
        let half = |wanted| {
            let entries = batch.iter().zip(&is_one).filter(move |(_, is)| **is == wanted);
            entries.map(|(entry, _)| entry.clone()).collect()
        };
        Self { ones: half(true), rest: half(false), is_one }
    }

    /// Merges the answers of both halves into the order of the batch.
    pub(crate) fn merged<A>(self, ones: Answers<A>, rest: Answers<A>) -> Answers<A> {
        let (mut ones, mut rest) = (ones.into_iter(), rest.into_iter());
        self.is_one.into_iter().filter_map(|is_one| if is_one { ones.next() } else { rest.next() }).collect()
    }
}

#[cfg(test)]
mod tests;
