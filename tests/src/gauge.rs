//! Streams to put between a writer and the operating system: one that notes what the system said, and one that lets the
//! async writer stand on a blocking stream.

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;

use futures_io::AsyncWrite;

/// Passes all calls on, and notes what came of them.
#[derive(Debug)]
pub struct Gauge<W> {
    inner: W,
    reading: Reading,
}

impl<W> Gauge<W> {
    /// A gauge over `inner` that has noted nothing yet.
    pub fn new(inner: W) -> Self {
        Self { inner, reading: Reading::default() }
    }

    /// What was noted; it can be looked at from any thread, and outlives the gauge.
    pub fn reading(&self) -> Reading {
        self.reading.clone()
    }

    /// The stream below.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }
}

/// What a [`Gauge`] has noted.
#[derive(Clone, Debug, Default)]
pub struct Reading(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicUsize,
    short: AtomicUsize,
    interrupted: AtomicUsize,
    stalled: AtomicUsize,
}

impl Reading {
    /// Bytes that the stream has accepted.
    pub fn accepted(&self) -> usize {
        self.0.accepted.load(Ordering::SeqCst)
    }

    /// Writes of which the stream accepted a part only.
    pub fn short(&self) -> usize {
        self.0.short.load(Ordering::SeqCst)
    }

    /// Calls that a signal interrupted before they had done anything.
    pub fn interrupted(&self) -> usize {
        self.0.interrupted.load(Ordering::SeqCst)
    }

    /// Calls that were pending or would have blocked.
    pub fn stalled(&self) -> usize {
        self.0.stalled.load(Ordering::SeqCst)
    }

    fn note_write(&self, offered: usize, result: &io::Result<usize>) {
        match result {
            Ok(n) => {
                self.0.accepted.fetch_add(*n, Ordering::SeqCst);
                self.0.short.fetch_add(usize::from(*n < offered), Ordering::SeqCst);
            }
            Err(error) => self.note_error(error),
        }
    }

    fn note_error(&self, error: &io::Error) {
        match error.kind() {
            ErrorKind::Interrupted => self.0.interrupted.fetch_add(1, Ordering::SeqCst),
            ErrorKind::WouldBlock => self.note_stall(),
            _ => 0,
        };
    }

    fn note_stall(&self) -> usize {
        self.0.stalled.fetch_add(1, Ordering::SeqCst)
    }
}

fn total(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter().map(|buf| buf.len()).sum()
}

impl<W: Write> Write for Gauge<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(buf);
        self.reading.note_write(buf.len(), &result);
        result
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.inner.write_vectored(bufs);
        self.reading.note_write(total(bufs), &result);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().inspect_err(|error| self.reading.note_error(error))
    }
}

impl<W: AsyncWrite + Unpin> Gauge<W> {
    fn noted(&self, offered: usize, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &poll {
            Poll::Ready(result) => self.reading.note_write(offered, result),
            Poll::Pending => drop(self.reading.note_stall()),
        }
        poll
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Gauge<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.noted(buf.len(), poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.noted(total(bufs), poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

/// A blocking stream that is also an `AsyncWrite`, one that never pends and returns each error as it is: those of other
/// crates retry `Interrupted` themselves, which here is the writer's task.
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write + Unpin> AsyncWrite for Plain<W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write_vectored(bufs))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
