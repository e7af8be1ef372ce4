//! The limiters and Bloom filters of a store whose calls are made by threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::bloom::Shape;
use stanchion_core::clock::Instant;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::{
    BloomFilter, Decision, Limiter, Quota, Reservation, ReservationBackend, Result, Ticket, blocking,
};

use super::objects::Object;
use super::on_thread;

/// A reservation of the blocking face, until it is given up.
#[derive(Debug)]
struct ThreadReservation(Mutex<Option<blocking::Reservation>>);

impl ThreadReservation {
    fn of(reservation: blocking::Reservation) -> Reservation {
        let (ticket, cost) = (reservation.ticket(), reservation.cost());
        let ready_at = Instant::from_std(reservation.ready_at());
        Reservation::new(Arc::new(Self(Mutex::new(Some(reservation)))), ticket, cost, ready_at)
    }

    fn take(&self) -> Option<blocking::Reservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl ReservationBackend for ThreadReservation {
    fn is_due(&self, _: Instant) -> bool {
        let reservation = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reservation.as_ref().is_none_or(blocking::Reservation::is_due)
    }

    async fn due(&self, _: Instant) {
        if let Some(reservation) = self.take() {
            on_thread(move || reservation.wait()).await.expect("a thread may wait");
        }
    }

    async fn cancel(&self, _: Ticket) -> Result<u64> {
        let reservation = self.take();
        on_thread(move || reservation.map_or(Ok(0), blocking::Reservation::cancel)).await
    }

    fn abandon(&self, _: Ticket, _: Instant) {
        drop(self.take());
    }
}

#[async_trait]
impl Limiter for Object<blocking::Limiter> {
    fn name(&self) -> &str {
        self.object.name()
    }

    async fn allow(&self) -> Result<Decision> {
        self.call(blocking::Limiter::allow).await
    }

    async fn allow_n(&self, cost: u64) -> Result<Decision> {
        self.call(move |limiter| limiter.allow_n(cost)).await
    }

    async fn reserve(&self, max_wait: Duration) -> Result<Option<Reservation>> {
        Ok(self.call(move |limiter| limiter.reserve(max_wait)).await?.map(ThreadReservation::of))
    }

    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        Ok(self.call(move |limiter| limiter.reserve_n(cost, max_wait)).await?.map(ThreadReservation::of))
    }

    async fn wait(&self) -> Result<()> {
        self.call(blocking::Limiter::wait).await
    }

    async fn wait_n(&self, cost: u64) -> Result<()> {
        self.call(move |limiter| limiter.wait_n(cost)).await
    }

    async fn wait_for(&self, timeout: Duration) -> Result<bool> {
        self.call(move |limiter| limiter.wait_for(timeout)).await
    }

    async fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool> {
        self.call(move |limiter| limiter.wait_n_for(cost, timeout)).await
    }

    async fn peek(&self) -> Result<Decision> {
        self.call(blocking::Limiter::peek).await
    }

    async fn until_full(&self) -> Result<()> {
        self.call(blocking::Limiter::until_full).await
    }

    async fn quota(&self) -> Result<ExactQuota> {
        self.call(blocking::Limiter::quota).await
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        self.call(move |limiter| limiter.set_quota(quota)).await
    }

    async fn reset(&self) -> Result<()> {
        self.call(blocking::Limiter::reset).await
    }
}

fn owned(items: &[&[u8]]) -> Vec<Vec<u8>> {
    items.iter().map(|item| item.to_vec()).collect()
}

fn borrowed(items: &[Vec<u8>]) -> Vec<&[u8]> {
    items.iter().map(Vec::as_slice).collect()
}

#[async_trait]
impl BloomFilter for Object<blocking::BloomFilter> {
    fn name(&self) -> &str {
        self.object.name()
    }

    fn shape(&self) -> Shape {
        self.object.shape()
    }

    async fn insert(&self, item: &[u8]) -> Result<bool> {
        let item = item.to_vec();
        self.call(move |filter| filter.insert(&item)).await
    }

    async fn insert_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        let items = owned(items);
        self.call(move |filter| filter.insert_many(&borrowed(&items))).await
    }

    async fn contains(&self, item: &[u8]) -> Result<bool> {
        let item = item.to_vec();
        self.call(move |filter| filter.contains(&item)).await
    }

    async fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        let items = owned(items);
        self.call(move |filter| filter.contains_many(&borrowed(&items))).await
    }

    async fn len_estimate(&self) -> Result<u64> {
        self.call(blocking::BloomFilter::len_estimate).await
    }

    async fn fill_ratio(&self) -> Result<f64> {
        self.call(blocking::BloomFilter::fill_ratio).await
    }

    async fn union_with(&self, other: &str) -> Result<()> {
        let other = other.to_owned();
        self.call(move |filter| filter.union_with(&other)).await
    }

    async fn clear(&self) -> Result<()> {
        self.call(blocking::BloomFilter::clear).await
    }

    async fn export(&self) -> Result<Vec<u8>> {
        self.call(blocking::BloomFilter::export).await
    }

    async fn import(&self, exported: &[u8]) -> Result<()> {
        let exported = exported.to_vec();
        self.call(move |filter| filter.import(&exported)).await
    }
}
