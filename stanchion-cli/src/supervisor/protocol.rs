//! The protocol between the client and its supervisor: lines of text over a socket.

use std::fmt;
use std::str::FromStr;

use super::clock::Moment;

/// From the client to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The hold's deadline. The first one starts the command.
    Deadline(Moment),
    /// Pass this signal on to the command.
    Signal(i32),
    /// The hold is lost: end the command.
    Lost,
}

/// From the supervisor to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command does not run, for want of a program or of the right to run it.
    NotStarted(NotStarted),
    /// The command is being ended.
    Ending(Cause),
    /// A process cannot be ended: another user's.
    Stuck(i32),
    /// The command and all its descendants are gone.
    Ended { status: Status, cause: Cause },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    NotFound,
    NotExecutable,
    Other(i32),
}

/// Why the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// By itself.
    Itself,
    /// The deadline of its hold was near.
    Deadline,
    /// The store said that the hold is gone.
    Lost,
    /// The client has died.
    Client,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Exit(i32),
    Signal(i32),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline(at) => write!(f, "deadline {}", at.nanos()),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

/// A line that no version of this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownLine;

impl FromStr for Order {
    type Err = UnknownLine;

    fn from_str(line: &str) -> Result<Self, UnknownLine> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["deadline", at] => Ok(Self::Deadline(Moment::from_nanos(number(at)?))),
            ["signal", signal] => Ok(Self::Signal(number(signal)?)),
            ["lost"] => Ok(Self::Lost),
            _ => Err(UnknownLine),
        }
    }
}

impl Cause {
    const ALL: [Self; 4] = [Self::Itself, Self::Deadline, Self::Lost, Self::Client];

    fn word(self) -> &'static str {
        match self {
            Self::Itself => "itself",
            Self::Deadline => "deadline",
            Self::Lost => "lost",
            Self::Client => "client",
        }
    }

    fn named(word: &str) -> Result<Self, UnknownLine> {
        Self::ALL.into_iter().find(|cause| cause.word() == word).ok_or(UnknownLine)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(NotStarted::NotFound) => f.write_str("not-found"),
            Self::NotStarted(NotStarted::NotExecutable) => f.write_str("not-executable"),
            Self::NotStarted(NotStarted::Other(code)) => write!(f, "not-started {code}"),
            Self::Ending(cause) => write!(f, "ending {}", cause.word()),
            Self::Stuck(pid) => write!(f, "stuck {pid}"),
            Self::Ended { status: Status::Exit(code), cause } => write!(f, "exit {code} {}", cause.word()),
            Self::Ended { status: Status::Signal(signal), cause } => {
                write!(f, "killed {signal} {}", cause.word())
            }
        }
    }
}

impl FromStr for Report {
    type Err = UnknownLine;

    fn from_str(line: &str) -> Result<Self, UnknownLine> {
        let words: Vec<_> = line.split(' ').collect();
        Ok(match words[..] {
            ["not-found"] => Self::NotStarted(NotStarted::NotFound),
            ["not-executable"] => Self::NotStarted(NotStarted::NotExecutable),
            ["not-started", code] => Self::NotStarted(NotStarted::Other(number(code)?)),
            ["ending", cause] => Self::Ending(Cause::named(cause)?),
            ["stuck", pid] => Self::Stuck(number(pid)?),
            ["exit", code, cause] => {
                Self::Ended { status: Status::Exit(number(code)?), cause: Cause::named(cause)? }
            }
            ["killed", signal, cause] => {
                Self::Ended { status: Status::Signal(number(signal)?), cause: Cause::named(cause)? }
            }
            _ => return Err(UnknownLine),
        })
    }
}

fn number<N: FromStr>(word: &str) -> Result<N, UnknownLine> {
    word.parse().map_err(|_| UnknownLine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read() {
        for order in [Order::Deadline(Moment::from_nanos(u64::MAX)), Order::Signal(15), Order::Lost] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        let ended = |status| Report::Ended { status, cause: Cause::Deadline };
        for report in [
            Report::NotStarted(NotStarted::NotFound),
            Report::NotStarted(NotStarted::NotExecutable),
            Report::NotStarted(NotStarted::Other(12)),
            Report::Ending(Cause::Lost),
            Report::Stuck(7),
            ended(Status::Exit(3)),
            ended(Status::Signal(9)),
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        assert_eq!("deadline x".parse::<Order>(), Err(UnknownLine));
        assert_eq!("exit 0".parse::<Report>(), Err(UnknownLine));
    }
}
