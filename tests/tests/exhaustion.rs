//! Memory and numbers at their ends (rules 3.4, 3.5, 4.8): an allocator that refuses each allocation of a program in turn, sizes
//! that no buffer can have, and more bytes than 32 bits can count.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_io::AsyncWrite;
use pipewriter_std::{HeapPool, PipeWriterOptions, SegmentPool, SharedPool};
use pipewriter_tests::exec::{Wakes, poll_with};
use pipewriter_tests::ledger::{Ledger, measure, refusing_from, refusing_nth};
use pipewriter_tests::model::pattern;
use pipewriter_tests::sink::Sink;
use pipewriter_tests::step::Op;
use pipewriter_tests::subject::{Kind, Subject};

#[global_allocator]
static LEDGER: Ledger = Ledger;

pipewriter_tests::both!(
    whichever_allocation_is_refused_the_writer_goes_on_and_every_byte_before_it_arrives,
    a_refusal_of_any_kind_is_told_also_where_there_is_no_memory_at_all,
    a_size_that_cannot_be_had_is_an_error_and_changes_nothing,
    an_advance_of_any_size_past_the_span_is_an_error,
    a_setting_may_be_as_large_as_a_number_can_be,
    a_segment_size_that_cannot_be_had_is_out_of_memory,
    #[cfg_attr(debug_assertions, ignore = "takes seconds only where the code is optimised")]
    more_than_4_gib_go_through_one_writer,
);

// ---- an allocator that refuses ----

/// A stream that keeps what it takes in memory that it has from the start, takes parts and stalls now and then.
struct Tape {
    bytes: Vec<u8>,
    calls: usize,
}

impl Tape {
    fn take(&mut self, bufs: &[IoSlice<'_>]) -> Option<usize> {
        self.calls += 1;
        if self.calls % 4 == 0 {
            return None;
        }
        let mut room = if self.calls % 3 == 0 { 1000 } else { usize::MAX };
        let before = self.bytes.len();
        for buf in bufs {
            let part = &buf[..buf.len().min(room)];
            assert!(self.bytes.capacity() - self.bytes.len() >= part.len(), "the tape is too short for the program");
            self.bytes.extend_from_slice(part);
            room -= part.len();
        }
        Some(self.bytes.len() - before)
    }
}

impl io::Write for Tape {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.take(bufs).ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncWrite for Tape {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.take(bufs) {
            Some(n) => Poll::Ready(Ok(n)),
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const PROGRAM: &[Op] = &[
    Op::Append(10),
    Op::Flush,
    Op::Append(30_000),
    Op::Span(100),
    Op::Span(9_000),
    Op::Emit,
    Op::WriteAndFlush(50),
    Op::WriteAndFlush(40_000),
    Op::Cancel,
    Op::WriteAndFlush(3_000),
    Op::Flush,
    Op::PlainWrite(20_000),
    Op::PlainVectored(70_000),
    Op::WriteAndFlush(100_000),
    Op::Append(150_000),
    Op::Flush,
    Op::Span(80_000),
    Op::PlainWrite(10),
    Op::Complete,
];
const TOTAL: usize = 700_000;

/// Runs the program to its end, or until the writer is aborted, and makes each refused call again. Allocates nothing itself.
/// Returns how many bytes were committed and how many calls were refused memory.
fn run<S: Subject>(writer: &mut S, all: &[u8]) -> (usize, usize) {
    let (mut committed, mut refusals) = (0, 0);
    for &op in PROGRAM {
        let end = committed + op.bytes();
        if op.bytes() == 0 {
            while op.call(writer, &[]).is_err() {}
        }
        while committed < end {
            let before = writer.unflushed_bytes();
            match op.call(writer, &all[committed..end]) {
                Ok(n) => committed += n,
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    refusals += 1;
                    if writer.is_completed() {
                        return (end, refusals);
                    }
                    assert!(writer.unflushed_bytes() <= before, "{op:?}: something of a refused call was committed");
                }
                // The stream stalls: the argument counts as committed, the plain write has taken nothing.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if matches!(op, Op::WriteAndFlush(_)) {
                        committed = end;
                    }
                }
                Err(error) => panic!("{op:?}: {error}"),
            }
        }
    }
    (committed, refusals)
}

/// The program once with the allocation number `n` refused. Says whether there was such a one.
fn survives<K: Kind, P: SegmentPool>(options: PipeWriterOptions<P>, all: &[u8], n: usize) -> bool {
    let tape = Tape { bytes: Vec::with_capacity(TOTAL), calls: 0 };
    let mut writer = K::over(tape, options);
    // These two may abort the process where there is no memory, as their documentation says: they are had before.
    let handle = writer.handle();
    let mut closed = handle.closed();
    let wakes = Wakes::new();
    let waker = wakes.waker();
    assert!(poll_with(&waker, &mut closed).is_pending());
    let ((committed, refusals), was_refused) = refusing_nth(n, || {
        let end = run(&mut writer, all);
        assert!(poll_with(&waker, &mut closed).is_ready());
        end
    });
    let context = format!("allocation {n}");
    let accepted = &writer.get_ref().bytes;
    assert_eq!(accepted[..], all[..accepted.len()], "{context}: lost or repeated");
    assert!(writer.is_completed() && handle.is_closed(), "{context}");
    if !was_refused {
        assert_eq!((accepted.len(), refusals), (committed, 0), "{context}");
        return false;
    }
    // A refusal that only costs a place in the pool, or makes it free memory, is told to nobody.
    assert!(refusals <= 1, "{context}");
    if accepted.len() < committed {
        assert_eq!(
            writer.append(b"x").unwrap_err().kind(),
            ErrorKind::OutOfMemory,
            "{context}: only an abort ends early"
        );
    }
    true
}

fn whichever_allocation_is_refused_the_writer_goes_on_and_every_byte_before_it_arrives<K: Kind>() {
    let all = pattern(0, TOTAL);
    // Driving a future allocates once on a thread, which is the test's affair.
    K::over(Sink::new(), PipeWriterOptions::new()).flush_well();
    let options = PipeWriterOptions::new();
    type Set = fn(PipeWriterOptions) -> PipeWriterOptions;
    let sets: [Set; 5] = [
        |options| options,
        |options| options.segment_size(16),
        |options| options.segment_size(100_000).leave_open(true),
        |options| options.high_water_mark(1000),
        |options| options.high_water_mark(usize::MAX).max_buffered(TOTAL),
    ];
    let mut fewest = usize::MAX;
    let mut count = |survives: &mut dyn FnMut(usize) -> bool| {
        let refused = (0..).take_while(|n| survives(*n)).count();
        fewest = fewest.min(refused);
    };
    for set in sets {
        count(&mut |n| survives::<K, _>(set(options.clone()), &all, n));
    }
    for bound in [0, 10_000, 1 << 20] {
        count(&mut |n| survives::<K, _>(options.clone().pool(HeapPool::with_bound(bound)), &all, n));
        // A pool of its own for each run, for a shared one keeps what an earlier run has allocated.
        count(&mut |n| survives::<K, _>(options.clone().pool(SharedPool::with_bound(bound)), &all, n));
    }
    count(&mut |n| survives::<K, _>(options.clone().pool(SharedPool::clearing(100_000)), &all, n));
    assert!(fewest >= 3, "a program with only {fewest} allocations tests little");
}

fn a_refusal_of_any_kind_is_told_also_where_there_is_no_memory_at_all<K: Kind>() {
    let mut writer = K::over(Sink::new(), PipeWriterOptions::new().max_buffered(1000));
    writer.append(b"abc").unwrap();
    writer.flush_well();
    let (kinds, usage) = measure(|| {
        refusing_from(0, || {
            let quota = writer.append(&[0; 2000]).unwrap_err().kind();
            let hint = writer.span_mut(2000).unwrap_err().kind();
            let size = writer.span_mut(usize::MAX).unwrap_err().kind();
            let span = writer.advance(5000).unwrap_err().kind();
            let argument = writer.write_and_flush(&[0; 2000]).unwrap_err().kind();
            writer.complete().unwrap();
            [quota, hint, size, span, argument, writer.append(b"x").unwrap_err().kind()]
        })
    });
    assert_eq!(usage.allocations, 0);
    let (quota, input) = (ErrorKind::QuotaExceeded, ErrorKind::InvalidInput);
    assert_eq!(kinds, [quota, quota, input, input, quota, ErrorKind::BrokenPipe]);
}

// ---- sizes ----

/// What no allocator is asked for in earnest: where addresses have 32 bits, even half of them may be had.
const ENOUGH: usize = 1 << 30;

/// The largest a buffer may be and around it, and the largest there are.
const HUGE: [usize; 6] = [
    isize::MAX as usize - 1,
    isize::MAX as usize,
    isize::MAX as usize + 1,
    usize::MAX - 4096,
    usize::MAX - 1,
    usize::MAX,
];

fn a_size_that_cannot_be_had_is_an_error_and_changes_nothing<K: Kind>() {
    for max in [1 << 30, isize::MAX as usize, usize::MAX] {
        for buffered in [0, 3] {
            let mut writer = K::over(Sink::new(), PipeWriterOptions::new().max_buffered(max));
            writer.append(&b"abc"[..buffered]).unwrap();
            for hint in HUGE {
                let kind = refusing_from(ENOUGH, || writer.span_mut(hint).unwrap_err().kind());
                let is_too_large = hint > isize::MAX as usize;
                let expected = match (is_too_large, hint > max - buffered) {
                    (true, _) => ErrorKind::InvalidInput,
                    (false, true) => ErrorKind::QuotaExceeded,
                    (false, false) => ErrorKind::OutOfMemory,
                };
                assert_eq!(kind, expected, "a hint of {hint}, {max} at most, {buffered} there");
                assert_eq!(writer.unflushed_bytes(), buffered);
            }
            writer.put(b"def");
            writer.flush_well();
            assert_eq!(writer.get_ref().bytes, buffered + 3);
        }
    }
}

fn an_advance_of_any_size_past_the_span_is_an_error<K: Kind>() {
    for max in [1000, usize::MAX] {
        let mut writer = K::over(Sink::new(), PipeWriterOptions::new().max_buffered(max));
        for n in HUGE {
            writer.append(b"abc").unwrap();
            assert_eq!(writer.advance(n).unwrap_err().kind(), ErrorKind::InvalidInput, "without a span");
            writer.span_mut(10).unwrap();
            writer.advance(2).unwrap();
            assert_eq!(writer.advance(n).unwrap_err().kind(), ErrorKind::InvalidInput, "past the span");
            assert_eq!(writer.unflushed_bytes(), 5);
            writer.flush_well();
        }
    }
}

fn a_setting_may_be_as_large_as_a_number_can_be<K: Kind>() {
    fn works<K: Kind, P: SegmentPool>(options: PipeWriterOptions<P>, context: &str) {
        let bytes = pattern(0, 300_000);
        let mut writer = K::over(Sink::new(), options);
        for _ in 0..3 {
            writer.append(&bytes).unwrap();
            writer.span_mut(200_000).unwrap();
            writer.advance(100_000).unwrap();
            assert_eq!(writer.plain_write(&bytes[..1000]).unwrap(), 1000, "{context}");
            writer.flush_well();
            writer.write_and_flush(&bytes).unwrap();
        }
        writer.complete().unwrap();
        assert_eq!(writer.get_ref().bytes, 3 * 701_000, "{context}");
    }
    for huge in HUGE {
        let context = huge.to_string();
        let options = PipeWriterOptions::new().high_water_mark(huge);
        works::<K, _>(options.clone(), &context);
        works::<K, _>(options.clone().max_buffered(huge), &context);
        works::<K, _>(options.clone().max_buffered(huge).pool(HeapPool::with_bound(huge)), &context);
        works::<K, _>(options.clone().max_buffered(huge).pool(SharedPool::with_bound(huge)), &context);
        works::<K, _>(options.max_buffered(huge).pool(SharedPool::clearing(huge)), &context);
    }
    for zero in [PipeWriterOptions::new().segment_size(0), PipeWriterOptions::new().max_buffered(0)] {
        let made = catch_unwind(AssertUnwindSafe(|| K::over(Sink::new(), zero)));
        assert!(made.is_err(), "the panic that with_options documents");
    }
}

fn a_segment_size_that_cannot_be_had_is_out_of_memory<K: Kind>() {
    fn refuses<K: Kind, P: SegmentPool>(options: PipeWriterOptions<P>) {
        let mut writer = K::over(Sink::new(), options);
        let results = refusing_from(ENOUGH, || {
            [writer.append(b"abc"), writer.span_mut(1).map(drop), writer.plain_write(b"abc").map(drop)]
        });
        for result in results {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
        assert_eq!(writer.unflushed_bytes(), 0);
        writer.write_and_flush(b"abc").unwrap();
        writer.complete().unwrap();
        assert_eq!(writer.get_ref().bytes, 3);
    }
    for huge in HUGE {
        for max in [1 << 30, usize::MAX] {
            let options = PipeWriterOptions::new().segment_size(huge).max_buffered(max);
            refuses::<K, _>(options.clone());
            refuses::<K, _>(options.clone().pool(HeapPool::with_bound(huge)));
            refuses::<K, _>(options.pool(SharedPool::with_bound(1 << 20)));
        }
    }
}

// ---- counts ----

fn more_than_4_gib_go_through_one_writer<K: Kind>() {
    /// The sink's count is as long as an address; this one is not.
    const GIB: u64 = 1 << 30;
    let mut writer = K::over(Sink::new(), PipeWriterOptions::new());
    let handle = writer.handle();
    let part = vec![7; 1 << 20];
    let mut committed = 0_u64;
    while committed < 5 * GIB {
        // The last GiB through the buffer, where each byte is copied.
        if committed < 4 * GIB - (GIB / 2) {
            writer.write_and_flush(&part).unwrap();
        } else {
            writer.append(&part).unwrap();
            writer.flush_well();
        }
        committed += part.len() as u64;
        assert_eq!(writer.unflushed_bytes(), 0);
        let sent = &mut writer.get_mut().bytes;
        assert_eq!(*sent, part.len());
        *sent = 0;
    }
    assert!(!handle.is_closed());
    let waker = Waker::noop();
    assert!(poll_with(waker, &mut handle.closed()).is_pending());
    writer.complete().unwrap();
}
