//! A live web page over the locks, semaphores, wait groups and limiters of a store of `stanchion`,
//! and the same as JSON and as metrics: a router of [axum].
//!
//! The program `stanchion` serves it by `stanchion serve`. A service of one's own can have it
//! beside its other pages:
//!
//! ```
//! # use stanchion_core::Store;
//! use std::sync::Arc;
//!
//! use axum::Router;
//! use stanchion_web::Dashboard;
//!
//! # fn app(store: Arc<dyn Store>) -> stanchion_core::Result<Router> {
//! // Put it behind the service's own login: without a token it shows everything to everybody.
//! let locks = Dashboard::new(store).title("Locks of the shop").into_router()?;
//! # Ok(
//! Router::new().nest("/locks", locks)
//! # )
//! # }
//! # let _ = app(Arc::new(stanchion_memory::MemoryStore::new()));
//! ```
//!
//! # Paths
//! All paths are below that of the router. A time that ends in `_at_ms` is by the dashboard's
//! clock, in milliseconds; `now_ms` is the reading of that clock at the answer. Only differences
//! mean something. Any other `_ms` is a length. `null` stands for a value that the store does not
//! know or the kind does not have; `used_at_ms` is `null` also while a name is in use.
//!
//! | path | answer |
//! | --- | --- |
//! | `/` | the page, which needs nothing from elsewhere |
//! | `/events` | server-sent events named `look`: first everything, then the changes; `kind` and `prefix` as below |
//! | `/api/v1/names?kind=mutex&prefix=jobs/` | up to 2,000 names with their holds, of the kind and with the beginning that are given |
//! | `/api/v1/names/{kind}/{name}` | one name, asked for now; the name is percent-encoded |
//! | `/api/v1/health` | 200 if the latest look succeeded, else 503 |
//! | `/api/v1/unlock` | by `POST` of `{"kind", "name", "ticket"}`: ends that hold; `{"freed": true}` or `false` |
//! | `/metrics` | totals by kind, as OpenMetrics; without them while the store is away |
//!
//! A refusal has a status of its own and `{"error": "…", "kind": "…"}`, where `kind` is the
//! [kind](stanchion_core::ErrorKind::as_str) of an error of the library, otherwise `null`. After
//! `unknown`, and after an answer 5xx that a proxy gives in the place of the dashboard, the hold
//! may have been ended or not. A name is written as:
//!
//! | field | is |
//! | --- | --- |
//! | `kind`, `name` | `mutex`, `semaphore`, `wait_group`, `limiter` or `bloom_filter`, and the name as it is, with control characters |
//! | `holders`, `weight` | number of holds, and of the permits or members that they have together |
//! | `waiters` | number of queued acquisitions |
//! | `limit` | permits of a semaphore, members of a wait group, burst of a limiter, capacity of a Bloom filter |
//! | `tokens` | whole tokens of a limiter that can be taken at once |
//! | `used_at_ms` | when a hold ended or a limiter was asked for the last time |
//! | `holds` | the holds, oldest first, as far as they were asked for |
//! | `holds[].label`, `ticket`, `token`, `weight` | of each its label, ticket, fencing token (a text of digits) and permits |
//! | `holds[].granted_at_ms`, `lease_ends_at_ms` | when it began, and when its lease ends unless that is renewed |
//! | `holds[].lease_ms` | the longest rest of the lease that was seen: about its length |
//!
//! With a list come `store` (its kind), `took_ms` (the length of the look), `more` (there are more
//! names than are listed) and `error` (why the store could not be looked at: the names are of an
//! earlier look). An event has besides `full` (it replaces all that was sent), `set` (names that
//! are new or have changed), `gone` (pairs of kind and name), `title`, `unlock` (locks can be
//! freed), and `points`, which have totals at `at_ms`: `names`, `held`, `waiting` and
//! `began_per_s`, the holds that were seen to begin per second. A connection that broke off needs
//! no more than a new request.
//!
//! A request that a browser makes for a page of another site is refused with 403, except for the
//! files of the page and where a link is followed.
//!
//! # Cost
//! All viewers share one look at a time. A look lists all names that have state, up to 2,000, which
//! costs as much as [`Store::list`] does, and asks for the holds of up to 500 names: names that
//! have changed first, then names that were asked for the longest time ago. Without a viewer the
//! store is not looked at, except by [`Dashboard::watch`]. After a look that took long there is a
//! pause of four times that length, of the same length if it failed. A look fails at the first
//! request that finds the store away, so that an outage is shown within the time limit of one or
//! two requests.
//!
//! Where there are more names, each kind has an equal share of the list, in which names in use come
//! before idle ones: idle limiters, however many, hide no mutex that is held. For that the kinds
//! are listed one by one as well. See [`Overview`]. And a viewer can search the whole store by kind
//! and beginning: such a search looks in the same way, for as long as it is on the page. Of several
//! searches one looks at a time, and the pause after it is one for all of them.
//!
//! # What is not guaranteed
//! A hold that begins and ends between two looks is not seen. The number of waiters is known, but
//! not their labels.

mod access;
mod api;
mod look;
mod messages;
mod metrics;
mod overview;
mod page;
mod row;
mod search;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Router, middleware};
use stanchion_core::{Error, Result, Store};

use self::access::Access;
use self::look::{Scope, Watch};
pub use self::overview::{Overview, Seen};
use self::search::Searches;

/// Bounds of the interval.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);
/// Maximum length of a request's body, in bytes: that of the longest name with all characters
/// escaped, and some more.
const MAX_BODY: usize = 8 * 1024;

/// A page over a store. By default it shows all names of the store's namespace to everybody that
/// can reach it, about once a second, and frees nothing.
#[derive(Debug)]
#[must_use]
pub struct Dashboard {
    store: Arc<dyn Store>,
    prefix: String,
    title: String,
    interval: Duration,
    access: Access,
}

impl Dashboard {
    /// Makes a dashboard of a store, or of a [namespace](stanchion_core::Store::namespace) of it.
    /// No I/O.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let (prefix, title) = (String::new(), "stanchion".to_owned());
        Self { store, prefix, title, interval: Duration::from_secs(1), access: Access::default() }
    }

    /// Shows, and frees, only names that begin with this text, at most 512 bytes.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the heading of the page.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the time between two looks at the store, 200 ms to 1 h.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the token that requests show in `Authorization: Bearer`. Without
    /// [`token_to_read`](Self::token_to_read) only the freeing of a lock needs it.
    pub fn token(mut self, token: impl AsRef<str>) -> Self {
        self.access.set_token(token.as_ref());
        self
    }

    /// Sets whether every request needs the token, except for the page's own files.
    pub fn token_to_read(mut self, is_needed: bool) -> Self {
        self.access.protects_reads = is_needed;
        self
    }

    /// Sets whether mutexes and semaphores can be freed. `label` names the page in the store's log.
    pub fn allow_unlock(mut self, label: impl Into<String>) -> Self {
        self.access.unlock = Some(label.into());
        self
    }

    /// Answers only requests for these hosts, by whatever port. A page of another site cannot then
    /// reach a dashboard on the machine of its reader by a name of its own for `127.0.0.1` (DNS
    /// rebinding).
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.access.set_hosts(hosts.into_iter().map(Into::into));
        self
    }

    /// Makes the router. No I/O: the first request looks at the store.
    ///
    /// To be nested, not merged: it answers paths that there are not.
    ///
    /// Without [`hosts`](Self::hosts) it answers to every name, as the service does that it is
    /// nested into: name the hosts here, or let the service refuse others, so that no page of
    /// another site reaches it by a name of its own for this address. The limits of connections
    /// (how many, and how long an idle one lives) are those of the service, too.
    ///
    /// # Errors
    /// `InvalidArgument` if the interval is out of range, or if locks can be freed or reads need a
    /// token and there is no token.
    pub fn into_router(self) -> Result<Router> {
        self.build().map(|(router, _)| router)
    }

    /// Makes the router, and a future that looks at the store also while nobody watches, so that
    /// the plots of the page have the last ten minutes. The future never ends; dropping it stops
    /// the looks.
    ///
    /// # Errors
    /// As [`into_router`](Self::into_router).
    pub fn watch(self) -> Result<(Router, impl Future<Output = ()> + Send + 'static)> {
        let (router, app) = self.build()?;
        let looks = async move {
            let mut number = 0;
            loop {
                number = app.watch.next(number).await.number;
            }
        };
        Ok((router, looks))
    }

    fn build(self) -> Result<(Router, Arc<App>)> {
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&self.interval) {
            return Err(Error::invalid_argument("the interval of a dashboard is between 200 ms and 1 h"));
        }
        self.access.check()?;
        let scope = Scope { kind: None, prefix: self.prefix };
        let watch = Arc::new(Watch::new(self.store, scope, self.interval));
        let searches = Searches::new(Arc::clone(&watch));
        let app = Arc::new(App { watch, searches, title: self.title, access: self.access });
        let page = Router::new().route("/", get(page::index));
        let files = page::FILES.into_iter();
        let router = files
            .fold(page, |router, (path, kind, text)| router.route(path, page::file(kind, text)))
            .route("/events", get(messages::events))
            .route("/metrics", get(metrics::metrics))
            .route("/api/v1/names", get(api::names))
            .route("/api/v1/names/{kind}/{name}", get(api::name))
            .route("/api/v1/health", get(api::health))
            .route("/api/v1/unlock", post(api::unlock).layer(DefaultBodyLimit::max(MAX_BODY)))
            .fallback(api::not_found)
            .method_not_allowed_fallback(api::method_not_allowed)
            .layer(middleware::from_fn_with_state(Arc::clone(&app), access::check))
            .with_state(Arc::clone(&app));
        Ok((router, app))
    }
}

/// State that all requests share.
#[derive(Debug)]
struct App {
    /// The names that all viewers see first.
    watch: Arc<Watch>,
    searches: Searches,
    title: String,
    access: Access,
}
