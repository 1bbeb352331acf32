//! A pipe over a driver with `async` methods: any [`embedded_io_async::Write`], as embassy's drivers are.
//!
//! Nothing here needs a heap or a certain executor.
//!
//! ```
//! use embedded_io_async::Write;
//! use pipewriter_core::{FixedQueue, Options, Pipe, SlicePool, embedded_io_async::{PipeWriter, WriteError}};
//!
//! async fn greet<W: Write>(uart: W) -> Result<(), WriteError<W::Error>> {
//!     let mut memory = [0; 256]; // or a `static`
//!     let pool = SlicePool::<4>::new(&mut memory);
//!     let options = Options::new().segment_size(pool.segment_len());
//!     let pipe: Pipe<_, (), FixedQueue<_, 4>> = Pipe::with_options(pool, options);
//!
//!     let mut writer = PipeWriter::new(uart, pipe);
//!     let span = writer.span_mut(5)?;
//!     span[..5].copy_from_slice(b"hello");
//!     writer.advance(5)?;
//!     writer.append(b", uart")?;
//!     writer.flush().await?;
//!     Ok(())
//! }
//! # let mut sent = [0; 16];
//! # let mut future = Box::pin(greet(&mut sent[..]));
//! # let mut cx = core::task::Context::from_waker(core::task::Waker::noop());
//! # assert!(matches!(future.as_mut().poll(&mut cx), core::task::Poll::Ready(Ok(()))));
//! # drop(future);
//! # assert_eq!(&sent[..11], b"hello, uart");
//! ```
//!
//! # Cancel safety
//!
//! How far a flush has come is known to the pipe and to no future, so a `flush` may be dropped at any point, or be
//! canceled through the pipe's [`Link`]. The future of the driver's own `write` is kept across polls; it is dropped
//! only when one of these ends the flush while the driver still waits. What that means depends on the driver.
//!
//! `embedded_io_async` encourages a `write` that is side-effect-free when it is dropped, does not require it, and
//! asks each driver to say which it is:
//!
//! | the driver's `write`, dropped before it ended | what becomes of the bytes |
//! |---|---|
//! | has taken nothing (drivers that copy into a queue of their own) | All stay in the pipe, the next flush goes on at the right byte. None is lost or repeated. |
//! | may have sent some (drivers that send from the caller's memory, by DMA) | Nobody knows how many. The pipe counts none of them: **none is lost, but some may go out twice.** It says so with [`is_in_doubt`](PipeWriter::is_in_doubt). |
//!
//! With a driver of the second kind do not drop a flush or cancel it, or begin anew in a way that the other side
//! understands, with a frame mark for example. A cancel asks the driver once more before it drops the future, so that
//! what has just been finished is counted. A `flush` of the driver that is dropped is made again.

use core::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::pin,
    task::{Context, Poll, Waker},
};

use embedded_io_async::Write;

use crate::{
    Error, FlushResult, Link, Pipe, PollWrite, SegmentPool, SegmentQueue,
    buffer::Offer,
    drive::Outcome,
    embedded::methods_without_io,
    pipe::{Foreign, Goal, Odd},
};

pub use crate::embedded::WriteError;

/// A pipe and its driver: encode into spans, then flush, and no byte is lost or repeated.
///
/// The methods are those of the writers in `pipewriter-std`. **Dropping the writer discards what is buffered**: call
/// [`complete`](Self::complete) first. See the [module](self) for an example and for what a dropped future does.
///
/// It is an [`embedded_io_async::Write`] too. The trait's `write` takes bytes into the pipe until `high_water_mark` is
/// reached or the pool has no more memory, and then has the driver take what is buffered before it goes on; it sees no
/// cancel, and one that is dropped has taken nothing. The writer's own [`flush`](Self::flush) comes first in method lookup;
/// that of the trait makes a cancel an error, [`WriteError::Canceled`].
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

    /// Whether bytes may go out twice: since the last flush that went well, a `write` of the driver was dropped or forgotten before
    /// it ended, or panicked, or claimed too much. After a panic of the driver's `flush` or of the pool it is true as well.
    ///
    /// With a driver whose `write` is side-effect-free when dropped there is no doubt whatever this says.
    pub fn is_in_doubt(&self) -> bool {
        self.pipe.odd.has(Odd::SUSPECT)
    }
}

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> PipeWriter<W, P, L, Q> {
    /// Has the driver take all that is committed, then flushes it.
    ///
    /// A cancel through the pipe's [`Link`] ends it with [`FlushResult::is_canceled`], also while the driver waits.
    /// Dropping the future is as harmless as the driver makes it: see [Cancel safety](self#cancel-safety).
    ///
    /// A driver that never waits is called until all is sent: the future lets no other task have a turn by itself.
    ///
    /// # Errors
    ///
    /// The driver's; [`WriteError::Pipe`] if it takes no more ([`Error::WriteZero`]) or claims too much. Nothing is lost.
    #[doc(alias = "FlushAsync")]
    pub async fn flush(&mut self) -> Result<FlushResult, WriteError<W::Error>> {
        match self.pipe.ended() {
            Some(ended) => Ok(ended?),
            None => self.drive(Goal::Flush).await,
        }
    }

    /// [`flush`](Self::flush) without the flush of the driver, which is then due.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub async fn emit(&mut self) -> Result<FlushResult, WriteError<W::Error>> {
        match self.pipe.ended() {
            Some(ended) => Ok(ended?),
            None => self.drive(Goal::Emit).await,
        }
    }

    /// [`append`](Self::append), then [`flush`](Self::flush). From the first poll on `data` is committed.
    ///
    /// `data` is copied, so that it must fit the pool: a driver that waits could else hold the only copy, and a future
    /// that is dropped would take it along.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append), and then nothing was taken of `data`; or those of [`flush`](Self::flush), and
    /// then it is committed.
    #[doc(alias = "WriteAsync")]
    pub async fn write_and_flush(&mut self, data: &[u8]) -> Result<FlushResult, WriteError<W::Error>> {
        if !data.is_empty() {
            self.pipe.append(data)?;
        }
        self.flush().await
    }

    /// Flushes, gives all segments back, and takes no more bytes. Neither sees nor uses up a cancel.
    ///
    /// Once completed it is `Ok` and does nothing.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush). Nothing is lost: call it again.
    #[doc(alias = "CompleteAsync")]
    #[doc(alias = "close")]
    pub async fn complete(&mut self) -> Result<(), WriteError<W::Error>> {
        if self.pipe.check_open().is_ok() {
            self.drive(Goal::Complete).await?;
        }
        // Nothing is buffered and no flush is due, so that this does not come to ask anything of the driver.
        match self.pipe.poll_complete(&mut Context::from_waker(Waker::noop()), &mut Relay::new()) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// Runs the core's loop to `goal`, with the driver's own futures in place of the calls that it asks for.
    async fn drive(&mut self, goal: Goal) -> Result<FlushResult, WriteError<W::Error>> {
        let mut relay = Relay::new();
        let mut outcome = None;
        // One chunk goes to the driver at a time: to look at many for each call would make the work of a flush quadratic.
        self.pipe.window = self.pipe.window.min(Pipe::<P, L, Q>::MIN_WINDOW);
        loop {
            let turn = poll_fn(|cx| Poll::Ready(self.pipe.drive(cx, &mut relay, &mut &[][..], goal, outcome.take())));
            match turn.await {
                Poll::Ready(result) => return result,
                Poll::Pending => outcome = self.call(relay.asked, goal).await,
            }
        }
    }

    /// Makes the call that the loop asks for. `None` if a cancel came first, which the loop then sees.
    async fn call(&mut self, asked: Asked, goal: Goal) -> Option<Outcome<WriteError<W::Error>>> {
        let Pipe { buffer, link, odd, .. } = &mut self.pipe;
        let cancelable = matches!(goal, Goal::Flush | Goal::Emit);
        match asked {
            Asked::Write { offered } => {
                let chunk = buffer.chunks(&[], Offer { chunks: 1, bytes: offered }).next().unwrap_or(&[]);
                // Before the write and not when it is dropped, for a future that is forgotten is never dropped.
                let was_in_doubt = odd.has(Odd::SUSPECT);
                odd.set(Odd::SUSPECT);
                let write = self.driver.write(chunk);
                let result = until_canceled(write, odd, link, cancelable).await?;
                odd.put(Odd::SUSPECT, was_in_doubt);
                let result = Poll::Ready(result.map_err(WriteError::Stream));
                Some(Outcome::Wrote { offered: chunk.len(), chunks: 1, result })
            }
            Asked::Flush => {
                let flush = Foreign::call(odd, || self.driver.flush());
                let result = until_canceled(flush, odd, link, cancelable).await?;
                Some(Outcome::Flushed(Poll::Ready(result.map_err(WriteError::Stream))))
            }
        }
    }
}

/// Awaits a future of the driver, or a cancel. The driver has the first word in each poll: what it has finished counts.
async fn until_canceled<F: Future>(
    call: F,
    odd: &mut Odd,
    link: &mut impl Link,
    cancelable: bool,
) -> Option<F::Output> {
    let mut call = pin!(call);
    poll_fn(|cx| {
        let poll = Foreign::call(odd, || call.as_mut().poll(cx));
        if cancelable && poll.is_pending() {
            // At each poll, for the task may have another waker by now.
            odd.set(Odd::REGISTERED);
            link.register(cx.waker());
            if odd.has(Odd::CANCEL) || link.is_cancel_requested() {
                return Poll::Ready(None);
            }
        }
        poll.map(Some)
    })
    .await
}

/// Stands for the driver in the core's loop: it takes down what the loop asks for, and pends.
///
/// What becomes of the call is not told to the relay but handed to the loop's next run, which settles it before it looks at
/// anything else. So there is never an answer that waits, and that a cancel or a dropped future could lose.
struct Relay<E> {
    asked: Asked,
    error: PhantomData<fn() -> E>,
}

#[derive(Clone, Copy)]
enum Asked {
    /// To write the first `offered` bytes that are buffered, which lie in one piece.
    Write {
        offered: usize,
    },
    Flush,
}

impl<E> Relay<E> {
    const fn new() -> Self {
        Self { asked: Asked::Flush, error: PhantomData }
    }
}

impl<E: embedded_io::Error> PollWrite for Relay<E> {
    type Error = WriteError<E>;

    // It pends at every call as it is.
    const MAY_YIELD: bool = false;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        self.asked = Asked::Write { offered: buf.len() };
        Poll::Pending
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.asked = Asked::Flush;
        Poll::Pending
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

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> embedded_io_async::ErrorType
    for PipeWriter<W, P, L, Q>
{
    type Error = WriteError<W::Error>;
}

impl<W: Write, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> Write for PipeWriter<W, P, L, Q> {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, Self::Error> {
        loop {
            if let Some(taken) = self.pipe.take(buf)? {
                return Ok(taken);
            }
            self.drive(Goal::Drain).await?;
        }
    }

    async fn flush(&mut self) -> Result<(), Self::Error> {
        if PipeWriter::flush(self).await?.is_canceled() { Err(WriteError::Canceled) } else { Ok(()) }
    }
}

impl<W, P: SegmentPool, L: Link, Q: SegmentQueue<P::Segment>> fmt::Debug for PipeWriter<W, P, L, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}
