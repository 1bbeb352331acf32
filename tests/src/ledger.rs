//! A global allocator that keeps books per thread and for all of them, and can refuse.
//!
//! A test file that counts allocations says
//! `#[global_allocator] static LEDGER: Ledger = Ledger;` and puts what it measures into [`measure`]. Tests run on
//! threads of their own, so they do not disturb each other.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicIsize, Ordering};
use std::alloc::System;

/// The allocator: the system's own, with books.
#[derive(Clone, Copy, Debug)]
pub struct Ledger;

/// What happened on this thread while [`measure`] ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Blocks asked for and had; a block that was made larger or smaller counts as one.
    pub allocations: usize,
    /// Bytes that are still allocated, less those that were before. Negative if more was freed.
    pub kept: isize,
    /// The largest block that was had.
    pub largest: usize,
}

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// How many more requests are granted before one is refused; `None` for all.
    static GRANTED: Cell<Option<usize>> = const { Cell::new(None) };
    /// Requests for so many bytes and more are refused.
    static CEILING: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Bytes that all threads together have allocated at present.
static LIVE_EVERYWHERE: AtomicIsize = AtomicIsize::new(0);

/// The bytes that are allocated in this process at present, by whatever thread.
pub fn live_everywhere() -> isize {
    LIVE_EVERYWHERE.load(Ordering::SeqCst)
}

/// Runs `f` and says what it allocated on this thread.
pub fn measure<T>(f: impl FnOnce() -> T) -> (T, Usage) {
    let (allocations, live) = (ALLOCATIONS.get(), LIVE.get());
    LARGEST.set(0);
    let value = f();
    let usage = Usage { allocations: ALLOCATIONS.get() - allocations, kept: LIVE.get() - live, largest: LARGEST.get() };
    (value, usage)
}

/// Runs `f` with the `n`-th request of this thread refused, counted from 0; those after it are granted again.
/// Says beside its result whether it came to that.
pub fn refusing_nth<T>(n: usize, f: impl FnOnce() -> T) -> (T, bool) {
    let _restore = Restore;
    GRANTED.set(Some(n));
    let value = f();
    (value, GRANTED.get().is_none())
}

/// Runs `f` with every request of this thread refused that is for `bytes` or more.
pub fn refusing_from<T>(bytes: usize, f: impl FnOnce() -> T) -> T {
    let _restore = Restore;
    CEILING.set(bytes);
    f()
}

/// Grants everything again, also where the measured code panics.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        GRANTED.set(None);
        CEILING.set(usize::MAX);
    }
}

fn is_refused(bytes: usize) -> bool {
    let refused = GRANTED.get() == Some(0);
    GRANTED.set(if refused { None } else { GRANTED.get().map(|left| left - 1) });
    refused || bytes >= CEILING.get()
}

fn book(new: usize, old: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    LARGEST.set(LARGEST.get().max(new));
    book_live(new as isize - old as isize);
}

fn book_live(change: isize) {
    LIVE.set(LIVE.get() + change);
    LIVE_EVERYWHERE.fetch_add(change, Ordering::Relaxed);
}

// SAFETY: every block comes from `System` and goes back to it with the layout that the caller passed on, which is all
// that `GlobalAlloc` asks. A null pointer is the permitted way to refuse. The books are an atomic and thread-local cells
// that are initialised at compile time and have no destructor, so reading them never allocates and never fails, not even
// while a thread ends.
unsafe impl GlobalAlloc for Ledger {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            book(layout.size(), 0);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            book(layout.size(), 0);
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_refused(new_size) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises are passed on; `block` came from `System`, as all blocks here do.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if !moved.is_null() {
            book(new_size, layout.size());
        }
        moved
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        book_live(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on; `block` came from `System`, as all blocks here do.
        unsafe { System.dealloc(block, layout) }
    }
}
