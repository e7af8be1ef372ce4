//! Opens the store that a URL names.

use std::sync::Arc;

use stanchion_core::{Error, Result, Store};

const KNOWN_SCHEMES: &str = "memory:, redis://, rediss://, redis+unix://, redis+cluster://, rediss+cluster://, \
                             redis+sentinel://, rediss+sentinel://, postgres://, postgresql://";

/// Opens the store that a URL names.
///
/// # Errors
/// - `InvalidArgument` for an unknown scheme, an unknown parameter or a malformed URL, whose wrong
///   part is named; or if the server is not of the kind that the URL names, such as a sentinel.
/// - `Unsupported` if the store's Cargo feature is off, naming it, or if the server is too old.
/// - `Unavailable` if no server answers, naming the cause and the [address](Error::address);
///   `Unauthorized` if the server refuses the credentials.
/// - `UnsafeStore` or `ConfigMismatch` if the server is configured so that it could break a
///   guarantee ([C22]).
///
/// No error contains the password, neither in its text nor in its sources ([C21]).
///
/// # Cancel safety
/// A dropped call leaves nothing behind but connections, which close.
///
/// # Examples
/// ```
/// # #[tokio::main]
/// # async fn main() -> stanchion::Result<()> {
/// let store = stanchion::connect("memory:").await?;
/// assert_eq!(store.capabilities().store, "memory");
/// # Ok(())
/// # }
/// ```
///
/// [C22]: crate::contract#c22
/// [C21]: crate::contract#c21
///
#[doc = include_str!("urls.md")]
pub async fn connect(url: &str) -> Result<Arc<dyn Store>> {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "memory" => {
            memory(rest).map_err(|error| error.in_operation("connect").context("connect", "memory", ""))
        }
        "redis" | "rediss" | "redis+unix" | "redis+cluster" | "rediss+cluster" | "redis+sentinel"
        | "rediss+sentinel" => redis(url).await.map_err(|error| error.context("connect", "redis", "")),
        "postgres" | "postgresql" => {
            postgres(url).await.map_err(|error| error.context("connect", "postgres", ""))
        }
        // The URL is not repeated: a malformed one may hold a password anywhere.
        _ => Err(Error::invalid_argument(format!("a URL begins with one of {KNOWN_SCHEMES}"))),
    }
}

#[cfg(feature = "memory")]
fn memory(rest: &str) -> Result<Arc<dyn Store>> {
    use percent_encoding::percent_decode_str;
    use stanchion_core::connect::{UrlParameters, UrlParts};
    use stanchion_memory::MemoryStore;

    if rest.contains('#') {
        return Err(Error::malformed_url(&format!("memory://{rest}")));
    }
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    if name.starts_with("//") {
        return Err(Error::invalid_argument("a memory URL has no host: write `memory:` or `memory:NAME`"));
    }
    let decoded = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| Error::invalid_argument("the namespace of the URL is not UTF-8"))?;
        Ok((key.to_owned(), value.into_owned()))
    };
    let pairs: Result<Vec<(String, String)>> =
        query.split('&').filter(|pair| !pair.is_empty()).map(decoded).collect();
    let url = format!("memory:///?{query}");
    let mut parameters = UrlParameters::new(&UrlParts::read(&url, "memory", &["memory"])?, pairs?);
    let namespace = parameters.text("namespace")?;
    parameters.end()?;
    let store = if name.is_empty() { MemoryStore::new() } else { MemoryStore::named(name) };
    Ok(Arc::new(match namespace {
        Some(namespace) => store.namespace(&namespace)?,
        None => store,
    }))
}

#[cfg(not(feature = "memory"))]
fn memory(_: &str) -> Result<Arc<dyn Store>> {
    Err(Error::new(
        stanchion_core::ErrorKind::Unsupported,
        "turn on the Cargo feature `memory` of `stanchion`",
    ))
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(stanchion_redis::RedisStore::connect(url).await?))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> std::future::Ready<Result<Arc<dyn Store>>> {
    let detail = "turn on the Cargo feature `redis` of `stanchion`";
    std::future::ready(Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail)))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(stanchion_postgres::PostgresStore::connect(url).await?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str) -> std::future::Ready<Result<Arc<dyn Store>>> {
    let detail = "turn on the Cargo feature `postgres` of `stanchion`";
    std::future::ready(Err(Error::new(stanchion_core::ErrorKind::Unsupported, detail)))
}
