//! Real servers for tests, and tools that break them.
//!
//! [`servers`] finds Redis, Postgres and PgBouncer on this machine (or installs them), starts them on free ports in
//! temporary folders, and ends them with the process that started them. [`faults`] breaks what lies between a client and
//! a server: the link, the clock, the process. Nothing here knows what is tested.

pub mod faults;
pub mod servers;
