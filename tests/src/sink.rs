//! A stream that only counts: for tests that count allocations, which the script's log would spoil.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};

use futures_io::AsyncWrite;

/// Accepts everything, or so many bytes a call, and keeps nothing but counts.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Bytes accepted.
    pub bytes: u64,
    /// Write calls, plain and vectored.
    pub writes: u64,
    /// Flush calls.
    pub flushes: u64,
    /// The most bytes accepted in a call.
    pub per_call: usize,
}

impl Sink {
    /// A stream that accepts all that is offered.
    pub fn new() -> Self {
        Self { bytes: 0, writes: 0, flushes: 0, per_call: usize::MAX }
    }

    fn take(&mut self, offered: usize) -> usize {
        let taken = offered.min(self.per_call);
        self.bytes += taken as u64;
        self.writes += 1;
        taken
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self::new()
    }
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take(buf.len())))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take(bufs.iter().map(|buf| buf.len()).sum())))
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
        Ok(self.take(buf.len()))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.take(bufs.iter().map(|buf| buf.len()).sum()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        Ok(())
    }
}
