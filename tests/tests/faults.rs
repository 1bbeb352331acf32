//! Faults that were found by attacking the writers, each as a test for its kind: panics and refusals at the worst moment,
//! and what pools may be made to allocate.

use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Context;
use std::thread;

use futures_io::AsyncWrite;
use pipewriter_std::{PipeWriter, PipeWriterOptions, SegmentPool, SharedPool, blocking};
use pipewriter_tests::exec::{Wakes, panicking_waker};
use pipewriter_tests::ledger::{Ledger, measure};
use pipewriter_tests::pools::{PoolLog, TestPool};
use pipewriter_tests::script::{Script, ScriptHandle, Step};

#[global_allocator]
static LEDGER: Ledger = Ledger;

type Writer = blocking::PipeWriter<Script, TestPool>;

fn writer(script: &ScriptHandle, options: PipeWriterOptions) -> (Writer, PoolLog) {
    let (pool, log) = TestPool::new();
    (blocking::PipeWriter::with_options(script.stream(), options.pool(pool)), log)
}

fn small() -> PipeWriterOptions {
    PipeWriterOptions::new().segment_size(8)
}

fn panics<T>(call: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
}

fn assert_ended(writer: &mut Writer, log: &PoolLog) {
    assert!(writer.is_completed());
    assert_eq!((log.held(), writer.unflushed_bytes()), (0, 0));
    assert!(writer.append(b"cd").is_err());
    assert!(writer.write(b"e").is_err());
    assert!(writer.span_mut(1).is_err());
    assert!(writer.advance(1).is_err());
}

#[test]
fn a_writer_that_a_pool_panic_has_aborted_takes_no_byte_and_holds_no_segment() {
    let script = ScriptHandle::new();
    let (mut writer, log) = writer(&script, small());
    writer.append(b"ab").unwrap();
    log.panic_at_take(1);
    script.on_write([Step::Fail(ErrorKind::TimedOut, "late")]);
    panics(|| writer.write_and_flush(&[b'x'; 20_000]));
    assert_ended(&mut writer, &log);
}

#[test]
fn an_abort_takes_effect_also_if_a_waker_panics_as_it_is_told() {
    let script = ScriptHandle::new();
    let (mut writer, log) = writer(&script, small());
    let mut closed = writer.handle().closed();
    assert!(Future::poll(Pin::new(&mut closed), &mut Context::from_waker(&panicking_waker())).is_pending());
    writer.append(b"ab").unwrap();
    panics(|| writer.abort());
    assert_ended(&mut writer, &log);
}

#[test]
fn an_append_past_the_quota_takes_no_segment_and_is_told_as_that_whatever_the_pool_has() {
    for refuse in [false, true] {
        let script = ScriptHandle::new();
        let (mut writer, log) = writer(&script, small().max_buffered(10));
        if refuse {
            log.refuse_takes_from(0);
        }
        assert_eq!(writer.append(&[0; 11]).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert_eq!((log.taken(), log.held()), (0, 0));
    }
}

#[test]
fn an_append_refused_half_way_leaves_no_segment_with_an_idle_writer() {
    let script = ScriptHandle::new();
    let (mut writer, log) = writer(&script, small());
    log.refuse_take(1);
    assert_eq!(writer.append(&[0; 20]).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(log.held(), 0);
}

#[test]
fn a_plain_write_between_two_polls_does_not_cost_the_flush_its_wakeup() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::with_options(script.stream(), PipeWriterOptions::new().high_water_mark(4));
    let handle = writer.handle();
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut cx = Context::from_waker(&waker);
    writer.append(b"ab").unwrap();
    script.hold_flushes();
    assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_pending());
    for _ in 0..5 {
        assert!(Pin::new(&mut writer).poll_write(&mut cx, b"abcd").is_ready());
    }
    let seen = wakes.count();
    handle.cancel_pending_flush();
    assert!(wakes.count() > seen, "the pending flush was not woken");
}

#[test]
fn a_reader_that_is_gone_does_not_cost_the_flush_its_wakeup() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::with_options(script.stream(), PipeWriterOptions::new().high_water_mark(4));
    let handle = writer.handle();
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut cx = Context::from_waker(&waker);
    writer.append(b"ab").unwrap();
    script.hold_flushes();
    assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_pending());
    script.on_write([Step::Fail(ErrorKind::BrokenPipe, "gone")]);
    assert!(Pin::new(&mut writer).poll_write(&mut cx, b"abcd").is_ready());
    assert!(Pin::new(&mut writer).poll_write(&mut cx, b"abcd").is_ready_and(Result::is_err));
    assert!(handle.is_closed());
    let seen = wakes.count();
    handle.cancel_pending_flush();
    assert!(wakes.count() > seen, "the pending flush was not woken");
}

trait ReadyAnd<T> {
    fn is_ready_and(&self, and: impl FnOnce(&T) -> bool) -> bool;
}

impl<T> ReadyAnd<T> for std::task::Poll<T> {
    fn is_ready_and(&self, and: impl FnOnce(&T) -> bool) -> bool {
        matches!(self, Self::Ready(value) if and(value))
    }
}

/// Rule 6.6 has it silent after a panic of the pool, too, whatever call met it.
#[test]
fn a_drop_after_a_pool_panic_is_silent_whatever_call_met_it() {
    type Call = fn(&mut Writer);
    let calls: [(&str, Call); 4] = [
        ("flush", |w| drop(w.flush())),
        ("emit", |w| drop(w.emit())),
        ("write_and_flush", |w| drop(w.write_and_flush(&[b'x'; 20_000]))),
        ("complete", |w| drop(w.complete())),
    ];
    for (name, call) in calls {
        let script = ScriptHandle::new();
        let (mut writer, log) = writer(&script, PipeWriterOptions::new().segment_size(4));
        writer.append(b"0123456789").unwrap();
        log.panic_at_give(0);
        script.on_write([Step::FirstChunk]);
        panics(|| call(&mut writer));
        let before = script.accepted_len();
        drop(writer);
        assert_eq!(script.accepted_len(), before, "{name}");
        log.assert_all_back();
    }
}

#[test]
fn a_drop_after_a_pool_panic_in_an_append_is_silent_until_a_flush_has_gone_well() {
    for flush in [false, true] {
        let script = ScriptHandle::new();
        let (mut writer, log) = writer(&script, small());
        writer.append(b"ab").unwrap();
        log.panic_at_take(1);
        panics(|| writer.append(&[0; 20]));
        if flush {
            writer.flush().unwrap();
            writer.append(b"cd").unwrap();
        }
        drop(writer);
        assert_eq!(script.accepted(), if flush { &b"abcd"[..] } else { b"" });
    }
}

#[test]
fn trim_frees_what_an_idle_writer_keeps_and_not_what_is_buffered() {
    let (mut writer, usage) = measure(|| {
        let mut writer = blocking::PipeWriter::new(io::sink());
        for len in [11, 50_000, 200_000] {
            writer.append(&vec![0; len]).unwrap();
            writer.flush().unwrap();
        }
        writer.trim();
        writer
    });
    // A short list for the segments of a batch is all that is left.
    assert!(usage.kept <= 2048, "{}", usage.kept);
    writer.append(b"hello").unwrap();
    writer.trim();
    assert_eq!(writer.unflushed_bytes(), 5);
    writer.flush().unwrap();
}

fn batch<P: SegmentPool>(writer: &mut blocking::PipeWriter<io::Sink, P>, bytes: &[u8]) {
    writer.append(bytes).unwrap();
    writer.flush().unwrap();
}

#[test]
fn a_shared_pool_allocates_nothing_for_a_batch_within_its_bound() {
    for (bound, n) in
        [(64 << 10, 40_000), (64 << 10, 60_000), (1 << 20, 1_000_000), (16 << 20, 8 << 20), (16 << 20, 15 << 20)]
    {
        let pool = SharedPool::with_bound(bound);
        let mut writer = blocking::PipeWriter::with_options(io::sink(), PipeWriterOptions::new().pool(pool));
        let bytes = vec![0; n];
        (0..10).for_each(|_| batch(&mut writer, &bytes));
        let ((), usage) = measure(|| (0..10).for_each(|_| batch(&mut writer, &bytes)));
        assert_eq!(usage.allocations, 0, "bound {bound}, batch {n}");
    }
}

#[test]
fn a_shared_pool_past_its_bound_allocates_a_segment_for_each_64_kib_at_most() {
    for (bound, n) in [(0, 65_536), (4096, 65_536), (0, 300_000), (0, 11), (70_000, 1_000_000)] {
        let pool = SharedPool::with_bound(bound);
        let mut writer = blocking::PipeWriter::with_options(io::sink(), PipeWriterOptions::new().pool(pool.clone()));
        let bytes = vec![0; n];
        (0..5).for_each(|_| batch(&mut writer, &bytes));
        let before = pool.stats().segments_allocated;
        batch(&mut writer, &bytes);
        let allocated = pool.stats().segments_allocated - before;
        assert!(allocated <= n.div_ceil(65_536), "bound {bound}, batch {n}: {allocated}");
    }
}

#[test]
fn a_batch_of_many_segments_allocates_nothing_in_the_steady_state() {
    struct Blocks(Vec<Box<[u8]>>);
    impl SegmentPool for Blocks {
        type Segment = Box<[u8]>;
        fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
            if min_len > 4096 { None } else { self.0.pop() }
        }
        fn give(&mut self, segment: Box<[u8]>) {
            self.0.push(segment);
        }
    }
    let pool = Blocks((0..256).map(|_| vec![0; 4096].into_boxed_slice()).collect());
    let mut writer = blocking::PipeWriter::with_options(io::sink(), PipeWriterOptions::new().pool(pool));
    let bytes = vec![0; 400_000];
    (0..3).for_each(|_| batch(&mut writer, &bytes));
    let ((), usage) = measure(|| (0..10).for_each(|_| batch(&mut writer, &bytes)));
    assert_eq!(usage.allocations, 0);
}

#[test]
fn a_thread_frees_what_it_kept_before_a_trim_at_its_next_take() {
    let mut pool = SharedPool::new();
    let (go, turns) = mpsc::channel::<()>();
    let (done, ends) = mpsc::channel();
    let other = pool.clone();
    let thread = thread::spawn(move || {
        let mut writer = blocking::PipeWriter::with_options(io::sink(), PipeWriterOptions::new().pool(other));
        for () in turns {
            batch(&mut writer, b"a");
            done.send(()).unwrap();
        }
    });
    for allocated in [1, 2] {
        go.send(()).unwrap();
        ends.recv().unwrap();
        assert_eq!(pool.stats().segments_allocated, allocated);
        pool.trim();
    }
    drop(go);
    thread.join().unwrap();
    assert_eq!(pool.stats().segments_out, 0);
    assert!(pool.take(1).is_some());
}
