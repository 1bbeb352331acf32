//! What adapters need beside the `poll_` methods: the short cuts of the loop, and the last write of a writer that is dropped.
//!
//! The two short cuts make the same first calls as the loop where a flush is as simple as can be, settle the one outcome that
//! needs no thought, and hand every other to the loop.

use core::{
    mem,
    task::{Context, Poll},
};

use crate::{
    FlushResult, Link, Pipe, PollWrite, SegmentPool, SegmentQueue,
    drive::{Argument, Outcome},
    pipe::{Foreign, Goal, Odd},
};

/// A flush that [`Pipe::start_flush`] or [`Pipe::start_write_and_flush`] has begun and that is to be finished at once.
#[must_use = "the flush is not finished, and a cancel or an error in it not seen"]
pub struct Started<E>(Step<E>);

enum Step<E> {
    /// No call was made.
    None,
    /// A write was made, of what the flush began with.
    Wrote(Outcome<E>),
    /// That was accepted to the last byte.
    Accepted,
    /// And the stream was asked to flush.
    Flushed(Outcome<E>),
}

impl<E> core::fmt::Debug for Started<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

/// # For adapters
///
/// Whoever offers the pipe as a writer of their own can have the hot paths inline with these; every `poll_` method does without.
impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Pipe<P, L, Q> {
    /// The first half of [`poll_flush`](Self::poll_flush): all of it, where one chunk goes out whole and the stream flushes at once.
    ///
    /// Inline, `always`: a flush that is called in several places is else a call with its result in memory, and twice as slow.
    /// Call [`finish_flush`](Self::finish_flush) out of line.
    ///
    /// # Errors
    ///
    /// What [`finish_flush`](Self::finish_flush) has to go on with.
    #[inline(always)]
    pub fn start_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Result<FlushResult, Started<W::Error>> {
        if !self.odd.is_none() || self.link.is_cancel_requested() {
            return Err(Started(Step::None));
        }
        self.buffer.end_span();
        let chunk = self.buffer.plain();
        let offered = chunk.len();
        if offered == 0 {
            Foreign::call(&mut self.odd, || self.buffer.release_empty_tail());
            return Ok(FlushResult::FLUSHED);
        }
        if offered > Self::MAX_OFFER {
            return Err(Started(Step::None));
        }
        let result = Foreign::call(&mut self.odd, || stream.poll_write(cx, chunk));
        if !matches!(&result, Poll::Ready(Ok(n)) if *n == offered) {
            return Err(Started(Step::Wrote(Outcome::Wrote { offered, chunks: 1, result })));
        }
        self.odd.assign(Odd::FLUSH_DUE);
        Foreign::call(&mut self.odd, || self.buffer.accept_plain());
        self.flush_stream(cx, stream)
    }

    /// The second half of [`poll_flush`](Self::poll_flush).
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush).
    #[cold]
    pub fn finish_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        started: Started<W::Error>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        match started.0 {
            Step::None | Step::Accepted => self.poll_to(cx, stream, Goal::Flush),
            Step::Wrote(outcome) | Step::Flushed(outcome) => {
                self.drive(cx, stream, &mut &[][..], Goal::Flush, Some(outcome))
            }
        }
    }

    /// The first half of [`poll_write_and_flush`](Self::poll_write_and_flush): all of it, where nothing is buffered, `data` goes out whole and the
    /// stream flushes at once.
    ///
    /// # Errors
    ///
    /// What [`finish_write_and_flush`](Self::finish_write_and_flush) has to go on with, and without fail: only then is `data` kept.
    #[inline(always)]
    pub fn start_write_and_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
    ) -> Result<FlushResult, Started<W::Error>> {
        let offered = data.len();
        if !self.odd.is_none()
            || self.buffer.buffered() > 0
            || self.link.is_cancel_requested()
            || offered > Self::MAX_OFFER.min(self.buffer.max_buffered())
            || offered == 0
        {
            return Err(Started(Step::None));
        }
        self.buffer.end_span();
        let argument = Argument { pipe: self, rest: data };
        let result = Foreign::call(&mut argument.pipe.odd, || stream.poll_write(cx, data));
        mem::forget(argument);
        if !matches!(&result, Poll::Ready(Ok(n)) if *n == offered) {
            return Err(Started(Step::Wrote(Outcome::Wrote { offered, chunks: 1, result })));
        }
        self.odd.assign(Odd::FLUSH_DUE);
        Foreign::call(&mut self.odd, || self.buffer.release_empty_tail());
        self.flush_stream(cx, stream)
    }

    /// The second half of [`poll_write_and_flush`](Self::poll_write_and_flush), with the same `data`.
    ///
    /// # Errors
    ///
    /// As [`poll_write_and_flush`](Self::poll_write_and_flush).
    #[cold]
    pub fn finish_write_and_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
        started: Started<W::Error>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        match started.0 {
            Step::None => self.write_and_flush(cx, stream, data),
            Step::Wrote(outcome) => self.send_argument(cx, stream, data, Some(outcome)),
            Step::Accepted => self.poll_to(cx, stream, Goal::Flush),
            Step::Flushed(outcome) => self.drive(cx, stream, &mut &[][..], Goal::Flush, Some(outcome)),
        }
    }

    /// The flush of the stream after a write that left nothing behind; `odd` has no bit set but `FLUSH_DUE`.
    #[inline(always)]
    fn flush_stream<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Result<FlushResult, Started<W::Error>> {
        // A cancel through `&self` can not have come meanwhile.
        if self.link.is_cancel_requested() {
            return Err(Started(Step::Accepted));
        }
        let result = Foreign::call(&mut self.odd, || stream.poll_flush(cx));
        if !matches!(&result, Poll::Ready(Ok(()))) {
            return Err(Started(Step::Flushed(Outcome::Flushed(result))));
        }
        self.odd.assign(0);
        Ok(FlushResult::FLUSHED)
    }

    /// The part of [`poll_write`](Self::poll_write) that needs no thought: takes all of `buf` if there is something in it
    /// and it fits below the high-water mark and into the segment at hand, and says whether it did.
    #[inline]
    pub fn try_write(&mut self, buf: &[u8]) -> bool {
        self.buffer.write_to_tail(buf)
    }

    /// Writes what is buffered if that can be done without risk: the pipe is open, and the stream has neither panicked
    /// nor claimed too much since the last flush that went well. For a writer that is dropped. Sees no cancel.
    ///
    /// # Errors
    ///
    /// As [`poll_flush`](Self::poll_flush).
    pub fn poll_last_write<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<Result<(), W::Error>> {
        if self.odd.has(Odd::ENDED | Odd::SUSPECT) {
            return Poll::Ready(Ok(()));
        }
        self.drive(cx, stream, &mut &[][..], Goal::Drain, None).map_ok(drop)
    }
}
