//! What SECURITY.md promises and no other file tests: what a peer that never reads can cost, what a stream that lies can do, and
//! that no byte shows where it should not. The last test holds SECURITY.md to the tests that it names.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use futures_io::AsyncWrite;
use pipewriter_std::{PipeWriter, PipeWriterOptions, SegmentPool, SharedPool};
use pipewriter_tests::ledger::{Ledger, measure};
use pipewriter_tests::model::{Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{ScriptHandle, Step};
use pipewriter_tests::sink::Sink;
use pipewriter_tests::subject::{Kind, Subject};

#[global_allocator]
static LEDGER: Ledger = Ledger;

pipewriter_tests::both!(
    a_reader_that_never_reads_costs_not_much_more_than_max_buffered,
    a_reader_that_never_reads_costs_a_plain_writer_the_mark_and_a_segment_and_no_more,
    a_pool_bounds_the_memory_whatever_spans_are_asked_for,
    a_clearing_pool_shows_nothing_however_the_writer_before_ended,
    no_error_of_the_writer_shows_payload,
    no_error_that_follows_another_changes_what_is_sent,
);

/// A segment past the pool's bound, and the lists.
const SEGMENT_AND_LISTS: usize = 128 * 1024 + 64 * 1024;

fn stalled() -> Sink {
    Sink { room: 0, ..Sink::new() }
}

fn a_reader_that_never_reads_costs_not_much_more_than_max_buffered<K: Kind>() {
    const MAX: usize = 2 << 20;
    // Driving a future allocates once on a thread, which is the test's affair.
    K::over(Sink::new(), PipeWriterOptions::new()).flush_well();
    let bytes = pattern(0, 50_000);
    for segment_size in [1, 4096, 50_000] {
        for seed in 0..3 {
            let options = PipeWriterOptions::new().segment_size(segment_size).max_buffered(MAX);
            let mut random = Random::new(seed);
            let (writer, usage) = measure(|| {
                let mut writer = K::over(stalled(), options);
                let mut refused = 0;
                while refused < 100 {
                    let part = &bytes[..random.between(1, if seed == 0 { 100 } else { bytes.len() })];
                    let result = match random.below(4) {
                        0 => writer.append(part),
                        1 => writer.write_and_flush(part).map(drop),
                        2 => writer.plain_write(part).map(drop),
                        _ => match writer.span_mut(part.len()) {
                            Ok(span) => {
                                span[..part.len()].copy_from_slice(part);
                                writer.advance(part.len())
                            }
                            Err(error) => Err(error),
                        },
                    };
                    refused += usize::from(result.is_err_and(|error| error.kind() == ErrorKind::QuotaExceeded));
                }
                writer
            });
            assert!((MAX - 50_000..=MAX).contains(&writer.unflushed_bytes()));
            // Spans that were filled leave less than their own length unused at the end of a segment.
            let most = MAX + MAX / 2 + SEGMENT_AND_LISTS;
            let kept = usize::try_from(usage.kept).unwrap();
            assert!(kept <= most, "{kept} bytes of heap, segments of {segment_size}, seed {seed}");
        }
    }
}

fn a_reader_that_never_reads_costs_a_plain_writer_the_mark_and_a_segment_and_no_more<K: Kind>() {
    K::over(Sink::new(), PipeWriterOptions::new()).flush_well();
    let bytes = pattern(0, 100_000);
    let (writer, usage) = measure(|| {
        let mut writer = K::over(stalled(), PipeWriterOptions::new());
        let mut put_off = 0;
        while put_off < 100 {
            let (one, two) = bytes.split_at(1000);
            let result = writer.plain_write_vectored(&[IoSlice::new(one), IoSlice::new(two)]);
            put_off += usize::from(result.is_err());
        }
        writer
    });
    assert_eq!(writer.unflushed_bytes(), 64 * 1024);
    assert!(usage.kept <= (64 * 1024 + SEGMENT_AND_LISTS) as isize, "{usage:?}");
}

/// A pool that has so many bytes out at most.
struct Bounded {
    left: usize,
    least_left: usize,
}

impl SegmentPool for Bounded {
    type Segment = Vec<u8>;

    fn take(&mut self, min_len: usize) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(min_len)?;
        self.least_left = self.least_left.min(self.left);
        Some(vec![0; min_len])
    }

    fn give(&mut self, segment: Vec<u8>) {
        self.left += segment.len();
        assert!(self.left <= 1 << 20, "more came back than went out");
    }
}

/// `max_buffered` counts bytes and not the memory they lie in: of spans that are much longer than what is advanced over, each may
/// take a segment. The pool is where that is bounded.
fn a_pool_bounds_the_memory_whatever_spans_are_asked_for<K: Kind>() {
    let mut stream = stalled();
    stream.room = 0;
    let mut writer = K::over(stream, PipeWriterOptions::new().pool(Bounded { left: 1 << 20, least_left: 1 << 20 }));
    let mut committed = 0;
    let refused = loop {
        match writer.span_mut(100_000) {
            Ok(_) => writer.advance(1).unwrap(),
            Err(error) => break error,
        }
        committed += 1;
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
    assert_eq!((committed, writer.unflushed_bytes()), (10, 10));
    writer.get_mut().room = usize::MAX;
    writer.flush_well();
    assert_eq!(writer.get_ref().bytes, 10);
    writer.span_mut(1 << 20).expect("all came back");
}

const PAYLOAD: &[u8] = b"SECRET";

fn a_clearing_pool_shows_nothing_however_the_writer_before_ended<K: Kind>() {
    type End<W> = (&'static str, fn(W, &ScriptHandle));
    let ends: [End<K::Writer<pipewriter_tests::script::Script, SharedPool>>; 7] = [
        ("flush", |mut w, _| w.flush_well()),
        ("complete", |mut w, _| w.complete().unwrap()),
        ("abort", |mut w, _| w.abort().unwrap()),
        ("drop", |w, script| {
            script.default_write(Step::Fail(ErrorKind::TimedOut, "late"));
            drop(w);
        }),
        ("into_parts", |w, _| drop(w.into_parts())),
        ("a panic", |mut w, script| {
            script.on_write([Step::Panic]);
            assert!(catch_unwind(AssertUnwindSafe(move || w.flush())).is_err());
        }),
        ("a rest that was kept", |mut w, script| {
            script.on_write([Step::Take(3), Step::Fail(ErrorKind::TimedOut, "late")]);
            assert!(w.write_and_flush(&PAYLOAD.repeat(100)).is_err());
            w.flush_well();
        }),
    ];
    for (name, end) in ends {
        let pool = SharedPool::clearing(1 << 20);
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().pool(pool.clone()));
        writer.append(&PAYLOAD.repeat(1000)).unwrap();
        // Written, and never advanced over.
        writer.span_mut(PAYLOAD.len()).unwrap()[..PAYLOAD.len()].copy_from_slice(PAYLOAD);
        end(writer, &script);
        let allocated = pool.stats().segments_allocated;
        let script = ScriptHandle::new();
        let mut next = K::writer(&script, PipeWriterOptions::new().pool(pool.clone()));
        for len in [1, 4096, 8192, 16_384] {
            let span = next.span_mut(len).unwrap();
            assert!(span.iter().all(|byte| *byte == 0), "{name}: old bytes in a span of {len}");
            next.advance(1).unwrap();
        }
        assert!(pool.stats().segments_allocated < allocated + 4, "{name}: no old segment was seen at all");
    }
}

fn no_error_of_the_writer_shows_payload<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(16).max_buffered(100).pool(pool));
    writer.append(PAYLOAD).unwrap();
    let long = PAYLOAD.repeat(20);
    let mut errors = vec![
        writer.append(&long).unwrap_err(),
        writer.write_and_flush(&long).unwrap_err(),
        writer.span_mut(1000).unwrap_err(),
        writer.span_mut(usize::MAX).unwrap_err(),
        writer.advance(7).unwrap_err(),
    ];
    log.refuse_takes_from(log.asked().len());
    errors.push(writer.append(&PAYLOAD.repeat(10)).unwrap_err());
    log.refuse_no_more();
    script.on_write([Step::Zero, Step::ClaimMore(1)]);
    errors.push(writer.flush().unwrap_err());
    errors.push(writer.flush().unwrap_err());
    writer.cancel_pending_flush();
    errors.push(writer.plain_flush().unwrap_err());
    writer.complete().unwrap();
    errors.push(writer.append(PAYLOAD).unwrap_err());
    errors.push(writer.plain_write(PAYLOAD).unwrap_err());
    for error in errors {
        for text in [format!("{error}"), format!("{error:?}"), format!("{error:#?}")] {
            for part in ["SECRET", "SEC", "83, 69", "53, 45"] {
                assert!(!text.contains(part), "{text}");
            }
        }
    }
}

/// A stream that does everything wrong in turn, and a caller who goes on.
fn no_error_that_follows_another_changes_what_is_sent<K: Kind>() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(8));
        let all = pattern(0, 400);
        writer.append(&all).unwrap();
        let wrongs = [
            Step::Zero,
            Step::ClaimMore(1),
            Step::ClaimMore(usize::MAX / 2),
            Step::Fail(ErrorKind::Interrupted, "again"),
            Step::Fail(ErrorKind::BrokenPipe, "gone"),
            Step::Fail(ErrorKind::OutOfMemory, "a lie"),
            Step::Pend,
            Step::Panic,
            Step::Take(5),
        ];
        script.on_write((0..60).map(|_| random.pick(&wrongs).clone()));
        let mut calls = 0;
        while !matches!(catch_unwind(AssertUnwindSafe(|| writer.flush())), Ok(Ok(_))) {
            calls += 1;
            assert!(calls < 100, "seed {seed}");
            assert_eq!(script.accepted_len() + writer.unflushed_bytes(), all.len(), "seed {seed}");
        }
        assert_eq!(script.accepted(), all, "seed {seed}");
    }
}

/// Interrupted for ever. The blocking writer tries for ever, as those of std do.
struct Restless(usize);

impl AsyncWrite for Restless {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0 += 1;
        Poll::Ready(Err(ErrorKind::Interrupted.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_stream_that_is_interrupted_for_ever_lets_other_tasks_have_a_turn() {
    let mut writer = PipeWriter::new(Restless(0));
    writer.append(b"x").unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for turn in 1..4 {
        assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_pending());
        assert!(writer.get_ref().0 <= turn * ((1 << 18) + 1), "a turn of {} calls", writer.get_ref().0);
    }
    writer.cancel_pending_flush();
    assert!(
        Pin::new(&mut writer).poll_flush(&mut cx).map(Result::unwrap).map(|result| result.is_canceled()).is_ready()
    );
}

#[test]
fn every_test_that_security_md_names_is_there() {
    let policy = include_str!("../../SECURITY.md");
    // The names in the last column: `file::test`.
    let named: Vec<_> = policy
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(file, _)| file.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(named.len() >= 15, "{named:?}");
    for (file, test) in named {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("fn {test}")), "{file} has no test {test}");
    }
}
