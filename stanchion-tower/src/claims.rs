//! Which limiters the layers of this process have: two layers with the same ones could replace each
//! other's quota at the store, and the keys of one could be those of the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stanchion_core::{Error, ErrorKind, Result, Store};

/// A store, by its address, and a prefix.
type Place = (usize, Arc<str>);

static CLAIMS: Mutex<BTreeSet<Place>> = Mutex::new(BTreeSet::new());

/// The limiters of one prefix, as long as a layer has them. It is dropped before the store.
#[derive(Debug)]
pub(crate) struct Claim(Place);

fn claims() -> MutexGuard<'static, BTreeSet<Place>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims the limiters of a prefix.
///
/// # Errors
/// `ConfigMismatch` if another layer of this process has them.
pub(crate) fn claim(store: &Arc<dyn Store>, prefix: &Arc<str>) -> Result<Arc<Claim>> {
    let place = (Arc::as_ptr(store).addr(), Arc::clone(prefix));
    if claims().insert(place.clone()) {
        return Ok(Arc::new(Claim(place)));
    }
    let prefix = Error::shown(prefix);
    let detail = format!(
        "another layer of this process has the prefix {prefix}: give each a prefix of its own, or clone the layer"
    );
    Err(Error::new(ErrorKind::ConfigMismatch, detail))
}

impl Drop for Claim {
    fn drop(&mut self) {
        claims().remove(&self.0);
    }
}
