//! Threads that meet at one writer or one pool without any order between them, for the sanitizers of `.ci/sanitizers` and for
//! the machine's own memory model. What is checked is counted; nothing depends on how long anything takes.
//!
//! The models in `loom/` try every interleaving of a few steps; here are many steps, with the real locks and queues.
//! `PIPEWRITER_RACES` sets the number of rounds.

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;

use futures_io::AsyncWrite;
use pipewriter_std::{PipeWriter, PipeWriterOptions, SegmentPool, SharedPool, blocking};
use pipewriter_tests::model::{Random, pattern};
use pipewriter_tests::wait::LIMIT;

fn rounds() -> usize {
    std::env::var("PIPEWRITER_RACES").map_or(2000, |rounds| rounds.parse().expect("PIPEWRITER_RACES is a number"))
}

/// Sleeps between two polls as an executor does. A wake that is lost would leave it asleep for ever: it gives up
/// where it would hang for sure.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark {
        thread: Thread,
        woken: AtomicBool,
    }
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let asleep = Instant::now();
        while !unpark.woken.swap(false, Ordering::Acquire) {
            assert!(asleep.elapsed() < LIMIT, "a wake was lost");
            thread::park_timeout(LIMIT);
        }
    }
}

/// A stream that takes nothing until somebody lets it, and then as many calls as that one said.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<TurnsState>>);

#[derive(Default)]
struct TurnsState {
    calls: usize,
    waiting: Option<Waker>,
    accepted: Vec<u8>,
}

impl Turns {
    fn allow(&self, calls: usize) {
        let mut state = self.0.lock().unwrap();
        state.calls += calls;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

impl AsyncWrite for Turns {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.calls == 0 {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.calls -= 1;
        let n = buf.len().min(3);
        state.accepted.extend_from_slice(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn cancels_from_many_threads_end_at_most_one_flush_each_and_lose_no_byte() {
    const CANCELERS: usize = 3;
    let stream = Turns::default();
    let mut writer = PipeWriter::new(stream.clone());
    let running = Arc::new(AtomicUsize::new(CANCELERS));
    let cancelers: Vec<_> = (0..CANCELERS)
        .map(|_| {
            let (handle, running) = (writer.handle(), Arc::clone(&running));
            thread::spawn(move || {
                for _ in 0..rounds() {
                    handle.cancel_pending_flush();
                    thread::yield_now();
                }
                running.fetch_sub(1, Ordering::AcqRel);
            })
        })
        .collect();
    let feeder = {
        let (stream, running) = (stream.clone(), Arc::clone(&running));
        thread::spawn(move || {
            while running.load(Ordering::Acquire) > 0 {
                stream.allow(1);
                thread::yield_now();
            }
            // Enough for all that can be left: the last flushes must not wait.
            stream.allow(usize::MAX / 2);
        })
    };
    let (mut sent, mut canceled) = (0, 0);
    while running.load(Ordering::Acquire) > 0 {
        let bytes = pattern(sent, 7);
        sent += bytes.len();
        writer.append(&bytes).unwrap();
        canceled += usize::from(block_on(writer.flush()).unwrap().is_canceled());
    }
    cancelers.into_iter().for_each(|thread| thread.join().unwrap());
    feeder.join().unwrap();
    canceled += usize::from(block_on(writer.flush()).unwrap().is_canceled());
    assert!(!block_on(writer.flush()).unwrap().is_canceled(), "all have been seen");
    assert!((1..=CANCELERS * rounds()).contains(&canceled), "{canceled}");
    assert_eq!(writer.unflushed_bytes(), 0);
    assert!(stream.0.lock().unwrap().accepted == pattern(0, sent), "each byte once, in order");
}

#[test]
fn every_cancel_of_a_flush_that_only_it_can_end_arrives() {
    let mut writer = PipeWriter::new(Turns::default());
    writer.append(b"never taken").unwrap();
    let (go, gone) = mpsc::sync_channel::<()>(0);
    let handle = writer.handle();
    let canceler = thread::spawn(move || gone.into_iter().for_each(|()| handle.cancel_pending_flush()));
    for _ in 0..rounds() {
        go.send(()).unwrap();
        assert!(block_on(writer.flush()).unwrap().is_canceled());
    }
    drop(go);
    canceler.join().unwrap();
    assert_eq!(writer.unflushed_bytes(), 11);
}

#[test]
fn a_flag_set_before_a_cancel_is_seen_behind_the_flush_that_uses_it_up() {
    let mut writer = blocking::PipeWriter::new(io::sink());
    let (start, started) = mpsc::sync_channel::<Arc<[AtomicBool; 2]>>(0);
    let handle = writer.handle();
    let canceler = thread::spawn(move || {
        for flags in started {
            let [stop, done] = &*flags;
            handle.cancel_pending_flush();
            stop.store(true, Ordering::Relaxed);
            handle.cancel_pending_flush();
            done.store(true, Ordering::Release);
        }
    });
    for round in 0..rounds() {
        let flags = Arc::new([const { AtomicBool::new(false) }; 2]);
        let [stop, done] = &*flags;
        start.send(Arc::clone(&flags)).unwrap();
        loop {
            // Looked at before the flush: with the last cancel over, this flush is canceled or an earlier one was by it.
            let is_last = done.load(Ordering::Acquire);
            if writer.flush().unwrap().is_canceled() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            } else {
                assert!(!is_last, "round {round}: the flag was missed and the cancel is gone");
            }
        }
        while !done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        writer.flush().unwrap();
    }
    drop(start);
    canceler.join().unwrap();
}

#[test]
fn all_who_wait_for_the_close_are_told_whoever_else_leaves() {
    const WAITERS: usize = 3;
    for round in 0..rounds() / 20 {
        let mut writer = PipeWriter::new(Turns::default());
        let barrier = Barrier::new(WAITERS + 2);
        let told = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..WAITERS {
                let (handle, barrier, told) = (writer.handle(), &barrier, &told);
                scope.spawn(move || {
                    barrier.wait();
                    block_on(handle.closed());
                    assert!(handle.is_closed());
                    told.fetch_add(1, Ordering::Relaxed);
                });
            }
            let (handle, barrier) = (writer.handle(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..4 {
                    let mut closed = handle.closed();
                    let _ = Pin::new(&mut closed).poll(&mut Context::from_waker(Waker::noop()));
                }
                drop(handle);
            });
            scope.spawn(move || {
                barrier.wait();
                match round % 3 {
                    0 => drop(writer),
                    1 => block_on(writer.abort()).unwrap(),
                    _ => block_on(writer.complete()).unwrap(),
                }
            });
        });
        assert_eq!(told.into_inner(), WAITERS);
    }
}

#[test]
fn handles_that_are_made_on_many_threads_share_one_writer() {
    const THREADS: usize = 4;
    for _ in 0..rounds() / 20 {
        let mut writer = blocking::PipeWriter::new(io::sink());
        let barrier = Barrier::new(THREADS);
        let handles: Vec<_> = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| {
                scope.spawn(|| {
                    barrier.wait();
                    let handle = writer.handle();
                    handle.cancel_pending_flush();
                    writer.cancel_pending_flush();
                    handle
                })
            });
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(writer.flush().unwrap().is_canceled());
        assert!(!writer.flush().unwrap().is_canceled(), "several before one is seen count as one");
        drop(writer);
        assert!(handles.iter().all(|handle| handle.is_closed()));
    }
}

#[test]
fn writers_move_between_threads_over_one_pool_that_is_trimmed_and_lose_nothing() {
    const THREADS: usize = 3;
    let pool = SharedPool::with_bound(64 * 1024);
    thread::scope(|scope| {
        let (ends, starts): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| mpsc::channel::<(blocking::PipeWriter<Vec<u8>, SharedPool>, usize)>()).unzip();
        let mut threads = Vec::new();
        for (thread, incoming) in starts.into_iter().enumerate() {
            let (pool, next) = (pool.clone(), ends[(thread + 1) % THREADS].clone());
            threads.push(scope.spawn(move || {
                let mut random = Random::new(thread as u64);
                for _ in 0..rounds() / 10 {
                    let (mut writer, mut sent) = incoming.try_recv().unwrap_or_else(|_| {
                        let options = PipeWriterOptions::new().pool(pool.clone());
                        (blocking::PipeWriter::with_options(Vec::new(), options), 0)
                    });
                    for _ in 0..random.between(1, 8) {
                        let bytes = pattern(sent, random.below(3000));
                        writer.append(&bytes).unwrap();
                        sent += bytes.len();
                        if random.one_in(3) {
                            writer.flush().unwrap();
                        }
                    }
                    // Unflushed as it is, half of the time: its segments are then given back by another thread.
                    if sent < 100_000 && next.send((writer, sent)).is_ok() {
                        continue;
                    }
                }
                drop(next);
                for (mut writer, sent) in incoming.try_iter() {
                    writer.complete().unwrap();
                    assert!(*writer.get_ref() == pattern(0, sent), "each byte once, in order");
                }
            }));
        }
        drop(ends);
        while !threads.iter().all(|thread| thread.is_finished()) {
            pool.trim();
            let _ = pool.stats();
            thread::yield_now();
        }
        // The scope alone would not wait for what a thread gives back as it ends.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let stats = pool.stats();
    assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
    assert!(stats.bytes_kept <= 64 * 1024, "{stats:?}");
}

#[test]
fn threads_that_come_and_go_leave_the_counters_right() {
    const BOUND: usize = 16 * 1024;
    let pool = SharedPool::with_bound(BOUND);
    for _ in 0..rounds() / 50 {
        let threads = [(); 4].map(|()| {
            let mut pool = pool.clone();
            thread::spawn(move || {
                for len in [100, 5000, 1000, 2000] {
                    let (one, two) = (pool.take(len).unwrap(), pool.take(len).unwrap());
                    pool.give(one);
                    pool.give(two);
                }
            })
        });
        pool.trim();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let stats = pool.stats();
        assert_eq!((stats.segments_out, stats.bytes_out), (0, 0), "{stats:?}");
        assert!(stats.bytes_kept <= BOUND, "{stats:?}");
    }
    pool.trim();
    assert_eq!(pool.stats().segments_kept, 0);
    // All of the bound can be used again.
    let mut pool = pool;
    let segments: Vec<_> = (0..BOUND / 1024).map(|_| pool.clone().take(1).unwrap()).collect();
    segments.into_iter().for_each(|segment| pool.give(segment));
    assert_eq!(pool.stats().bytes_kept, BOUND);
}
