//! The three writers seen as one, polled one call at a time.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_io::AsyncWrite;
use pipewriter_core::Signal;
use pipewriter_std::{Canceled, FlushResult, HeapPool, PipeHandle, PipeWriter, SegmentPool, blocking};

use super::operation::Call;
use super::pool::{Inner, Tracked};
use super::port::FlushWaker;
use super::stream::ModelStream;

/// How a flush went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    All,
    Canceled,
    Completed,
}

/// Who may cancel a flush, and can tell whether the writer has closed.
#[derive(Clone)]
pub(super) enum Handle {
    Std(PipeHandle),
    Core(Rc<Signal<FlushWaker>>),
}

impl Handle {
    pub(super) fn cancel(&self) {
        match self {
            Self::Std(handle) => handle.cancel_pending_flush(),
            Self::Core(signal) => signal.cancel_pending_flush(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Std(handle) => handle.is_closed(),
            Self::Core(signal) => signal.is_closed(),
        }
    }
}

/// The task that polls, and how it does.
pub(super) struct Turn<'a> {
    pub(super) waker: &'a Waker,
    pub(super) call: Call,
}

impl Turn<'_> {
    pub(super) fn cx(&self) -> Context<'_> {
        Context::from_waker(self.waker)
    }

    /// Polls a future as the call says, and then drops or forgets it.
    pub(super) fn drive<F: Future + Unpin>(&self, mut future: F) -> Poll<F::Output> {
        let (more, forget) = match self.call {
            Call::Poll => (0, false),
            Call::Dropped(more) => (more, false),
            Call::Forgotten(more) => (more, true),
        };
        let mut poll = Pin::new(&mut future).poll(&mut self.cx());
        for _ in 0..more {
            if poll.is_pending() {
                poll = Pin::new(&mut future).poll(&mut self.cx());
            }
        }
        if forget {
            #[allow(clippy::forget_non_drop, reason = "what a future has to drop may change")]
            std::mem::forget(future);
        }
        poll
    }
}

pub(super) type Flushing = Poll<io::Result<Flushed>>;

/// What the three writers have in common.
pub(super) trait Writer {
    fn span_mut(&mut self, hint: usize) -> io::Result<&mut [u8]>;
    fn advance(&mut self, n: usize) -> io::Result<()>;
    fn append(&mut self, data: &[u8]) -> io::Result<()>;
    fn unflushed_bytes(&self) -> usize;
    fn is_completed(&self) -> bool;
    fn flush(&mut self, turn: &Turn<'_>) -> Flushing;
    fn emit(&mut self, turn: &Turn<'_>) -> Flushing;
    fn write_and_flush(&mut self, turn: &Turn<'_>, data: &[u8]) -> Flushing;
    fn complete(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>>;
    fn abort(&mut self, turn: &Turn<'_>, reason: Option<io::Error>) -> Poll<io::Result<()>>;
    fn plain_write(&mut self, turn: &Turn<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    fn plain_write_vectored(&mut self, turn: &Turn<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    /// `None` where the trait's own is used.
    fn write_all(&mut self, _: &[u8]) -> Option<io::Result<()>> {
        None
    }
    fn plain_flush(&mut self, turn: &Turn<'_>) -> Flushing;
    fn plain_close(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>>;
    fn cancel(&self);
    fn handle(&self) -> Handle;
    /// Frees what an idle writer keeps; says whether it can.
    fn trim(&mut self) -> bool;
    /// What the stream has not accepted.
    fn into_rest(self: Box<Self>) -> Vec<u8>;
}

pub(super) fn flushed(result: FlushResult) -> Flushed {
    match (result.is_canceled(), result.is_completed()) {
        (false, false) => Flushed::All,
        (true, false) => Flushed::Canceled,
        (false, true) => Flushed::Completed,
        (true, true) => unreachable!("canceled and completed"),
    }
}

/// The result of a plain flush.
fn plainly_flushed(result: io::Result<()>) -> io::Result<Flushed> {
    match result {
        Ok(()) => Ok(Flushed::All),
        Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Canceled>()) => {
            assert_eq!(error.kind(), ErrorKind::Other, "the kind of a canceled plain flush");
            Ok(Flushed::Canceled)
        }
        Err(error) => Err(error),
    }
}

/// A pool that a writer over it can free.
pub(super) trait Trim: SegmentPool + Sized {
    fn trim_async(_: &mut PipeWriter<ModelStream, Self>) -> bool {
        false
    }
    fn trim_blocking(_: &mut blocking::PipeWriter<ModelStream, Self>) -> bool {
        false
    }
}

impl<P: Inner> Trim for Tracked<P> {}

impl Trim for HeapPool {
    fn trim_async(writer: &mut PipeWriter<ModelStream, Self>) -> bool {
        writer.trim();
        true
    }
    fn trim_blocking(writer: &mut blocking::PipeWriter<ModelStream, Self>) -> bool {
        writer.trim();
        true
    }
}

impl<P: Trim> Writer for PipeWriter<ModelStream, P> {
    // Those that do no I/O are reached through `pinned` here: it must do the same.
    fn span_mut(&mut self, hint: usize) -> io::Result<&mut [u8]> {
        Pin::new(self).pinned().into_span_mut(hint)
    }
    fn advance(&mut self, n: usize) -> io::Result<()> {
        if n % 2 == 0 { self.advance(n) } else { Pin::new(self).pinned().advance(n) }
    }
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        if data.len() % 2 == 0 { self.append(data) } else { Pin::new(self).pinned().append(data) }
    }
    fn unflushed_bytes(&self) -> usize {
        self.unflushed_bytes()
    }
    fn is_completed(&self) -> bool {
        self.is_completed()
    }
    fn flush(&mut self, turn: &Turn<'_>) -> Flushing {
        match turn.call {
            Call::Poll => Pin::new(self).poll_flush(&mut turn.cx()),
            _ => turn.drive(self.flush()),
        }
        .map_ok(flushed)
    }
    fn emit(&mut self, turn: &Turn<'_>) -> Flushing {
        match turn.call {
            Call::Poll => Pin::new(self).poll_emit(&mut turn.cx()),
            _ => turn.drive(self.emit()),
        }
        .map_ok(flushed)
    }
    fn write_and_flush(&mut self, turn: &Turn<'_>, data: &[u8]) -> Flushing {
        turn.drive(self.write_and_flush(data)).map_ok(flushed)
    }
    fn complete(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>> {
        match turn.call {
            Call::Poll => Pin::new(self).poll_complete(&mut turn.cx()),
            _ => turn.drive(self.complete()),
        }
    }
    fn abort(&mut self, turn: &Turn<'_>, reason: Option<io::Error>) -> Poll<io::Result<()>> {
        match (turn.call, reason) {
            (Call::Poll, None) => Pin::new(self).poll_abort(&mut turn.cx()),
            (_, None) => turn.drive(self.abort()),
            (_, Some(reason)) => turn.drive(self.abort_with(reason)),
        }
    }
    fn plain_write(&mut self, turn: &Turn<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(&mut turn.cx(), data)
    }
    fn plain_write_vectored(&mut self, turn: &Turn<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(&mut turn.cx(), data)
    }
    fn plain_flush(&mut self, turn: &Turn<'_>) -> Flushing {
        AsyncWrite::poll_flush(Pin::new(self), &mut turn.cx()).map(plainly_flushed)
    }
    fn plain_close(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_close(&mut turn.cx())
    }
    fn cancel(&self) {
        self.cancel_pending_flush();
    }
    fn handle(&self) -> Handle {
        Handle::Std(self.handle())
    }
    fn trim(&mut self) -> bool {
        P::trim_async(self)
    }
    fn into_rest(self: Box<Self>) -> Vec<u8> {
        self.into_parts().1
    }
}

impl<P: Trim> Writer for blocking::PipeWriter<ModelStream, P> {
    fn span_mut(&mut self, hint: usize) -> io::Result<&mut [u8]> {
        self.span_mut(hint)
    }
    fn advance(&mut self, n: usize) -> io::Result<()> {
        self.advance(n)
    }
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.append(data)
    }
    fn unflushed_bytes(&self) -> usize {
        self.unflushed_bytes()
    }
    fn is_completed(&self) -> bool {
        self.is_completed()
    }
    fn flush(&mut self, _: &Turn<'_>) -> Flushing {
        Poll::Ready(self.flush().map(flushed))
    }
    fn emit(&mut self, _: &Turn<'_>) -> Flushing {
        Poll::Ready(self.emit().map(flushed))
    }
    fn write_and_flush(&mut self, _: &Turn<'_>, data: &[u8]) -> Flushing {
        Poll::Ready(self.write_and_flush(data).map(flushed))
    }
    fn complete(&mut self, _: &Turn<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.complete())
    }
    fn abort(&mut self, _: &Turn<'_>, reason: Option<io::Error>) -> Poll<io::Result<()>> {
        Poll::Ready(match reason {
            None => self.abort(),
            Some(reason) => self.abort_with(reason),
        })
    }
    fn plain_write(&mut self, _: &Turn<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Write::write(self, data))
    }
    fn plain_write_vectored(&mut self, _: &Turn<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Poll::Ready(Write::write_vectored(self, data))
    }
    fn write_all(&mut self, data: &[u8]) -> Option<io::Result<()>> {
        Some(Write::write_all(self, data))
    }
    fn plain_flush(&mut self, _: &Turn<'_>) -> Flushing {
        Poll::Ready(plainly_flushed(Write::flush(self)))
    }
    fn plain_close(&mut self, _: &Turn<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.complete())
    }
    fn cancel(&self) {
        self.cancel_pending_flush();
    }
    fn handle(&self) -> Handle {
        Handle::Std(self.handle())
    }
    fn trim(&mut self) -> bool {
        P::trim_blocking(self)
    }
    fn into_rest(self: Box<Self>) -> Vec<u8> {
        self.into_parts().1
    }
}
