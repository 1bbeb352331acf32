//! The writers over `embedded_io` and `embedded_io_async` drivers, on memory of fixed size.

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use atomic_waker::AtomicWaker;
use embedded_io::{Error as _, ErrorKind, ErrorType};
use pipewriter_core::embedded_io::{self as blocking, WriteError};
use pipewriter_core::embedded_io_async::PipeWriter;
use pipewriter_core::{
    Error, FixedQueue, FlushResult, HeapQueue, Link, Options, Pipe, PollWrite, Sealed, SegmentQueue, Signal, SlicePool,
};
use pipewriter_tests::exec::{Task, Wakes, block_on, poll_once};
use pipewriter_tests::ledger::{Ledger, measure};
use pipewriter_tests::model::{Model, Random};

#[global_allocator]
static LEDGER: Ledger = Ledger;

// ---- what the tests are built from ----

type Cancel = Signal<AtomicWaker>;
/// Four segments of sixteen bytes.
type SmallPipe<'m, L> = Pipe<SlicePool<'m, 4>, L, FixedQueue<&'m mut [u8], 4>>;
const MEMORY: usize = 64;

fn pipe<'m, L: Link>(memory: &'m mut [u8; MEMORY], link: L) -> SmallPipe<'m, L> {
    let pool = SlicePool::new(memory);
    let options = Options::new().segment_size(pool.segment_len());
    Pipe::with_link(pool, options, link, FixedQueue::new())
}

fn cancel() -> Cancel {
    Signal::new(AtomicWaker::new())
}

/// What a driver does with a call. After the last step it takes all.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes so many bytes at most; a flush succeeds.
    Take(usize),
    /// Waits once, then goes on with the next step. A blocking driver has no time to lose and goes on at once.
    Wait,
    /// Waits and nobody wakes it.
    Hang,
    Fail(ErrorKind),
    Zero,
    Overclaim,
    Panic,
}

/// A driver that does what it is told, and is side-effect-free when its futures are dropped.
#[derive(Debug, Default)]
struct Uart {
    steps: RefCell<VecDeque<Step>>,
    sent: RefCell<Vec<u8>>,
    writes: Cell<usize>,
    flushes: Cell<usize>,
}

impl Uart {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: RefCell::new(steps.into_iter().collect()), ..Self::default() }
    }

    fn then(&self, steps: impl IntoIterator<Item = Step>) {
        *self.steps.borrow_mut() = steps.into_iter().collect();
    }

    fn act(&self, buf: Option<&[u8]>) -> Poll<Result<usize, ErrorKind>> {
        let step = self.steps.borrow_mut().pop_front();
        let len = buf.map_or(0, <[u8]>::len);
        let taken = match step {
            None => len,
            Some(Step::Take(n)) => len.min(n),
            Some(Step::Wait) => return Poll::Pending,
            Some(Step::Hang) => {
                self.steps.borrow_mut().push_front(Step::Hang);
                return Poll::Pending;
            }
            Some(Step::Fail(kind)) => return Poll::Ready(Err(kind)),
            Some(Step::Zero) => 0,
            Some(Step::Overclaim) => return Poll::Ready(Ok(len + 1)),
            Some(Step::Panic) => panic!("the driver panics"),
        };
        self.sent.borrow_mut().extend_from_slice(&buf.unwrap_or_default()[..taken]);
        Poll::Ready(Ok(taken))
    }

    async fn serve(&self, buf: Option<&[u8]>) -> Result<usize, ErrorKind> {
        poll_fn(|cx| {
            let poll = self.act(buf);
            if poll.is_pending() && !matches!(self.steps.borrow().front(), Some(Step::Hang)) {
                cx.waker().wake_by_ref();
            }
            poll
        })
        .await
    }

    fn serve_now(&self, buf: Option<&[u8]>) -> Result<usize, ErrorKind> {
        loop {
            if let Poll::Ready(result) = self.act(buf) {
                return result;
            }
        }
    }
}

impl ErrorType for &Uart {
    type Error = ErrorKind;
}

impl embedded_io_async::Write for &Uart {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        assert!(!buf.is_empty(), "an empty buffer was offered");
        self.writes.set(self.writes.get() + 1);
        self.serve(Some(buf)).await
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        self.flushes.set(self.flushes.get() + 1);
        self.serve(None).await.map(drop)
    }
}

impl embedded_io::Write for &Uart {
    fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        assert!(!buf.is_empty(), "an empty buffer was offered");
        self.writes.set(self.writes.get() + 1);
        self.serve_now(Some(buf))
    }

    fn flush(&mut self) -> Result<(), ErrorKind> {
        self.flushes.set(self.flushes.get() + 1);
        self.serve_now(None).map(drop)
    }
}

/// Runs a body over the async and over the blocking writer. In the body `$writer` is the writer and `wait!` runs what
/// is a future in one and a plain call in the other.
macro_rules! over_both {
    (|$uart:ident, $writer:ident, $wait:ident| $body:block) => {{
        {
            macro_rules! $wait {
                ($call:expr) => {
                    block_on($call)
                };
            }
            let ($uart, mut memory) = (Uart::default(), [0; MEMORY]);
            #[allow(unused_mut, reason = "not every body writes")]
            let mut $writer = PipeWriter::new(&$uart, pipe(&mut memory, ()));
            $body
        }
        {
            macro_rules! $wait {
                ($call:expr) => {
                    $call
                };
            }
            let ($uart, mut memory) = (Uart::default(), [0; MEMORY]);
            #[allow(unused_mut, reason = "not every body writes")]
            let mut $writer = blocking::PipeWriter::new(&$uart, pipe(&mut memory, ()));
            $body
        }
    }};
}

fn flushed<E>(result: Result<FlushResult, E>) -> bool {
    result.is_ok_and(|result| !result.is_canceled() && !result.is_completed())
}

fn canceled<E>(result: Result<FlushResult, E>) -> bool {
    result.is_ok_and(FlushResult::is_canceled)
}

// ---- all goes well, if slowly ----

#[test]
fn every_byte_arrives_once_however_few_the_driver_takes() {
    let data = Model::new().deal(MEMORY);
    for per_call in 1..20 {
        over_both!(|uart, writer, wait| {
            uart.then((0..200).flat_map(|_| [Step::Wait, Step::Take(per_call)]));
            writer.span_mut(3).unwrap()[..3].copy_from_slice(&data[..3]);
            writer.advance(3).unwrap();
            writer.append(&data[3..]).unwrap();
            assert_eq!(writer.unflushed_bytes(), MEMORY);
            assert!(flushed(wait!(writer.flush())));
            assert_eq!(*uart.sent.borrow(), data);
            assert_eq!((writer.unflushed_bytes(), uart.flushes.get()), (0, 1));
            assert_eq!(writer.pipe().pool().free_segments() + 1, 4, "all but the segment at hand are given back");
        });
    }
}

#[test]
fn nothing_to_flush_does_not_call_the_driver() {
    over_both!(|uart, writer, wait| {
        assert!(flushed(wait!(writer.flush())));
        assert!(flushed(wait!(writer.write_and_flush(b""))));
        assert!(wait!(writer.complete()).is_ok());
        assert_eq!((uart.writes.get(), uart.flushes.get()), (0, 0));
    });
}

#[test]
fn an_emit_leaves_the_flush_of_the_driver_due() {
    over_both!(|uart, writer, wait| {
        writer.append(b"hello").unwrap();
        assert!(flushed(wait!(writer.emit())));
        assert_eq!((uart.flushes.get(), writer.unflushed_bytes()), (0, 0));
        assert!(flushed(wait!(writer.flush())));
        assert_eq!(uart.flushes.get(), 1);
        assert!(flushed(wait!(writer.flush())));
        assert_eq!(uart.flushes.get(), 1);
    });
}

#[test]
fn a_write_that_waits_is_not_begun_anew_at_each_poll() {
    let (uart, mut memory) = (Uart::new([Step::Wait, Step::Wait, Step::Wait, Step::Take(99)]), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, ()));
    writer.append(b"hello").unwrap();
    let mut task = Task::new(writer.flush());
    for _ in 0..3 {
        assert!(task.poll().is_pending());
    }
    assert!(matches!(task.poll(), Poll::Ready(Ok(_))));
    drop(task);
    assert_eq!((uart.writes.get(), uart.flushes.get()), (1, 1));
    assert!(!writer.is_in_doubt());
}

// ---- memory that is full ----

#[test]
fn what_does_not_fit_is_refused_whole_and_loses_nothing() {
    over_both!(|uart, writer, wait| {
        let data = Model::new().deal(MEMORY);
        writer.append(&data[..40]).unwrap();
        assert_eq!(writer.append(&data[..25]), Err(Error::OutOfMemory));
        assert_eq!(writer.span_mut(17).err(), Some(Error::OutOfMemory));
        let refused = wait!(writer.write_and_flush(&data));
        assert_eq!(refused, Err(WriteError::Pipe(Error::OutOfMemory)));
        assert_eq!((writer.unflushed_bytes(), uart.writes.get()), (40, 0));
        writer.append(&data[40..]).unwrap();
        assert!(flushed(wait!(writer.flush())));
        assert!(flushed(wait!(writer.write_and_flush(&data))));
        assert_eq!(*uart.sent.borrow(), [&data[..], &data[..]].concat());
    });
}

#[test]
fn sizes_at_the_end_of_the_address_space_are_refused() {
    over_both!(|uart, writer, wait| {
        writer.append(b"kept").unwrap();
        for hint in [usize::MAX, isize::MAX as usize + 1] {
            assert_eq!(writer.span_mut(hint).err(), Some(Error::TooLarge { asked: hint }));
        }
        let hint = isize::MAX as usize;
        let refused = Error::QuotaExceeded { asked: hint, buffered: 4, max: 1 << 30 };
        assert_eq!(writer.span_mut(hint).err(), Some(refused));
        assert_eq!(writer.advance(usize::MAX), Err(Error::SpanOverrun { asked: usize::MAX, left: 0 }));
        assert!(flushed(wait!(writer.flush())));
        assert_eq!(*uart.sent.borrow(), b"kept");
    });
}

#[test]
fn the_plain_write_pushes_back_when_memory_is_full() {
    let data = Model::new().deal(10 * MEMORY);
    over_both!(|uart, writer, wait| {
        #[allow(unused_imports, reason = "the body is run twice, and each needs one of the two")]
        use {embedded_io::Write as _, embedded_io_async::Write as _};
        // A span that uses little of its segment: memory runs out long before the high-water mark of 64 KiB.
        writer.span_mut(16).unwrap()[0] = data[0];
        writer.advance(1).unwrap();
        wait!(writer.write_all(&data[1..])).unwrap();
        assert!(writer.unflushed_bytes() > 0, "the rest is buffered");
        wait!(writer.flush()).unwrap();
        assert_eq!(*uart.sent.borrow(), data);
        assert_eq!(wait!(writer.write(b"")), Ok(0));
    });
}

#[test]
fn the_plain_write_pushes_back_at_the_mark_and_takes_nothing_on_an_error() {
    let mut memory = [0; MEMORY];
    let options = Options::new().segment_size(16).high_water_mark(20);
    let small: SmallPipe<'_, ()> = Pipe::with_options(SlicePool::new(&mut memory), options);
    let uart = Uart::default();
    let mut writer = PipeWriter::new(&uart, small);
    let write =
        |writer: &mut PipeWriter<_, _, _, _>, data: &[u8]| block_on(embedded_io_async::Write::write(writer, data));
    assert_eq!(write(&mut writer, &[1; 30]), Ok(16));
    assert_eq!(write(&mut writer, &[2; 30]), Ok(4), "up to the mark");
    uart.then([Step::Take(5), Step::Fail(ErrorKind::TimedOut)]);
    assert_eq!(write(&mut writer, &[3; 30]), Err(WriteError::Stream(ErrorKind::TimedOut)));
    assert_eq!(writer.unflushed_bytes(), 15);
    assert_eq!(write(&mut writer, &[3; 1]), Ok(1));
    block_on(writer.flush()).unwrap();
    assert_eq!(*uart.sent.borrow(), [&[1; 16][..], &[2; 4], &[3; 1]].concat());
}

/// The same driver, as the core sees a stream.
struct Polled<'u>(&'u Uart);

impl PollWrite for Polled<'_> {
    type Error = WriteError<ErrorKind>;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        self.0.act(Some(buf)).map_err(WriteError::Stream)
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.act(None).map_ok(drop).map_err(WriteError::Stream)
    }

    fn fault(&self, fault: Error) -> Self::Error {
        fault.into()
    }
}

#[test]
fn with_a_mark_of_one_segment_less_the_core_s_plain_write_never_runs_out_of_memory() {
    // The mark, and how many writes are refused.
    let refusals = [MEMORY - 16, MEMORY].map(|mark| {
        let (uart, mut memory, mut random) = (Uart::default(), [0; MEMORY], Random::new(1));
        let options = Options::new().segment_size(16).high_water_mark(mark);
        let mut pipe: SmallPipe<'_, ()> = Pipe::with_options(SlicePool::new(&mut memory), options);
        let (mut model, mut refused) = (Model::new(), 0);
        for _ in 0..10_000 {
            uart.then([Step::Take(1 + random.below(20)), Step::Wait]);
            let data = model.deal(1 + random.below(20));
            match pipe.poll_write(&mut Context::from_waker(Waker::noop()), &mut Polled(&uart), &data) {
                Poll::Ready(Ok(n)) => model.commit(&data[..n]),
                Poll::Ready(Err(error)) => {
                    assert_eq!(error, WriteError::Pipe(Error::OutOfMemory));
                    refused += 1;
                }
                Poll::Pending => {}
            }
            model.check(&uart.sent.borrow(), pipe.unflushed_bytes());
        }
        refused
    });
    assert!(refusals[0] == 0 && refusals[1] > 0, "{refusals:?}");
}

// ---- errors ----

#[test]
fn an_interrupted_call_is_made_again() {
    over_both!(|uart, writer, wait| {
        let interrupted = Step::Fail(ErrorKind::Interrupted);
        uart.then([interrupted, Step::Take(2), interrupted, Step::Take(9), interrupted, Step::Take(0)]);
        writer.append(b"hello").unwrap();
        assert!(flushed(wait!(writer.flush())));
        assert_eq!(*uart.sent.borrow(), b"hello");
        assert_eq!((uart.writes.get(), uart.flushes.get()), (4, 2));
    });
}

#[test]
fn an_error_is_returned_as_it_is_and_the_rest_stays() {
    over_both!(|uart, writer, wait| {
        writer.append(b"hello, world").unwrap();
        let mut left = 12;
        for step in [Step::Fail(ErrorKind::TimedOut), Step::Zero, Step::Overclaim, Step::Panic] {
            uart.then([Step::Take(1), step]);
            left -= 1;
            match (step, catch_unwind(AssertUnwindSafe(|| wait!(writer.flush())))) {
                (Step::Fail(kind), Ok(result)) => assert_eq!(result, Err(WriteError::Stream(kind))),
                (Step::Zero, Ok(result)) => assert_eq!(result.unwrap_err().kind(), ErrorKind::WriteZero),
                (Step::Overclaim, Ok(result)) => {
                    let (claimed, offered) = (left + 1, left);
                    assert_eq!(result, Err(WriteError::Pipe(Error::Overclaimed { claimed, offered })));
                }
                (Step::Panic, Err(_)) => {}
                other => panic!("{other:?}"),
            }
            assert_eq!(writer.unflushed_bytes(), left);
        }
        for steps in [&[Step::Take(99), Step::Fail(ErrorKind::TimedOut)][..], &[Step::Panic]] {
            uart.then(steps.iter().copied());
            let result = catch_unwind(AssertUnwindSafe(|| wait!(writer.flush())));
            assert!(!matches!(result, Ok(Ok(_))), "{result:?}");
        }
        assert_eq!(writer.unflushed_bytes(), 0);
        let flushes = uart.flushes.get();
        assert!(flushed(wait!(writer.flush())));
        assert_eq!(uart.flushes.get(), flushes + 1, "the flush stayed due");
        assert_eq!(*uart.sent.borrow(), b"hello, world");
    });
}

#[test]
fn a_write_of_zero_and_a_broken_pipe_tell_that_the_reader_is_gone() {
    for step in [Step::Zero, Step::Fail(ErrorKind::BrokenPipe), Step::Fail(ErrorKind::ConnectionReset)] {
        let (uart, signal, mut memory) = (Uart::new([Step::Fail(ErrorKind::TimedOut), step]), cancel(), [0; MEMORY]);
        let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
        writer.append(b"hello").unwrap();
        assert!(block_on(writer.flush()).is_err());
        assert!(!signal.is_closed());
        assert!(block_on(writer.flush()).is_err());
        assert!(signal.is_closed());
    }
}

#[test]
fn each_fault_has_a_kind_and_a_text() {
    let faults = [
        (Error::OutOfMemory, ErrorKind::OutOfMemory),
        (Error::QuotaExceeded { asked: 2, buffered: 0, max: 1 }, ErrorKind::OutOfMemory),
        (Error::SpanOverrun { asked: 2, left: 1 }, ErrorKind::InvalidInput),
        (Error::TooLarge { asked: usize::MAX }, ErrorKind::InvalidInput),
        (Error::Completed, ErrorKind::BrokenPipe),
        (Error::Aborted, ErrorKind::Other),
        (Error::WriteZero, ErrorKind::WriteZero),
        (Error::Overclaimed { claimed: 2, offered: 1 }, ErrorKind::InvalidData),
    ];
    for (fault, kind) in faults {
        let error = WriteError::<ErrorKind>::from(fault);
        assert_eq!((error.kind(), error.to_string()), (kind, fault.to_string()));
    }
    let error = WriteError::Stream(ErrorKind::TimedOut);
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::TimedOut, ErrorKind::TimedOut.to_string()));
    assert_eq!(WriteError::<ErrorKind>::Canceled.kind(), ErrorKind::Other);
}

// ---- cancel ----

#[test]
fn a_cancel_ends_a_flush_whose_driver_waits_and_keeps_its_progress() {
    let (uart, signal, mut memory) = (Uart::new([Step::Take(3), Step::Hang]), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    let seen = task.wakes();
    signal.cancel_pending_flush();
    assert!(canceled(task.finish(seen)));
    assert!(!signal.is_cancel_requested(), "it is used up");
    assert_eq!((writer.unflushed_bytes(), uart.writes.get()), (2, 2));
    uart.then([]);
    assert!(flushed(block_on(writer.flush())));
    assert_eq!(*uart.sent.borrow(), b"hello");
}

#[test]
fn a_cancel_ends_a_flush_of_the_driver_that_waits_and_leaves_it_due() {
    let (uart, signal, mut memory) = (Uart::new([Step::Take(5), Step::Hang]), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    signal.cancel_pending_flush();
    assert!(canceled(task.finish(0)));
    assert!(!writer.is_in_doubt(), "no write was dropped");
    uart.then([]);
    assert!(flushed(block_on(writer.flush())));
    assert_eq!((uart.writes.get(), uart.flushes.get()), (1, 2));
}

#[test]
fn a_flush_that_starts_canceled_does_not_call_the_driver() {
    let (uart, signal, mut memory) = (Uart::default(), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    signal.cancel_pending_flush();
    assert!(canceled(poll_ready(writer.emit())));
    writer.pipe().cancel_pending_flush();
    assert!(canceled(poll_ready(writer.flush())));
    signal.cancel_pending_flush();
    let plain = poll_ready(embedded_io_async::Write::flush(&mut writer));
    assert_eq!(plain, Err(WriteError::Canceled));
    assert_eq!((uart.writes.get(), writer.unflushed_bytes()), (0, 5));
    let mut writer = blocking::PipeWriter::new(&uart, writer.into_parts().1);
    signal.cancel_pending_flush();
    assert!(canceled(writer.flush()));
    signal.cancel_pending_flush();
    assert_eq!(embedded_io::Write::flush(&mut writer), Err(WriteError::Canceled));
    assert_eq!((uart.writes.get(), writer.unflushed_bytes()), (0, 5));
}

#[track_caller]
fn poll_ready<F: Future>(future: F) -> F::Output {
    match poll_once(&mut core::pin::pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("pending"),
    }
}

#[test]
fn what_the_driver_finishes_in_the_poll_that_sees_the_cancel_counts() {
    let (uart, signal, mut memory) = (Uart::new([Step::Hang]), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    uart.then([Step::Take(4)]);
    signal.cancel_pending_flush();
    assert!(canceled(task.finish(0)));
    assert_eq!((writer.unflushed_bytes(), uart.sent.borrow().len()), (1, 4));
    assert!(!writer.is_in_doubt());
}

#[test]
fn a_cancel_wakes_the_task_that_polled_last() {
    let (uart, signal, mut memory) = (Uart::new([Step::Hang]), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    let (first, last) = (Wakes::new(), Wakes::new());
    let mut future = Box::pin(writer.flush());
    for wakes in [&first, &last] {
        assert!(pipewriter_tests::exec::poll_with(&wakes.waker(), &mut future).is_pending());
    }
    signal.cancel_pending_flush();
    assert_eq!((first.count(), last.count()), (0, 1));
}

#[test]
fn a_cancel_is_neither_seen_nor_used_up_by_complete_and_the_plain_write() {
    let (uart, signal, mut memory) = (Uart::default(), cancel(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
    signal.cancel_pending_flush();
    uart.then([Step::Wait, Step::Take(7)]);
    block_on(embedded_io_async::Write::write_all(&mut writer, &[1; 2 * MEMORY])).unwrap();
    uart.then([Step::Wait, Step::Take(7), Step::Wait]);
    block_on(writer.complete()).unwrap();
    assert!(signal.is_cancel_requested());
    assert_eq!(*uart.sent.borrow(), [1; 2 * MEMORY]);
}

// ---- a future that is dropped ----

#[test]
fn a_dropped_flush_loses_and_repeats_nothing_if_the_driver_is_side_effect_free() {
    let data = Model::new().deal(MEMORY);
    let (uart, mut memory) = (Uart::default(), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, ()));
    uart.then((0..30).flat_map(|_| [Step::Wait, Step::Take(3), Step::Take(4), Step::Wait]));
    writer.append(&data).unwrap();
    let mut dropped = 0;
    // Each future is polled once only.
    while poll_once(&mut Box::pin(writer.flush())).is_pending() {
        dropped += 1;
        assert_eq!(writer.unflushed_bytes() + uart.sent.borrow().len(), MEMORY);
    }
    assert!(dropped > 10, "{dropped}");
    assert_eq!(*uart.sent.borrow(), data);
}

#[test]
fn a_dropped_write_and_flush_has_committed_its_argument() {
    let (uart, mut memory) = (Uart::new([Step::Take(2), Step::Hang]), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, ()));
    assert!(poll_once(&mut Box::pin(writer.write_and_flush(b"hello"))).is_pending());
    assert_eq!(writer.unflushed_bytes(), 3);
    uart.then([]);
    assert!(flushed(block_on(writer.flush())));
    assert_eq!(*uart.sent.borrow(), b"hello");
}

#[test]
fn a_dropped_plain_write_has_taken_nothing() {
    use embedded_io_async::Write as _;
    let (uart, mut memory) = (Uart::new([Step::Take(20), Step::Hang]), [0; MEMORY]);
    let mut writer = PipeWriter::new(&uart, pipe(&mut memory, ()));
    block_on(writer.write_all(&[1; MEMORY])).unwrap();
    assert!(poll_once(&mut Box::pin(writer.write(&[2; 9]))).is_pending());
    assert_eq!(writer.unflushed_bytes(), MEMORY - 16);
    uart.then([]);
    block_on(writer.complete()).unwrap();
    assert_eq!(*uart.sent.borrow(), [1; MEMORY]);
}

/// A driver that sends from the caller's memory, a byte at each poll, and knows how many only at the end.
#[derive(Debug, Default)]
struct Dma(Vec<u8>);

impl ErrorType for Dma {
    type Error = ErrorKind;
}

impl embedded_io_async::Write for Dma {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        for &byte in buf {
            self.0.push(byte);
            let mut waited = false;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if core::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        Ok(buf.len())
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

#[test]
fn a_driver_that_sends_from_the_callers_memory_works_as_long_as_no_flush_is_dropped() {
    let data = Model::new().deal(MEMORY);
    let mut memory = [0; MEMORY];
    let mut writer = PipeWriter::new(Dma::default(), pipe(&mut memory, ()));
    writer.append(&data).unwrap();
    assert!(flushed(block_on(writer.flush())));
    assert!(!writer.is_in_doubt());
    assert_eq!(writer.get_ref().0, data);
}

#[test]
fn a_dropped_write_that_may_have_sent_something_leaves_the_writer_in_doubt_and_loses_nothing() {
    let mut memory = [0; MEMORY];
    let signal = cancel();
    let mut writer = PipeWriter::new(Dma::default(), pipe(&mut memory, &signal));
    writer.append(b"hello").unwrap();
    assert!(poll_once(&mut Box::pin(writer.flush())).is_pending());
    assert!(writer.is_in_doubt());
    assert_eq!((writer.unflushed_bytes(), &writer.get_ref().0[..]), (5, &b"h"[..]));
    assert!(flushed(block_on(writer.flush())));
    assert!(!writer.is_in_doubt(), "a flush has gone well since");
    assert_eq!(writer.get_ref().0, b"hhello");

    writer.append(b", world").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    signal.cancel_pending_flush();
    assert!(canceled(task.finish(0)));
    assert!(writer.is_in_doubt());
    assert_eq!(writer.unflushed_bytes(), 7);
}

#[test]
fn a_forgotten_write_leaves_the_writer_in_doubt_as_a_dropped_one_does() {
    let mut memory = [0; MEMORY];
    let mut writer = PipeWriter::new(Dma::default(), pipe(&mut memory, ()));
    writer.append(b"hello").unwrap();
    let mut flush = Box::pin(writer.flush());
    assert!(poll_once(&mut flush).is_pending());
    std::mem::forget(flush); // its destructor never runs
    assert!(writer.is_in_doubt());
    assert!(flushed(block_on(writer.flush())));
    assert!(!writer.is_in_doubt(), "a flush has gone well since");
    assert_eq!(writer.get_ref().0, b"hhello");
}

// ---- the end ----

#[test]
fn complete_sends_the_rest_and_gives_all_memory_back() {
    over_both!(|uart, writer, wait| {
        writer.append(&[7; 50]).unwrap();
        uart.then([Step::Take(20), Step::Fail(ErrorKind::TimedOut)]);
        assert_eq!(wait!(writer.complete()), Err(WriteError::Stream(ErrorKind::TimedOut)));
        assert_eq!((writer.is_completed(), writer.unflushed_bytes()), (false, 34));
        assert!(wait!(writer.complete()).is_ok());
        assert_eq!((writer.is_completed(), writer.unflushed_bytes()), (true, 0));
        assert_eq!((uart.sent.borrow().len(), uart.flushes.get()), (50, 1));
        assert_eq!(writer.pipe().pool().free_segments(), 4);
        assert!(wait!(writer.complete()).is_ok());
        assert!(wait!(writer.flush()).unwrap().is_completed());
        assert!(wait!(writer.emit()).unwrap().is_completed());
        assert_eq!(writer.append(b"x"), Err(Error::Completed));
        assert_eq!(wait!(writer.write_and_flush(b"x")), Err(WriteError::Pipe(Error::Completed)));
        assert_eq!(uart.flushes.get(), 1);
    });
}

#[test]
fn abort_discards_and_never_calls_the_driver() {
    over_both!(|uart, writer, wait| {
        writer.append(&[7; 50]).unwrap();
        uart.then([Step::Take(20), Step::Fail(ErrorKind::TimedOut)]);
        assert!(wait!(writer.flush()).is_err());
        let (writes, flushes) = (uart.writes.get(), uart.flushes.get());
        writer.abort();
        assert_eq!((writer.is_completed(), writer.unflushed_bytes()), (true, 0));
        assert!(wait!(writer.flush()).unwrap().is_completed());
        assert!(wait!(writer.complete()).is_ok());
        assert_eq!((uart.writes.get(), uart.flushes.get()), (writes, flushes));
        assert_eq!(writer.pipe().pool().free_segments(), 4);
    });
}

#[test]
fn parts_go_together_again() {
    over_both!(|uart, writer, wait| {
        writer.append(b"hello").unwrap();
        uart.then([Step::Take(2), Step::Fail(ErrorKind::TimedOut)]);
        assert!(wait!(writer.flush()).is_err());
        assert_eq!(writer.get_mut().writes.get(), writer.get_ref().writes.get());
        assert!(format!("{writer:?}").contains("unflushed_bytes: 3"));
        let (driver, rest) = writer.into_parts();
        let mut writer = blocking::PipeWriter::new(driver, rest);
        assert!(flushed(writer.flush()));
        assert_eq!(*uart.sent.borrow(), b"hello");
    });
}

// ---- all of it ----

#[test]
fn the_futures_are_send_where_those_of_the_driver_are() {
    fn is_send<T: Send>(_: T) {}
    let (mut memory, mut sent) = ([0; MEMORY], [0; MEMORY]);
    let mut writer = PipeWriter::new(&mut sent[..], pipe(&mut memory, ()));
    is_send(writer.flush());
    is_send(writer.emit());
    is_send(writer.write_and_flush(b""));
    is_send(writer.complete());
    is_send(writer);
}

#[test]
fn nothing_is_allocated() {
    let (mut memory, mut more) = ([0; MEMORY], [0; MEMORY]);
    let signal = cancel();
    let mut sent = ([0; 4 * MEMORY], [0; 4 * MEMORY]);
    let ((), usage) = measure(|| {
        let mut one = PipeWriter::new(&mut sent.0[..], pipe(&mut memory, &signal));
        let mut two = blocking::PipeWriter::new(&mut sent.1[..], pipe(&mut more, ()));
        for _ in 0..3 {
            assert!(one.append(&[7; MEMORY]).is_ok() && one.append(&[7]).is_err());
            signal.cancel_pending_flush();
            assert!(canceled(poll_ready(one.flush())));
            assert!(flushed(poll_ready(one.flush())));
            assert!(two.append(&[7; MEMORY]).is_ok() && two.append(&[7]).is_err());
            assert!(flushed(two.flush()));
        }
        assert!(poll_ready(one.complete()).is_ok() && two.complete().is_ok());
    });
    assert_eq!(usage.allocations, 0);
}

/// Programs of random calls against a model: bytes go out in order, each once, however flushes end.
#[test]
fn random_programs_lose_and_repeat_nothing() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (uart, signal, mut memory) = (Uart::default(), cancel(), [0; MEMORY]);
        let mut writer = PipeWriter::new(&uart, pipe(&mut memory, &signal));
        let mut model = Model::new();
        for _ in 0..100 {
            uart.then((0..random.below(6)).map(|_| match random.below(8) {
                0 | 1 => Step::Wait,
                2 => Step::Fail(ErrorKind::Interrupted),
                3 => Step::Fail(ErrorKind::TimedOut),
                4 => Step::Overclaim,
                _ => Step::Take(1 + random.below(20)),
            }));
            let data = model.deal(1 + random.below(30));
            match random.below(8) {
                0 => {
                    if writer.append(&data).is_ok() {
                        model.commit(&data);
                    }
                }
                1 => {
                    if let Ok(span) = writer.span_mut(data.len().min(16)) {
                        let n = data.len().min(span.len());
                        span[..n].copy_from_slice(&data[..n]);
                        writer.advance(n).unwrap();
                        model.commit(&data[..n]);
                    }
                }
                2 => {
                    let polled = poll_once(&mut Box::pin(embedded_io_async::Write::write(&mut writer, &data)));
                    if let Poll::Ready(Ok(n)) = polled {
                        assert!(n > 0);
                        model.commit(&data[..n]);
                    }
                }
                3 => {
                    let polled = poll_once(&mut Box::pin(writer.write_and_flush(&data)));
                    if !matches!(polled, Poll::Ready(Err(WriteError::Pipe(Error::OutOfMemory)))) {
                        model.commit(&data);
                    }
                }
                4 => drop(poll_once(&mut Box::pin(writer.emit()))),
                5 => signal.cancel_pending_flush(),
                6 => drop(poll_once(&mut Box::pin(writer.flush()))),
                _ => {
                    let was_canceled = signal.is_cancel_requested();
                    if let Ok(result) = block_on(writer.flush()) {
                        assert_eq!(result.is_canceled(), was_canceled);
                        assert!(was_canceled || writer.unflushed_bytes() == 0);
                    }
                }
            }
            model.check(&uart.sent.borrow(), writer.unflushed_bytes());
        }
        uart.then([]);
        block_on(writer.complete()).unwrap();
        assert_eq!(*uart.sent.borrow(), model.committed());
    }
}

/// A queue that counts how often it is looked into.
struct Counting<S>(HeapQueue<S>, Rc<Cell<usize>>);

impl<S> SegmentQueue<S> for Counting<S> {
    fn reserve(&mut self) -> bool {
        self.0.reserve()
    }
    fn push_back(&mut self, sealed: Sealed<S>) -> Result<(), Sealed<S>> {
        self.0.push_back(sealed)
    }
    fn pop_front(&mut self) -> Option<Sealed<S>> {
        self.0.pop_front()
    }
    fn pop_back(&mut self) -> Option<Sealed<S>> {
        self.0.pop_back()
    }
    fn get(&self, index: usize) -> Option<&Sealed<S>> {
        self.1.set(self.1.get() + 1);
        self.0.get(index)
    }
    fn get_mut(&mut self, index: usize) -> Option<&mut Sealed<S>> {
        self.0.get_mut(index)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn the_work_of_a_flush_is_linear_in_its_chunks() {
    const CHUNKS: usize = 2000;
    let mut memory = vec![0; 16 * CHUNKS];
    let looks = Rc::new(Cell::new(0));
    let pool = SlicePool::<CHUNKS>::new(&mut memory);
    let queue = Counting(HeapQueue::default(), Rc::clone(&looks));
    let mut pipe: Pipe<_, (), Counting<_>> = Pipe::with_link(pool, Options::new().segment_size(16), (), queue);
    pipe.append(&[7; 16 * CHUNKS]).unwrap();
    looks.set(0);
    let mut sent = vec![0; 16 * CHUNKS];
    let mut writer = PipeWriter::new(&mut sent[..], pipe);
    assert!(pin!(writer.flush()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(looks.get() <= 64 * CHUNKS, "{} looks for {CHUNKS} chunks", looks.get());
    drop(writer);
    assert!(sent.iter().all(|byte| *byte == 7));
}
