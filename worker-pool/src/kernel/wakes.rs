//! The wakers that a change of state calls, once no lock is held.

/// Wakers to call. A single one, the common case, costs no allocation.
#[derive(Debug)]
pub(crate) struct Wakes<W> {
    first: Option<W>,
    rest: Vec<W>,
}

impl<W> Wakes<W> {
    pub(crate) fn new() -> Self {
        Self { first: None, rest: Vec::new() }
    }

    pub(crate) fn push(&mut self, waker: W) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }
}

impl<W> IntoIterator for Wakes<W> {
    type Item = W;
    type IntoIter = std::iter::Chain<std::option::IntoIter<W>, std::vec::IntoIter<W>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}
