//! The store's own record of its holds, kept by means of the server and not of the library.

pub(super) mod append_only;
pub(super) mod triggers;
