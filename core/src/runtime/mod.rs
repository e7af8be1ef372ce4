//! Where work runs: the engine's thread, the runtime of a caller's call, and threads that block.

pub(crate) mod blocked_thread;
mod broadcast;
pub(crate) mod call_runtime;
mod contain_wake;
mod runtime_mark;
mod stay;
pub(crate) mod thread;

pub use self::broadcast::{Broadcast, Notified};
pub use self::contain_wake::contain_wake;
pub use self::runtime_mark::RuntimeMark;
pub use self::stay::{Stay, moved};
pub use self::thread::EngineThread;
