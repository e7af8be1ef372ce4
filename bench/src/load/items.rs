//! Inserts into a Bloom filter, and queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::filter::Filter;
use crate::load::pace::Pace;
use crate::load::tasks::{clock, repeat, run_tasks};

/// Prepared items of 16 bytes, taken one after the other and then from the first again.
#[derive(Clone, Debug)]
pub struct Items {
    all: Arc<Vec<[u8; 16]>>,
    next: Arc<AtomicUsize>,
}

impl Items {
    /// Creates `count` items.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let item =
            |number: usize| (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Self {
            all: Arc::new((0..count).map(|number| item(number).to_le_bytes()).collect()),
            next: Arc::default(),
        }
    }

    fn take(&self, count: usize) -> &[[u8; 16]] {
        let at = self.next.fetch_add(count, Ordering::Relaxed) % self.all.len();
        &self.all[at..(at + count).min(self.all.len())]
    }
}

/// The call that a load makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Inserts one item.
    Insert,
    /// Inserts this many items together.
    InsertMany(usize),
    /// Queries one item.
    Contains,
}

/// Runs one task that makes one call after the other. The clock is read once for each batch of
/// calls. The count and the rate are of items, the times of calls.
///
/// # Errors
/// The errors of the side.
pub async fn items<F: Filter>(
    filter: &F,
    items: &Items,
    call: Call,
    time: Duration,
    batch: usize,
) -> Result<Pace, Failure> {
    let end = clock() + time;
    let (filter, items) = (filter.clone(), items.clone());
    let task = async move {
        repeat(end, batch, || async {
            match call {
                Call::Insert => drop(filter.insert(&items.take(1)[0]).await?),
                Call::Contains => drop(filter.contains(&items.take(1)[0]).await?),
                Call::InsertMany(count) => {
                    let many: Vec<&[u8]> = items.take(count).iter().map(<[u8; 16]>::as_slice).collect();
                    filter.insert_many(&many).await?;
                }
            }
            Ok(())
        })
        .await
    };
    let (tasks, seconds) = run_tasks([task].into_iter()).await?;
    let calls: usize = tasks.iter().map(|(calls, _)| calls).sum();
    let each = if let Call::InsertMany(count) = call { count } else { 1 };
    let mut times: Vec<f64> = tasks.into_iter().flat_map(|(_, times)| times).collect();
    Ok(Pace::of(whole(calls * each), seconds, &mut times))
}
