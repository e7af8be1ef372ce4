//! The part of a stack that is this library's.

use std::backtrace::Backtrace;
use std::collections::BTreeSet;
use std::path::Path;

/// The functions of the client library that take a command to be sent.
const EDGE: &str = "redis::aio::";

/// A function on the stack, and its file in this repository, if it is from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
}

/// The frames of this library between the caller and the client library, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallPath(pub(crate) Vec<Frame>);

impl CallPath {
    /// Returns the path of the first stack on which the client library is reached.
    pub(crate) fn of_first(stacks: &[Backtrace], root: &Path) -> Option<Self> {
        stacks.iter().find_map(|stack| Self::of(&frames(&format!("{stack:#}"), root)))
    }

    fn of(frames: &[Frame]) -> Option<Self> {
        let innermost =
            frames.iter().position(|frame| frame.file.is_some() && !frame.is_of_this_program())?;
        let is_edge = |frame: &Frame| frame.file.is_none() && frame.function.contains(EDGE);
        if !frames[..innermost].iter().any(is_edge) {
            return None;
        }
        let own = frames.iter().filter(|frame| frame.file.is_some() && !frame.is_of_this_program());
        Some(Self(own.cloned().collect()))
    }

    pub(crate) fn frames(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn files(&self) -> usize {
        self.0.iter().map(|frame| &frame.file).collect::<BTreeSet<_>>().len()
    }

    /// Returns the files in the order in which the call passes through them.
    fn visits(&self) -> Vec<&str> {
        let mut visits: Vec<_> = self.0.iter().rev().filter_map(|frame| frame.file.as_deref()).collect();
        visits.dedup();
        visits
    }

    /// Returns how often the call goes from one file to another.
    pub(crate) fn moves(&self) -> usize {
        self.visits().len().saturating_sub(1)
    }

    /// Returns how often the call comes back to a file that it had left.
    pub(crate) fn returns(&self) -> usize {
        self.visits().len() - self.files()
    }
}

impl Frame {
    fn is_of_this_program(&self) -> bool {
        self.file.as_deref().is_some_and(|file| file.starts_with("bench/"))
    }
}

/// Reads a printed stack: each function is followed by a line `at FILE:LINE:COLUMN` if that is
/// known.
fn frames(text: &str, root: &Path) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let (Some(place), Some(last)) = (line.strip_prefix("at "), frames.last_mut()) {
            last.file = own_file(place, root);
        } else if let Some((_, function)) = line.split_once(": ") {
            // A whole stack is printed with addresses: `0x5597 - name`.
            let function = function.split_once(" - ").map_or(function, |(_, name)| name);
            frames.push(Frame { function: function.to_owned(), file: None });
        }
    }
    frames
}

/// Returns the path in this repository; `None` for a file from elsewhere.
fn own_file(place: &str, root: &Path) -> Option<String> {
    let file = place.rsplitn(3, ':').last().unwrap_or(place);
    Some(Path::new(file).strip_prefix(root).ok()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "
       0: __rust_alloc
                 at /src/bench/call-path/src/allocator.rs:30:9
       1: redis::aio::Connection::send
       2: store::send::{{closure}}
                 at /src/store/send.rs:3:1
       3: core::future::poll
                 at /rustc/0a1b/library/core/src/future.rs:9:9
       4: engine::queue::{{closure}}
                 at /src/engine/queue.rs:8:2
       5: 0x5597 - store::prepare
                 at /src/store/send.rs:20:1
       6: store::prepare::{{closure}}
                 at /src/store/send.rs:21:1
       7: call_path::main
                 at /src/bench/call-path/src/main.rs:3:1
       8: __libc_start_main
                 at ../csu/libc-start.c:342:3";

    fn path(text: &str) -> Option<CallPath> {
        CallPath::of(&frames(text, Path::new("/src")))
    }

    #[test]
    fn frames_files_moves_and_returns_are_counted() {
        let path = path(STACK).expect("the client library is reached");
        assert_eq!((path.frames(), path.files(), path.moves(), path.returns()), (4, 2, 2, 1));
        assert_eq!(path.0[0].file.as_deref(), Some("store/send.rs"));
        assert_eq!(path.0[2].function, "store::prepare");
    }

    #[test]
    fn a_stack_without_the_client_library_is_no_path() {
        assert_eq!(path(&STACK.replace("redis::aio", "redis::cmd")), None);
        assert_eq!(path("0: redis::aio::Driver::poll\n1: tokio::runtime::run"), None);
    }
}
