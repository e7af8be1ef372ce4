//! The JSON API.

use std::str::FromStr as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stanchion_core::{Error, ErrorKind, Kind, ListOptions, Listed, Name, StoreExt as _, Ticket};

use crate::App;
use crate::look::{Scope, Watch};
use crate::row::{Millis, Row, has_holders, millis};

/// A request that is not carried out.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    /// The kind, where it is an error of the library.
    kind: Option<ErrorKind>,
    text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, kind: None, text: text.into() }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "this needs the dashboard's token")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        // No error of the library contains a password.
        Self { kind: Some(error.kind()), ..Self::new(status, error.to_string()) }
    }
}

/// What the address of a request says; a refusal of it is one as all others.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Refusal::new(rejection.status(), rejection.body_text())),
        }
    }
}

/// Answers a path that there is not.
pub(crate) async fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such path")
}

/// Answers a method that a path does not know.
pub(crate) async fn method_not_allowed() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not know this method")
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.text, "kind": self.kind.map(ErrorKind::as_str) }));
        if self.status == StatusCode::UNAUTHORIZED {
            return (self.status, [(WWW_AUTHENTICATE, "Bearer")], body).into_response();
        }
        (self.status, body).into_response()
    }
}

/// Which names a request is about.
#[derive(Debug, Deserialize)]
pub(crate) struct Filter {
    kind: Option<String>,
    #[serde(default)]
    prefix: String,
}

impl Filter {
    pub(crate) fn scope(&self) -> Result<Scope, Refusal> {
        let kind = self.kind.as_deref().map(kind_of).transpose()?;
        ListOptions::new().prefix(&self.prefix).check()?;
        Ok(Scope { kind, prefix: self.prefix.clone() })
    }
}

impl App {
    /// Returns the look at these names.
    pub(crate) fn watch_of(&self, scope: &Scope) -> Result<Arc<Watch>, Refusal> {
        let own = &self.watch.scope.prefix;
        if *scope == Scope::default() || *scope == self.watch.scope {
            return Ok(Arc::clone(&self.watch));
        }
        if scope.prefix.is_empty() {
            return Ok(self.searches.watch(&Scope { prefix: own.clone(), ..scope.clone() }));
        }
        self.check_name(&scope.prefix)?;
        Ok(self.searches.watch(scope))
    }

    /// Refuses a name that the dashboard does not show.
    fn check_name(&self, name: &str) -> Result<(), Refusal> {
        let own = &self.watch.scope.prefix;
        if name.starts_with(own) {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::NOT_FOUND, format!("the names here begin with {own:?}")))
    }
}

#[derive(Debug, Serialize)]
struct Names<'a> {
    now_ms: Millis,
    store: &'a str,
    took_ms: u64,
    more: bool,
    error: Option<&'a str>,
    names: Vec<&'a Row>,
}

pub(crate) async fn names(
    State(app): State<Arc<App>>,
    Asked(filter): Asked<Filter>,
) -> Result<Response, Refusal> {
    let scope = filter.scope()?;
    let mut look = app.watch.look().await;
    // The overview of all viewers may be complete.
    if look.more {
        look = app.watch_of(&scope)?.look().await;
    }
    let is_meant = |row: &&Row| {
        scope.kind.is_none_or(|kind| row.kind == kind.as_str()) && row.name.starts_with(&scope.prefix)
    };
    let names = Names {
        now_ms: app.watch.now(),
        store: app.watch.store.capabilities().store,
        took_ms: millis(look.took),
        more: look.more,
        error: look.error.as_deref(),
        names: look.rows.values().map(AsRef::as_ref).filter(is_meant).collect(),
    };
    Ok(Json(names).into_response())
}

fn kind_of(text: &str) -> Result<Kind, Refusal> {
    let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == text);
    kind.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "there is no such kind"))
}

#[derive(Debug, Serialize)]
struct One<'a> {
    now_ms: Millis,
    #[serde(flatten)]
    row: &'a Row,
}

/// Answers with one name. Its holds are asked for now; its other figures are of the latest look.
pub(crate) async fn name(
    State(app): State<Arc<App>>,
    asked: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path((kind, name)) = asked?;
    let kind = kind_of(&kind)?;
    let name = Name::new(&name)?;
    app.check_name(name.as_str())?;
    let look = app.watch.look().await;
    let known = look.rows.get(&(kind.as_str(), name.as_str().to_owned()));
    let mut row = match known {
        Some(row) => Row::clone(row),
        None => Row::new(&Listed::new(kind, name.clone()), app.watch.now(), None),
    };
    if has_holders(kind.as_str()) {
        let state = app.watch.store.inspect(kind, name.as_str()).await?;
        row.inspected(&state, app.watch.now());
        row.limit = state.limit.map(u64::from).or(row.limit);
    }
    if known.is_none() && row.holds.is_empty() && row.waiters.unwrap_or_default() == 0 {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no such name has state"));
    }
    Ok(Json(One { now_ms: app.watch.now(), row: &row }).into_response())
}

pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    match &app.watch.look().await.error {
        None => Ok(Json(json!({ "status": "ok" })).into_response()),
        Some(error) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unlock {
    kind: String,
    name: String,
    ticket: String,
}

/// Ends the hold that was seen with that ticket, not the hold of a later holder.
pub(crate) async fn unlock(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    meant: Result<Json<Unlock>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Some(label) = &app.access.unlock else {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "this dashboard frees no locks"));
    };
    app.access.admit(&headers).await?;
    let Json(meant) = meant?;
    let kind = kind_of(&meant.kind)?;
    app.check_name(&meant.name)?;
    if !matches!(kind, Kind::Mutex | Kind::Semaphore) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "only mutexes and semaphores can be freed"));
    }
    let ticket = Ticket::from_str(&meant.ticket)?;
    // The store's own record has it, with the label.
    let freed = app.watch.store.force_free(kind, &meant.name, ticket, label).await?;
    Ok(Json(json!({ "freed": freed })).into_response())
}
