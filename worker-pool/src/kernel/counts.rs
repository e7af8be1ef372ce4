//! Counters, and the ways in which a job can end.

/// How a job ended. Every job ends in exactly one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Done,
    Panicked,
    Cancelled,
    LostPermit,
    /// The store refused what it needs to begin.
    Refused,
    /// The pool was shut down before the job began.
    NotRun,
    Aborted,
}

/// Counters since the pool was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) refused: u64,
    pub(crate) done: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) lost_permit: u64,
    pub(crate) refused_by_store: u64,
    pub(crate) not_run: u64,
    pub(crate) aborted: u64,
    pub(crate) store_errors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, end: End) {
        let counter = match end {
            End::Done => &mut self.done,
            End::Panicked => &mut self.panicked,
            End::Cancelled => &mut self.cancelled,
            End::LostPermit => &mut self.lost_permit,
            End::Refused => &mut self.refused_by_store,
            End::NotRun => &mut self.not_run,
            End::Aborted => &mut self.aborted,
        };
        *counter += 1;
    }
}
