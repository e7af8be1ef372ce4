//! The record of what operators do: events of `tracing` under the target of this module.

use crate::{ErrorKind, Name, Result, Ticket};

/// A call that ends holds of others by force.
#[derive(Clone, Copy, Debug)]
pub struct ForcedRelease<'a> {
    /// The store, as in [`Capabilities::store`](crate::Capabilities::store).
    pub store: &'static str,
    /// Its namespace.
    pub namespace: &'a str,
    /// `force_unlock`, `force_unlock_of` or `force_release`.
    pub operation: &'static str,
    /// The name.
    pub name: &'a Name,
    /// The hold, if one was named.
    pub ticket: Option<Ticket>,
    /// The label in the options of the handle that made the call: who did it.
    pub by: Option<&'a str>,
}

impl ForcedRelease<'_> {
    /// Records how the call ended: at `warn` if it ended holds or may have, at `info` if there were
    /// none. A call that was certainly not executed leaves no record.
    pub fn record(&self, freed: &Result<u64>) {
        let Self { store, namespace, operation, name, by, .. } = *self;
        let ticket = self.ticket.map(tracing::field::display);
        match freed {
            Ok(0) => {
                tracing::info!(
                    name: "stanchion.force.nothing_held",
                    {
                        stanchion.store = store,
                        stanchion.namespace = namespace,
                        stanchion.operation = operation,
                        stanchion.name = name.as_str(),
                        stanchion.ticket = ticket,
                        stanchion.caller.label = by,
                        stanchion.freed = 0,
                    },
                    "nothing was held to be ended by force"
                );
            }
            Ok(freed) => {
                tracing::warn!(
                    name: "stanchion.force.freed",
                    {
                        stanchion.store = store,
                        stanchion.namespace = namespace,
                        stanchion.operation = operation,
                        stanchion.name = name.as_str(),
                        stanchion.ticket = ticket,
                        stanchion.caller.label = by,
                        stanchion.freed = freed,
                    },
                    "ended by force"
                );
            }
            Err(error) if error.kind() == ErrorKind::Unknown => {
                tracing::warn!(
                    name: "stanchion.force.in_doubt",
                    {
                        stanchion.store = store,
                        stanchion.namespace = namespace,
                        stanchion.operation = operation,
                        stanchion.name = name.as_str(),
                        stanchion.ticket = ticket,
                        stanchion.caller.label = by,
                        error.type = error.kind().as_str(),
                        exception.message = ?error,
                    },
                    "may have been ended by force"
                );
            }
            Err(_) => {}
        }
    }
}
