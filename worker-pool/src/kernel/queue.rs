//! The jobs that wait for a worker.

use std::collections::VecDeque;

/// Number of empty slots that may stay before the queue is compacted, whatever its length.
const SLACK: usize = 32;

/// Jobs in the order of arrival, by number. A withdrawn job leaves an empty slot. After a
/// withdrawal there are at most as many empty slots as jobs plus [`SLACK`]; more are compacted
/// away.
#[derive(Debug)]
pub(crate) struct Queue<J> {
    slots: VecDeque<(u64, Option<J>)>,
    live: usize,
    next: u64,
}

impl<J> Queue<J> {
    pub(crate) fn new() -> Self {
        Self { slots: VecDeque::new(), live: 0, next: 1 }
    }

    /// Returns the number of waiting jobs.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn push(&mut self, job: J) -> u64 {
        let id = self.next;
        self.next += 1;
        self.slots.push_back((id, Some(job)));
        self.live += 1;
        id
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, J)> {
        while let Some((id, slot)) = self.slots.pop_front() {
            if let Some(job) = slot {
                self.live -= 1;
                return Some((id, job));
            }
        }
        None
    }

    /// Takes out the job with this number, if it still waits.
    pub(crate) fn withdraw(&mut self, id: u64) -> Option<J> {
        let index = self.slots.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let job = self.slots.get_mut(index)?.1.take()?;
        self.live -= 1;
        if self.slots.len() - self.live > self.live + SLACK {
            self.slots.retain(|(_, slot)| slot.is_some());
        }
        Some(job)
    }

    pub(crate) fn take_all(&mut self) -> Vec<(u64, J)> {
        self.live = 0;
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter_map(|(id, slot)| slot.map(|job| (id, job))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_jobs_do_not_pile_up() {
        let mut queue = Queue::new();
        let kept: Vec<_> = (0..10).map(|job| queue.push(job)).collect();
        for job in 10..10_000 {
            let id = queue.push(job);
            assert_eq!(queue.withdraw(id), Some(job));
            assert_eq!(queue.withdraw(id), None);
            assert!(queue.slots.len() <= 2 * kept.len() + SLACK + 1);
        }
        assert_eq!(queue.live(), kept.len());
        for (job, id) in kept.into_iter().enumerate() {
            assert_eq!(queue.pop(), Some((id, job)));
        }
        assert_eq!(queue.pop(), None);
    }
}
