//! A worker that executes commands, one per line of its standard input, and records the results.

use std::fmt;
use std::time::Duration;

use stanchion_conformance::support::definite;
use stanchion_core::{Kind, Mutex, MutexOptions, Name, Store};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::workload::released;
use crate::history::{Call, ObjectId, Operation, Recorder, What, clock};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A command. `Display` writes its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerCommand {
    /// Locks the mutex of that name, and holds it until the next command or its loss.
    Lock(String),
    /// Releases the mutex.
    Release,
    /// Records how many waiters the mutex of that name has.
    Count(String),
}

impl fmt::Display for WorkerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(name) => write!(f, "lock {name}"),
            Self::Release => f.write_str("release"),
            Self::Count(name) => write!(f, "count {name}"),
        }
    }
}

impl WorkerCommand {
    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("lock", name)) => Some(Self::Lock(name.to_owned())),
            Some(("count", name)) => Some(Self::Count(name.to_owned())),
            None if line == "release" => Some(Self::Release),
            _ => None,
        }
    }
}

/// Executes commands until the input ends.
pub(crate) async fn run_commands(store: &dyn Store, ttl: Duration, recorder: &Recorder) -> Result<(), Error> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match WorkerCommand::parse(&line) {
            Some(WorkerCommand::Lock(name)) => {
                let object = ObjectId::new(Kind::Mutex, Name::new(&name)?);
                let mutex = store.mutex(&name, MutexOptions::default().ttl(ttl))?;
                let ttl = u64::try_from(ttl.as_micros())?;
                let call = Call::Acquire { weight: 1, permits: None, ttl: Some(ttl), waits: true };
                hold(&*mutex, recorder.invoke(&object, call, None)?, &mut lines).await?;
            }
            Some(WorkerCommand::Count(name)) => {
                let object = ObjectId::new(Kind::Mutex, Name::new(&name)?);
                let mutex = store.mutex(&name, MutexOptions::default().ttl(ttl))?;
                let count = definite(|| mutex.inspect()).await?.waiters;
                recorder.record(0, Some(&object), What::Counted { count })?;
            }
            Some(WorkerCommand::Release) | None => {
                return Err(format!("no command is expected now: {line:?}").into());
            }
        }
    }
    Ok(())
}

async fn hold(
    mutex: &dyn Mutex,
    operation: Operation,
    lines: &mut Lines<BufReader<Stdin>>,
) -> Result<(), Error> {
    let granted = tokio::select! {
        granted = mutex.lock() => granted,
        // While the worker waits, it gets no command: a line here means that the input has ended.
        line = lines.next_line() => return line.map(drop).map_err(Error::from),
    };
    let held = match granted {
        Ok(guard) => operation.granted(guard)?,
        Err(error) => {
            operation.record(What::Failed { error: error.kind() })?;
            return Err(error.into());
        }
    };
    tokio::select! {
        () = held.lost() => {
            let at = clock::now();
            let (believed, deadline) = (held.is_held(), held.deadline().map(clock::micros_of));
            held.operation().record_at(at, What::Believed { held: believed, deadline })?;
            held.operation().record_at(at, What::Lost)?;
        }
        line = lines.next_line() => {
            line?;
            let (operation, guard) = held.releasing()?;
            released(&operation, guard.release().await)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_line() {
        for command in [
            WorkerCommand::Lock("a b".to_owned()),
            WorkerCommand::Release,
            WorkerCommand::Count("a".to_owned()),
        ] {
            assert_eq!(WorkerCommand::parse(&command.to_string()), Some(command));
        }
        for wrong in ["", "lock", "release a", "dance a"] {
            assert_eq!(WorkerCommand::parse(wrong), None, "{wrong:?}");
        }
    }
}
