use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::AsyncWrite;
use pipewriter_core::{Error, PollWrite};

use crate::error::{Reason, io_error};

/// A pinned `futures_io::AsyncWrite` for the time of one call.
pub(crate) struct FuturesIo<'a, W> {
    pub(crate) inner: Pin<&'a mut W>,
    pub(crate) reason: &'a Reason,
}

impl<W: AsyncWrite> PollWrite for FuturesIo<'_, W> {
    type Error = io::Error;

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.as_mut().poll_write(cx, buf)
    }

    #[inline]
    fn poll_write_vectored<'a>(
        &mut self,
        cx: &mut Context<'_>,
        chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        super::with_slices(chunks, |slices| self.inner.as_mut().poll_write_vectored(cx, slices))
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_close(cx)
    }

    fn fault(&self, fault: Error) -> io::Error {
        io_error(fault, self.reason)
    }

    fn is_interrupted(&self, error: &io::Error) -> bool {
        super::is_interrupted(error)
    }

    fn is_disconnected(&self, error: &io::Error) -> bool {
        super::is_disconnected(error)
    }
}
