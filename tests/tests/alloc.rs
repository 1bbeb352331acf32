//! What the writers allocate, and what they do when they may not: rules 3.3, 3.5, 3.7 and 4.8 of the contract, as far as
//! the heap is concerned.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use pipewriter_std::{HeapPool, PipeWriterOptions, SegmentPool, blocking::PipeWriter};
use pipewriter_tests::both;
use pipewriter_tests::ledger::{Ledger, measure, refusing_from, refusing_nth};
use pipewriter_tests::model::{Random, pattern};
use pipewriter_tests::script::ScriptHandle;
use pipewriter_tests::sink::Sink;
use pipewriter_tests::subject::{Kind, Subject};

#[global_allocator]
static LEDGER: Ledger = Ledger;

/// What the default pool keeps, and what one allocation is good for past that.
const BOUND: usize = 64 * 1024;
/// What the lists that segments stand in may take beside the segments.
const LISTS: usize = 4096;

both! {
    // 3.3
    a_small_append_and_its_flush_allocate_nothing,
    a_small_span_and_its_flush_allocate_nothing,
    a_large_write_allocates_nothing,
    a_large_span_and_its_flush_allocate_nothing,
    a_batch_within_the_bound_allocates_nothing_however_it_is_cut,
    a_batch_past_the_bound_allocates_a_segment_for_each_64_kib_at_most,
    a_writer_allocates_nothing_before_its_first_span,
    // 3.5
    a_segment_that_the_allocator_refuses_is_an_error_and_commits_nothing,
    a_refusal_needs_no_memory_to_be_told,
    a_refusal_of_any_single_allocation_loses_nothing,
    a_refused_append_leaves_no_long_list,
    // 3.7
    an_idle_writer_keeps_64_kib_at_most_whatever_was_sent,
    an_idle_writer_keeps_64_kib_at_most_after_a_huge_batch,
    an_idle_writer_keeps_one_segment_where_that_is_more_than_64_kib,
    an_idle_writer_keeps_no_more_than_its_pool_is_told_to,
    a_span_that_was_not_used_is_given_back_by_a_flush_of_nothing,
    a_completed_writer_holds_no_heap,
    an_aborted_writer_holds_no_heap,
    a_writer_that_is_taken_apart_holds_no_heap_but_the_rest,
    // 4.8
    an_argument_whose_copy_cannot_be_had_aborts_the_writer,
}

fn writer<K: Kind>() -> K::Writer<Sink, HeapPool> {
    K::over(Sink::new(), PipeWriterOptions::new())
}

/// Runs `operation` until it is warm, and then expects that it allocates nothing.
#[track_caller]
fn expect_none_once_warm(mut operation: impl FnMut()) {
    for _ in 0..3 {
        operation();
    }
    let ((), usage) = measure(|| (0..100).for_each(|_| operation()));
    assert_eq!((usage.allocations, usage.kept), (0, 0));
}

fn a_small_append_and_its_flush_allocate_nothing<K: Kind>() {
    let mut writer = writer::<K>();
    expect_none_once_warm(|| {
        writer.append(b"hello world").unwrap();
        writer.flush_well();
    });
}

fn a_small_span_and_its_flush_allocate_nothing<K: Kind>() {
    let mut writer = writer::<K>();
    expect_none_once_warm(|| {
        writer.put(b"hello world");
        writer.flush_well();
    });
}

fn a_large_write_allocates_nothing<K: Kind>() {
    let mut writer = writer::<K>();
    let bytes = pattern(0, 50_000);
    expect_none_once_warm(|| {
        writer.write_and_flush(&bytes).unwrap();
    });
}

fn a_large_span_and_its_flush_allocate_nothing<K: Kind>() {
    let mut writer = writer::<K>();
    let bytes = pattern(0, 50_000);
    expect_none_once_warm(|| {
        writer.span_mut(50_000).unwrap()[..50_000].copy_from_slice(&bytes);
        writer.advance(50_000).unwrap();
        writer.flush_well();
    });
}

/// A way to cut a batch into spans and appends: how large these may be, and how much of a span is used.
#[derive(Clone, Copy, Debug)]
struct Cut {
    largest: usize,
    spans: Spans,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spans {
    None,
    Filled,
    PartlyFilled,
    Mixed,
}

/// Commits about `bytes` bytes, never more, and returns how many. Spans are asked for within `bytes` too.
fn batch<S: Subject>(writer: &mut S, random: &mut Random, cut: Cut, bytes: usize) -> usize {
    static ZEROS: [u8; 200_000] = [0; 200_000];
    let (mut asked, mut committed) = (0, 0);
    while asked < bytes {
        let n = random.between(1, cut.largest.min(bytes - asked));
        asked += n;
        let spans = if cut.spans == Spans::Mixed {
            *random.pick(&[Spans::None, Spans::Filled, Spans::PartlyFilled])
        } else {
            cut.spans
        };
        if spans == Spans::None {
            writer.append(&ZEROS[..n]).unwrap();
            committed += n;
        } else {
            assert!(writer.span_mut(n).unwrap().len() >= n);
            let used = if spans == Spans::Filled { n } else { random.between(0, n) };
            writer.advance(used).unwrap();
            committed += used;
        }
    }
    committed
}

fn cuts(largest: &[usize]) -> Vec<Cut> {
    let spans = [Spans::None, Spans::Filled, Spans::PartlyFilled, Spans::Mixed];
    largest.iter().flat_map(|&largest| spans.map(|spans| Cut { largest, spans })).collect()
}

fn a_batch_within_the_bound_allocates_nothing_however_it_is_cut<K: Kind>() {
    for segment_size in [1, 16, 1000, 4096, 65_536, 100_000] {
        let bound = segment_size.max(BOUND);
        for (seed, cut) in cuts(&[11, 700, 5_000, 40_000, bound]).into_iter().enumerate() {
            let mut writer = K::over(Sink::new(), PipeWriterOptions::new().segment_size(segment_size));
            let mut random = Random::new(seed as u64);
            let mut batches = |writer: &mut K::Writer<Sink, HeapPool>, count| {
                for _ in 0..count {
                    let bytes = random.between(1, bound);
                    batch(writer, &mut random, cut, bytes);
                    writer.flush_well();
                }
            };
            batches(&mut writer, 6);
            batch(&mut writer, &mut Random::new(0), cut, bound);
            writer.flush_well();
            let ((), usage) = measure(|| batches(&mut writer, 8));
            assert_eq!(usage.allocations, 0, "segments of {segment_size}, {cut:?}");
        }
    }
}

/// A [`HeapPool`] that counts its allocations of segments.
struct Counted {
    pool: HeapPool,
    allocations: Rc<Cell<usize>>,
}

impl SegmentPool for Counted {
    type Segment = <HeapPool as SegmentPool>::Segment;

    fn take(&mut self, min_len: usize) -> Option<Self::Segment> {
        let (segment, usage) = measure(|| self.pool.take(min_len));
        self.allocations.set(self.allocations.get() + usage.allocations);
        segment
    }

    fn give(&mut self, segment: Self::Segment) {
        self.pool.give(segment);
    }

    fn may_hold(&self, segment: &Self::Segment) -> bool {
        self.pool.may_hold(segment)
    }

    fn attach(&mut self, segment_size: usize) {
        self.pool.attach(segment_size);
    }

    fn detach(&mut self) {
        self.pool.detach();
    }
}

fn a_batch_past_the_bound_allocates_a_segment_for_each_64_kib_at_most<K: Kind>() {
    for segment_size in [16, 4096, 65_536] {
        for (seed, cut) in cuts(&[200, 5_000, 65_536, 200_000]).into_iter().enumerate() {
            if cut.largest > BOUND && matches!(cut.spans, Spans::PartlyFilled | Spans::Mixed) {
                // How much a batch is worth of which spans of megabytes leave all but a byte unused is not said.
                continue;
            }
            let allocations = Rc::new(Cell::new(0));
            let pool = Counted { pool: HeapPool::new(), allocations: Rc::clone(&allocations) };
            let mut writer = K::over(Sink::new(), PipeWriterOptions::new().segment_size(segment_size).pool(pool));
            let mut random = Random::new(seed as u64);
            for number in 0..12 {
                let bytes = random.between(1, if number < 4 { 200_000 } else { (cut.largest * 5_000).min(2_000_000) });
                let before = allocations.get();
                let committed = batch(&mut writer, &mut random, cut, bytes);
                writer.flush_well();
                let had = allocations.get() - before;
                if number >= 4 {
                    let most = committed.div_ceil(BOUND);
                    assert!(had <= most, "{had} > {most} for {committed} bytes, segments of {segment_size}, {cut:?}");
                }
            }
        }
    }
}

fn a_writer_allocates_nothing_before_its_first_span<K: Kind>() {
    // Driving a future allocates once on a thread, which is the test's affair.
    writer::<K>().flush_well();
    let ((), usage) = measure(|| {
        let mut writer = writer::<K>();
        writer.flush_well();
        assert_eq!(writer.unflushed_bytes(), 0);
        writer.advance(0).unwrap();
        writer.write_and_flush(b"passed on as it is").unwrap();
        writer.complete().unwrap();
    });
    assert_eq!(usage.allocations, 0);
}

fn a_segment_that_the_allocator_refuses_is_an_error_and_commits_nothing<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let refused = refusing_from(4096, || writer.span_mut(10).map(drop));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    writer.append(b"kept").unwrap();
    for refused in
        [refusing_from(4096, || writer.append(&[0; 20_000])), refusing_from(4096, || writer.span_mut(20_000).map(drop))]
    {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(writer.unflushed_bytes(), 4);
    }
    writer.append(b" going").unwrap();
    writer.flush_well();
    assert_eq!(script.accepted(), b"kept going");
}

fn a_refusal_needs_no_memory_to_be_told<K: Kind>() {
    let mut writer = writer::<K>();
    let refused = refusing_from(0, || writer.span_mut(10).map(drop));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    let refused = refusing_from(0, || writer.append(b"abc"));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    writer.append(b"abc").unwrap();
    writer.flush_well();
}

fn a_refusal_of_any_single_allocation_loses_nothing<K: Kind>() {
    let bytes = pattern(0, 300_000);
    for n in 0.. {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(16));
        writer.append(&bytes[..100]).unwrap();
        let (result, refused) = refusing_nth(n, || writer.append(&bytes[100..]));
        if !refused {
            assert!(n > 5 && result.is_ok(), "there were allocations to refuse, all were, and then none is left");
            break;
        }
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(writer.unflushed_bytes(), 100, "nothing of the refused append is committed");
        writer.append(&bytes[100..]).unwrap();
        writer.flush_well();
        assert_eq!(script.accepted(), bytes);
    }
}

/// Segments of one byte, so many of them.
struct Bytes(usize);

impl SegmentPool for Bytes {
    type Segment = [u8; 1];

    fn take(&mut self, min_len: usize) -> Option<[u8; 1]> {
        self.0 = self.0.checked_sub(min_len)?;
        Some([0])
    }

    fn give(&mut self, _: [u8; 1]) {
        self.0 += 1;
    }
}

fn a_refused_append_leaves_no_long_list<K: Kind>() {
    let options = PipeWriterOptions::new().segment_size(1).pool(Bytes(5_000));
    let (mut writer, kept) = kept_after::<K, _>(options, |writer| {
        assert_eq!(writer.append(&[1; 5_001]).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(writer.unflushed_bytes(), 0);
    });
    assert!(kept <= 32 * 1024, "{kept} bytes");
    writer.append(&[1; 5_000]).unwrap();
    writer.flush_well();
}

/// Does `sends` with a new writer over a stream of its own, and says how many bytes of heap it keeps then.
fn kept_after<K: Kind, P: SegmentPool>(
    options: PipeWriterOptions<P>,
    sends: impl FnOnce(&mut K::Writer<Sink, P>),
) -> (K::Writer<Sink, P>, usize) {
    writer::<K>().flush_well();
    let (writer, usage) = measure(|| {
        let mut writer = K::over(Sink::new(), options);
        sends(&mut writer);
        writer
    });
    (writer, usize::try_from(usage.kept).unwrap())
}

fn an_idle_writer_keeps_64_kib_at_most_whatever_was_sent<K: Kind>() {
    for segment_size in [1, 1000, 4096, 65_536] {
        let options = || PipeWriterOptions::new().segment_size(segment_size);
        for (seed, cut) in cuts(&[11, 5_000, 200_000]).into_iter().enumerate() {
            let (_, kept) = kept_after::<K, _>(options(), |writer| {
                let mut random = Random::new(seed as u64);
                for bytes in [10, 3_000_000, 70_000, 1_000_000, 200] {
                    let bytes = bytes.min(cut.largest * 10_000);
                    batch(writer, &mut random, cut, bytes);
                    writer.flush_well();
                }
            });
            assert!(kept <= BOUND + LISTS, "{kept} bytes, segments of {segment_size}, {cut:?}");
        }
    }
    // A stream that stalls makes the writer copy what it was given.
    let (_, kept) = kept_after::<K, _>(PipeWriterOptions::new(), |writer| {
        writer.append(b"before").unwrap();
        writer.get_mut().room = 10;
        let bytes = pattern(0, 1_000_000);
        assert_eq!(writer.write_and_flush(&bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(writer.unflushed_bytes(), 1_000_006 - 10);
        writer.get_mut().room = usize::MAX;
        writer.flush_well();
    });
    assert!(kept <= BOUND + LISTS, "{kept} bytes");
}

fn an_idle_writer_keeps_64_kib_at_most_after_a_huge_batch<K: Kind>() {
    let (_, kept) = kept_after::<K, _>(PipeWriterOptions::new(), |writer| {
        batch(writer, &mut Random::new(4), Cut { largest: 200_000, spans: Spans::None }, 64 << 20);
        writer.flush_well();
    });
    assert!(kept <= BOUND + LISTS, "{kept} bytes");
}

fn an_idle_writer_keeps_one_segment_where_that_is_more_than_64_kib<K: Kind>() {
    let (_, kept) = kept_after::<K, _>(PipeWriterOptions::new().segment_size(100_000), |writer| {
        batch(writer, &mut Random::new(1), Cut { largest: 50_000, spans: Spans::Mixed }, 2_000_000);
        writer.flush_well();
    });
    assert!((100_000..=100_000 + LISTS).contains(&kept), "{kept} bytes");
}

fn an_idle_writer_keeps_no_more_than_its_pool_is_told_to<K: Kind>() {
    for bound in [0, 5_000, 300_000] {
        let options = PipeWriterOptions::new().pool(HeapPool::with_bound(bound));
        let (_, kept) = kept_after::<K, _>(options, |writer| {
            for bytes in [10, 1_000_000, 5_000] {
                batch(writer, &mut Random::new(2), Cut { largest: 50_000, spans: Spans::Mixed }, bytes);
                writer.flush_well();
            }
        });
        assert!(kept <= bound + LISTS, "{kept} bytes with a bound of {bound}");
    }
}

fn a_span_that_was_not_used_is_given_back_by_a_flush_of_nothing<K: Kind>() {
    let options = PipeWriterOptions::new().pool(HeapPool::with_bound(0));
    let (mut writer, kept) = kept_after::<K, _>(options, |writer| {
        writer.span_mut(1_000_000).unwrap();
    });
    assert!(kept >= 1_000_000);
    let ((), usage) = measure(|| writer.flush_well());
    assert!(usage.kept <= -1_000_000, "{usage:?}");
}

fn a_completed_writer_holds_no_heap<K: Kind>() {
    let (_writer, kept) = kept_after::<K, _>(PipeWriterOptions::new(), |writer| {
        batch(writer, &mut Random::new(3), Cut { largest: 50_000, spans: Spans::Mixed }, 500_000);
        writer.flush_well();
        batch(writer, &mut Random::new(3), Cut { largest: 5, spans: Spans::Mixed }, 50_000);
        writer.complete().unwrap();
    });
    assert_eq!(kept, 0);
}

fn an_aborted_writer_holds_no_heap<K: Kind>() {
    let (_writer, kept) = kept_after::<K, _>(PipeWriterOptions::new(), |writer| {
        batch(writer, &mut Random::new(3), Cut { largest: 50_000, spans: Spans::Mixed }, 500_000);
        writer.abort().unwrap();
    });
    assert_eq!(kept, 0);
}

fn a_writer_that_is_taken_apart_holds_no_heap_but_the_rest<K: Kind>() {
    let (parts, usage) = measure(|| {
        let mut writer = writer::<K>();
        batch(&mut writer, &mut Random::new(3), Cut { largest: 5_000, spans: Spans::None }, 500_000);
        writer.into_parts()
    });
    assert_eq!(parts.1.len(), 500_000);
    assert_eq!(usize::try_from(usage.kept).unwrap(), parts.1.capacity());
}

fn an_argument_whose_copy_cannot_be_had_aborts_the_writer<K: Kind>() {
    let mut writer = writer::<K>();
    let handle = writer.handle();
    writer.append(b"before").unwrap();
    writer.get_mut().room = 1_000;
    let bytes = pattern(0, 50_000);
    let refused = refusing_from(10_000, || writer.write_and_flush(&bytes));
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    assert!(handle.is_closed(), "handles are told at once");
    assert_eq!(writer.get_ref().bytes, 1_000);
    for later in [writer.append(b"x"), writer.span_mut(1).map(drop), writer.flush().map(drop)] {
        assert_eq!(later.unwrap_err().kind(), io::ErrorKind::OutOfMemory, "aborted with the error that it returned");
    }
    writer.abort().unwrap();
}

#[test]
fn a_trimmed_writer_holds_no_heap_whatever_was_sent() {
    for (largest, bytes) in [(11, 100_000), (5_000, 500_000), (200_000, 3_000_000)] {
        for segment_size in [1, 1000, 4096] {
            let ((), usage) = measure(|| {
                let options = PipeWriterOptions::new().segment_size(segment_size);
                let mut writer = PipeWriter::with_options(io::sink(), options);
                for piece in pattern(0, bytes).chunks(largest) {
                    writer.append(piece).unwrap();
                }
                writer.flush().unwrap();
                writer.trim();
                std::mem::forget(writer); // what it holds is kept for good
            });
            assert_eq!(usage.kept, 0, "{bytes} bytes in pieces of {largest}, segments of {segment_size}");
        }
    }
}
