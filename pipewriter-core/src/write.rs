use core::task::{Context, Poll};

use crate::Error;

/// A byte stream as the flush machine sees it: four poll methods and an error type of its own.
///
/// This is all that a port to another kind of stream or executor has to write. It is the core's counterpart of
/// `futures_io::AsyncWrite` without `Pin`: an adapter for pinned streams holds a `Pin<&mut W>`. A stream that never waits (blocking I/O) never returns [`Poll::Pending`].
///
/// What the machine promises: no chunk and no offer is ever empty; one call offers 1,024 chunks and 256 KiB at most; after `Pending` the next write offers
/// the same bytes first, in a first chunk that is not shorter; nothing is called any more once `poll_close` has succeeded. What it expects:
/// `Ok(n)` with at most as many bytes as it offered (more is noticed and refused), and a wake-up after `Pending`.
///
/// ```
/// use core::convert::Infallible;
/// use core::task::{Context, Poll};
/// use pipewriter_core::{Error, HeapPipe, HeapPool, Pipe, PollWrite};
///
/// /// Takes three bytes a call.
/// struct Uart(Vec<u8>);
///
/// impl PollWrite for Uart {
///     type Error = Error;
///     fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
///         let n = buf.len().min(3);
///         self.0.extend_from_slice(&buf[..n]);
///         Poll::Ready(Ok(n))
///     }
///     fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
///         Poll::Ready(Ok(()))
///     }
///     fn fault(&self, fault: Error) -> Error {
///         fault
///     }
/// }
///
/// let mut cx = Context::from_waker(std::task::Waker::noop());
/// let mut uart = Uart(Vec::new());
/// let mut pipe: HeapPipe = Pipe::new(HeapPool::new());
/// pipe.append(b"hello, core")?;
/// assert!(pipe.poll_flush(&mut cx, &mut uart).is_ready());
/// assert_eq!(uart.0, b"hello, core");
/// # Ok::<(), Error>(())
/// ```
pub trait PollWrite {
    /// What goes wrong in this stream.
    type Error;

    /// Whether a poll may wake its own task and return `Pending` to let others have a turn.
    ///
    /// It does so after 4 MiB, or 262,144 calls that took less, for a stream that is always ready would else hold its executor for
    /// as long as there is something to send. A close that is interrupted as often does so too. The argument of a `write_and_flush` goes out in one poll all the same: its rest would have to be copied.
    /// A stream that never pends says `false`, as its pipe must not either.
    const MAY_YIELD: bool = true;

    /// Takes some of `buf`, which is not empty, and says how many bytes.
    ///
    /// # Errors
    ///
    /// Whatever the stream meets; then it has taken nothing of `buf`. The pipe keeps the bytes and offers them again.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>>;

    /// Takes some of `chunks`, of which there are two at least, in order, and says how many bytes in all.
    ///
    /// By default it writes the first chunk: correct, at a call for each chunk.
    ///
    /// # Errors
    ///
    /// As for [`poll_write`](Self::poll_write).
    fn poll_write_vectored<'a>(
        &mut self,
        cx: &mut Context<'_>,
        mut chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<Result<usize, Self::Error>> {
        let Some(first) = chunks.next() else { return Poll::Ready(Ok(0)) };
        match self.poll_write(cx, first) {
            // More than it was handed. What follows was offered to this method, but not to the stream: with it the claim is
            // more than all, and seen.
            Poll::Ready(Ok(n)) if n > first.len() => {
                Poll::Ready(Ok(chunks.fold(n, |sum, chunk| sum.saturating_add(chunk.len()))))
            }
            result => result,
        }
    }

    /// Pushes out what the stream itself holds back.
    ///
    /// # Errors
    ///
    /// Whatever the stream meets; the flush stays due.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>>;

    /// Ends the stream. By default there is nothing to end.
    ///
    /// # Errors
    ///
    /// Whatever the stream meets; the close can be tried again.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Puts what the core found wrong into the stream's own error type.
    fn fault(&self, fault: Error) -> Self::Error;

    /// Whether the call that failed with `error` was merely interrupted and is to be made again at once.
    fn is_interrupted(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }

    /// Whether `error` means that whoever reads the stream is gone for good.
    fn is_disconnected(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }
}
