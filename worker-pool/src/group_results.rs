//! The jobs of a group that have not ended, and the outputs that were not taken.

use std::collections::BTreeMap;

/// The order in which outputs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The order of submission: an output waits for the outputs of all earlier jobs.
    Submission,
    /// The order in which the jobs ended.
    Completion,
}

/// Jobs by their position in the order of submission, from 0.
pub(crate) struct GroupResults<T> {
    submitted: usize,
    completed: u64,
    /// Numbers, in the pool, of the jobs that have not ended.
    outstanding: BTreeMap<usize, u64>,
    /// Outputs that were not taken, each with its number in the order of completion.
    outputs: BTreeMap<usize, (u64, T)>,
    /// Positions of these outputs, by their numbers in the order of completion.
    by_completion: BTreeMap<u64, usize>,
}

impl<T> GroupResults<T> {
    pub(crate) fn new() -> Self {
        Self {
            submitted: 0,
            completed: 0,
            outstanding: BTreeMap::new(),
            outputs: BTreeMap::new(),
            by_completion: BTreeMap::new(),
        }
    }

    /// Adds a job with its number in the pool, and returns its position.
    pub(crate) fn add(&mut self, id: u64) -> usize {
        let index = self.submitted;
        self.submitted += 1;
        self.outstanding.insert(index, id);
        index
    }

    /// Stores the output of a job that ended.
    pub(crate) fn complete(&mut self, index: usize, output: T) {
        self.outstanding.remove(&index);
        self.by_completion.insert(self.completed, index);
        self.outputs.insert(index, (self.completed, output));
        self.completed += 1;
    }

    /// Takes the next output in this order; `None` if its job has not ended.
    pub(crate) fn take(&mut self, order: Order) -> Option<T> {
        let index = match order {
            Order::Submission => {
                let (&index, _) = self.outputs.first_key_value()?;
                if self.outstanding.first_key_value().is_some_and(|(&earlier, _)| earlier < index) {
                    return None;
                }
                index
            }
            Order::Completion => *self.by_completion.first_key_value()?.1,
        };
        let (completed, output) = self.outputs.remove(&index)?;
        self.by_completion.remove(&completed);
        Some(output)
    }

    /// Takes the numbers, in the pool, of all jobs that have not ended, and all outputs.
    pub(crate) fn take_all(&mut self) -> (Vec<u64>, Vec<T>) {
        self.by_completion.clear();
        let outstanding = std::mem::take(&mut self.outstanding);
        let outputs = std::mem::take(&mut self.outputs);
        (outstanding.into_values().collect(), outputs.into_values().map(|(_, output)| output).collect())
    }

    /// Returns the number of jobs that have not ended, and of outputs that were not taken.
    pub(crate) fn len(&self) -> usize {
        self.outstanding.len() + self.outputs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_come_in_either_order_and_leave_nothing_behind() {
        let mut results = GroupResults::new();
        for id in 10..16 {
            results.add(id);
        }
        for index in [4, 1, 0, 3] {
            results.complete(index, index);
        }
        assert_eq!(results.take(Order::Completion), Some(4));
        assert_eq!(results.take(Order::Submission), Some(0));
        assert_eq!(results.take(Order::Submission), Some(1));
        assert_eq!(results.take(Order::Submission), None, "the job at 2 has not ended");
        assert_eq!(results.take(Order::Completion), Some(3));
        assert_eq!(results.take(Order::Completion), None);
        assert_eq!(results.len(), 2);
        assert!(results.outputs.is_empty() && results.by_completion.is_empty());
        results.complete(5, 5);
        assert_eq!(results.take_all(), (vec![12], vec![5]));
        assert_eq!(results.len(), 0);
    }
}
