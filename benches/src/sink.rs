//! Streams in memory: they count what arrives and keep nothing.

use std::{
    io::{self, IoSlice, Write},
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::AsyncWrite;

/// Takes everything at once.
///
/// Its writes are real calls whose result nobody knows beforehand, as those of a socket are; its flush, like a socket's, does nothing.
#[derive(Debug, Default)]
pub struct Sink {
    /// Bytes that have arrived. No second counter stands beside it: both would be counted by one addition of a vector, which
    /// is three times as slow where it happens to lie across two cache lines.
    pub bytes: u64,
}

impl Sink {
    #[inline]
    fn take(&mut self, bytes: usize) -> usize {
        self.bytes += bytes as u64;
        bytes
    }

    #[inline]
    fn take_all(&mut self, slices: &[IoSlice<'_>]) -> usize {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.bytes += bytes as u64;
        bytes
    }
}

impl Write for Sink {
    #[inline(never)]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.take(buf.len()))
    }
    #[inline(never)]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.take_all(bufs))
    }
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncWrite for Sink {
    #[inline(never)]
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take(buf.len())))
    }
    #[inline(never)]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take_all(bufs)))
    }
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for Sink {
    #[inline(never)]
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take(buf.len())))
    }
    #[inline(never)]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take_all(bufs)))
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What a [`Grudging`] stream takes of a call.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// All that is offered.
    All,
    /// Only the first chunk of a vectored write.
    FirstChunk,
    /// So many bytes at most.
    AtMost(usize),
}

/// Takes only a part of what it is offered.
#[derive(Debug)]
pub struct Grudging {
    /// What it takes of a call.
    pub takes: Takes,
    /// What has arrived.
    pub sink: Sink,
}

impl Grudging {
    /// A stream that nothing has been written to.
    #[must_use]
    pub fn new(takes: Takes) -> Self {
        Self { takes, sink: Sink::default() }
    }
}

impl Write for Grudging {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let most = if let Takes::AtMost(most) = self.takes { most } else { usize::MAX };
        self.sink.write(&buf[..buf.len().min(most)])
    }
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self.takes, bufs) {
            (Takes::All, _) => self.sink.write_vectored(bufs),
            (_, [first, ..]) => self.write(first),
            (_, []) => Ok(0),
        }
    }
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
