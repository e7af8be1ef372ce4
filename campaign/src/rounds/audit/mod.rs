//! The store's own record of its holds, kept by the server and not by the library.

pub(super) mod append_only;
pub(super) mod triggers;
