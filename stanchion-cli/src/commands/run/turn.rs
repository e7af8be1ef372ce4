//! Reports to a waiting user what the command waits for.

use std::convert::Infallible;
use std::time::Duration;

use stanchion::spi::clock;
use stanchion::{Holder, Inspection};

use super::hold::Lock;
use crate::output::message;
use crate::values::rounded;

/// A wait that is shorter is not worth a word; after it, the request that joins the queue was
/// answered.
const FIRST_LOOK: Duration = Duration::from_millis(300);
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Writes the holder of the lock and the place in the queue to standard error, each time that
/// something has changed.
pub(crate) async fn tell<L: Lock + ?Sized>(lock: &L, name: &str) -> Infallible {
    let (mut place, mut told) = (u64::MAX, None);
    let mut pause = FIRST_LOOK;
    loop {
        clock::sleep(pause).await;
        pause = LOOK_INTERVAL;
        // The library's own messages report an outage.
        let Ok(state) = lock.look().await else { continue };
        // Nobody overtakes a live waiter: later ones alone are counted behind it, so its place
        // never grows.
        place = if state.waiters == 0 { place } else { place.min(state.waiters) };
        let now = (place, state.holders.first().and_then(|holder| holder.ticket));
        if told != Some(now) {
            told = Some(now);
            message(format_args!("waiting for {name:?}: {}", what(&state, place)));
        }
    }
}

fn what(state: &Inspection, place: u64) -> String {
    let held = match &*state.holders {
        [] => "nobody holds it at the moment, others come first".to_owned(),
        [holder] => format!("held by {}", who(holder)),
        [holder, others @ ..] => format!("held by {} and {} more", who(holder), others.len()),
    };
    match place {
        u64::MAX => held,
        1 => format!("{held}; next in line"),
        place => format!("{held}; number {place} in line at most"),
    }
}

fn who(holder: &Holder) -> String {
    let label =
        holder.label.as_ref().map_or("a holder without a label".to_owned(), |label| format!("{label:?}"));
    let age = holder.age.map(|age| format!(" for {}", rounded(age)));
    label + &age.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use stanchion::{FencingToken, Ticket};

    use super::*;

    #[test]
    fn a_holder_and_the_place_are_told() {
        let mut holder =
            Holder::new(Ticket::from(1), FencingToken::new(1).unwrap(), 1, Duration::from_millis(12_345));
        holder.label = Some("a\u{1b}[2J".to_owned());
        let state = Inspection::new(vec![holder.clone()], 3, Some(1));
        assert_eq!(what(&state, 3), "held by \"a\\u{1b}[2J\" for 12s; number 3 in line at most");
        holder.label = None;
        let state = Inspection::new(vec![holder.clone(), holder], 0, Some(2));
        assert_eq!(what(&state, u64::MAX), "held by a holder without a label for 12s and 1 more");
        assert_eq!(
            what(&Inspection::default(), 1),
            "nobody holds it at the moment, others come first; next in line"
        );
    }
}
