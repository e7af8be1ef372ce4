//! The system's allocator, which counts, and keeps the stack of each allocation while asked to.
//!
//! The client library allocates when it is given a command, so the stack of that allocation is the
//! call's way to it. No breakpoint and no change of the library is needed.

#![allow(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of stacks to keep.
const MAXIMUM_STACKS: usize = 10_000;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static KEEPS_STACKS: AtomicBool = AtomicBool::new(false);
static STACKS: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread is taking a stack: that allocates, too.
    static TAKES_A_STACK: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(crate) struct Allocator;

// SAFETY: all memory is the system allocator's, with the layout that the caller gave.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A sum that is read when the calls are over: no order to other memory is needed.
        COUNT.fetch_add(1, Ordering::Relaxed);
        if KEEPS_STACKS.load(Ordering::Relaxed) {
            keep_stack();
        }
        // SAFETY: the caller keeps the rules of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer is from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn keep_stack() {
    // A thread that ends has no such variable any more; its stacks are not wanted.
    let begins = TAKES_A_STACK.try_with(|takes| !takes.replace(true)).unwrap_or(false);
    if begins {
        let stack = Backtrace::force_capture();
        let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        if stacks.len() < MAXIMUM_STACKS {
            stacks.push(stack);
        }
        drop(stacks);
        let _ = TAKES_A_STACK.try_with(|takes| takes.set(false));
    }
}

/// Returns the number of allocations of all threads since the start. Memory that grows counts
/// again.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Returns the stacks of all allocations until `call` ends, in their order.
pub(crate) async fn stacks_of<T>(call: impl Future<Output = T>) -> (T, Vec<Backtrace>) {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    KEEPS_STACKS.store(true, Ordering::Relaxed);
    let answer = call.await;
    KEEPS_STACKS.store(false, Ordering::Relaxed);
    (answer, std::mem::take(&mut STACKS.lock().unwrap_or_else(PoisonError::into_inner)))
}
