//! A stream that only counts and allocates nothing: for tests that count allocations, which the script's log would spoil.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};

use futures_io::AsyncWrite;

/// Accepts everything, or as much as its limits allow, and keeps nothing but counts.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Bytes accepted.
    pub bytes: usize,
    /// Write calls, plain and vectored.
    pub writes: usize,
    /// Flush calls.
    pub flushes: usize,
    /// The most bytes accepted in a call.
    pub per_call: usize,
    /// How many bytes are accepted before a write is put off, and its task never woken.
    pub room: usize,
}

impl Sink {
    /// A stream that accepts all that is offered.
    pub fn new() -> Self {
        Self { bytes: 0, writes: 0, flushes: 0, per_call: usize::MAX, room: usize::MAX }
    }

    /// The bytes accepted of so many offered; `None` where there is no room.
    fn take(&mut self, offered: usize) -> Option<usize> {
        self.writes += 1;
        let taken = offered.min(self.per_call).min(self.room);
        self.room -= taken;
        self.bytes += taken;
        (taken > 0).then_some(taken)
    }

    fn poll_take(&mut self, offered: usize) -> Poll<io::Result<usize>> {
        self.take(offered).map_or(Poll::Pending, |taken| Poll::Ready(Ok(taken)))
    }

    fn take_now(&mut self, offered: usize) -> io::Result<usize> {
        self.take(offered).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_take(buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_take(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl io::Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.take_now(buf.len())
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.take_now(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        Ok(())
    }
}
