//! A serial port made of software: it takes one to four bytes at a time, is often busy until the next tick, and checks
//! every byte that it gets.

use core::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};

use atomic_waker::AtomicWaker;
use pipewriter_core::{Error, PollWrite};

use crate::{Random, byte_at, ticks};

/// Whom the next tick wakes: the port is free again.
static FREE: AtomicWaker = AtomicWaker::new();

pub(crate) fn on_tick() {
    FREE.wake();
}

#[derive(Debug)]
pub struct Uart {
    random: Random,
    /// Busy before this tick.
    free_at: u32,
    /// Whether the other side has stopped the flow.
    pub stopped: bool,
    pub sent: u64,
    /// The place of the first byte that was not the right one.
    pub wrong: Option<u64>,
    /// Calls that took less than they were offered, and calls that had to wait.
    pub short: u32,
    pub waits: u32,
    pub flushes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UartError {
    /// Try again.
    Interrupted,
    /// The flow was stopped for too long; only where it cannot be waited for.
    TimedOut,
    /// What the pipe found wrong.
    Pipe(Error),
}

impl fmt::Display for UartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for UartError {}

impl embedded_io::Error for UartError {
    fn kind(&self) -> embedded_io::ErrorKind {
        match self {
            Self::Interrupted => embedded_io::ErrorKind::Interrupted,
            Self::TimedOut => embedded_io::ErrorKind::TimedOut,
            Self::Pipe(_) => embedded_io::ErrorKind::Other,
        }
    }
}

impl Uart {
    pub const fn new(seed: u32) -> Self {
        Self { random: Random(seed), free_at: 0, stopped: false, sent: 0, wrong: None, short: 0, waits: 0, flushes: 0 }
    }

    /// Waits for the port to be free.
    fn poll_free(&mut self, cx: &Context<'_>) -> Poll<()> {
        // First, so that a tick from here on wakes the task.
        FREE.register(cx.waker());
        if self.stopped || ticks() < self.free_at { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Takes some bytes of a port that is free.
    fn take(&mut self, buf: &[u8]) -> Result<usize, UartError> {
        if self.random.below(16) == 0 {
            return Err(UartError::Interrupted);
        }
        let n = buf.len().min(1 + self.random.below(4) as usize);
        for &byte in &buf[..n] {
            if byte != byte_at(self.sent) && self.wrong.is_none() {
                self.wrong = Some(self.sent);
            }
            self.sent += 1;
        }
        self.short += u32::from(n < buf.len());
        if self.random.below(4) == 0 {
            self.free_at = ticks() + 1;
            self.waits += 1;
        }
        Ok(n)
    }
}

/// As the core sees a stream.
impl PollWrite for Uart {
    type Error = UartError;

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, UartError>> {
        self.poll_free(cx).map(|()| self.take(buf))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UartError>> {
        self.poll_free(cx).map(|()| {
            self.flushes += 1;
            Ok(())
        })
    }

    fn fault(&self, fault: Error) -> UartError {
        UartError::Pipe(fault)
    }

    fn is_interrupted(&self, error: &UartError) -> bool {
        *error == UartError::Interrupted
    }
}

impl embedded_io::ErrorType for Uart {
    type Error = UartError;
}

/// As an async driver. Dropped while it waits, it has taken nothing.
impl embedded_io_async::Write for Uart {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, UartError> {
        poll_fn(|cx| self.poll_free(cx)).await;
        self.take(buf)
    }

    async fn flush(&mut self) -> Result<(), UartError> {
        poll_fn(|cx| self.poll_free(cx)).await;
        self.flushes += 1;
        Ok(())
    }
}

/// As a blocking driver, which gives up when the flow is stopped.
impl embedded_io::Write for Uart {
    fn write(&mut self, buf: &[u8]) -> Result<usize, UartError> {
        if self.stopped { Err(UartError::TimedOut) } else { self.take(buf) }
    }

    fn flush(&mut self) -> Result<(), UartError> {
        self.flushes += 1;
        if self.stopped { Err(UartError::TimedOut) } else { Ok(()) }
    }
}
