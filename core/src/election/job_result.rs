//! The result of a run of a periodic job.

use std::fmt;

/// The result of a run of a [`PeriodicJob`](super::PeriodicJob): `()`, or a `Result<(), E>` whose
/// errors can be printed. A run that returns an error has failed, and is repeated.
pub trait JobResult: sealed::Sealed {
    /// Returns the text of the error, if the run has failed.
    #[doc(hidden)]
    fn failure(self) -> Option<String>;
}

impl JobResult for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> JobResult for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

mod sealed {
    use std::fmt;

    /// Keeps the trait to this crate.
    #[expect(unnameable_types, reason = "nobody else implements the trait")]
    pub trait Sealed {}

    impl Sealed for () {}

    impl<E: fmt::Display> Sealed for Result<(), E> {}
}
