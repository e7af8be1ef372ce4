//! Real servers for tests, and tools that inject faults.
//!
//! [`servers`] finds Redis, Postgres and PgBouncer on this machine (or installs them), starts them
//! on free ports in temporary folders, and ends them with the process that started them. [`faults`]
//! breaks the connection between a client and a server, a server's clock, or a client process.
//! Nothing here depends on the code under test.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod faults;
pub mod servers;
