//! A port of the core to the stream of a program, as a user without an operating system would write one: fixed memory, a
//! queue in place, and a cancel that lives beside the pipe.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use pipewriter_core::{Cause, Error, FixedQueue, Link, Options, Pipe, PollWrite, Signal, SlicePool, Wakers};

use super::operation::Call;
use super::pool::{Segment, Tracked};
use super::stream::ModelStream;
use super::writer::{Flushed, Flushing, Handle, Turn, Writer, flushed};

/// Segments there are.
pub(super) const SEGMENTS: usize = 4;
/// Segments that can wait behind the one that is filled: fewer than there are, so that the queue runs out first.
pub(super) const PLACES: usize = 2;

/// A pipe and its stream.
pub(super) struct Port<'m> {
    pipe: FixedPipe<'m>,
    stream: PortStream,
}

type FixedPool<'m> = Tracked<SlicePool<'m, SEGMENTS>>;
type FixedPipe<'m> = Pipe<FixedPool<'m>, SharedSignal, FixedQueue<Segment<&'m mut [u8]>, PLACES>>;

/// Keeps the waker of one flush.
#[derive(Default)]
pub(super) struct FlushWaker(RefCell<Option<Waker>>);

impl Wakers for FlushWaker {
    fn register_flush(&self, waker: &Waker) {
        let old = self.0.replace(Some(waker.clone()));
        drop(old);
    }
    fn wake_flush(&self) {
        let waker = self.0.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    fn clear_flush(&self) {
        drop(self.0.take());
    }
    fn wake_closed(&self) {}
}

/// A link to a signal that others have too. It does what `&Signal` does.
struct SharedSignal(Rc<Signal<FlushWaker>>);

impl Link for SharedSignal {
    fn is_cancel_requested(&self) -> bool {
        Link::is_cancel_requested(&&*self.0)
    }
    fn clear_cancel(&mut self) {
        Link::clear_cancel(&mut &*self.0);
    }
    fn register(&mut self, waker: &Waker) {
        Link::register(&mut &*self.0, waker);
    }
    fn unregister(&mut self) {
        Link::unregister(&mut &*self.0);
    }
    fn wake(&self) {
        Link::wake(&&*self.0);
    }
    fn close(&mut self) {
        Link::close(&mut &*self.0);
    }
}

struct PortStream {
    inner: ModelStream,
    /// What the pipe was aborted with.
    reason: Option<ErrorKind>,
}

impl PollWrite for PortStream {
    type Error = io::Error;

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.write(Some(cx), &[buf], false)
    }
    fn poll_write_vectored<'a>(
        &mut self,
        cx: &mut Context<'_>,
        chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        self.inner.write(Some(cx), &chunks.collect::<Vec<_>>(), true)
    }
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.flush(Some(cx))
    }
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.close(Some(cx))
    }
    fn fault(&self, fault: Error) -> io::Error {
        io_error(fault, self.reason)
    }
    fn is_interrupted(&self, error: &io::Error) -> bool {
        error.kind() == ErrorKind::Interrupted
    }
    fn is_disconnected(&self, error: &io::Error) -> bool {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, WriteZero};
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | WriteZero)
    }
}

fn io_error(fault: Error, reason: Option<ErrorKind>) -> io::Error {
    let kind = match fault {
        Error::SpanOverrun { .. } | Error::TooLarge { .. } => ErrorKind::InvalidInput,
        Error::QuotaExceeded { .. } => ErrorKind::QuotaExceeded,
        Error::OutOfMemory => ErrorKind::OutOfMemory,
        Error::Completed => ErrorKind::BrokenPipe,
        Error::Aborted => reason.unwrap_or(ErrorKind::BrokenPipe),
        Error::WriteZero => ErrorKind::WriteZero,
        Error::Overclaimed { .. } => ErrorKind::InvalidData,
        _ => ErrorKind::Other,
    };
    kind.into()
}

impl<'m> Port<'m> {
    pub(super) fn new(stream: ModelStream, pool: FixedPool<'m>, options: Options) -> Self {
        let link = SharedSignal(Rc::new(Signal::new(FlushWaker::default())));
        let pipe = Pipe::with_link(pool, options, link, FixedQueue::new());
        Self { pipe, stream: PortStream { inner: stream, reason: None } }
    }

    fn error(&self, error: Error) -> io::Error {
        io_error(error, self.stream.reason)
    }
}

impl Writer for Port<'_> {
    fn span_mut(&mut self, hint: usize) -> io::Result<&mut [u8]> {
        let reason = self.stream.reason;
        self.pipe.span_mut(hint).map_err(|error| io_error(error, reason))
    }
    fn advance(&mut self, n: usize) -> io::Result<()> {
        self.pipe.advance(n).map_err(|error| self.error(error))
    }
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.pipe.append(data).map_err(|error| self.error(error))
    }
    fn unflushed_bytes(&self) -> usize {
        self.pipe.unflushed_bytes()
    }
    fn is_completed(&self) -> bool {
        self.pipe.is_completed()
    }
    fn flush(&mut self, turn: &Turn<'_>) -> Flushing {
        match turn.call {
            Call::Poll => self.pipe.poll_flush(&mut turn.cx(), &mut self.stream),
            _ => turn.drive(self.pipe.flush(&mut self.stream)),
        }
        .map_ok(flushed)
    }
    fn emit(&mut self, turn: &Turn<'_>) -> Flushing {
        self.pipe.poll_emit(&mut turn.cx(), &mut self.stream).map_ok(flushed)
    }
    fn write_and_flush(&mut self, turn: &Turn<'_>, data: &[u8]) -> Flushing {
        self.pipe.poll_write_and_flush(&mut turn.cx(), &mut self.stream, data).map_ok(flushed)
    }
    fn complete(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>> {
        match turn.call {
            Call::Poll => self.pipe.poll_complete(&mut turn.cx(), &mut self.stream),
            _ => turn.drive(self.pipe.complete(&mut self.stream)),
        }
    }
    fn abort(&mut self, turn: &Turn<'_>, reason: Option<io::Error>) -> Poll<io::Result<()>> {
        let mut cause = Cause::Asked;
        if let Some(reason) = reason {
            cause = Cause::Reason;
            if !self.pipe.is_completed() {
                self.stream.reason = Some(reason.kind());
            }
        }
        self.pipe.poll_abort(&mut turn.cx(), &mut self.stream, cause)
    }
    fn plain_write(&mut self, turn: &Turn<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(&mut turn.cx(), &mut self.stream, data)
    }
    fn plain_write_vectored(&mut self, turn: &Turn<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.pipe.poll_write_vectored(&mut turn.cx(), &mut self.stream, data.iter().map(|slice| &**slice))
    }
    fn plain_flush(&mut self, turn: &Turn<'_>) -> Flushing {
        let poll = Writer::flush(self, turn);
        // As the adapters do: to a plain flush the end is nothing special.
        poll.map_ok(|flushed| if flushed == Flushed::Completed { Flushed::All } else { flushed })
    }
    fn plain_close(&mut self, turn: &Turn<'_>) -> Poll<io::Result<()>> {
        Writer::complete(self, turn)
    }
    fn cancel(&self) {
        self.pipe.cancel_pending_flush();
    }
    fn handle(&self) -> Handle {
        Handle::Core(Rc::clone(&self.pipe.link().0))
    }
    fn trim(&mut self) -> bool {
        self.pipe.release_idle();
        true
    }
    fn into_rest(self: Box<Self>) -> Vec<u8> {
        let bytes = self.pipe.to_bytes();
        // Before the result is made: a pool that panics here would leak one that is.
        drop(self);
        bytes
    }
}
