//! The step that lists names.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::{Kind, Listed, Result};

/// A request for a part of a listing.
#[derive(Clone, Debug)]
pub struct List {
    /// Only objects of this kind, if one is given.
    pub kind: Option<Kind>,
    /// Only names that begin with this text. No character in it has a special meaning.
    pub prefix: String,
    /// About how many names are wanted, 1 to 1,000.
    pub count: usize,
    /// Where the part begins: [`ListPart::next`] of the part before. `None`: at the beginning of the listing. A caller can pass any
    /// text: one that no part has given is `InvalidArgument`.
    pub after: Option<String>,
}

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPart {
    /// The names: few more than wanted, fewer or none.
    pub entries: Vec<Listed>,
    /// Where the next part begins, at most 1,500 bytes; `None` at the end of the listing.
    pub next: Option<String>,
}

/// The step that lists the names of a namespace.
#[async_trait]
pub trait ListSteps: Debug + Send + Sync {
    /// A part whose request goes to a server of its own has a lane of its own: see [`steps`](super).
    fn lane(&self, list: &List) -> usize;

    /// Returns a part of the names that have state. It changes nothing, and MUST NOT hold the server for longer than 10 ms, however many keys or
    /// rows there are ([C27]): it looks at a bounded number of them, and returns fewer names than wanted, or none.
    ///
    /// A name that has state from the first part to the last MUST be in one of them at least, whatever comes and goes
    /// meanwhile, and also if the servers change places, restart or exchange data. Any other name, and a name twice, MAY be. A mutex has state while
    /// it is held or waited for; any other object for as long as the store keeps a hold, a waiter, a limit, a bucket or bits
    /// of it. Expired holds never count. What a store keeps beside that, such as tombstones, answers and fencing tokens, MUST NOT make a name listed.
    ///
    /// # Errors
    /// As all steps. `InvalidArgument` for a position that no part has given; `Unauthorized` if the role may not look.
    ///
    /// [C27]: crate::contract#c27
    async fn list(&self, list: &List) -> Result<ListPart>;
}
