use core::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::{
    Error, FlushResult, Link, Options, PollWrite, SegmentPool, SegmentQueue,
    buffer::Buffer,
    sync::{AtomicU8, Ordering},
};
#[cfg(feature = "alloc")]
use crate::{HeapPool, HeapQueue};

/// A pipe writer without its stream: the buffer, the flush machine, and the state of both.
///
/// The producer's side ([`span_mut`](Self::span_mut), [`advance`](Self::advance), [`append`](Self::append)) never does
/// I/O; the stream's side (`poll_*`) is handed the stream at each call, and always the same one. All progress lives in here and none in a
/// future, so a poll that is never repeated, fails or panics loses nothing: the next one goes on at that byte.
///
/// `P` is the pool of segments, `L` what may cancel a flush from outside ([`Link`]), `Q` the queue of full segments.
/// Dropping a pipe discards what is buffered, gives the segments back and closes the link.
///
/// `pipewriter-std` wraps it for `futures_io::AsyncWrite` and `std::io::Write`. For any other stream, implement
/// [`PollWrite`] and call it like this:
///
/// ```
/// # use pipewriter_core::{Error, HeapPipe, HeapPool, Pipe, PollWrite};
/// # use core::task::{Context, Poll};
/// # struct Uart;
/// # impl PollWrite for Uart {
/// #     type Error = Error;
/// #     fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> { Poll::Ready(Ok(buf.len())) }
/// #     fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> { Poll::Ready(Ok(())) }
/// #     fn fault(&self, fault: Error) -> Error { fault }
/// # }
/// async fn greet(uart: &mut Uart) -> Result<(), Error> {
///     let mut pipe: HeapPipe = Pipe::new(HeapPool::new());
///     let span = pipe.span_mut(5)?;
///     span[..5].copy_from_slice(b"hello");
///     pipe.advance(5)?;
///     pipe.flush(uart).await?;
///     Ok(())
/// }
/// ```
pub struct Pipe<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    pub(crate) buffer: Buffer<P, Q>,
    pub(crate) link: L,
    state: State,
    /// What keeps a flush off its fast path, one bit each. No bit is set in an open pipe that owes its stream nothing.
    pub(crate) odd: Odd,
    /// How many chunks the next vectored write offers at most.
    pub(crate) window: u16,
    leave_open: bool,
}

/// A [`Pipe`] whose queue is on the heap.
#[cfg(feature = "alloc")]
pub type HeapPipe<P = HeapPool, L = ()> = Pipe<P, L, HeapQueue<<P as SegmentPool>::Segment>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// All is flushed, the close of the stream has been called and has not succeeded yet.
    Closing,
    Completed,
    /// What was buffered is discarded. `close_due` until the close of the stream has succeeded.
    Aborted {
        cause: Cause,
        close_due: bool,
    },
}

/// Why a pipe was aborted: what its later calls answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No reason was given: as if completed.
    Asked,
    /// The owner of the pipe keeps a reason, which [`Error::Aborted`] stands for.
    Reason,
    /// An argument of `write_and_flush` was sent in part and there was no memory to keep the rest.
    OutOfMemory,
}

/// All that keeps a flush off its fast path, one bit each in one byte, so that one comparison finds that there is nothing.
///
/// Atomic only for `CANCEL`, which is set through `&self`, when nobody can change the other bits.
#[derive(Debug)]
pub(crate) struct Odd(AtomicU8);

impl Odd {
    /// The stream has taken bytes since its last flush.
    pub(crate) const FLUSH_DUE: u8 = 1;
    /// The stream or the pool panicked, or the stream claimed too much, and no flush has gone well since: a writer that is
    /// dropped writes nothing more.
    pub(crate) const SUSPECT: u8 = 2;
    /// A waker is registered with the link.
    pub(crate) const REGISTERED: u8 = 4;
    /// The state is not `Open`.
    pub(crate) const ENDED: u8 = 8;
    /// There may be more than one chunk, or one that begins inside its segment. Set before the buffer is changed in
    /// any but the simplest way and cleared after a look at what came of it: a panic in between leaves it set.
    pub(crate) const SHAPE: u8 = 16;
    /// A cancel came through the pipe itself.
    pub(crate) const CANCEL: u8 = 32;

    #[inline]
    pub(crate) fn is_none(&mut self) -> bool {
        self.bits() == 0
    }
    #[inline]
    pub(crate) fn bits(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn has(&self, bit: u8) -> bool {
        self.bits() & bit != 0
    }
    // A load and a store, no read-modify-write: two that set CANCEL at once write the same.
    #[inline]
    fn set_shared(&self, bit: u8) {
        self.0.store(self.bits() | bit, Ordering::Relaxed);
    }
    #[inline]
    pub(crate) fn set(&mut self, bit: u8) {
        self.set_shared(bit);
    }
    #[inline]
    pub(crate) fn clear(&mut self, bit: u8) {
        self.0.store(self.bits() & !bit, Ordering::Relaxed);
    }
    /// Sets all bits at once. On the fast paths, where they are known: a bit set and cleared with a load, an operation and a
    /// store each makes every flush wait for the stores of the one before.
    #[inline]
    pub(crate) fn assign(&mut self, bits: u8) {
        self.0.store(bits, Ordering::Relaxed);
    }
    pub(crate) fn put(&mut self, bit: u8, on: bool) {
        if on { self.set(bit) } else { self.clear(bit) }
    }
}

/// Marks the stream as suspect unless it is forgotten: held while code of the stream or the pool runs, which may panic.
pub(crate) struct Foreign<'a>(&'a mut Odd);

impl<'a> Foreign<'a> {
    #[inline]
    pub(crate) fn call<R>(odd: &'a mut Odd, call: impl FnOnce() -> R) -> R {
        let guard = Self(odd);
        let result = call();
        mem::forget(guard);
        result
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        self.0.set(Odd::SUSPECT);
    }
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment> + Default> Pipe<P, L, Q> {
    /// Creates a pipe over `pool` with the default options. Allocates nothing.
    #[must_use]
    pub fn new(pool: P) -> Self
    where
        L: Default,
    {
        Self::with_options(pool, Options::new())
    }

    /// Creates a pipe over `pool`. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If `segment_size` or `max_buffered` is 0.
    #[must_use]
    pub fn with_options(pool: P, options: Options) -> Self
    where
        L: Default,
    {
        Self::with_link(pool, options, L::default(), Q::default())
    }
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Pipe<P, L, Q> {
    /// Creates a pipe over `pool`, to be canceled through `link`, with a queue that is empty. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If `segment_size` or `max_buffered` is 0.
    #[must_use]
    pub fn with_link(pool: P, options: Options, link: L, queue: Q) -> Self {
        assert!(options.segment_size > 0, "segment_size must not be 0: it is the size of a buffer in bytes");
        assert!(options.max_buffered > 0, "max_buffered must not be 0: nothing could ever be written");
        Self {
            buffer: Buffer::new(pool, queue, &options),
            link,
            state: State::Open,
            odd: Odd(AtomicU8::new(0)),
            window: Self::MAX_CHUNKS,
            leave_open: options.leave_open,
        }
    }

    // ---- the producer's side ----

    /// Returns memory to write the next bytes into: `max(size_hint, 1)` bytes at least, usually more.
    ///
    /// [`advance`](Self::advance) then says how many of them count. Without one the same memory comes again, unless `size_hint` asks for more than it has left.
    /// The memory is initialised but not zeroed: it may show old bytes of this pipe, or of whoever shared its pool.
    ///
    /// # Errors
    ///
    /// [`Error::QuotaExceeded`], [`Error::TooLarge`] and [`Error::OutOfMemory`], which leave the span as it was, and
    /// [`Error::Completed`] and its kin after the end.
    #[inline]
    pub fn span_mut(&mut self, size_hint: usize) -> Result<&mut [u8], Error> {
        let is_there = self.buffer.has_span(size_hint) || (P::HAS_QUICK_TAKE && self.begin_quickly(size_hint.max(1)));
        if !is_there {
            self.make_span(size_hint)?;
        }
        Ok(self.buffer.span())
    }

    #[cold]
    #[inline(never)]
    fn make_span(&mut self, size_hint: usize) -> Result<(), Error> {
        if let Some(came) = self.begin(size_hint.max(1), P::take) {
            return came.then_some(()).ok_or(Error::OutOfMemory);
        }
        self.check_open()?;
        self.odd.set(Odd::SHAPE);
        let result = Foreign::call(&mut self.odd, || self.buffer.make_span(size_hint));
        self.note_shape();
        result
    }

    /// Commits the first `n` bytes of the span. Several calls commit one behind the other; 0 is always fine.
    ///
    /// # Errors
    ///
    /// [`Error::SpanOverrun`] past the span or without one, [`Error::QuotaExceeded`] past `max_buffered`; nothing is committed and the span ends.
    /// After the end [`Error::Completed`] and its kin.
    #[inline]
    pub fn advance(&mut self, n: usize) -> Result<(), Error> {
        match self.buffer.advance(n) {
            Err(_) if self.odd.has(Odd::ENDED) => self.check_open(),
            result => result,
        }
    }

    /// Commits a copy of `data`; no I/O.
    ///
    /// # Errors
    ///
    /// As [`span_mut`](Self::span_mut); nothing is committed. The span ends.
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> Result<(), Error> {
        let is_done = self.buffer.append_to_tail(data)
            || (P::HAS_QUICK_TAKE && self.begin_quickly(data.len()) && self.buffer.append_to_empty(data));
        if is_done { Ok(()) } else { self.append_slow(data) }
    }

    /// Begins a batch with what the pool has at hand, if there is nothing else to think of, and says whether it did.
    #[inline(never)]
    fn begin_quickly(&mut self, len: usize) -> bool {
        self.begin(len, P::take_first) == Some(true)
    }

    /// Begins a batch of `len` bytes with a segment that `take` brings, if there is nothing else to think of: then says whether one came.
    #[inline]
    fn begin(&mut self, len: usize, take: impl FnOnce(&mut P, usize) -> Option<P::Segment>) -> Option<bool> {
        if !self.odd.is_none() || len == 0 {
            return None;
        }
        Foreign::call(&mut self.odd, || self.buffer.begin(len, take))
    }

    #[cold]
    #[inline(never)]
    fn append_slow(&mut self, data: &[u8]) -> Result<(), Error> {
        match self.begin(data.len(), P::take) {
            Some(true) if self.buffer.append_to_empty(data) => return Ok(()),
            Some(false) => return Err(Error::OutOfMemory),
            _ => {}
        }
        self.check_open()?;
        self.odd.set(Odd::SHAPE);
        let result = Foreign::call(&mut self.odd, || self.buffer.append(data));
        self.note_shape();
        result
    }

    /// Clears `SHAPE` if all that is buffered lies in one piece from the first byte of the tail on.
    pub(crate) fn note_shape(&mut self) {
        let plain = self.buffer.is_plain();
        self.odd.put(Odd::SHAPE, !plain);
    }

    /// Bytes that are committed and that the stream has not accepted.
    #[inline]
    pub const fn unflushed_bytes(&self) -> usize {
        // What the buffer counts, once a call has returned.
        self.buffer.buffered()
    }

    // ---- the stream's side ----

    /// Writes all that is committed, then flushes the stream; goes on where the last call of any kind left off.
    ///
    /// A cancel through the link ends it with [`FlushResult::is_canceled`]; after the end it is
    /// [`FlushResult::is_completed`] without I/O. With nothing to write and no flush due the stream is not called.
    ///
    /// # Errors
    ///
    /// The stream's, as they are, and the [`fault`](PollWrite::fault) of [`Error::WriteZero`] or [`Error::Overclaimed`];
    /// what was not accepted stays. After an abort with a reason, that.
    #[inline]
    pub fn poll_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<Result<FlushResult, W::Error>> {
        match self.start_flush(cx, stream) {
            Ok(result) => Poll::Ready(Ok(result)),
            Err(started) => self.finish_flush(cx, stream, started),
        }
    }

    /// [`poll_flush`](Self::poll_flush) without the flush of the stream, which is then due.
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush).
    pub fn poll_emit<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<Result<FlushResult, W::Error>> {
        self.poll_to(cx, stream, Goal::Emit)
    }

    /// As `append` and [`poll_flush`](Self::poll_flush), but `data` goes to the stream uncopied where all goes well.
    ///
    /// Whatever the outcome, `data` counts as committed unless the error says that it was refused: what the stream has
    /// not accepted of it when this returns is in the buffer. So after `Pending` go on with
    /// [`poll_flush`](Self::poll_flush), **not with the same data, which would send it twice**. With nothing in `data` it is
    /// that from the start. As a future:
    ///
    /// ```
    /// # use pipewriter_core::{Error, FlushResult, HeapPipe, PollWrite};
    /// # use core::future::poll_fn;
    /// async fn send<W: PollWrite>(pipe: &mut HeapPipe, stream: &mut W, data: &[u8]) -> Result<FlushResult, W::Error> {
    ///     let mut data = Some(data);
    ///     poll_fn(|cx| match data.take() {
    ///         Some(data) => pipe.poll_write_and_flush(cx, stream, data),
    ///         None => pipe.poll_flush(cx, stream),
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush); [`Error::QuotaExceeded`] if `data` does not fit under `max_buffered`, and it
    /// is refused; [`Error::Completed`] and its kin after the end. [`Error::OutOfMemory`] if the rest of `data` could not
    /// be kept: the stream then ends inside `data`, and the pipe is aborted. Completing or aborting it closes the stream.
    #[inline]
    pub fn poll_write_and_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
    ) -> Poll<Result<FlushResult, W::Error>> {
        match self.start_write_and_flush(cx, stream, data) {
            Ok(result) => Poll::Ready(Ok(result)),
            Err(started) => self.finish_write_and_flush(cx, stream, data, started),
        }
    }

    /// Takes bytes as a plain buffered stream does, and says how many.
    ///
    /// From the high-water mark on it drives the stream first, so that it pushes back instead of growing. Neither sees
    /// nor uses up a cancel.
    ///
    /// # Errors
    ///
    /// The stream's, or [`append`](Self::append)'s. With one, or `Pending`, nothing of `buf` was taken.
    #[inline]
    pub fn poll_write<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        buf: &[u8],
    ) -> Poll<Result<usize, W::Error>> {
        if self.try_write(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        self.poll_write_vectored(cx, stream, core::iter::once(buf))
    }

    /// [`poll_write`](Self::poll_write) of several slices, one behind the other.
    ///
    /// # Errors
    ///
    /// As [`poll_write`](Self::poll_write).
    #[inline(never)]
    pub fn poll_write_vectored<'b, W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        bufs: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Poll<Result<usize, W::Error>> {
        self.buffer.end_span();
        self.check_open().map_err(|error| stream.fault(error))?;
        if bufs.clone().all(<[u8]>::is_empty) {
            return Poll::Ready(Ok(0));
        }
        if self.buffer.room_to_mark() == 0 {
            let drained = self.drive(cx, stream, &mut &[][..], Goal::Drain, None)?;
            if drained.is_pending() && self.buffer.room_to_mark() == 0 {
                return Poll::Pending;
            }
        }
        let mut taken = 0;
        for buf in bufs {
            let part = &buf[..buf.len().min(self.buffer.room_to_mark())];
            match self.append(part) {
                Ok(()) => taken += part.len(),
                Err(error) if taken == 0 => return Poll::Ready(Err(stream.fault(error))),
                Err(_) => break,
            }
        }
        Poll::Ready(Ok(taken))
    }

    // ---- the end ----

    /// Flushes, then closes the stream (unless `leave_open`), and completes the pipe. Neither sees nor uses up a cancel.
    ///
    /// Once completed it is `Ok` and does nothing. A close that did not succeed is made good by the next call.
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush), or those of the close. Nothing is lost; call it again. From the first call of the stream's close on,
    /// nothing more is written.
    pub fn poll_complete<W: PollWrite>(&mut self, cx: &mut Context<'_>, stream: &mut W) -> Poll<Result<(), W::Error>> {
        if self.state == State::Open {
            ready!(self.drive(cx, stream, &mut &[][..], Goal::Complete, None))?;
            Foreign::call(&mut self.odd, || self.buffer.finish());
            self.set_state(if self.leave_open { State::Completed } else { State::Closing });
        }
        self.poll_close(cx, stream)
    }

    /// Discards what is buffered, gives all segments back, completes the pipe, and closes the stream (unless `leave_open`).
    ///
    /// All but the close takes effect at once, whatever comes of the close. On a pipe that has ended, only a close that
    /// did not succeed is made good; `cause` is that of the first abort.
    ///
    /// # Errors
    ///
    /// Those of the stream's close, which stays due.
    pub fn poll_abort<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        cause: Cause,
    ) -> Poll<Result<(), W::Error>> {
        self.abort(cause);
        self.poll_close(cx, stream)
    }

    /// The part of an abort that does not touch the stream.
    pub(crate) fn abort(&mut self, cause: Cause) {
        if matches!(self.state, State::Open | State::Closing) {
            self.set_state(State::Aborted { cause, close_due: !self.leave_open });
        }
    }

    /// Closes the stream if that is due, and settles everything else that comes with the end.
    fn poll_close<W: PollWrite>(&mut self, cx: &mut Context<'_>, stream: &mut W) -> Poll<Result<(), W::Error>> {
        // An end that a panicking pool cut short is made good here.
        self.buffer.finish();
        let mut calls = 0_u32;
        while matches!(self.state, State::Closing | State::Aborted { close_due: true, .. }) {
            if W::MAY_YIELD && calls >= Self::YIELD_CALLS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            calls += 1;
            match ready!(Foreign::call(&mut self.odd, || stream.poll_close(cx))) {
                Ok(()) => self.set_state(match self.state {
                    State::Aborted { cause, .. } => State::Aborted { cause, close_due: false },
                    _ => State::Completed,
                }),
                Err(error) => {
                    if stream.is_interrupted(&error) {
                        continue;
                    }
                    self.note(stream, &error);
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn set_state(&mut self, state: State) {
        self.state = state;
        self.odd.set(Odd::ENDED);
        if state != State::Closing {
            self.buffer.shut();
            // Those who wait are told also if the pool panics, and if one of their wakers does, all is given back.
            let _told = Close(&mut self.link);
            self.buffer.finish();
        }
    }

    /// Whether the pipe was completed or aborted.
    pub const fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed | State::Aborted { .. })
    }

    pub(crate) const fn check_open(&self) -> Result<(), Error> {
        match self.state {
            State::Open => Ok(()),
            State::Closing | State::Completed | State::Aborted { cause: Cause::Asked, .. } => Err(Error::Completed),
            State::Aborted { cause: Cause::Reason, .. } => Err(Error::Aborted),
            State::Aborted { cause: Cause::OutOfMemory, .. } => Err(Error::OutOfMemory),
        }
    }

    /// What a flush answers on a pipe that has ended; `None` on an open one.
    pub(crate) const fn ended(&self) -> Option<Result<FlushResult, Error>> {
        match self.check_open() {
            Ok(()) => None,
            Err(Error::Completed) => Some(Ok(FlushResult::COMPLETED)),
            Err(error) => Some(Err(error)),
        }
    }

    /// A copy of everything that is buffered, in order. Allocates, and aborts the process where it can not.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn to_bytes(&self) -> alloc::vec::Vec<u8> {
        self.buffer.to_vec()
    }

    /// What may cancel this pipe's flush.
    #[inline]
    pub const fn link(&self) -> &L {
        &self.link
    }

    /// What may cancel this pipe's flush.
    #[inline]
    pub const fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// Ends the flush that is pending, or else the next one, as [`Signal::cancel_pending_flush`](crate::Signal::cancel_pending_flush) does.
    pub fn cancel_pending_flush(&self) {
        // One that waits already has woken the flush; a waker that cancels in turn must not go round and round.
        if !self.odd.has(Odd::CANCEL) {
            self.odd.set_shared(Odd::CANCEL);
            self.link.wake();
        }
    }

    /// Whether a cancel waits to be seen.
    #[inline]
    pub(crate) fn is_cancel_requested(&self) -> bool {
        self.odd.has(Odd::CANCEL) || self.link.is_cancel_requested()
    }

    /// Gives the segment that an idle pipe holds, if any, back to the pool, and frees the memory of an empty queue. The span ends.
    pub fn release_idle(&mut self) {
        Foreign::call(&mut self.odd, || self.buffer.release_idle());
    }

    /// The pool of segments.
    pub const fn pool(&self) -> &P {
        self.buffer.pool()
    }

    /// The pool of segments. Do not swap it for another one: the segments in use go back to it.
    pub const fn pool_mut(&mut self) -> &mut P {
        self.buffer.pool_mut()
    }

    /// [`poll_flush`](Self::poll_flush) as a future. Cancel safe: dropped, it leaves all progress in the pipe.
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush).
    pub const fn flush<'a, W: PollWrite>(&'a mut self, stream: &'a mut W) -> Flush<'a, W, P, L, Q> {
        Flush { pipe: self, stream }
    }

    /// [`poll_complete`](Self::poll_complete) as a future. Cancel safe: dropped, it leaves all progress in the pipe.
    ///
    /// # Errors
    ///
    /// As [`poll_complete`](Self::poll_complete).
    pub const fn complete<'a, W: PollWrite>(&'a mut self, stream: &'a mut W) -> Complete<'a, W, P, L, Q> {
        Complete { pipe: self, stream }
    }
}

/// Closes the link for good when it goes out of scope, by a panic too: nobody waits for a cancel any more either.
struct Close<'a, L: Link>(&'a mut L);

impl<L: Link> Drop for Close<'_, L> {
    fn drop(&mut self) {
        /// A waker that panics as it is dropped keeps nobody from being told.
        struct Told<'a, L: Link>(&'a mut L);

        impl<L: Link> Drop for Told<'_, L> {
            fn drop(&mut self) {
                self.0.close();
            }
        }

        Told(self.0).0.unregister();
    }
}

/// How far a drive goes, and what may end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// All is written and the stream is flushed; or a cancel.
    Flush,
    /// All is written; or a cancel.
    Emit,
    /// All is written and the stream is flushed.
    Complete,
    /// All is written.
    Drain,
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Drop for Pipe<P, L, Q> {
    fn drop(&mut self) {
        drop(Close(&mut self.link));
    }
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> fmt::Debug for Pipe<P, L, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pipe");
        debug.field("state", &self.state);
        self.buffer.debug(&mut debug);
        debug.field("flush_due", &self.odd.has(Odd::FLUSH_DUE)).finish_non_exhaustive()
    }
}

/// The future of [`Pipe::flush`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Flush<'a, W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    pipe: &'a mut Pipe<P, L, Q>,
    stream: &'a mut W,
}

impl<W: PollWrite, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Future for Flush<'_, W, P, L, Q> {
    type Output = Result<FlushResult, W::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.pipe.poll_flush(cx, this.stream)
    }
}

/// The future of [`Pipe::complete`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Complete<'a, W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    pipe: &'a mut Pipe<P, L, Q>,
    stream: &'a mut W,
}

impl<W: PollWrite, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Future for Complete<'_, W, P, L, Q> {
    type Output = Result<(), W::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.pipe.poll_complete(cx, this.stream)
    }
}
