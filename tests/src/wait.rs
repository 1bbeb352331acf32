//! Waiting for things that other threads, other processes or the kernel do. Time decides no test: the only limit is one
//! past which something hangs for sure, and whoever meets it says what was awaited.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, also on a machine that is busy with other things.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
///
/// # Panics
///
/// If it does not within [`LIMIT`]; `what` says what was awaited.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the process unless it is dropped in time, for a thread may hang within a call of the operating system, where no
/// panic reaches it.
#[derive(Debug)]
pub struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    /// Gives what follows [`LIMIT`] from now; `what` says what is awaited.
    pub fn new(what: impl Into<String>) -> Self {
        Self::after(LIMIT, what)
    }

    /// Gives what follows `limit` from now.
    pub fn after(limit: Duration, what: impl Into<String>) -> Self {
        let what = what.into();
        let (alive, ended) = mpsc::channel();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("waited in vain for {what}");
                process::abort();
            }
        });
        Self { _alive: alive }
    }
}
