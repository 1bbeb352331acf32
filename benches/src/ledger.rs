//! An allocator that keeps count: how many bytes are out, and how often something was asked for.
//!
//! Whoever wants the counts installs it: `#[global_allocator] static LEDGER: Ledger = Ledger;`.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with a ledger.
#[derive(Debug)]
pub struct Ledger;

/// How often memory was asked for, growth and shrinking included.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

/// How many bytes are out.
#[must_use]
pub fn live_bytes() -> u64 {
    ALLOCATED.load(Relaxed).wrapping_sub(FREED.load(Relaxed))
}

fn note(allocated: usize, freed: usize) {
    ALLOCATIONS.fetch_add(u64::from(allocated > 0), Relaxed);
    ALLOCATED.fetch_add(allocated as u64, Relaxed);
    FREED.fetch_add(freed as u64, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came, and what that returns is returned. The counters
// are atomics: counting neither allocates nor panics.
unsafe impl GlobalAlloc for Ledger {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size, layout.size());
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
