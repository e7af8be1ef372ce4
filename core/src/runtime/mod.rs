//! Where work runs: the engine's thread, the runtime of a caller's call, and threads that block.

pub(crate) mod blocked_thread;
pub(crate) mod call_runtime;
mod runtime_mark;
pub(crate) mod thread;

pub use self::runtime_mark::RuntimeMark;
pub use self::thread::EngineThread;
