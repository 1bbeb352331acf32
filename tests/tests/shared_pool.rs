//! The pool that many writers share: an idle writer holds nothing, the bound holds, and no segment is handed out twice.

use std::io;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;

use pipewriter_std::blocking::PipeWriter;
use pipewriter_std::{PipeWriterOptions, SegmentPool, SharedPool};
use pipewriter_tests::ledger::{Ledger, measure};
use pipewriter_tests::model::{Random, pattern};

#[global_allocator]
static LEDGER: Ledger = Ledger;

fn writer(pool: &SharedPool) -> PipeWriter<io::Sink, SharedPool> {
    PipeWriter::with_options(io::sink(), PipeWriterOptions::new().pool(pool.clone()))
}

#[test]
fn an_idle_writer_holds_no_segment_and_no_heap() {
    let pool = SharedPool::new();
    let bytes = pattern(0, 1024);
    let mut writers: Vec<_> = (0..1000).map(|_| writer(&pool)).collect();
    for writer in &mut writers {
        writer.append(&bytes).unwrap();
        writer.flush().unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.segments_allocated, stats.segments_kept), (0, 1, 1));
    let mut once_more = writer(&pool);
    let ((), usage) = measure(|| {
        once_more.append(&bytes).unwrap();
        once_more.flush().unwrap();
    });
    assert_eq!((usage.allocations, usage.kept), (0, 0));
}

#[test]
fn the_segment_of_an_unused_span_comes_back_with_a_flush_of_nothing() {
    let pool = SharedPool::new();
    let mut writer = writer(&pool);
    writer.span_mut(10).unwrap();
    assert_eq!(pool.stats().segments_out, 1);
    writer.flush().unwrap();
    assert_eq!(pool.stats().segments_out, 0);
}

#[test]
fn the_steady_state_allocates_nothing_for_small_and_large_batches_alike() {
    let pool = SharedPool::new();
    let large = pattern(0, 50_000);
    let mut writer = writer(&pool);
    let mut batch = || {
        writer.append(&large[..11]).unwrap();
        writer.flush().unwrap();
        writer.write_and_flush(&large).unwrap();
        writer.span_mut(50_000).unwrap()[..50_000].copy_from_slice(&large);
        writer.advance(50_000).unwrap();
        writer.flush().unwrap();
        for _ in 0..20 {
            writer.append(&large).unwrap();
        }
        writer.flush().unwrap();
    };
    (0..5).for_each(|_| batch());
    let ((), usage) = measure(|| (0..10).for_each(|_| batch()));
    assert_eq!(usage.allocations, 0);
    assert_eq!(pool.stats().segments_out, 0);
}

#[test]
fn no_more_than_the_bound_is_kept_and_the_rest_is_freed() {
    for bound in [0, 1, 4096, 10_000, 1 << 20] {
        let pool = SharedPool::with_bound(bound);
        let mut writers: Vec<_> = (0..100).map(|_| writer(&pool)).collect();
        for round in 0..3 {
            for writer in &mut writers {
                writer.append(&pattern(round, 20_000)).unwrap();
            }
            assert!(pool.stats().segments_out >= 100);
            assert!(pool.stats().bytes_out >= 2_000_000);
            for writer in &mut writers {
                writer.flush().unwrap();
            }
            let stats = pool.stats();
            assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
            assert!(stats.bytes_kept <= bound, "{stats:?} over {bound}");
        }
    }
}

#[test]
fn trim_frees_what_is_kept() {
    let pool = SharedPool::new();
    let mut writers: Vec<_> = (0..10).map(|_| writer(&pool)).collect();
    writers.iter_mut().for_each(|writer| writer.append(&[1; 5000]).unwrap());
    writers.iter_mut().for_each(|writer| assert!(!writer.flush().unwrap().is_canceled()));
    assert!(pool.stats().bytes_kept > 0);
    pool.trim();
    let stats = pool.stats();
    assert_eq!((stats.segments_kept, stats.bytes_kept, stats.segments_out, stats.bytes_out), (0, 0, 0, 0));
    writers[0].append(&[1; 5000]).unwrap();
    writers[0].flush().unwrap();
    assert!(pool.stats().segments_kept > 0, "it goes on keeping");
}

#[test]
fn a_trim_reaches_what_another_thread_keeps_at_its_next_turn() {
    let pool = SharedPool::new();
    let (go, turns) = mpsc::channel::<()>();
    let (done, ends) = mpsc::channel::<()>();
    let other = pool.clone();
    let thread = thread::spawn(move || {
        let mut writer = writer(&other);
        for () in turns {
            writer.append(b"a").unwrap();
            writer.flush().unwrap();
            done.send(()).unwrap();
        }
    });
    go.send(()).unwrap();
    ends.recv().unwrap();
    pool.trim();
    assert!(pool.stats().segments_kept <= 1);
    go.send(()).unwrap();
    ends.recv().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.segments_kept), (0, 1));
    drop(go);
    thread.join().unwrap();
    assert_eq!(pool.stats().segments_out, 0);
}

#[test]
fn what_a_thread_kept_from_before_a_trim_is_freed_when_it_ends() {
    let pool = SharedPool::new();
    let (kept, is_kept) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let mut of_thread = pool.clone();
    let thread = thread::spawn(move || {
        let segment = of_thread.take(1).unwrap();
        of_thread.give(segment);
        kept.send(()).unwrap();
        let _ = ended.recv();
    });
    is_kept.recv().unwrap();
    assert_eq!(pool.stats().segments_kept, 1);
    pool.trim();
    drop(end);
    thread.join().unwrap();
    assert_eq!((pool.stats().segments_kept, pool.stats().segments_out), (0, 0));
}

#[test]
fn a_trim_frees_what_its_own_thread_keeps_though_another_one_trimmed_before() {
    let pool = SharedPool::new();
    writer(&pool).write_all_and_flush();
    let other = pool.clone();
    thread::spawn(move || other.trim()).join().unwrap();
    pool.trim();
    let stats = pool.stats();
    assert_eq!((stats.segments_kept, stats.bytes_kept, stats.segments_out), (0, 0, 0));
}

#[test]
fn what_a_thread_keeps_comes_back_when_it_ends() {
    let pool = SharedPool::new();
    let other = pool.clone();
    // Joined by its handle: a scope waits for the closure only, and not for what the thread does as it ends.
    thread::spawn(move || writer(&other).write_all_and_flush()).join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.segments_kept, stats.segments_allocated), (0, 1, 1));
    writer(&pool).write_all_and_flush();
    assert_eq!(pool.stats().segments_allocated, 1, "taken again by another thread");
}

trait Once {
    fn write_all_and_flush(self);
}

impl Once for PipeWriter<io::Sink, SharedPool> {
    fn write_all_and_flush(mut self) {
        self.append(b"hello").unwrap();
        self.flush().unwrap();
    }
}

#[test]
fn two_pools_on_one_thread_keep_their_segments_apart() {
    let (one, two) = (SharedPool::new(), SharedPool::new());
    for _ in 0..10 {
        writer(&one).write_all_and_flush();
        writer(&two).write_all_and_flush();
    }
    for pool in [&one, &two] {
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.segments_kept, stats.segments_allocated), (0, 1, 1));
    }
}

#[test]
fn a_pool_that_clears_shows_no_writer_what_another_one_sent() {
    for (pool, seen) in [(SharedPool::clearing(1 << 20), 0), (SharedPool::new(), 0xAA)] {
        let mut first = writer(&pool);
        first.append(&[0xAA; 3000]).unwrap();
        first.flush().unwrap();
        let mut second = writer(&pool);
        assert_eq!(second.span_mut(3000).unwrap()[..3000], [seen; 3000]);
    }
}

#[test]
fn a_segment_of_another_length_does_no_harm() {
    let mut pool = SharedPool::new();
    for len in [0, 1, 3, 4096, 5000] {
        let _ = pool.take(4096).unwrap();
        pool.give(vec![0; len].into_boxed_slice());
        assert!(pool.take(4096).unwrap().len() >= 4096);
    }
    assert!(pool.take(usize::MAX).is_none());
}

/// Each thread fills what it takes with its own mark and looks for it before it gives it back.
#[test]
fn no_segment_is_handed_out_twice_among_threads() {
    const THREADS: usize = 4;
    let pool = SharedPool::with_bound(256 * 1024);
    let barrier = Barrier::new(THREADS);
    let (hand_on, handed) = mpsc::channel::<Box<[u8]>>();
    thread::scope(|scope| {
        for mark in 0..THREADS {
            let (mut pool, barrier, hand_on) = (pool.clone(), &barrier, hand_on.clone());
            scope.spawn(move || {
                let mut random = Random::new(mark as u64);
                let mut held: Vec<Box<[u8]>> = Vec::new();
                barrier.wait();
                for _ in 0..20_000 {
                    if held.len() < 8 && random.one_in(2) {
                        let mut segment = pool.take(1 << random.between(4, 12)).unwrap();
                        segment.fill(mark as u8);
                        held.push(segment);
                    } else if let Some(segment) = held.pop() {
                        assert!(segment.iter().all(|byte| *byte == mark as u8));
                        if random.one_in(8) { hand_on.send(segment).unwrap() } else { pool.give(segment) }
                    }
                }
                held.into_iter().for_each(|segment| pool.give(segment));
            });
        }
        drop(hand_on);
        let mut pool = pool.clone();
        handed.into_iter().for_each(|segment| pool.give(segment));
    });
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.bytes_out), (0, 0));
    assert!(stats.bytes_kept <= 256 * 1024);
}

#[test]
fn dropping_the_pool_frees_everything() {
    thread::spawn(|| {
        let ((), usage) = measure(|| {
            let pool = SharedPool::new();
            writer(&pool).write_all_and_flush();
            pool.trim();
        });
        // What stays is the thread's own mark of 24 bytes.
        assert!(usage.kept <= 24, "{}", usage.kept);
    })
    .join()
    .unwrap();
}

#[test]
fn a_writer_over_it_sends_every_byte_in_order() {
    let pool = SharedPool::with_bound(100_000);
    let mut writer = PipeWriter::with_options(Vec::new(), PipeWriterOptions::new().pool(pool));
    let mut random = Random::new(7);
    let mut expected = Vec::new();
    for _ in 0..2000 {
        let bytes = pattern(expected.len(), random.below(9000));
        writer.append(&bytes).unwrap();
        expected.extend_from_slice(&bytes);
        if random.one_in(5) {
            writer.flush().unwrap();
        }
    }
    writer.complete().unwrap();
    assert!(*writer.get_ref() == expected);
}

#[test]
fn more_pools_on_one_thread_than_it_keeps_segments_for_lose_and_allocate_nothing() {
    let pools: [_; 9] = std::array::from_fn(|_| SharedPool::new());
    let mut writers: Vec<_> = pools.iter().map(writer).collect();
    // In turns and in runs: a pool that goes without often enough takes the place of another one.
    let mut rounds = || {
        for run in [1, 500, 1, 7] {
            for writer in &mut writers {
                for _ in 0..run {
                    writer.append(b"hello").unwrap();
                    writer.flush().unwrap();
                }
            }
        }
    };
    rounds();
    let ((), usage) = measure(rounds);
    assert_eq!(usage.allocations, 0);
    for pool in &pools {
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.segments_kept, stats.segments_allocated), (0, 1, 1), "{stats:?}");
        pool.trim();
        assert_eq!((pool.stats().segments_kept, pool.stats().bytes_kept), (0, 0));
    }
}

#[test]
fn a_batch_that_fits_the_bound_allocates_nothing_in_the_steady_state_whatever_the_bound() {
    for (bound, batch) in [
        (10_000, 5_000),
        (98_304, 98_304),
        (100_000, 90_000),
        (65_536, 60_000),
        (65_536, 65_536),
        (1_000_000, 900_000),
        (16 << 20, 15 << 20),
    ] {
        let pool = SharedPool::with_bound(bound);
        let mut writer = writer(&pool);
        let data = vec![1; batch];
        let mut rounds = || {
            for _ in 0..10 {
                writer.append(&data).unwrap();
                writer.flush().unwrap();
            }
        };
        rounds();
        let ((), usage) = measure(rounds);
        assert_eq!(usage.allocations, 0, "bound {bound}, batch {batch}: {:?}", pool.stats());
    }
}

#[test]
fn a_long_segment_that_one_writer_has_out_makes_those_of_others_no_longer() {
    let pool = SharedPool::new();
    let mut long = writer(&pool);
    long.append(&[1; 60_000]).unwrap();
    long.flush().unwrap();
    let mut many: Vec<_> = (0..100).map(|_| writer(&pool)).collect();
    for _ in 0..3 {
        many.iter_mut().for_each(|writer| writer.append(b"ten bytes.").unwrap());
        let out = pool.stats().bytes_out;
        assert!(out <= 100 * 4096 + 65_536, "{out}");
        for writer in &mut many {
            writer.flush().unwrap();
        }
    }
}

#[test]
fn short_segments_that_nobody_takes_any_more_keep_no_longer_ones_out() {
    // As many segments as the bound allows, by a crowd of writers that never comes back.
    for (bound, crowd, long) in [(65_536, 16, 40_000), (65_536, 16, 60_000), (1 << 20, 256, 900_000)] {
        let pool = SharedPool::with_bound(bound);
        let mut many: Vec<_> = (0..crowd).map(|_| writer(&pool)).collect();
        many.iter_mut().for_each(|writer| writer.append(b"ten bytes.").unwrap());
        for writer in &mut many {
            writer.flush().unwrap();
        }
        assert_eq!(pool.stats().bytes_kept, crowd * 4096);
        let mut one = writer(&pool);
        let data = vec![1; long];
        let mut rounds = || {
            for _ in 0..10 {
                one.append(&data).unwrap();
                one.flush().unwrap();
            }
        };
        rounds();
        let ((), usage) = measure(rounds);
        assert_eq!(usage.allocations, 0, "bound {bound}, batch {long}: {:?}", pool.stats());
        assert!(pool.stats().bytes_kept <= bound);
    }
}

#[test]
fn a_long_segment_that_nobody_takes_any_more_keeps_no_crowd_of_short_ones_out() {
    // Room for the crowd's, and for one that the thread keeps.
    let pool = SharedPool::with_bound(2 * 65_536);
    let mut many: Vec<_> = (0..16).map(|_| writer(&pool)).collect();
    let mut rounds = |count| {
        for _ in 0..count {
            many.iter_mut().for_each(|writer| writer.append(b"ten bytes.").unwrap());
            for writer in &mut many {
                writer.flush().unwrap();
            }
        }
    };
    for _ in 0..3 {
        let mut one = writer(&pool);
        one.append(&[1; 120_000]).unwrap();
        one.flush().unwrap();
        rounds(3);
        let ((), usage) = measure(|| rounds(10));
        assert_eq!(usage.allocations, 0, "{:?}", pool.stats());
        assert!(pool.stats().bytes_kept <= 2 * 65_536);
    }
}

/// Sends a batch of spans of these lengths.
fn send(writer: &mut PipeWriter<io::Sink, SharedPool>, spans: &[usize]) {
    for &len in spans {
        writer.span_mut(len).unwrap();
        writer.advance(len).unwrap();
    }
    writer.flush().unwrap();
}

/// The segments that the pool allocates in ten rounds after twenty.
fn allocated_once_warm(pool: &SharedPool, round: &mut impl FnMut()) -> usize {
    (0..20).for_each(|_| round());
    let before = pool.stats().segments_allocated;
    (0..10).for_each(|_| round());
    pool.stats().segments_allocated - before
}

#[test]
fn a_batch_of_a_quarter_of_the_bound_allocates_nothing_in_the_steady_state_however_it_is_cut() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let bound = random.between(256 * 1024, 2 << 20);
        let pool = SharedPool::with_bound(bound);
        let options = PipeWriterOptions::new().segment_size(random.between(1, 16 * 1024)).pool(pool.clone());
        let mut writer = PipeWriter::with_options(io::sink(), options);
        let largest = random.between(1, bound / 4);
        let mut spans = Vec::new();
        while spans.iter().sum::<usize>() + largest < bound / 4 && spans.len() < 200 {
            spans.push(random.between(1, largest));
        }
        assert_eq!(allocated_once_warm(&pool, &mut || send(&mut writer, &spans)), 0, "bound {bound}, spans {spans:?}");
    }
}

#[test]
fn batches_of_half_the_bound_in_spans_of_other_lengths_in_turns_allocate_nothing() {
    const BOUND: usize = 1 << 20;
    let pool = SharedPool::with_bound(BOUND);
    let mut writer = writer(&pool);
    let mut round = || {
        for spans in [1, 2, 4] {
            send(&mut writer, &vec![BOUND / 2 / spans; spans]);
        }
    };
    assert_eq!(allocated_once_warm(&pool, &mut round), 0);
}

#[test]
fn a_batch_of_a_quarter_of_the_bound_allocates_nothing_in_the_steady_state_whatever_batches_came_before() {
    let mut random = Random::new(12);
    for _ in 0..100 {
        let bound = random.between(256 * 1024, 2 << 20);
        let pool = SharedPool::with_bound(bound);
        let mut writer = writer(&pool);
        let mut cut = |most: usize| {
            let largest = random.between(1, most);
            let mut spans = Vec::new();
            while spans.iter().sum::<usize>() + largest <= most && spans.len() < 100 {
                spans.push(random.between(1, largest));
            }
            spans
        };
        for _ in 0..4 {
            let before = cut(bound);
            (0..5).for_each(|_| send(&mut writer, &before));
            let spans = cut(bound / 4);
            let allocated = allocated_once_warm(&pool, &mut || send(&mut writer, &spans));
            assert_eq!(allocated, 0, "bound {bound}, before {before:?}, spans {spans:?}");
        }
    }
}

#[test]
fn batches_of_several_writers_that_are_out_together_allocate_nothing_in_the_steady_state() {
    let mut random = Random::new(13);
    for _ in 0..100 {
        let bound = random.between(512 * 1024, 4 << 20);
        let pool = SharedPool::with_bound(bound);
        let count = random.between(2, 9);
        let mut writers: Vec<_> = (0..count).map(|_| writer(&pool)).collect();
        for _ in 0..3 {
            let most = bound / 4 / count;
            let lens: Vec<_> = (0..count).map(|_| random.between(1, most)).collect();
            let mut round = || {
                for (writer, len) in writers.iter_mut().zip(&lens) {
                    writer.span_mut(*len).unwrap();
                    writer.advance(*len).unwrap();
                }
                for writer in &mut writers {
                    writer.flush().unwrap();
                }
            };
            assert_eq!(allocated_once_warm(&pool, &mut round), 0, "bound {bound}, {lens:?}");
        }
    }
}

#[test]
fn a_batch_that_comes_again_needs_one_segment() {
    let pool = SharedPool::new();
    let mut writer = writer(&pool);
    for bytes in [5_000, 11_000, 60_000] {
        let mut most = 0;
        for _ in 0..10 {
            writer.append(&vec![1; bytes]).unwrap();
            most = pool.stats().segments_out;
            writer.flush().unwrap();
        }
        assert_eq!(most, 1, "{bytes}");
    }
}

#[test]
fn a_segment_for_which_there_is_no_room_costs_no_shorter_one() {
    let pool = SharedPool::with_bound(98_304);
    // Each as the first of a batch, so that it is as long as it is asked to be.
    let take = |len| pool.clone().take(len).unwrap();
    let (long, short) = (take(65_536), [take(8192), take(8192)]);
    let mut of_other = pool.clone();
    let (kept, is_kept) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let segment = of_other.take(65_536).unwrap();
            of_other.give(segment);
            kept.send(()).unwrap();
            let _ = ended.recv();
        });
        is_kept.recv().unwrap();
        let bytes: usize = short.iter().map(|segment| segment.len()).sum();
        short.into_iter().for_each(|segment| pool.clone().give(segment));
        assert_eq!(pool.stats().bytes_kept, 65_536 + bytes);
        // There is no room for it even without all that are shorter.
        pool.clone().give(long);
        assert_eq!(pool.stats().bytes_kept, 65_536 + bytes);
        drop(end);
    });
}

#[test]
fn the_statistics_do_not_wrap_over_segments_that_were_never_handed_out() {
    let mut pool = SharedPool::with_bound(0);
    pool.give(vec![0; 4096].into_boxed_slice());
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.bytes_out, stats.segments_kept), (0, 0, 0));
}
