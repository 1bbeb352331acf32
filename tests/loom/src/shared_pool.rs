//! The shared pool: its counters, and what each thread keeps of it.

use pipewriter_std::{SegmentPool, SharedPool};

use crate::*;

/// The shortest segment of the pool.
const SEGMENT: usize = 1024;

/// Starts a thread with a handle of its own that ends as a thread does.
fn with(pool: &SharedPool, f: impl FnOnce(SharedPool) + 'static) -> JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || {
        f(pool);
        SharedPool::end_thread();
    })
}

fn take_and_give(pool: &mut SharedPool) {
    let segment = pool.take(1).unwrap();
    pool.give(segment);
}

/// With all threads at rest: nothing is out, the bound holds, all that is kept can be freed, and the whole bound can be
/// used again.
fn check_counters(mut pool: SharedPool, bound: usize) {
    SharedPool::end_thread();
    for _ in 0..2 {
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
        assert_eq!(stats.bytes_kept, stats.segments_kept * SEGMENT, "{stats:?}");
        assert!(stats.bytes_kept <= bound, "{stats:?}");
        pool.trim();
        let stats = pool.stats();
        assert_eq!((stats.segments_kept, stats.bytes_kept), (0, 0), "{stats:?}");
        assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
        let segments: Vec<_> = (0..bound / SEGMENT + 1).map(|_| pool.clone().take(1).unwrap()).collect();
        assert_eq!(pool.stats().segments_out, segments.len());
        segments.into_iter().for_each(|segment| pool.give(segment));
        assert_eq!(pool.stats().bytes_kept, bound, "{:?}", pool.stats());
    }
    SharedPool::end_thread();
}

#[test]
fn two_threads_take_and_give() {
    every_interleaving(|| {
        let mut pool = SharedPool::with_bound(2 * SEGMENT);
        let thread = with(&pool, |mut pool| {
            take_and_give(&mut pool);
            take_and_give(&mut pool);
        });
        take_and_give(&mut pool);
        join([thread]);
        check_counters(pool, 2 * SEGMENT);
    });
}

#[test]
fn three_threads_keep_no_more_than_a_bound_of_one_segment() {
    interleavings_with(2, || {
        let mut pool = SharedPool::with_bound(SEGMENT);
        let threads = [(); 2].map(|()| with(&pool, |mut pool| take_and_give(&mut pool)));
        take_and_give(&mut pool);
        join(threads);
        check_counters(pool, SEGMENT);
    });
}

#[test]
fn three_threads_and_two_places() {
    interleavings_with(2, || {
        let mut pool = SharedPool::with_bound(4 * SEGMENT);
        let threads = [(); 2].map(|()| with(&pool, |mut pool| take_and_give(&mut pool)));
        take_and_give(&mut pool);
        join(threads);
        check_counters(pool, 4 * SEGMENT);
    });
}

#[test]
fn a_trim_meets_a_take_and_a_give() {
    every_interleaving(|| {
        let pool = SharedPool::with_bound(2 * SEGMENT);
        let thread = with(&pool, |mut pool| {
            take_and_give(&mut pool);
            take_and_give(&mut pool);
        });
        pool.trim();
        join([thread]);
        check_counters(pool, 2 * SEGMENT);
    });
}

#[test]
fn a_trim_frees_what_its_own_thread_keeps_though_another_one_trimmed_before() {
    every_interleaving(|| {
        let mut pool = SharedPool::with_bound(2 * SEGMENT);
        take_and_give(&mut pool);
        let thread = with(&pool, |pool| pool.trim());
        pool.trim();
        let stats = pool.stats();
        assert_eq!(stats.segments_kept, 0, "{stats:?}");
        join([thread]);
        check_counters(pool, 2 * SEGMENT);
    });
}

#[test]
fn a_segment_is_given_back_by_another_thread_while_the_pool_is_trimmed() {
    interleavings_with(2, || {
        let mut pool = SharedPool::with_bound(2 * SEGMENT);
        let segments = [pool.take(1).unwrap(), pool.take(1).unwrap()];
        let threads = segments.map(|segment| with(&pool, |mut pool| pool.give(segment)));
        pool.trim();
        join(threads);
        check_counters(pool, 2 * SEGMENT);
    });
}

#[test]
fn the_end_of_a_thread_meets_the_end_of_the_pool() {
    every_interleaving(|| {
        let mut pool = SharedPool::with_bound(SEGMENT);
        take_and_give(&mut pool);
        let thread = with(&pool, |mut pool| {
            take_and_give(&mut pool);
            drop(pool);
        });
        drop(pool);
        SharedPool::end_thread();
        join([thread]);
    });
}

#[test]
fn a_place_that_one_thread_leaves_is_taken_by_another() {
    interleavings_with(2, || {
        let mut pool = SharedPool::with_bound(4 * SEGMENT);
        // One of the two places: the threads have the other one, in turn or one of them none.
        take_and_give(&mut pool);
        let threads = [(); 2].map(|()| {
            with(&pool, |mut pool| {
                take_and_give(&mut pool);
                take_and_give(&mut pool);
            })
        });
        join(threads);
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.segments_kept), (0, stats.segments_allocated), "{stats:?}");
        check_counters(pool, 4 * SEGMENT);
    });
}

#[test]
fn a_thread_turns_to_another_pool_while_its_first_is_trimmed() {
    every_interleaving(|| {
        let one = SharedPool::with_bound(SEGMENT);
        let two = SharedPool::with_bound(SEGMENT);
        let (mut first, mut second) = (one.clone(), two.clone());
        let thread = with(&one, move |_| {
            take_and_give(&mut first);
            // Patience is one miss in a model.
            take_and_give(&mut second);
            take_and_give(&mut second);
            take_and_give(&mut first);
        });
        one.trim();
        join([thread]);
        check_counters(one, SEGMENT);
        check_counters(two, SEGMENT);
    });
}

#[test]
fn two_writers_on_two_threads_send_all_and_hold_nothing_after() {
    every_interleaving(|| {
        let pool = SharedPool::with_bound(2 * SEGMENT);
        let send = |pool: SharedPool| {
            let options = pipewriter_std::PipeWriterOptions::new().pool(pool);
            let mut writer = blocking::PipeWriter::with_options(Vec::new(), options);
            writer.append(BYTES).unwrap();
            writer.flush().unwrap();
            assert_eq!(writer.get_ref(), BYTES);
        };
        let thread = with(&pool, send);
        send(pool.clone());
        join([thread]);
        check_counters(pool, 2 * SEGMENT);
    });
}

/// Starts a thread that has not ended for the pool when it is joined: what it keeps is still its own.
fn with_and_stay(pool: &SharedPool, f: impl FnOnce(SharedPool) + 'static) -> JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || f(pool))
}

/// With threads at rest that have not ended: nothing is out, and all that was allocated is kept.
fn check_kept(pool: &SharedPool) {
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
    assert_eq!(stats.segments_kept, stats.segments_allocated, "{stats:?}");
    assert_eq!(stats.bytes_kept, stats.segments_kept * SEGMENT, "{stats:?}");
}

#[test]
fn two_threads_that_come_at_once_have_a_place_each() {
    every_interleaving(|| {
        let pool = SharedPool::with_bound(4 * SEGMENT);
        let threads = [(); 2].map(|()| with_and_stay(&pool, |mut pool| take_and_give(&mut pool)));
        join(threads);
        check_kept(&pool);
    });
}

#[test]
fn a_place_that_is_left_shows_what_the_next_thread_keeps() {
    every_interleaving(|| {
        let mut pool = SharedPool::with_bound(4 * SEGMENT);
        take_and_give(&mut pool);
        let thread = with_and_stay(&pool, |mut pool| take_and_give(&mut pool));
        SharedPool::end_thread();
        join([thread]);
        check_kept(&pool);
    });
}

#[test]
fn a_long_and_a_short_segment_replace_each_other() {
    interleavings_with(3, || {
        let pool = SharedPool::with_bound(2 * SEGMENT);
        let segments = [pool.clone().take(1).unwrap(), pool.clone().take(1).unwrap()];
        segments.into_iter().for_each(|segment| pool.clone().give(segment));
        SharedPool::end_thread();
        let long = with(&pool, |mut pool| {
            let segment = pool.take(2 * SEGMENT).unwrap();
            pool.give(segment);
        });
        take_and_give(&mut pool.clone());
        join([long]);
        SharedPool::end_thread();
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
        assert!((1..=2 * SEGMENT).contains(&stats.bytes_kept), "{stats:?}");
        pool.trim();
        let stats = pool.stats();
        assert_eq!((stats.segments_kept, stats.bytes_kept, stats.segments_out), (0, 0, 0), "{stats:?}");
        // All of the bound is free again.
        let long = pool.clone().take(2 * SEGMENT).unwrap();
        pool.clone().give(long);
        assert_eq!(pool.stats().bytes_kept, 2 * SEGMENT);
        SharedPool::end_thread();
    });
}
