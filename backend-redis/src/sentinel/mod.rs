//! Sentinels: the primary that they announce, and its replacement.

mod connector;
mod switches;

pub(crate) use self::connector::SentinelConnector;
pub(crate) use self::switches::SwitchWatch;
