//! An executor for one task, which sleeps until an interrupt has woken the task.

use core::{
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};

static WOKEN: AtomicBool = AtomicBool::new(false);

static VTABLE: RawWakerVTable = RawWakerVTable::new(|_| RAW, |_| wake(), |_| wake(), |_| ());
const RAW: RawWaker = RawWaker::new(core::ptr::null(), &VTABLE);

fn wake() {
    WOKEN.store(true, Ordering::Release);
}

/// A task did not come to its end: nobody woke it, or not to any purpose.
#[derive(Debug)]
pub struct Stuck;

/// How long a future may take: many times what the slowest one here needs.
const PATIENCE: u32 = 2_000;

/// Runs `future` to its end, asleep while there is nothing to do.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Stuck> {
    let mut future = pin!(future);
    let began = crate::ticks();
    loop {
        WOKEN.store(false, Ordering::Release);
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return Ok(output);
        }
        while !WOKEN.load(Ordering::Acquire) && crate::ticks() - began < PATIENCE {
            // The next tick at the latest ends the sleep.
            cortex_m::asm::wfi();
        }
        if crate::ticks() - began >= PATIENCE {
            return Err(Stuck);
        }
    }
}

/// Polls `future` up to `polls` times, and drops it then.
pub fn poll_and_drop<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    (0..polls).find_map(|_| match poll(future.as_mut()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

#[expect(unsafe_code, reason = "`core` has no other way to make a waker without an allocator")]
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    // SAFETY: the functions of `VTABLE` ignore their pointer and may be called anywhere, any number of times.
    let waker = unsafe { Waker::from_raw(RAW) };
    future.poll(&mut Context::from_waker(&waker))
}
