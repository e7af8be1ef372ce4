//! The objects of a store whose calls are made by threads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{
    BloomFilter, BloomOptions, Capabilities, Detached, Inspection, Limiter, LimiterOptions, ListOptions,
    ListPage, Member, Mutex, MutexGuard, MutexOptions, Outcome, Permit, Result, Semaphore, SemaphoreOptions,
    Stats, Store, Ticket, WaitGroup, WaitGroupOptions, blocking,
};

use super::hold::ThreadHold;
use super::on_thread;

/// Time within which a store sends what is queued, as `drain` of the asynchronous face has it.
const DRAIN: Duration = Duration::from_secs(5);

/// A store whose calls are made by threads.
#[derive(Debug)]
pub(super) struct Threaded(pub(super) blocking::Store);

/// An object of it.
#[derive(Debug)]
pub(super) struct Object<T> {
    store: &'static str,
    pub(super) object: T,
}

impl<T: Clone + Send + Sync + 'static> Object<T> {
    /// Makes a call on the object.
    pub(super) async fn call<A: Send + 'static>(
        &self,
        call: impl FnOnce(&T) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let object = self.object.clone();
        on_thread(move || call(&object)).await
    }
}

impl Threaded {
    fn object<T>(&self, object: T) -> Arc<Object<T>> {
        Arc::new(Object { store: self.0.capabilities().store, object })
    }
}

#[async_trait]
impl Store for Threaded {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        Ok(self.object(self.0.mutex(name, options)?))
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        Ok(self.object(self.0.semaphore(name, options)?))
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        Ok(self.object(self.0.wait_group(name, options)?))
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        Ok(self.object(self.0.limiter(name, options)?))
    }

    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        Ok(self.object(self.0.bloom_filter(name, options)?))
    }

    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        let (store, namespace) = (self.0.clone(), namespace.to_owned());
        Ok(Arc::new(Self(on_thread(move || store.namespace(&namespace)).await?)))
    }

    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        let store = self.0.clone();
        on_thread(move || store.list(options)).await
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    async fn ping(&self) -> Result<()> {
        let store = self.0.clone();
        on_thread(move || store.ping()).await
    }

    async fn close(&self) -> Result<()> {
        let store = self.0.clone();
        on_thread(move || store.close()).await
    }

    async fn drain(&self) -> Result<()> {
        let store = self.0.clone();
        on_thread(move || store.drain(DRAIN)).await
    }

    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.0.drain(timeout)
    }
}

impl Object<blocking::Mutex> {
    fn guard(&self, guard: blocking::MutexGuard) -> MutexGuard {
        ThreadHold::guard(self.store, guard, 1)
    }
}

#[async_trait]
impl Mutex for Object<blocking::Mutex> {
    fn name(&self) -> &str {
        self.object.name()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        Ok(self.guard(self.call(blocking::Mutex::lock).await?))
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        Ok(self.call(blocking::Mutex::try_lock).await?.map(|guard| self.guard(guard)))
    }

    async fn lock_for(&self, timeout: Duration) -> Result<Option<MutexGuard>> {
        Ok(self.call(move |mutex| mutex.lock_for(timeout)).await?.map(|guard| self.guard(guard)))
    }

    async fn attach(&self, detached: &Detached) -> Result<MutexGuard> {
        let detached = detached.clone();
        Ok(self.guard(self.call(move |mutex| mutex.attach(&detached)).await?))
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.call(blocking::Mutex::inspect).await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.call(blocking::Mutex::force_unlock).await
    }

    async fn force_unlock_of(&self, ticket: Ticket) -> Result<bool> {
        self.call(move |mutex| mutex.force_unlock_of(ticket)).await
    }
}

impl Object<blocking::Semaphore> {
    fn permit(&self, permit: blocking::Permit) -> Permit {
        let weight = permit.weight();
        ThreadHold::guard(self.store, permit, weight)
    }
}

#[async_trait]
impl Semaphore for Object<blocking::Semaphore> {
    fn name(&self) -> &str {
        self.object.name()
    }

    async fn acquire(&self) -> Result<Permit> {
        Ok(self.permit(self.call(blocking::Semaphore::acquire).await?))
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        Ok(self.permit(self.call(move |semaphore| semaphore.acquire_many(count)).await?))
    }

    async fn try_acquire(&self) -> Result<Option<Permit>> {
        Ok(self.call(blocking::Semaphore::try_acquire).await?.map(|permit| self.permit(permit)))
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        let taken = self.call(move |semaphore| semaphore.try_acquire_many(count)).await?;
        Ok(taken.map(|permit| self.permit(permit)))
    }

    async fn acquire_for(&self, timeout: Duration) -> Result<Option<Permit>> {
        let taken = self.call(move |semaphore| semaphore.acquire_for(timeout)).await?;
        Ok(taken.map(|permit| self.permit(permit)))
    }

    async fn acquire_many_for(&self, count: u32, timeout: Duration) -> Result<Option<Permit>> {
        let taken = self.call(move |semaphore| semaphore.acquire_many_for(count, timeout)).await?;
        Ok(taken.map(|permit| self.permit(permit)))
    }

    async fn attach(&self, detached: &Detached) -> Result<Permit> {
        let detached = detached.clone();
        Ok(self.permit(self.call(move |semaphore| semaphore.attach(&detached)).await?))
    }

    async fn available(&self) -> Result<u32> {
        self.call(blocking::Semaphore::available).await
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        self.call(move |semaphore| semaphore.resize(permits)).await
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.call(blocking::Semaphore::inspect).await
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.call(move |semaphore| semaphore.force_release(ticket)).await
    }
}

impl Object<blocking::WaitGroup> {
    fn member(&self, member: blocking::Member) -> Member {
        ThreadHold::guard(self.store, member, 1)
    }
}

#[async_trait]
impl WaitGroup for Object<blocking::WaitGroup> {
    fn name(&self) -> &str {
        self.object.name()
    }

    async fn add(&self) -> Result<Member> {
        Ok(self.member(self.call(blocking::WaitGroup::add).await?))
    }

    async fn add_many(&self, count: u32) -> Result<Vec<Member>> {
        let members = self.call(move |group| group.add_many(count)).await?;
        Ok(members.into_iter().map(|member| self.member(member)).collect())
    }

    async fn try_add(&self) -> Result<Option<Member>> {
        Ok(self.call(blocking::WaitGroup::try_add).await?.map(|member| self.member(member)))
    }

    async fn add_for(&self, timeout: Duration) -> Result<Option<Member>> {
        Ok(self.call(move |group| group.add_for(timeout)).await?.map(|member| self.member(member)))
    }

    async fn attach(&self, detached: &Detached) -> Result<Member> {
        let detached = detached.clone();
        Ok(self.member(self.call(move |group| group.attach(&detached)).await?))
    }

    async fn done(&self, ticket: Ticket) -> Result<()> {
        self.call(move |group| group.done(ticket)).await
    }

    async fn wait(&self) -> Result<Outcome> {
        self.call(blocking::WaitGroup::wait).await
    }

    async fn wait_for(&self, timeout: Duration) -> Result<Option<Outcome>> {
        self.call(move |group| group.wait_for(timeout)).await
    }

    async fn count(&self) -> Result<u64> {
        self.call(blocking::WaitGroup::count).await
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.call(blocking::WaitGroup::inspect).await
    }
}
