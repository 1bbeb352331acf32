use std::{
    fmt, io,
    io::IoSlice,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_io::AsyncWrite;
use pin_project_lite::pin_project;
use pipewriter_core::Started;

use crate::{
    Abort, Canceled, Complete, Emit, Flush, FlushResult, HeapPool, PipeHandle, PipeWriterOptions, SegmentPool,
    WriteAndFlush, adapter::FuturesIo, error::Reason, state::State,
};

pin_project! {
    /// Encodes straight into pooled memory and flushes it to an async stream, losing and repeating nothing.
    ///
    /// The producer asks for a span ([`span_mut`](Self::span_mut)), writes into it, and commits what it wrote
    /// ([`advance`](Self::advance)); [`flush`](Self::flush) hands all that is committed to the stream in as few calls as
    /// the stream allows. It is the counterpart of .NET's `PipeWriter` over a stream, and takes the place of an async
    /// `BufWriter`. For blocking streams there is [`blocking::PipeWriter`](crate::blocking::PipeWriter).
    ///
    /// **Dropping it discards what is buffered**, as a destructor can not await. Call [`complete`](Self::complete) (or
    /// [`flush`](Self::flush)) first. Dropping it also gives its memory back and tells the handles that it has closed.
    ///
    /// # Cancel safety
    ///
    /// *Cancel safe* here means: when the future is dropped before it is done, no committed byte is lost and none is sent
    /// twice. All futures of this type are: the position lives in the writer, and the next call goes on at that byte.
    /// Method by method: [the table](crate#cancel-safety).
    ///
    /// # Which `flush`?
    ///
    /// The writer is also an [`AsyncWrite`]. Its own methods come first in method lookup and return a [`FlushResult`];
    /// those of the trait (through `AsyncWriteExt`, say) return `()` and make a cancel an error, [`Canceled`]. On
    /// `Box<PipeWriter<_>>` and the like, and where only the trait's bounds are known, `.flush()` is the trait's: write `(*writer).flush()`
    /// for the writer's own.
    ///
    /// # Examples
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use pipewriter_std::PipeWriter;
    ///
    /// let mut writer = PipeWriter::new(Vec::<u8>::new());
    /// let span = writer.span_mut(5)?;
    /// span[..5].copy_from_slice(b"hello");
    /// writer.advance(5)?;
    /// writer.append(b", world")?;
    /// writer.flush().await?;
    /// assert_eq!(writer.get_ref(), b"hello, world");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// The two faces of `flush`:
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// use futures_lite::AsyncWriteExt;
    /// use pipewriter_std::PipeWriter;
    ///
    /// let mut writer = PipeWriter::new(Vec::<u8>::new());
    /// writer.write_all(b"by the trait").await?;
    /// assert!(!writer.flush().await?.is_canceled());
    /// AsyncWriteExt::flush(&mut writer).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[doc(alias = "StreamPipeWriter")]
    #[doc(alias = "BufWriter")]
    pub struct PipeWriter<W, P: SegmentPool = HeapPool> {
        #[pin]
        inner: W,
        state: State<P>,
    }
}

impl<W> PipeWriter<W> {
    /// Creates a writer over `inner` with the default options. Allocates nothing before its first span.
    ///
    /// `W` is to be a `futures_io::AsyncWrite`, which its methods that do I/O ask for: for an `io::Write` there is
    /// [`blocking`](crate::blocking), and for tokio's streams `tokio_util::compat`.
    ///
    /// ```
    /// let writer = pipewriter_std::PipeWriter::new(Vec::<u8>::new());
    /// # drop(writer);
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
    /// let mut writer = pipewriter_std::PipeWriter::new(Vec::<u8>::new());
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

impl<W, P: SegmentPool> PipeWriter<W, P> {
    /// Creates a writer over `inner`. Allocates nothing before its first span.
    ///
    /// # Panics
    ///
    /// If `segment_size` or `max_buffered` is 0.
    ///
    /// ```
    /// use pipewriter_std::{PipeWriter, PipeWriterOptions};
    ///
    /// let writer = PipeWriter::with_options(Vec::<u8>::new(), PipeWriterOptions::new().segment_size(512));
    /// # drop(writer);
    /// ```
    #[doc(alias = "with_capacity")]
    #[must_use]
    pub fn with_options(inner: W, options: PipeWriterOptions<P>) -> Self {
        Self { inner, state: State::new(options) }
    }

    /// Returns memory to encode the next bytes into: at least `max(size_hint, 1)` bytes, usually more.
    ///
    /// What is written there counts only once [`advance`](Self::advance) says so. Asked again without one, it gives the
    /// same memory, with what was written into it, unless `size_hint` is more than it has left: then a new segment starts.
    ///
    /// **The memory is not zeroed**: it is initialised, but can show old bytes of this writer, and with a pool shared by
    /// several writers old bytes of another one. Do not advance over what you have not written.
    ///
    /// Takes a segment from the pool where it needs one; in the steady state nothing is allocated.
    ///
    /// # Errors
    ///
    /// `QuotaExceeded` if `size_hint` would take [`unflushed_bytes`](Self::unflushed_bytes) past `max_buffered`,
    /// `InvalidInput` if no buffer can be so large, `OutOfMemory` if the pool has no segment. The span stays as it was. `BrokenPipe` once the
    /// writer was completed.
    ///
    /// ```
    /// # let mut writer = pipewriter_std::PipeWriter::new(Vec::<u8>::new());
    /// let span = writer.span_mut(4)?;
    /// span[..4].copy_from_slice(&7_u32.to_be_bytes());
    /// writer.advance(4)?;
    /// assert_eq!(writer.unflushed_bytes(), 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
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

    /// Bytes that are committed here and that `inner` has not accepted yet.
    #[doc(alias = "UnflushedBytes")]
    #[doc(alias = "buffer")]
    #[inline]
    #[must_use]
    pub const fn unflushed_bytes(&self) -> usize {
        self.state.pipe.unflushed_bytes()
    }

    /// Ends the flush that is pending, or with none pending the next one, with [`FlushResult::is_canceled`].
    ///
    /// While the future of a flush lives it borrows the writer: cancel it with a [`handle`](Self::handle) that was made before.
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

    /// Whether the writer was completed or aborted.
    #[must_use]
    #[doc(alias = "IsCompleted")]
    #[doc(alias = "is_closed")]
    pub const fn is_completed(&self) -> bool {
        self.state.pipe.is_completed()
    }

    /// The stream below. It may not have got all that was committed, see [`unflushed_bytes`](Self::unflushed_bytes).
    #[doc(alias = "InnerStream")]
    #[must_use]
    pub const fn get_ref(&self) -> &W {
        &self.inner
    }

    /// The stream below. What is written to it directly comes ahead of what is buffered here.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// The stream below, pinned.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut W> {
        self.project().inner
    }

    /// Takes the writer apart: the stream, and what it has not accepted, in order. Never flushes; tells the handles that the writer has closed.
    ///
    /// Allocates the vector, and aborts the process if there is no memory for it. There is no `into_inner`: that of std flushes, that of
    /// `futures` throws the bytes away, and either would surprise half of its users.
    ///
    /// ```
    /// # let mut writer = pipewriter_std::PipeWriter::new(Vec::<u8>::new());
    /// writer.append(b"late")?;
    /// let (stream, unsent) = writer.into_parts();
    /// assert_eq!((stream.as_slice(), unsent.as_slice()), (&b""[..], &b"late"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "into_inner")]
    #[must_use]
    pub fn into_parts(self) -> (W, Vec<u8>) {
        let Self { inner, state } = self;
        let bytes = state.pipe.to_bytes();
        // Before the result is made: a pool that panics here would leak one that is.
        drop(state);
        (inner, bytes)
    }

    /// The methods that do no I/O, for a pinned writer.
    ///
    /// ```
    /// use std::pin::{Pin, pin};
    /// use pipewriter_std::PipeWriter;
    ///
    /// let mut writer = pin!(PipeWriter::new(Vec::<u8>::new()));
    /// writer.as_mut().pinned().append(b"hello")?;
    /// assert_eq!(writer.unflushed_bytes(), 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pinned(self: Pin<&mut Self>) -> Pinned<'_, P> {
        Pinned { state: self.project().state }
    }
}

impl<W: AsyncWrite, P: SegmentPool> PipeWriter<W, P> {
    /// Writes all that is committed to `inner`, then flushes `inner`.
    ///
    /// It is done, with neither flag of the result set, when nothing is buffered and `inner` was flushed after the last byte that it took. With nothing
    /// to write and no flush of `inner` due, `inner` is not called at all. A cancel ends it with
    /// [`FlushResult::is_canceled`]; on a completed writer it does nothing and is [`FlushResult::is_completed`].
    ///
    /// # Errors
    ///
    /// Those of `inner` as they are, but `Interrupted` is retried; `WriteZero` if `inner` takes 0 bytes; `InvalidData` if
    /// it claims to have taken more than it was offered. What was not accepted stays buffered, and the next flush goes on
    /// at that byte. After [`abort_with`](Self::abort_with), an error of that kind and text.
    ///
    /// # Cancel safety
    ///
    /// Is cancel safe: what `inner` has accepted is gone from the buffer, all else stays.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # let mut writer = pipewriter_std::PipeWriter::new(Vec::new());
    /// writer.append(b"hello")?;
    /// let result = writer.flush().await?;
    /// assert!(!result.is_canceled() && !result.is_completed());
    /// assert_eq!(writer.get_ref(), b"hello");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[doc(alias = "FlushAsync")]
    #[inline]
    pub fn flush(&mut self) -> Flush<'_, W, P>
    where
        W: Unpin,
    {
        Flush { writer: self }
    }

    /// Sends `data` behind what is buffered and flushes, as [`append`](Self::append) and [`flush`](Self::flush) but
    /// without the copy where all goes well.
    ///
    /// From the first poll on `data` counts as committed. If the stream stalls or fails, or a cancel comes, what it had not accepted of `data` is copied
    /// into the buffer. With nothing in `data` this is `flush`.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush), after which `data` counts as committed all the same. `QuotaExceeded` if `data` does not fit under `max_buffered`, and `BrokenPipe` on a
    /// completed writer; nothing of `data` was taken then. `OutOfMemory` if the rest of `data` could not be kept: the stream ends inside `data` then, so the writer is aborted with
    /// that error; `abort` or `complete` closes the stream.
    ///
    /// # Cancel safety
    ///
    /// Is cancel safe: dropped before its first poll it has done nothing; after that `data` is committed, and the next flush goes on at
    /// the byte that it had reached. Do not call it again with the same data.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # let mut writer = pipewriter_std::PipeWriter::new(Vec::new());
    /// writer.append(b"head ")?;
    /// writer.write_and_flush(b"and body").await?;
    /// assert_eq!(writer.get_ref(), b"head and body");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[doc(alias = "WriteAsync")]
    #[doc(alias = "write_all")]
    #[inline]
    pub fn write_and_flush<'a>(&'a mut self, data: &'a [u8]) -> WriteAndFlush<'a, W, P>
    where
        W: Unpin,
    {
        WriteAndFlush { writer: self, data: Some(data) }
    }

    /// Writes all that is committed to `inner`, but does not flush `inner`: that is then due, and the next
    /// [`flush`](Self::flush) does it. For a stream that buffers itself, while more is to come.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    ///
    /// # Cancel safety
    ///
    /// Is cancel safe, as [`flush`](Self::flush).
    #[inline]
    pub fn emit(&mut self) -> Emit<'_, W, P>
    where
        W: Unpin,
    {
        Emit { writer: self }
    }

    /// Flushes, closes `inner` (unless `leave_open`), gives all memory back, and marks the writer completed.
    ///
    /// On a writer that was completed or aborted, for a reason or without, it does nothing but a close that is still due,
    /// and is `Ok`. It neither sees nor uses up a cancel.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush), and those of `inner`'s close. Nothing is lost: call it again, and it goes on where it
    /// was. From the first call of `inner`'s close on nothing more is written or flushed. [`abort`](Self::abort) is the way to give up.
    ///
    /// # Cancel safety
    ///
    /// Is cancel safe: the next `complete` goes on where it was, also in the close.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # let mut writer = pipewriter_std::PipeWriter::new(Vec::new());
    /// writer.append(b"bye")?;
    /// writer.complete().await?;
    /// assert!(writer.is_completed());
    /// assert_eq!(writer.get_ref(), b"bye");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[doc(alias = "CompleteAsync")]
    #[doc(alias = "close")]
    #[doc(alias = "shutdown")]
    #[doc(alias = "finish")]
    #[inline]
    pub fn complete(&mut self) -> Complete<'_, W, P>
    where
        W: Unpin,
    {
        Complete { writer: self }
    }

    /// Gives up: discards what is buffered, gives all memory back, completes the writer, and closes `inner` (unless `leave_open`).
    ///
    /// Later flushes are `Ok` with [`FlushResult::is_completed`], and plainly `Ok` through the trait: take
    /// [`abort_with`](Self::abort_with) if they are to fail. It takes effect at its first poll, whatever comes of the close. On a completed writer it does nothing, unless a
    /// close is still to be made good.
    ///
    /// # Errors
    ///
    /// Those of `inner`'s close. The writer is aborted all the same; the next `abort` or `complete` tries the close again.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll the writer is aborted, and the close of `inner` is made good by the next `abort` or
    /// `complete`.
    #[doc(alias = "Complete")]
    #[inline]
    pub fn abort(&mut self) -> Abort<'_, W, P>
    where
        W: Unpin,
    {
        Abort { writer: self, reason: None }
    }

    /// [`abort`](Self::abort) for a reason: later calls that would commit or flush return an error of its kind and text.
    /// Only `complete` and the plain `close` are `Ok` all the same.
    ///
    /// The first reason stays: on a completed writer it is `Ok` and changes nothing.
    ///
    /// # Errors
    ///
    /// As [`abort`](Self::abort).
    ///
    /// # Cancel safety
    ///
    /// As [`abort`](Self::abort).
    #[doc(alias = "Complete")]
    #[inline]
    pub fn abort_with(&mut self, reason: io::Error) -> Abort<'_, W, P>
    where
        W: Unpin,
    {
        Abort { writer: self, reason: Some(reason) }
    }

    /// [`flush`](Self::flush) for a pinned writer, or for a future of one's own.
    ///
    /// Bytes may be committed between two polls: they are written before it is done.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    #[inline(always)]
    pub fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<FlushResult>> {
        let mut this = self.project();
        let State { pipe, reason } = &mut this.state;
        match pipe.start_flush(cx, &mut FuturesIo { inner: this.inner.as_mut(), reason }) {
            Ok(result) => Poll::Ready(Ok(result)),
            Err(started) => finish_flush(this.inner, this.state, cx, started),
        }
    }

    /// [`emit`](Self::emit) for a pinned writer, or for a future of one's own.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn poll_emit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<FlushResult>> {
        let this = self.project();
        let State { pipe, reason } = this.state;
        pipe.poll_emit(cx, &mut FuturesIo { inner: this.inner, reason })
    }

    /// [`complete`](Self::complete) for a pinned writer, or for a future of one's own.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let State { pipe, reason } = this.state;
        pipe.poll_complete(cx, &mut FuturesIo { inner: this.inner, reason })
    }

    /// [`abort`](Self::abort) for a pinned writer, or for a future of one's own.
    ///
    /// # Errors
    ///
    /// As [`abort`](Self::abort).
    pub fn poll_abort(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_abort_for(cx, None)
    }

    pub(crate) fn poll_abort_for(self: Pin<&mut Self>, cx: &mut Context<'_>, reason: Reason) -> Poll<io::Result<()>> {
        let this = self.project();
        let cause = this.state.set_reason(reason);
        let State { pipe, reason } = this.state;
        pipe.poll_abort(cx, &mut FuturesIo { inner: this.inner, reason }, cause)
    }

    #[inline(always)]
    pub(crate) fn poll_write_and_flush(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<FlushResult>> {
        let mut this = self.project();
        let State { pipe, reason } = &mut this.state;
        match pipe.start_write_and_flush(cx, &mut FuturesIo { inner: this.inner.as_mut(), reason }, data) {
            Ok(result) => Poll::Ready(Ok(result)),
            Err(started) => finish_write_and_flush(this.inner, this.state, cx, data, started),
        }
    }
}

// The halves of a flush that are rarely needed, out of line with all that only they need.

#[cold]
#[inline(never)]
fn finish_flush<W: AsyncWrite, P: SegmentPool>(
    inner: Pin<&mut W>,
    state: &mut State<P>,
    cx: &mut Context<'_>,
    started: Started<io::Error>,
) -> Poll<io::Result<FlushResult>> {
    let State { pipe, reason } = state;
    pipe.finish_flush(cx, &mut FuturesIo { inner, reason }, started)
}

#[cold]
#[inline(never)]
fn finish_write_and_flush<W: AsyncWrite, P: SegmentPool>(
    inner: Pin<&mut W>,
    state: &mut State<P>,
    cx: &mut Context<'_>,
    data: &[u8],
    started: Started<io::Error>,
) -> Poll<io::Result<FlushResult>> {
    let State { pipe, reason } = state;
    pipe.finish_write_and_flush(cx, &mut FuturesIo { inner, reason }, data, started)
}

#[cold]
#[inline(never)]
fn write_slow<W: AsyncWrite, P: SegmentPool>(
    inner: Pin<&mut W>,
    state: &mut State<P>,
    cx: &mut Context<'_>,
    buf: &[u8],
) -> Poll<io::Result<usize>> {
    let State { pipe, reason } = state;
    pipe.poll_write(cx, &mut FuturesIo { inner, reason }, buf)
}

/// As a plain stream: `write` takes bytes into the buffer, and from the high-water mark on drives `inner` first.
///
/// `Pending` or an error of `write` means that it took nothing of that call. `flush` is [`PipeWriter::flush`], a cancel being an error
/// ([`Canceled`]); `close` is [`PipeWriter::complete`].
impl<W: AsyncWrite, P: SegmentPool> AsyncWrite for PipeWriter<W, P> {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        if this.state.pipe.try_write(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        write_slow(this.inner, this.state, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let State { pipe, reason } = this.state;
        let bufs = bufs.iter().map(|buf| &**buf);
        pipe.poll_write_vectored(cx, &mut FuturesIo { inner: this.inner, reason }, bufs)
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(PipeWriter::poll_flush(self, cx))?;
        Poll::Ready(if result.is_canceled() { Err(Canceled.into()) } else { Ok(()) })
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_complete(cx)
    }
}

impl<W, P: SegmentPool> fmt::Debug for PipeWriter<W, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.debug("PipeWriter", f)
    }
}

// A panic inside the stream or the pool leaves every counter right: after one the writer is as good as before.
impl<W: UnwindSafe, P: SegmentPool + UnwindSafe> UnwindSafe for PipeWriter<W, P> {}
impl<W: RefUnwindSafe, P: SegmentPool + RefUnwindSafe> RefUnwindSafe for PipeWriter<W, P> {}

/// The methods of a pinned [`PipeWriter`] that do no I/O: see [`PipeWriter::pinned`].
pub struct Pinned<'a, P: SegmentPool = HeapPool> {
    state: &'a mut State<P>,
}

impl<'a, P: SegmentPool> Pinned<'a, P> {
    /// As [`PipeWriter::span_mut`].
    ///
    /// # Errors
    ///
    /// As [`PipeWriter::span_mut`].
    #[inline]
    pub fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]> {
        self.state.span_mut(size_hint)
    }

    /// As [`PipeWriter::span_mut`], for as long as the writer is borrowed.
    ///
    /// # Errors
    ///
    /// As [`PipeWriter::span_mut`].
    #[inline]
    pub fn into_span_mut(self, size_hint: usize) -> io::Result<&'a mut [u8]> {
        self.state.span_mut(size_hint)
    }

    /// As [`PipeWriter::advance`].
    ///
    /// # Errors
    ///
    /// As [`PipeWriter::advance`].
    #[inline]
    pub fn advance(&mut self, n: usize) -> io::Result<()> {
        self.state.advance(n)
    }

    /// As [`PipeWriter::append`].
    ///
    /// # Errors
    ///
    /// As [`PipeWriter::append`].
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.state.append(data)
    }

    /// As [`PipeWriter::unflushed_bytes`].
    #[must_use]
    pub const fn unflushed_bytes(&self) -> usize {
        self.state.pipe.unflushed_bytes()
    }
}

impl<P: SegmentPool> fmt::Debug for Pinned<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.debug("Pinned", f)
    }
}
