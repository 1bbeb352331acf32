//! The futures of the async writer. They hold no progress: that is in the writer.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::AsyncWrite;

use crate::{FlushResult, HeapPool, PipeWriter, SegmentPool, error::Reason};

/// The future of [`PipeWriter::flush`]. Holds no state: drop it at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct Flush<'a, W, P: SegmentPool = HeapPool> {
    pub(crate) writer: &'a mut PipeWriter<W, P>,
}

impl<W: AsyncWrite + Unpin, P: SegmentPool> Future for Flush<'_, W, P> {
    type Output = io::Result<FlushResult>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.writer).poll_flush(cx)
    }
}

/// The future of [`PipeWriter::write_and_flush`]. After its first poll the writer holds what is left to send.
#[must_use = "futures do nothing unless awaited"]
pub struct WriteAndFlush<'a, W, P: SegmentPool = HeapPool> {
    pub(crate) writer: &'a mut PipeWriter<W, P>,
    /// Until the first poll.
    pub(crate) data: Option<&'a [u8]>,
}

impl<W: AsyncWrite + Unpin, P: SegmentPool> Future for WriteAndFlush<'_, W, P> {
    type Output = io::Result<FlushResult>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let data = self.data.take();
        let writer = Pin::new(&mut *self.writer);
        match data {
            Some(data) => writer.poll_write_and_flush(cx, data),
            None => writer.poll_flush(cx),
        }
    }
}

/// The future of [`PipeWriter::emit`]. Holds no state: drop it at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct Emit<'a, W, P: SegmentPool = HeapPool> {
    pub(crate) writer: &'a mut PipeWriter<W, P>,
}

impl<W: AsyncWrite + Unpin, P: SegmentPool> Future for Emit<'_, W, P> {
    type Output = io::Result<FlushResult>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.writer).poll_emit(cx)
    }
}

/// The future of [`PipeWriter::complete`]. Holds no state: drop it at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct Complete<'a, W, P: SegmentPool = HeapPool> {
    pub(crate) writer: &'a mut PipeWriter<W, P>,
}

impl<W: AsyncWrite + Unpin, P: SegmentPool> Future for Complete<'_, W, P> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.writer).poll_complete(cx)
    }
}

/// The future of [`PipeWriter::abort`] and [`PipeWriter::abort_with`].
#[must_use = "futures do nothing unless awaited"]
pub struct Abort<'a, W, P: SegmentPool = HeapPool> {
    pub(crate) writer: &'a mut PipeWriter<W, P>,
    /// Until the first poll.
    pub(crate) reason: Reason,
}

impl<W: AsyncWrite + Unpin, P: SegmentPool> Future for Abort<'_, W, P> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reason = self.reason.take();
        Pin::new(&mut *self.writer).poll_abort_for(cx, reason)
    }
}

macro_rules! debug_as_writer {
    ($($future:ident)*) => {$(
        impl<W, P: SegmentPool> fmt::Debug for $future<'_, W, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($future)).field(&self.writer).finish()
            }
        }
    )*};
}
debug_as_writer!(Flush WriteAndFlush Emit Complete Abort);
