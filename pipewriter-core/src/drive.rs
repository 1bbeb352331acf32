//! The one loop that moves bytes from the buffer to the stream.
//!
//! Every flush, emit, complete, plain write and last write runs [`Pipe::drive`]. A turn of it makes one call to the stream
//! and settles what came of it; only then does any counter change. `adapter.rs` has two short cuts that end here where they
//! meet anything unusual.

use core::{
    mem,
    ops::ControlFlow,
    task::{Context, Poll},
};

use crate::{
    Error, FlushResult, Link, Pipe, PollWrite, SegmentPool, SegmentQueue,
    pipe::{Cause, Foreign, Goal, Odd},
};

/// What a call to the stream came to.
pub(crate) enum Outcome<E> {
    Wrote { offered: usize, chunks: usize, result: Poll<Result<usize, E>> },
    Flushed(Poll<Result<(), E>>),
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Pipe<P, L, Q> {
    /// Chunks in one call at most: `IOV_MAX` of Linux and the BSDs.
    pub(crate) const MAX_CHUNKS: u16 = 1024;
    /// Bytes in one call at most. Over TCP on loopback 256 KiB a call was twice as fast as 1 MiB.
    pub(crate) const MAX_OFFER: usize = 256 * 1024;
    /// An argument of `write_and_flush` up to this size is copied behind buffered bytes, if there is room: one plain
    /// write of both was faster than a vectored one of two chunks up to about here.
    const COPY_BEHIND: usize = 16 * 1024;
    /// A poll lets others have a turn after so many bytes, about a millisecond, or so many calls that took less.
    const YIELD_BYTES: usize = 4 * 1024 * 1024;
    pub(crate) const YIELD_CALLS: u32 = 1 << 18;
    /// Chunks that a call offers at least, and after one that was not taken whole. See `adapt_window`.
    pub(crate) const MIN_WINDOW: u16 = 1;
    const WINDOW_AFTER_SHORT: u16 = 16;

    /// A flush or an emit, on a pipe in any state.
    pub(crate) fn poll_to<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        goal: Goal,
    ) -> Poll<Result<FlushResult, W::Error>> {
        if let Some(ended) = self.ended() {
            return Poll::Ready(ended.map_err(|error| stream.fault(error)));
        }
        self.drive(cx, stream, &mut &[][..], goal, None)
    }

    /// `poll_write_and_flush` on a pipe in any state, no call having been made.
    pub(crate) fn write_and_flush<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
    ) -> Poll<Result<FlushResult, W::Error>> {
        self.buffer.end_span();
        if data.is_empty() {
            return self.poll_to(cx, stream, Goal::Flush);
        }
        let refused = self.check_open().and_then(|()| self.buffer.check(data.len()));
        refused.map_err(|error| stream.fault(error))?;
        let behind = self.buffer.buffered() > 0 && data.len() <= Self::COPY_BEHIND;
        if behind && self.buffer.append_to_tail(data) {
            return self.drive(cx, stream, &mut &[][..], Goal::Flush, None);
        }
        self.send_argument(cx, stream, data, None)
    }

    /// Flushes the buffer and `data` behind it, and keeps what the stream does not accept of `data`.
    #[inline(never)]
    pub(crate) fn send_argument<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
        first: Option<Outcome<W::Error>>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        let mut argument = Argument { pipe: self, rest: data };
        let Argument { pipe, rest } = &mut argument;
        let poll = pipe.drive(cx, stream, rest, Goal::Flush, first);
        let rest = argument.rest;
        mem::forget(argument);
        if !self.keep(rest) {
            return Poll::Ready(Err(stream.fault(Error::OutOfMemory)));
        }
        poll
    }

    /// Buffers the rest of an argument, in one piece. If that can not be had the pipe is aborted, for the stream ends inside
    /// the argument; so it is if the pool panics instead.
    fn keep(&mut self, rest: &[u8]) -> bool {
        /// Aborts the pipe unless it is forgotten.
        struct Lost<'a, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>>(&'a mut Pipe<P, L, Q>);

        impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Drop for Lost<'_, P, L, Q> {
            #[cold]
            fn drop(&mut self) {
                self.0.abort(Cause::OutOfMemory);
            }
        }

        if rest.is_empty() {
            return true;
        }
        self.odd.set(Odd::SHAPE);
        let lost = Lost(self);
        if lost.0.buffer.append_whole(rest).is_ok() {
            mem::forget(lost);
            self.note_shape();
            return true;
        }
        drop(lost);
        false
    }

    /// Calls the stream until `goal` is reached, it stalls or fails, or a cancel ends it.
    ///
    /// `extra` goes out behind the buffer and is cut to what was not accepted of it. `first` is the outcome of a call that
    /// was made already.
    #[inline(never)]
    pub(crate) fn drive<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        extra: &mut &[u8],
        goal: Goal,
        first: Option<Outcome<W::Error>>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        self.buffer.end_span();
        self.odd.set(Odd::SHAPE);
        if first.is_none() {
            // Else what was accepted is to be counted before the pool is called.
            Foreign::call(&mut self.odd, || self.buffer.release_accepted());
        }
        let poll = self.turns(cx, stream, extra, goal, first);
        self.note_shape();
        if poll.is_ready() && matches!(goal, Goal::Flush | Goal::Emit) {
            self.unregister();
        }
        poll
    }

    fn turns<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        extra: &mut &[u8],
        goal: Goal,
        first: Option<Outcome<W::Error>>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        let cancelable = matches!(goal, Goal::Flush | Goal::Emit);
        let (mut calls, mut bytes) = (0_u32, 0_usize);
        let mut outcome = first;
        loop {
            if let Some(outcome) = outcome {
                if let Outcome::Wrote { result: Poll::Ready(Ok(n)), .. } = &outcome {
                    bytes = bytes.saturating_add(*n);
                }
                match self.settle(stream, extra, outcome) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(Poll::Ready(error)) => return Poll::Ready(Err(error)),
                    ControlFlow::Break(Poll::Pending) => {
                        if self.stall(cx, cancelable).is_pending() {
                            return Poll::Pending;
                        }
                    }
                }
                // Before a cancel is looked at: one that came during the last call meets the next flush.
                if self.is_at(goal, extra) {
                    break;
                }
            }
            if cancelable && self.is_cancel_requested() {
                // First, for a waker may panic as it is dropped, and only a flush that returns canceled uses the cancel up.
                self.unregister();
                self.odd.clear(Odd::CANCEL);
                self.link.clear_cancel();
                return Poll::Ready(Ok(FlushResult::CANCELED));
            }
            if self.is_at(goal, extra) {
                break;
            }
            // Not where all that is left is the flush of the stream.
            let has_had_its_turn = bytes >= Self::YIELD_BYTES && self.buffer.buffered() > 0;
            let turn_over = has_had_its_turn || calls >= Self::YIELD_CALLS;
            if W::MAY_YIELD && turn_over && extra.is_empty() {
                // A cancel that comes now is seen at the next poll.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            calls = calls.saturating_add(1);
            outcome = Some(self.call(cx, stream, extra));
        }
        if matches!(goal, Goal::Flush | Goal::Complete) {
            self.odd.clear(Odd::SUSPECT);
        }
        Poll::Ready(Ok(FlushResult::FLUSHED))
    }

    /// Has no task woken at the next cancel.
    #[inline]
    fn unregister(&mut self) {
        if self.odd.has(Odd::REGISTERED) {
            self.odd.clear(Odd::REGISTERED);
            self.link.unregister();
        }
    }

    /// Has the task woken at the next cancel; ready if there is one already.
    fn stall(&mut self, cx: &Context<'_>, cancelable: bool) -> Poll<()> {
        if !cancelable {
            return Poll::Pending;
        }
        self.odd.set(Odd::REGISTERED);
        self.link.register(cx.waker());
        if self.is_cancel_requested() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether `goal` is reached.
    fn is_at(&self, goal: Goal, extra: &[u8]) -> bool {
        let flushes = matches!(goal, Goal::Flush | Goal::Complete);
        self.buffer.buffered() == 0 && extra.is_empty() && !(flushes && self.odd.has(Odd::FLUSH_DUE))
    }

    /// Makes the next call: a write if there is anything to write, else the flush.
    fn call<W: PollWrite>(&mut self, cx: &mut Context<'_>, stream: &mut W, extra: &[u8]) -> Outcome<W::Error> {
        let offer = self.buffer.offer(extra, usize::from(self.window), Self::MAX_OFFER);
        let mut chunks = self.buffer.chunks(extra, offer);
        match offer.chunks {
            0 => Outcome::Flushed(Foreign::call(&mut self.odd, || stream.poll_flush(cx))),
            1 => {
                let chunk = chunks.next().unwrap_or(&[]);
                let result = Foreign::call(&mut self.odd, || stream.poll_write(cx, chunk));
                Outcome::Wrote { offered: offer.bytes, chunks: 1, result }
            }
            _ => {
                let result = Foreign::call(&mut self.odd, || stream.poll_write_vectored(cx, chunks));
                Outcome::Wrote { offered: offer.bytes, chunks: offer.chunks, result }
            }
        }
    }

    /// Takes note of what a call came to: goes on, or breaks with an error or because the stream stalls.
    fn settle<W: PollWrite>(
        &mut self,
        stream: &W,
        extra: &mut &[u8],
        outcome: Outcome<W::Error>,
    ) -> ControlFlow<Poll<W::Error>> {
        let error = match outcome {
            Outcome::Wrote { result: Poll::Pending, .. } | Outcome::Flushed(Poll::Pending) => {
                return ControlFlow::Break(Poll::Pending);
            }
            Outcome::Wrote { offered, chunks, result: Poll::Ready(Ok(n)) } => {
                if n > offered {
                    self.odd.set(Odd::SUSPECT);
                    return ControlFlow::Break(Poll::Ready(stream.fault(Error::Overclaimed { claimed: n, offered })));
                }
                if n == 0 {
                    self.link.close();
                    return ControlFlow::Break(Poll::Ready(stream.fault(Error::WriteZero)));
                }
                self.odd.set(Odd::FLUSH_DUE);
                let whole = Foreign::call(&mut self.odd, || self.buffer.accept(n, extra));
                self.adapt_window(chunks, whole, n == offered);
                return ControlFlow::Continue(());
            }
            Outcome::Flushed(Poll::Ready(Ok(()))) => {
                self.odd.clear(Odd::FLUSH_DUE);
                return ControlFlow::Continue(());
            }
            Outcome::Wrote { result: Poll::Ready(Err(error)), .. } | Outcome::Flushed(Poll::Ready(Err(error))) => error,
        };
        if stream.is_interrupted(&error) {
            return ControlFlow::Continue(());
        }
        self.note(stream, &error);
        ControlFlow::Break(Poll::Ready(error))
    }

    /// Offers about twice as many chunks next time as the stream took whole this time, so that the work of a flush stays linear
    /// in its chunks whatever part of each call the stream takes.
    ///
    /// A socket that is full takes a part too, and much of the next call: so the first call of which something is left
    /// narrows the window to 16 chunks at most, and each one after it to half. One that was taken to its end never does, though
    /// its last chunk may go on behind it.
    fn adapt_window(&mut self, offered: usize, whole: usize, took_all: bool) {
        if offered == 1 && self.window > 1 {
            return;
        }
        let (taken, least) =
            if took_all { (offered, self.window) } else { (whole, Self::WINDOW_AFTER_SHORT.min(self.window / 2)) };
        let twice = u16::try_from(taken.saturating_mul(2)).unwrap_or(Self::MAX_CHUNKS);
        self.window = twice.max(least).clamp(Self::MIN_WINDOW, Self::MAX_CHUNKS);
    }

    /// Tells the link when `error` says that the reader is gone.
    pub(crate) fn note<W: PollWrite>(&mut self, stream: &W, error: &W::Error) {
        if stream.is_disconnected(error) {
            self.link.close();
        }
    }
}

/// An argument of `write_and_flush` on its way: if the stream panics, what it had not accepted is buffered all the same.
pub(crate) struct Argument<'a, 'd, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    pub(crate) pipe: &'a mut Pipe<P, L, Q>,
    pub(crate) rest: &'d [u8],
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Drop for Argument<'_, '_, P, L, Q> {
    #[cold]
    fn drop(&mut self) {
        self.pipe.keep(self.rest);
    }
}
