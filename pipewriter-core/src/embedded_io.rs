//! A pipe over a blocking driver: any [`embedded_io::Write`].
//!
//! [`PipeWriter`] is the usual way in. [`Blocking`] is the stream beneath it, for those who call a [`Pipe`] themselves.
//! For drivers with `async` methods there is the module `embedded_io_async`, with the feature of that name.
//!
//! ```
//! use pipewriter_core::{FixedQueue, Options, Pipe, SlicePool, embedded_io::PipeWriter};
//!
//! let mut memory = [0; 256]; // or a `static`
//! let pool = SlicePool::<4>::new(&mut memory);
//! let options = Options::new().segment_size(pool.segment_len());
//! let pipe: Pipe<_, (), FixedQueue<_, 4>> = Pipe::with_options(pool, options);
//!
//! let mut sent = [0; 16];
//! let uart = &mut sent[..]; //                        any `embedded_io::Write`: here memory
//! let mut writer = PipeWriter::new(uart, pipe);
//! let span = writer.span_mut(5)?;
//! span[..5].copy_from_slice(b"hello");
//! writer.advance(5)?;
//! writer.append(b", uart")?;
//! writer.flush()?;
//! assert_eq!(&sent[..11], b"hello, uart");
//! # Ok::<(), pipewriter_core::embedded_io::WriteError<embedded_io::SliceWriteError>>(())
//! ```

use core::{
    fmt,
    task::{Context, Poll, Waker},
};

use embedded_io::Write;

use crate::{
    Error, FlushResult, Link, Pipe, PollWrite, SegmentPool, SegmentQueue, embedded::methods_without_io, pipe::Goal,
};

pub use crate::embedded::WriteError;

/// A blocking driver as a stream for a [`Pipe`]: it never pends, and has no close.
///
/// ```
/// use core::task::{Context, Waker};
/// use pipewriter_core::{FixedQueue, Options, Pipe, SlicePool, embedded_io::Blocking};
///
/// let mut memory = [0; 64];
/// let options = Options::new().segment_size(16);
/// let mut pipe: Pipe<_, (), FixedQueue<_, 4>> = Pipe::with_options(SlicePool::<4>::new(&mut memory), options);
/// pipe.append(b"hello")?;
///
/// let mut sent = [0; 8];
/// let mut uart = Blocking(&mut sent[..]);
/// assert!(pipe.poll_flush(&mut Context::from_waker(Waker::noop()), &mut uart).is_ready());
/// assert_eq!(&sent[..5], b"hello");
/// # Ok::<(), pipewriter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocking<W>(
    /// The driver.
    pub W,
);

impl<W: Write> PollWrite for Blocking<W> {
    type Error = WriteError<W::Error>;

    const MAY_YIELD: bool = false;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        Poll::Ready(self.0.write(buf).map_err(WriteError::Stream))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(self.0.flush().map_err(WriteError::Stream))
    }

    fn fault(&self, fault: Error) -> Self::Error {
        fault.into()
    }

    fn is_interrupted(&self, error: &Self::Error) -> bool {
        error.is_interrupted()
    }

    fn is_disconnected(&self, error: &Self::Error) -> bool {
        error.is_disconnected()
    }
}

/// A pipe and its blocking driver: encode into spans, then flush, and no byte is lost or repeated.
///
/// The methods are those of the writers in `pipewriter-std`. After an error what the driver had not accepted stays
/// buffered, and the next flush goes on at that byte. **Dropping the writer discards what is buffered**: call
/// [`complete`](Self::complete) first.
///
/// It is an [`embedded_io::Write`] too, so that `write!` works. The trait's `write` takes bytes into the pipe until
/// `high_water_mark` is reached or the pool has no more memory, and then has the driver take what is buffered before it
/// goes on. The writer's own [`flush`](Self::flush) comes first in method lookup; that of the trait makes a cancel an
/// error, [`WriteError::Canceled`].
pub struct PipeWriter<W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    driver: W,
    pipe: Pipe<P, L, Q>,
}

impl<W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> PipeWriter<W, P, L, Q> {
    /// Puts a pipe over `driver`.
    #[doc(alias = "Create")]
    #[must_use]
    pub const fn new(driver: W, pipe: Pipe<P, L, Q>) -> Self {
        Self { driver, pipe }
    }

    methods_without_io!();
}

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> PipeWriter<W, P, L, Q> {
    /// Has the driver take all that is committed, then flushes it.
    ///
    /// It ends early with [`FlushResult::is_canceled`] when a cancel waits. A thread or interrupt that sits inside the
    /// driver's own method is not interrupted.
    ///
    /// # Errors
    ///
    /// The driver's; [`WriteError::Pipe`] if it takes no more ([`Error::WriteZero`]) or claims too much. Nothing is lost.
    #[doc(alias = "FlushAsync")]
    pub fn flush(&mut self) -> Result<FlushResult, WriteError<W::Error>> {
        self.call(|pipe, cx, stream| pipe.poll_flush(cx, stream))
    }

    /// [`flush`](Self::flush) without the flush of the driver, which is then due.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn emit(&mut self) -> Result<FlushResult, WriteError<W::Error>> {
        self.call(|pipe, cx, stream| pipe.poll_emit(cx, stream))
    }

    /// [`append`](Self::append), then [`flush`](Self::flush).
    ///
    /// `data` is copied, so that it must fit the pool. [`Pipe::poll_write_and_flush`] sends it from where it lies, but has
    /// to abort the pipe if the driver fails midway and what is left does not fit one segment.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append), and then nothing was taken of `data`; or those of [`flush`](Self::flush), and
    /// then it is committed.
    #[doc(alias = "WriteAsync")]
    pub fn write_and_flush(&mut self, data: &[u8]) -> Result<FlushResult, WriteError<W::Error>> {
        if !data.is_empty() {
            self.pipe.append(data)?;
        }
        self.flush()
    }

    /// Flushes, gives all segments back, and takes no more bytes. Neither sees nor uses up a cancel.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush). Nothing is lost: call it again.
    #[doc(alias = "CompleteAsync")]
    #[doc(alias = "close")]
    pub fn complete(&mut self) -> Result<(), WriteError<W::Error>> {
        self.call(|pipe, cx, stream| pipe.poll_complete(cx, stream))
    }

    fn call<T>(
        &mut self,
        mut poll: impl FnMut(&mut Pipe<P, L, Q>, &mut Context<'_>, &mut Blocking<&mut W>) -> Poll<T>,
    ) -> T {
        let mut stream = Blocking(&mut self.driver);
        loop {
            // `Blocking` never pends, so this goes round once.
            if let Poll::Ready(result) = poll(&mut self.pipe, &mut Context::from_waker(Waker::noop()), &mut stream) {
                return result;
            }
        }
    }
}

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> embedded_io::ErrorType for PipeWriter<W, P, L, Q> {
    type Error = WriteError<W::Error>;
}

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Write for PipeWriter<W, P, L, Q> {
    fn write(&mut self, buf: &[u8]) -> Result<usize, Self::Error> {
        loop {
            if let Some(taken) = self.pipe.take(buf)? {
                return Ok(taken);
            }
            self.call(|pipe, cx, stream| pipe.drive(cx, stream, &mut &[][..], Goal::Drain, None))?;
        }
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        if PipeWriter::flush(self)?.is_canceled() { Err(WriteError::Canceled) } else { Ok(()) }
    }
}

impl<W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> fmt::Debug for PipeWriter<W, P, L, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}
