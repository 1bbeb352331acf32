//! Wakers with a hook in each of their methods, and a guard against tests that hang.

use core::mem;
use core::task::{RawWaker, RawWakerVTable, Waker};
use core::time::Duration;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

/// Which method of a waker is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Clone,
    Wake,
    Drop,
}

struct Hook(Box<dyn Fn(Event) + Send + Sync>);

/// A waker that calls `hook` whenever it is cloned, woken or dropped. Waking by value is a wake and no drop.
pub(crate) fn hooked(hook: impl Fn(Event) + Send + Sync + 'static) -> Waker {
    let data = Arc::into_raw(Arc::new(Hook(Box::new(hook))));
    // SAFETY: `data` comes from `Arc::into_raw` and stands for one count of that `Arc`, as the functions of the table
    // expect; they are safe to call from any thread since `Hook` is `Send` and `Sync`.
    unsafe { Waker::from_raw(RawWaker::new(data.cast(), &TABLE)) }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(cloned, woken, woken_by_ref, dropped);

/// # Safety
///
/// For all four: `data` stands for one count of an `Arc<Hook>`; `woken` and `dropped` use it up.
unsafe fn cloned(data: *const ()) -> RawWaker {
    // SAFETY: see above; the count that `data` stands for is left alone.
    let hook = mem::ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Hook>()) });
    (hook.0)(Event::Clone);
    RawWaker::new(Arc::into_raw(Arc::clone(&hook)).cast(), &TABLE)
}

unsafe fn woken(data: *const ()) {
    // SAFETY: see above.
    let hook = unsafe { Arc::from_raw(data.cast::<Hook>()) };
    (hook.0)(Event::Wake);
}

unsafe fn woken_by_ref(data: *const ()) {
    // SAFETY: see above; the count that `data` stands for is left alone.
    let hook = mem::ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Hook>()) });
    (hook.0)(Event::Wake);
}

unsafe fn dropped(data: *const ()) {
    // SAFETY: see above.
    let hook = unsafe { Arc::from_raw(data.cast::<Hook>()) };
    (hook.0)(Event::Drop);
}

/// Runs `f` on a thread of its own, and fails where it would hang, for example on a lock that is taken twice.
///
/// A test that passes never waits for the clock: the limit is there for the one that hangs.
#[track_caller]
pub(crate) fn without_hanging<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    const LIMIT: Duration = Duration::from_secs(20);
    let (done, end) = channel();
    let thread = thread::spawn(move || {
        let value = f();
        // Nobody listens any more once the limit has passed.
        let _ = done.send(value);
    });
    match end.recv_timeout(LIMIT) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => {
            panic!("it hangs: a lock is held while code of others runs, or a wakeup was lost")
        }
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(()) => panic!("the thread ended without a value"),
            Err(panic) => resume_unwind(panic),
        },
    }
}
