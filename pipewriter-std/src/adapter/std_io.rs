use std::{
    io,
    task::{Context, Poll},
};

use pipewriter_core::{Error, PollWrite};

use crate::error::{Reason, io_error};

/// A `std::io::Write` for the time of one call. It never pends, and has no close.
pub(crate) struct StdIo<'a, W> {
    pub(crate) inner: &'a mut W,
    pub(crate) reason: &'a Reason,
}

impl<W: io::Write> PollWrite for StdIo<'_, W> {
    type Error = io::Error;

    const MAY_YIELD: bool = false;

    #[inline]
    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.inner.write(buf))
    }

    #[inline]
    fn poll_write_vectored<'a>(
        &mut self,
        _: &mut Context<'_>,
        chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(super::with_slices(chunks, |slices| self.inner.write_vectored(slices)))
    }

    #[inline]
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.inner.flush())
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
