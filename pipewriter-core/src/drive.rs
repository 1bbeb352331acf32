//! The one loop that moves bytes from the buffer to the stream, and its short cuts.
//!
//! Every flush, emit, complete, plain write and last write runs [`Pipe::drive`]. A turn of it makes one call to the stream
//! and settles what came of it; only then does any counter change. The two short cuts make the same first calls where a
//! flush is as simple as can be, settle the one outcome that needs no thought, and hand every other to the loop.

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
    /// Chunks that a vectored write offers at least.
    const MIN_WINDOW: u16 = 16;

    #[inline]
    pub(crate) fn poll_flush_fast<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<Result<FlushResult, W::Error>> {
        if self.odd.is_none() && self.buffer.is_plain() && !self.link.is_cancel_requested() {
            self.buffer.end_span();
            let chunk = self.buffer.plain();
            let offered = chunk.len();
            if offered == 0 {
                self.buffer.release_idle_tail();
                return Poll::Ready(Ok(FlushResult::FLUSHED));
            }
            if offered <= Self::MAX_OFFER {
                let result = Foreign::call(&mut self.odd, || stream.poll_write(cx, chunk));
                if let Poll::Ready(Ok(n)) = &result {
                    if *n == offered {
                        self.odd.set(Odd::FLUSH_DUE);
                        self.buffer.accept_plain();
                        return self.flush_stream_fast(cx, stream);
                    }
                }
                return self.poll_after(cx, stream, Outcome::Wrote { offered, chunks: 1, result });
            }
        }
        self.poll_to(cx, stream, Goal::Flush)
    }

    #[inline]
    pub(crate) fn poll_write_and_flush_fast<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        data: &[u8],
    ) -> Poll<Result<FlushResult, W::Error>> {
        let offered = data.len();
        if self.odd.is_none()
            && self.buffer.buffered() == 0
            && self.buffer.is_plain()
            && !self.link.is_cancel_requested()
            && offered <= Self::MAX_OFFER.min(self.buffer.max_buffered())
            && offered > 0
        {
            self.buffer.end_span();
            let argument = Argument { pipe: self, rest: data };
            let result = stream.poll_write(cx, data);
            if let Poll::Ready(Ok(n)) = &result {
                if *n == offered {
                    mem::forget(argument);
                    self.odd.set(Odd::FLUSH_DUE);
                    self.buffer.release_idle_tail();
                    return self.flush_stream_fast(cx, stream);
                }
            }
            mem::forget(argument);
            return self.send_argument(cx, stream, data, Some(Outcome::Wrote { offered, chunks: 1, result }));
        }
        self.poll_write_and_flush_slow(cx, stream, data)
    }

    /// The flush of the stream after a write that left nothing behind.
    #[inline]
    fn flush_stream_fast<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<Result<FlushResult, W::Error>> {
        if self.link.is_cancel_requested() {
            return self.poll_to(cx, stream, Goal::Flush);
        }
        let result = Foreign::call(&mut self.odd, || stream.poll_flush(cx));
        if let Poll::Ready(Ok(())) = &result {
            self.odd.clear(Odd::FLUSH_DUE);
            return Poll::Ready(Ok(FlushResult::FLUSHED));
        }
        self.poll_after(cx, stream, Outcome::Flushed(result))
    }

    /// Goes on with a flush that has made its first call already.
    #[cold]
    #[inline(never)]
    fn poll_after<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        outcome: Outcome<W::Error>,
    ) -> Poll<Result<FlushResult, W::Error>> {
        self.drive(cx, stream, &mut &[][..], Goal::Flush, Some(outcome))
    }

    /// A flush or an emit, on a pipe in any state.
    #[cold]
    #[inline(never)]
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

    #[cold]
    #[inline(never)]
    fn poll_write_and_flush_slow<W: PollWrite>(
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
    fn send_argument<W: PollWrite>(
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

    /// Buffers the rest of an argument, in one piece. If that can not be had the pipe is aborted, for the stream ends inside the argument.
    fn keep(&mut self, rest: &[u8]) -> bool {
        let kept = rest.is_empty() || self.buffer.append_whole(rest).is_ok();
        if !kept {
            self.abort(Cause::OutOfMemory);
            self.buffer.finish();
        }
        kept
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
        self.buffer.release_accepted();
        let cancelable = matches!(goal, Goal::Flush | Goal::Emit);
        let mut outcome = first;
        let end = loop {
            if let Some(outcome) = outcome {
                match self.settle(stream, extra, outcome) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(Poll::Ready(error)) => break Err(error),
                    ControlFlow::Break(Poll::Pending) => {
                        if !cancelable {
                            return Poll::Pending;
                        }
                        self.odd.set(Odd::REGISTERED);
                        self.link.register(cx.waker());
                        if !self.link.is_cancel_requested() {
                            return Poll::Pending;
                        }
                    }
                }
            }
            if cancelable && self.link.is_cancel_requested() {
                self.link.clear_cancel();
                break Ok(FlushResult::CANCELED);
            }
            outcome = match self.call(cx, stream, extra, goal) {
                Some(outcome) => Some(outcome),
                None => {
                    if goal == Goal::Flush || goal == Goal::Complete {
                        self.odd.clear(Odd::SUSPECT);
                    }
                    break Ok(FlushResult::FLUSHED);
                }
            };
        };
        if self.odd.has(Odd::REGISTERED) {
            self.odd.clear(Odd::REGISTERED);
            self.link.unregister();
        }
        Poll::Ready(end)
    }

    /// Makes the next call that `goal` needs; `None` when it is reached.
    fn call<W: PollWrite>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
        extra: &[u8],
        goal: Goal,
    ) -> Option<Outcome<W::Error>> {
        let offer = self.buffer.offer(extra, usize::from(self.window), Self::MAX_OFFER);
        let mut chunks = self.buffer.chunks(extra, offer);
        match offer.chunks {
            0 => {
                if !self.odd.has(Odd::FLUSH_DUE) || matches!(goal, Goal::Emit | Goal::Drain) {
                    return None;
                }
                Some(Outcome::Flushed(Foreign::call(&mut self.odd, || stream.poll_flush(cx))))
            }
            1 => {
                let chunk = chunks.next().unwrap_or(&[]);
                let result = Foreign::call(&mut self.odd, || stream.poll_write(cx, chunk));
                Some(Outcome::Wrote { offered: offer.bytes, chunks: 1, result })
            }
            _ => {
                let result = Foreign::call(&mut self.odd, || stream.poll_write_vectored(cx, chunks));
                Some(Outcome::Wrote { offered: offer.bytes, chunks: offer.chunks, result })
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
                let whole = self.buffer.accept(n, extra);
                self.adapt_window(chunks, whole);
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

    /// Offers about twice as many chunks next time as the stream took this time, so that the work of a flush stays linear
    /// in its chunks whatever part of each call the stream takes.
    fn adapt_window(&mut self, offered: usize, whole: usize) {
        if offered > 1 {
            let next = whole.saturating_mul(2).clamp(usize::from(Self::MIN_WINDOW), usize::from(Self::MAX_CHUNKS));
            self.window = u16::try_from(next).unwrap_or(Self::MAX_CHUNKS);
        }
    }

    /// Tells the link when `error` says that the reader is gone.
    pub(crate) fn note<W: PollWrite>(&mut self, stream: &W, error: &W::Error) {
        if stream.is_disconnected(error) {
            self.link.close();
        }
    }
}

/// An argument of `write_and_flush` on its way: if the stream panics, what it had not accepted is buffered all the same.
struct Argument<'a, 'd, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> {
    pipe: &'a mut Pipe<P, L, Q>,
    rest: &'d [u8],
}

impl<P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Drop for Argument<'_, '_, P, L, Q> {
    #[cold]
    fn drop(&mut self) {
        self.pipe.odd.set(Odd::SUSPECT);
        self.pipe.keep(self.rest);
    }
}
