//! What the two writers over `embedded-io` drivers share: their error, the producer's methods, and how a plain `write`
//! takes bytes.

use core::fmt;

use embedded_io::ErrorKind;

use crate::{Error, Link, Pipe, SegmentPool, SegmentQueue};

/// Why a writer over an `embedded-io` driver failed: the driver, or the pipe.
///
/// Its [`kind`](embedded_io::Error::kind) is that of the driver's error, or the nearest one to what the pipe says; never
/// `Interrupted`, for the pipe has tried again by then.
///
/// ```
/// use embedded_io::{Error as _, ErrorKind};
/// use pipewriter_core::{Error, embedded_io::WriteError};
///
/// let error: WriteError<ErrorKind> = Error::WriteZero.into();
/// assert_eq!(error.kind(), ErrorKind::WriteZero);
/// assert_eq!(WriteError::Stream(ErrorKind::TimedOut).kind(), ErrorKind::TimedOut);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// The driver's error, as it is.
    Stream(E),
    /// What the pipe refused, or found wrong with the driver.
    Pipe(Error),
    /// A cancel ended the flush. Only the trait's `flush` says so, which has no other way; the writer's own returns a
    /// [`FlushResult`](crate::FlushResult).
    Canceled,
}

impl<E> From<Error> for WriteError<E> {
    fn from(error: Error) -> Self {
        Self::Pipe(error)
    }
}

impl<E: embedded_io::Error> WriteError<E> {
    /// Whether the driver was merely interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stream(error) if error.kind() == ErrorKind::Interrupted)
    }

    /// Whether the other side is gone for good.
    pub(crate) fn is_disconnected(&self) -> bool {
        matches!(
            embedded_io::Error::kind(self),
            ErrorKind::BrokenPipe
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::NotConnected
                | ErrorKind::WriteZero
        )
    }
}

impl<E: embedded_io::Error> embedded_io::Error for WriteError<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Stream(error) => error.kind(),
            // There is no kind for a quota; what helps is the same: flush, then try again.
            Self::Pipe(Error::OutOfMemory | Error::QuotaExceeded { .. }) => ErrorKind::OutOfMemory,
            Self::Pipe(Error::SpanOverrun { .. } | Error::TooLarge { .. }) => ErrorKind::InvalidInput,
            Self::Pipe(Error::Completed) => ErrorKind::BrokenPipe,
            Self::Pipe(Error::WriteZero) => ErrorKind::WriteZero,
            Self::Pipe(Error::Overclaimed { .. }) => ErrorKind::InvalidData,
            Self::Pipe(Error::Aborted) | Self::Canceled => ErrorKind::Other,
        }
    }
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Pipe(error) => error.fmt(f),
            Self::Canceled => f.write_str("the flush was canceled: what was not sent stays buffered, flush again"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for WriteError<E> {}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Pipe<P, L, Q> {
    /// Takes of `data` what fits below the high-water mark and into one segment. `None` where the stream must first take
    /// what is buffered.
    ///
    /// A pool that has run out is as good a mark as the other: memory of fixed size pushes back instead of failing.
    pub(crate) fn take(&mut self, data: &[u8]) -> Result<Option<usize>, Error> {
        self.buffer.end_span();
        self.check_open()?;
        if data.is_empty() {
            return Ok(Some(0));
        }
        let room = self.buffer.room_to_mark();
        if room == 0 {
            return Ok(None);
        }
        let holds = self.unflushed_bytes() > 0;
        let taken = match self.span_mut(1) {
            Ok(span) => {
                let n = data.len().min(room).min(span.len());
                span[..n].copy_from_slice(&data[..n]);
                n
            }
            Err(Error::OutOfMemory) if holds => return Ok(None),
            Err(error) => return Err(error),
        };
        self.advance(taken)?;
        self.buffer.end_span();
        Ok(Some(taken))
    }
}

/// The methods that do no I/O, which are the same whether the driver is async or blocking.
macro_rules! methods_without_io {
    () => {
        /// Returns memory to write the next bytes into: `max(size_hint, 1)` bytes at least, usually more.
        ///
        /// [`advance`](Self::advance) then says how many of them count. The memory is initialised but not zeroed: it may
        /// show old bytes. See [`Pipe::span_mut`].
        ///
        /// # Errors
        ///
        /// Those of [`Pipe::span_mut`], which leave the span as it was. On memory of fixed size [`Error::OutOfMemory`] says
        /// that it is full: flush, then try again. That does not help with a `size_hint` above the length of a segment, which is never
        /// to be had, nor with a pipe whose `segment_size` is above it.
        #[doc(alias = "GetSpan")]
        #[doc(alias = "GetMemory")]
        #[doc(alias = "chunk_mut")]
        pub fn span_mut(&mut self, size_hint: usize) -> Result<&mut [u8], Error> {
            self.pipe.span_mut(size_hint)
        }

        /// Commits the first `n` bytes of the span.
        ///
        /// # Errors
        ///
        /// Those of [`Pipe::advance`]; nothing is committed and the span ends.
        #[doc(alias = "Advance")]
        #[doc(alias = "advance_mut")]
        pub fn advance(&mut self, n: usize) -> Result<(), Error> {
            self.pipe.advance(n)
        }

        /// Commits a copy of `data`, in as many segments as it takes: all of it or nothing. No I/O.
        ///
        /// # Errors
        ///
        /// Those of [`Pipe::append`]; nothing is committed.
        #[doc(alias = "put_slice")]
        pub fn append(&mut self, data: &[u8]) -> Result<(), Error> {
            self.pipe.append(data)
        }

        /// Bytes that are committed and that the driver has not accepted.
        #[doc(alias = "UnflushedBytes")]
        pub fn unflushed_bytes(&self) -> usize {
            self.pipe.unflushed_bytes()
        }

        /// Discards what is buffered, gives all segments back, and takes no more bytes.
        #[doc(alias = "discard")]
        pub fn abort(&mut self) {
            self.pipe.abort(crate::Cause::Asked);
        }

        /// Whether the writer was completed or aborted.
        pub fn is_completed(&self) -> bool {
            self.pipe.is_completed()
        }

        /// The driver.
        #[doc(alias = "InnerStream")]
        pub const fn get_ref(&self) -> &W {
            &self.driver
        }

        /// The driver. Do not write to it behind the pipe's back.
        pub const fn get_mut(&mut self) -> &mut W {
            &mut self.driver
        }

        /// The pipe: what may cancel it ([`Pipe::link`]), its pool, its state.
        pub const fn pipe(&self) -> &Pipe<P, L, Q> {
            &self.pipe
        }

        /// Takes the writer apart. Never flushes: what the driver has not accepted is still in the pipe.
        #[doc(alias = "into_inner")]
        pub fn into_parts(self) -> (W, Pipe<P, L, Q>) {
            (self.driver, self.pipe)
        }
    };
}

pub(crate) use methods_without_io;
