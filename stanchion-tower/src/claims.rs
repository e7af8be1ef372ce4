//! Which limiters the layers of this process have: two layers that open the same limiters with
//! different quotas would replace each other's at the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use stanchion_core::{Error, ErrorKind, Quota, Result, Store};

/// A store, by its address, and a prefix.
type Place = (usize, Arc<str>);

static CLAIMS: Mutex<BTreeMap<Place, Weak<Claim>>> = Mutex::new(BTreeMap::new());

/// The limiters of one prefix. It lives as long as a layer that has them, and so does their store.
#[derive(Debug)]
pub(crate) struct Claim {
    place: Place,
    quota: Quota,
}

fn claims() -> MutexGuard<'static, BTreeMap<Place, Weak<Claim>>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims the limiters of a prefix for a layer with that quota. Layers with the same one share
/// them.
///
/// # Errors
/// `ConfigMismatch` if a layer of this process has them with another quota.
pub(crate) fn claim(store: &Arc<dyn Store>, prefix: &Arc<str>, quota: Quota) -> Result<Arc<Claim>> {
    let place = (Arc::as_ptr(store).addr(), Arc::clone(prefix));
    let mut claims = claims();
    if let Some(claim) = claims.get(&place).and_then(Weak::upgrade) {
        if claim.quota == quota {
            return Ok(claim);
        }
        // It may be the last one, and its drop takes the lock.
        drop(claims);
        let (prefix, other) = (Error::shown(prefix), claim.quota);
        let detail = format!(
            "another layer of this process has the prefix {prefix} and the quota {other}, this one {quota}: give each a \
             prefix of its own"
        );
        return Err(Error::new(ErrorKind::ConfigMismatch, detail));
    }
    let claim = Arc::new(Claim { place: place.clone(), quota });
    claims.insert(place, Arc::downgrade(&claim));
    Ok(claim)
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = claims();
        // Another one may have taken its place.
        if claims.get(&self.place).is_some_and(|claim| claim.strong_count() == 0) {
            claims.remove(&self.place);
        }
    }
}
