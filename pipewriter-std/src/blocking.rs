//! The writer for blocking streams: [`PipeWriter`] over [`std::io::Write`].
//!
//! It has the methods of the [async writer](crate::PipeWriter), without the `async`.

use std::{
    fmt, io,
    io::{IoSlice, Write},
    panic::{RefUnwindSafe, UnwindSafe},
    task::{Context, Poll, Waker},
};

use pipewriter_core::Started;

use crate::{
    Canceled, FlushResult, HeapPool, PipeHandle, PipeWriterOptions, SegmentPool, adapter::StdIo, error::Reason,
    state::State,
};

/// Encodes straight into pooled memory and flushes it to a blocking stream, losing and repeating nothing.
///
/// The producer asks for a span ([`span_mut`](Self::span_mut)), writes into it, and commits what it wrote
/// ([`advance`](Self::advance)); [`flush`](Self::flush) hands all that is committed to the stream in as few calls as the
/// stream allows. It takes the place of a `std::io::BufWriter`.
///
/// **Dropping it writes what is buffered, on a best-effort basis**, as `BufWriter` does: errors are lost, and `inner` is not
/// flushed. It does not after `complete` or `abort`, nor when `inner` has panicked or claimed too much, for then bytes might go out twice (unless an
/// explicit flush has gone well since). Call [`complete`](Self::complete) to see errors.
///
/// With a stream that is in non-blocking mode, `WouldBlock` is an error like any other: nothing is lost, and the next
/// call goes on at that byte. What becomes of the bytes when a call is canceled, fails or panics, method by method:
/// [the table](crate#cancel-safety).
///
/// # Which `flush`?
///
/// The writer is also an [`io::Write`]. Its own methods come first in method lookup and return a [`FlushResult`]; those of
/// the trait return `()` and make a cancel an error, [`Canceled`]. On `Box<PipeWriter<_>>` and the like, and where only the
/// trait's bounds are known, `.flush()` is the trait's: write `(*writer).flush()` for the writer's own.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use pipewriter_std::blocking::PipeWriter;
///
/// let mut writer = PipeWriter::new(Vec::new());
/// let span = writer.span_mut(5)?;
/// span[..5].copy_from_slice(b"hello");
/// writer.advance(5)?;
/// write!(writer, ", {}", "world")?;
/// assert!(!writer.flush()?.is_canceled());
/// Write::flush(&mut writer)?;
/// assert_eq!(writer.get_ref(), b"hello, world");
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "StreamPipeWriter")]
#[doc(alias = "BufWriter")]
pub struct PipeWriter<W: Write, P: SegmentPool = HeapPool> {
    /// `None` once `into_parts` has taken it, for the drop that follows at once.
    inner: Option<W>,
    state: State<P>,
}

const TAKEN: &str = "only into_parts takes the stream, and it takes the writer too";

/// A blocking stream never pends.
#[inline]
fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Calls a method of the pipe of `$writer` that drives its stream.
macro_rules! drive {
    ($writer:ident . $method:ident ( $($argument:expr),* )) => {{
        let State { pipe, reason } = &mut $writer.state;
        let inner = $writer.inner.as_mut().expect(TAKEN);
        pipe.$method(&mut Context::from_waker(Waker::noop()), &mut StdIo { inner, reason } $(, $argument)*)
    }};
}

impl<W: Write> PipeWriter<W> {
    /// Creates a writer over `inner` with the default options. Allocates nothing before its first span.
    ///
    /// ```
    /// use pipewriter_std::blocking::PipeWriter;
    ///
    /// let mut writer = PipeWriter::new(Vec::new());
    /// writer.write_and_flush(b"hello")?;
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "Create")]
    #[must_use]
    pub fn new(inner: W) -> Self {
        Self::with_options(inner, PipeWriterOptions::new())
    }

    /// Frees the segments that the writer keeps for the next batch, and the lists they were in; what is buffered stays, with its
    /// list. The span ends.
    ///
    /// For a writer that will be idle for long. The next batch allocates again. With a shared pool there is nothing to free here: see
    /// `SharedPool::trim`.
    ///
    /// ```
    /// let mut writer = pipewriter_std::blocking::PipeWriter::new(Vec::<u8>::new());
    /// writer.append(b"hello")?;
    /// writer.trim();
    /// assert_eq!(writer.unflushed_bytes(), 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "shrink_to_fit")]
    pub fn trim(&mut self) {
        self.state.trim();
    }
}

impl<W: Write, P: SegmentPool> PipeWriter<W, P> {
    /// Creates a writer over `inner`. Allocates nothing before its first span.
    ///
    /// # Panics
    ///
    /// If `segment_size` or `max_buffered` is 0.
    #[doc(alias = "with_capacity")]
    #[must_use]
    pub fn with_options(inner: W, options: PipeWriterOptions<P>) -> Self {
        Self { inner: Some(inner), state: State::new(options) }
    }

    /// Returns memory to encode the next bytes into: at least `max(size_hint, 1)` bytes, usually more.
    ///
    /// What is written there counts only once [`advance`](Self::advance) says so. Asked again without one, it gives the
    /// same memory, with what was written into it, unless `size_hint` is more than it has left: then a new segment starts.
    ///
    /// **The memory is not zeroed**: it is initialised, but can show old bytes of this writer, and with a pool shared by
    /// several writers old bytes of another one. Do not advance over what you have not written.
    ///
    /// # Errors
    ///
    /// `QuotaExceeded` if `size_hint` would take [`unflushed_bytes`](Self::unflushed_bytes) past `max_buffered`,
    /// `InvalidInput` if no buffer can be so large, `OutOfMemory` if the pool has no segment. The span stays as it was. `BrokenPipe` once the
    /// writer was completed.
    #[doc(alias = "GetSpan")]
    #[doc(alias = "GetMemory")]
    #[doc(alias = "chunk_mut")]
    #[inline]
    pub fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]> {
        self.state.span_mut(size_hint)
    }

    /// Commits the first `n` bytes of the span that was handed out last.
    ///
    /// It may be called several times: each commits what lies behind the last. The span ends with any other call that
    /// commits or writes, and with any call that is refused other than `span_mut`. `advance(0)` is always fine.
    ///
    /// # Errors
    ///
    /// `InvalidInput` past the span or without one, `QuotaExceeded` past `max_buffered`, `BrokenPipe` once the writer was
    /// completed; nothing is committed and the span ends.
    #[doc(alias = "Advance")]
    #[doc(alias = "advance_mut")]
    #[inline]
    pub fn advance(&mut self, n: usize) -> io::Result<()> {
        self.state.advance(n)
    }

    /// Commits a copy of `data`. Does no I/O, and in the steady state allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`span_mut`](Self::span_mut). Nothing of `data` is committed, and the writer goes on working.
    #[doc(alias = "Write")]
    #[doc(alias = "put_slice")]
    #[doc(alias = "extend_from_slice")]
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.state.append(data)
    }

    /// Writes all that is committed to `inner`, then flushes `inner`.
    ///
    /// With nothing to write and no flush of `inner` due, `inner` is not called at all. A cancel that came before ends it
    /// with [`FlushResult::is_canceled`], one that comes meanwhile at the next call of `inner`; on a completed writer it
    /// does nothing and is [`FlushResult::is_completed`].
    ///
    /// # Errors
    ///
    /// Those of `inner` as they are, but `Interrupted` is retried; `WriteZero` if `inner` takes 0 bytes; `InvalidData` if
    /// it claims to have taken more than it was offered. What was not accepted stays buffered, and the next flush goes on
    /// at that byte. After [`abort_with`](Self::abort_with), an error of that kind and text.
    #[doc(alias = "FlushAsync")]
    #[inline(always)]
    pub fn flush(&mut self) -> io::Result<FlushResult> {
        match drive!(self.start_flush()) {
            Ok(result) => Ok(result),
            Err(started) => self.finish_flush(started),
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_flush(&mut self, started: Started<io::Error>) -> io::Result<FlushResult> {
        now(drive!(self.finish_flush(started)))
    }

    /// Sends `data` behind what is buffered and flushes, as [`append`](Self::append) and [`flush`](Self::flush) but
    /// without the copy where all goes well.
    ///
    /// If the stream fails, or a cancel comes, what it had not accepted of `data` is copied into the buffer. With nothing
    /// in `data` this is `flush`.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush), after which `data` counts as committed all the same: do not send it again.
    /// `QuotaExceeded` if `data` does not fit under `max_buffered`, and `BrokenPipe` on a completed writer; nothing of
    /// `data` was taken then. `OutOfMemory` if the rest of `data` could not be kept: the stream ends inside `data` then,
    /// so the writer is aborted with that error.
    #[doc(alias = "WriteAsync")]
    #[doc(alias = "write_all")]
    #[inline(always)]
    pub fn write_and_flush(&mut self, data: &[u8]) -> io::Result<FlushResult> {
        match drive!(self.start_write_and_flush(data)) {
            Ok(result) => Ok(result),
            Err(started) => self.finish_write_and_flush(data, started),
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_write_and_flush(&mut self, data: &[u8], started: Started<io::Error>) -> io::Result<FlushResult> {
        now(drive!(self.finish_write_and_flush(data, started)))
    }

    /// Writes all that is committed to `inner`, but does not flush `inner`: that is then due, and the next
    /// [`flush`](Self::flush) does it. For a stream that buffers itself, while more is to come.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn emit(&mut self) -> io::Result<FlushResult> {
        now(drive!(self.poll_emit()))
    }

    /// Bytes that are committed here and that `inner` has not accepted yet.
    #[doc(alias = "UnflushedBytes")]
    #[doc(alias = "buffer")]
    #[inline]
    #[must_use]
    pub const fn unflushed_bytes(&self) -> usize {
        self.state.pipe.unflushed_bytes()
    }

    /// Ends the flush that runs, or with none running the next one, with [`FlushResult::is_canceled`].
    ///
    /// From another thread use a [`handle`](Self::handle). A thread inside the operating system's write is not interrupted.
    #[doc(alias = "CancelPendingFlush")]
    pub fn cancel_pending_flush(&self) {
        self.state.cancel_pending_flush();
    }

    /// Makes a handle that can cancel a flush from anywhere and tells when the writer has closed.
    ///
    /// The first one of a writer allocates what it shares with the writer (about 100 bytes), and aborts the process if
    /// there is no memory for that; its clones, and later ones, allocate nothing.
    #[must_use]
    #[doc(alias = "CancellationToken")]
    pub fn handle(&self) -> PipeHandle {
        self.state.handle()
    }

    /// Flushes, gives all memory back, and marks the writer completed. There is nothing to close in an `io::Write`.
    ///
    /// On a writer that was completed or aborted, for a reason or without, it does nothing and is `Ok`. It neither sees nor uses up a cancel.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush). Nothing is lost: call it again, and it goes on where it was. [`abort`](Self::abort) is the way to give up.
    #[doc(alias = "CompleteAsync")]
    #[doc(alias = "close")]
    #[doc(alias = "shutdown")]
    #[doc(alias = "finish")]
    pub fn complete(&mut self) -> io::Result<()> {
        now(drive!(self.poll_complete()))
    }

    /// Whether the writer was completed or aborted.
    #[must_use]
    #[doc(alias = "IsCompleted")]
    #[doc(alias = "is_closed")]
    pub const fn is_completed(&self) -> bool {
        self.state.pipe.is_completed()
    }

    /// Gives up: discards what is buffered, gives all memory back, and completes the writer.
    ///
    /// # Errors
    ///
    /// None, as there is nothing to close.
    #[doc(alias = "Complete")]
    pub fn abort(&mut self) -> io::Result<()> {
        self.abort_for(None)
    }

    /// [`abort`](Self::abort) for a reason: later calls that would commit or flush return an error of its kind and text.
    /// Only `complete` is `Ok` all the same.
    ///
    /// The first reason stays: on a completed writer it is `Ok` and changes nothing.
    ///
    /// # Errors
    ///
    /// None, as there is nothing to close.
    #[doc(alias = "Complete")]
    pub fn abort_with(&mut self, reason: io::Error) -> io::Result<()> {
        self.abort_for(Some(reason))
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&mut self, buf: &[u8]) -> io::Result<usize> {
        now(drive!(self.poll_write(buf)))
    }

    #[cold]
    #[inline(never)]
    fn write_all_slow(&mut self, mut buf: &[u8]) -> io::Result<()> {
        while !self.state.pipe.try_write(buf) && !buf.is_empty() {
            match self.write_slow(buf) {
                Ok(n) => buf = &buf[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn abort_for(&mut self, reason: Reason) -> io::Result<()> {
        let cause = self.state.set_reason(reason);
        now(drive!(self.poll_abort(cause)))
    }

    /// The stream below. It may not have got all that was committed, see [`unflushed_bytes`](Self::unflushed_bytes).
    #[doc(alias = "InnerStream")]
    #[must_use]
    pub fn get_ref(&self) -> &W {
        self.inner.as_ref().expect(TAKEN)
    }

    /// The stream below. What is written to it directly comes ahead of what is buffered here.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut W {
        self.inner.as_mut().expect(TAKEN)
    }

    /// Takes the writer apart: the stream, and what it has not accepted, in order. Never flushes; tells the handles that the writer has closed.
    ///
    /// Allocates the vector, and aborts the process if there is no memory for it. There is no `into_inner`: that of std flushes, that of
    /// `futures` throws the bytes away, and either would surprise half of its users.
    #[doc(alias = "into_inner")]
    #[must_use]
    pub fn into_parts(mut self) -> (W, Vec<u8>) {
        let bytes = self.state.pipe.to_bytes();
        let inner = self.inner.take().expect(TAKEN);
        // Before the result is made: a pool that panics here would leak one that is.
        drop(self);
        (inner, bytes)
    }
}

/// As a plain stream: `write` takes bytes into the buffer, and from the high-water mark on drives `inner` first.
///
/// An error of `write` means that it took nothing of that call. `flush` is [`PipeWriter::flush`], a cancel being an error
/// ([`Canceled`]).
impl<W: Write, P: SegmentPool> Write for PipeWriter<W, P> {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.state.pipe.try_write(buf) { Ok(buf.len()) } else { self.write_slow(buf) }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        now(drive!(self.poll_write_vectored(bufs.iter().map(|buf| &**buf))))
    }

    #[inline(always)]
    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        if self.state.pipe.try_write(buf) { Ok(()) } else { self.write_all_slow(buf) }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        if PipeWriter::flush(self)?.is_canceled() { Err(Canceled.into()) } else { Ok(()) }
    }
}

impl<W: Write, P: SegmentPool> Drop for PipeWriter<W, P> {
    fn drop(&mut self) {
        if self.inner.is_some() {
            // Best effort: an error here reaches nobody.
            let _ = drive!(self.poll_last_write());
        }
    }
}

impl<W: Write, P: SegmentPool> fmt::Debug for PipeWriter<W, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.debug("blocking::PipeWriter", f)
    }
}

// No part of it is ever pinned.
impl<W: Write + Unpin, P: SegmentPool> Unpin for PipeWriter<W, P> {}

// A panic inside the stream or the pool leaves every counter right: after one the writer is as good as before.
impl<W: Write + UnwindSafe, P: SegmentPool + UnwindSafe> UnwindSafe for PipeWriter<W, P> {}
impl<W: Write + RefUnwindSafe, P: SegmentPool + RefUnwindSafe> RefUnwindSafe for PipeWriter<W, P> {}
