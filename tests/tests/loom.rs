//! Every interleaving of the threads that meet at one writer or one pool, by the model checker loom.
//!
//! Built only with `--cfg loom`, which swaps the locks and atomics of the library for loom's; `.ci/loom` runs it. A model
//! fails where an assertion does, where all threads wait (a wake was lost), or where an `Arc` is never freed.
//!
//! Not modelled is what belongs to others: the queue of crossbeam (a lock stands in for it), the crate atomic-waker (loom's
//! own model of it stands in), std's `OnceLock` (its protocol is spelled out in `pipewriter-std/src/sync.rs`), and `Weak`.
//! loom lets stores to one place take effect in the order in which threads made them, so a `Relaxed` store that another
//! processor could see late is found only where a value that it publishes is read.
#![cfg(loom)]

use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};
use std::io;

use futures_io::AsyncWrite;
use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::{Arc, Mutex, atomic::AtomicUsize};
use loom::thread::{self, JoinHandle};
use pipewriter_std::{FlushResult, PipeHandle, PipeWriter, blocking};

/// Explores all interleavings of the threads that `f` starts.
fn every_interleaving(f: impl Fn() + Sync + Send + 'static) {
    explore(None, f);
}

/// Explores those in which a thread is interrupted at most `preemptions` times where it could have gone on: three threads
/// have too many others.
fn interleavings_with(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    explore(Some(preemptions), f);
}

fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let runs = std::sync::Arc::new(core::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&runs);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        f();
    });
    println!("{} interleavings", runs.load(Ordering::Relaxed));
}

/// A stream that takes nothing and wakes nobody until it is opened, and then everything.
#[derive(Clone)]
struct Gate(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    waiting: Option<Waker>,
    accepted: Vec<u8>,
}

impl Gate {
    fn shut() -> Self {
        Self(Arc::new(Mutex::new(GateState::default())))
    }

    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_open = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn accepted(&self) -> Vec<u8> {
        self.0.lock().unwrap().accepted.clone()
    }
}

impl AsyncWrite for Gate {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if !state.is_open {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.accepted.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream that never takes anything and wakes nobody: only a cancel ends a flush of it.
struct Stuck;

impl AsyncWrite for Stuck {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream whose reader is gone.
struct Gone;

impl AsyncWrite for Gone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const BYTES: &[u8] = b"hello";

fn writer<W: AsyncWrite + Unpin>(stream: W) -> PipeWriter<W> {
    let mut writer = PipeWriter::new(stream);
    writer.append(BYTES).unwrap();
    writer
}

fn canceling(handle: PipeHandle) -> JoinHandle<()> {
    thread::spawn(move || handle.cancel_pending_flush())
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn poll_flush<W: AsyncWrite + Unpin>(writer: &mut PipeWriter<W>, waker: &Waker) -> Poll<io::Result<FlushResult>> {
    Pin::new(writer).poll_flush(&mut Context::from_waker(waker))
}

/// Flushes a writer over a stuck stream, with nothing else going on, and says whether it was canceled.
fn is_canceled_next(writer: &mut PipeWriter<Stuck>) -> bool {
    match poll_flush(writer, Waker::noop()) {
        Poll::Ready(result) => result.unwrap().is_canceled(),
        Poll::Pending => false,
    }
}

mod cancel {
    use super::*;

    #[test]
    fn one_that_comes_while_a_flush_begins_to_wait_ends_it_and_only_it() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let canceler = canceling(writer.handle());
            assert!(block_on(writer.flush()).unwrap().is_canceled());
            join([canceler]);
            assert_eq!(writer.unflushed_bytes(), BYTES.len());
            assert!(!is_canceled_next(&mut writer), "seen twice");
        });
    }

    #[test]
    fn two_from_two_threads_end_one_flush_or_two_and_no_third() {
        interleavings_with(3, || {
            let mut writer = writer(Stuck);
            let cancelers = [canceling(writer.handle()), canceling(writer.handle())];
            assert!(block_on(writer.flush()).unwrap().is_canceled());
            join(cancelers);
            is_canceled_next(&mut writer);
            assert!(!is_canceled_next(&mut writer), "seen a third time");
        });
    }

    #[test]
    fn two_from_one_thread_end_one_flush_or_two_and_no_third() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let handle = writer.handle();
            let canceler = thread::spawn(move || {
                handle.cancel_pending_flush();
                handle.cancel_pending_flush();
            });
            assert!(block_on(writer.flush()).unwrap().is_canceled());
            join([canceler]);
            is_canceled_next(&mut writer);
            assert!(!is_canceled_next(&mut writer), "seen a third time");
        });
    }

    #[test]
    fn one_that_begins_after_a_flush_was_canceled_ends_the_next() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let handle = writer.handle();
            let ended = Arc::new(AtomicUsize::new(0));
            let canceler = {
                let ended = Arc::clone(&ended);
                thread::spawn(move || {
                    handle.cancel_pending_flush();
                    let seen = ended.load(Ordering::Acquire);
                    handle.cancel_pending_flush();
                    seen > 0
                })
            };
            assert!(block_on(writer.flush()).unwrap().is_canceled());
            ended.store(1, Ordering::Release);
            let began_later = canceler.join().unwrap();
            assert!(is_canceled_next(&mut writer) || !began_later, "lost");
        });
    }

    #[test]
    fn one_that_comes_in_the_last_call_meets_the_next_flush() {
        every_interleaving(|| {
            let gate = Gate::shut();
            gate.open();
            let mut writer = writer(gate.clone());
            let canceler = canceling(writer.handle());
            let first = block_on(writer.flush()).unwrap();
            assert!(first.is_canceled() || writer.unflushed_bytes() == 0);
            join([canceler]);
            let second = block_on(writer.flush()).unwrap();
            assert!(first.is_canceled() != second.is_canceled(), "seen by one of both");
            let third = block_on(writer.flush()).unwrap();
            assert!(!third.is_canceled());
            assert_eq!(gate.accepted(), BYTES);
        });
    }

    #[test]
    fn one_during_a_blocking_flush_ends_it_or_the_next() {
        every_interleaving(|| {
            let mut writer = blocking::PipeWriter::new(Vec::new());
            writer.append(BYTES).unwrap();
            let canceler = canceling(writer.handle());
            let first = writer.flush().unwrap();
            join([canceler]);
            let second = writer.flush().unwrap();
            assert!(first.is_canceled() != second.is_canceled(), "seen by one of both");
            assert!(!writer.flush().unwrap().is_canceled());
            assert_eq!(writer.get_ref(), BYTES);
        });
    }

    #[test]
    fn one_that_meets_the_wakeup_of_the_stream_ends_that_flush_or_the_next() {
        interleavings_with(3, || {
            let gate = Gate::shut();
            let mut writer = writer(gate.clone());
            let canceler = canceling(writer.handle());
            let opener = {
                let gate = gate.clone();
                thread::spawn(move || gate.open())
            };
            let first = block_on(writer.flush()).unwrap();
            assert!(first.is_canceled() || gate.accepted() == BYTES);
            join([canceler, opener]);
            let second = block_on(writer.flush()).unwrap();
            assert!(first.is_canceled() != second.is_canceled(), "seen by one of both");
            assert!(!block_on(writer.flush()).unwrap().is_canceled());
            assert_eq!(gate.accepted(), BYTES);
        });
    }

    #[test]
    fn one_that_comes_while_the_waker_is_replaced_wakes_the_task_that_polled_last() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let canceler = canceling(writer.handle());
            // As when a future is moved from one task to another: the first waker leads nowhere now.
            let canceled = match poll_flush(&mut writer, Waker::noop()) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => block_on(writer.flush()).unwrap(),
            };
            assert!(canceled.is_canceled());
            join([canceler]);
            assert!(!is_canceled_next(&mut writer), "seen twice");
        });
    }

    #[test]
    fn one_that_comes_while_a_flush_is_dropped_meets_the_next() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let canceler = canceling(writer.handle());
            let mut flush = Box::pin(writer.flush());
            let first = Pin::new(&mut flush).poll(&mut Context::from_waker(Waker::noop()));
            drop(flush);
            if let Poll::Ready(result) = first {
                assert!(result.unwrap().is_canceled());
            } else {
                assert!(block_on(writer.flush()).unwrap().is_canceled());
            }
            join([canceler]);
            assert!(!is_canceled_next(&mut writer), "seen twice");
        });
    }

    /// What the canceling thread did before is there for whoever sees the flush canceled.
    #[test]
    fn what_came_before_it_is_seen_by_who_sees_the_flush_canceled() {
        every_interleaving(|| {
            let mut writer = blocking::PipeWriter::new(Vec::new());
            let reason = Arc::new(UnsafeCell::new(0));
            let (handle, shared) = (writer.handle(), Arc::clone(&reason));
            let canceler = thread::spawn(move || {
                shared.with_mut(|_| ());
                handle.cancel_pending_flush();
            });
            if writer.flush().unwrap().is_canceled() {
                reason.with(|_| ());
            }
            join([canceler]);
        });
    }

    #[test]
    fn one_through_a_handle_that_is_being_made_and_one_through_the_writer_both_count() {
        interleavings_with(3, || {
            let woken = Arc::new(AtomicUsize::new(0));
            let mut writer = writer(Stuck);
            // A flush that is pending from before there was a handle; its future does not borrow the writer.
            let waker = counting(&woken);
            assert!(poll_flush(&mut writer, &waker).is_pending());
            let writer = Arc::new(writer);
            let threads = [(); 2].map(|()| {
                let writer = Arc::clone(&writer);
                thread::spawn(move || writer.handle().cancel_pending_flush())
            });
            writer.cancel_pending_flush();
            join(threads);
            assert!(woken.load(Ordering::Relaxed) > 0, "nobody was woken");
            let Ok(mut writer) = Arc::try_unwrap(writer) else { panic!("all threads have ended") };
            assert!(is_canceled_next(&mut writer));
            assert!(!is_canceled_next(&mut writer), "several count as one");
        });
    }
}

/// A waker that counts.
fn counting(woken: &Arc<AtomicUsize>) -> Waker {
    struct Counter(Arc<AtomicUsize>);
    impl std::task::Wake for Counter {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    Waker::from(std::sync::Arc::new(Counter(Arc::clone(woken))))
}

mod closed {
    use super::*;

    fn is_told_of(close: impl Fn(PipeWriter<Gone>) + Copy + Send + Sync + 'static) {
        every_interleaving(move || {
            let writer = writer(Gone);
            let handle = writer.handle();
            let closer = thread::spawn(move || close(writer));
            block_on(handle.closed());
            assert!(handle.is_closed());
            join([closer]);
            assert!(handle.is_closed(), "always true once it was");
        });
    }

    #[test]
    fn a_waiter_that_comes_while_the_writer_is_dropped_is_told() {
        is_told_of(drop);
    }

    #[test]
    fn a_waiter_that_comes_while_the_writer_is_aborted_is_told() {
        is_told_of(|mut writer| block_on(writer.abort()).unwrap());
    }

    #[test]
    fn a_waiter_that_comes_while_the_stream_reports_its_reader_gone_is_told() {
        is_told_of(|mut writer| {
            block_on(writer.flush()).unwrap_err();
        });
    }

    #[test]
    fn all_waiters_are_told_though_one_of_them_leaves() {
        interleavings_with(3, || {
            let writer = writer(Stuck);
            let handle = writer.handle();
            let waiter = {
                let handle = handle.clone();
                thread::spawn(move || block_on(handle.closed()))
            };
            let leaver = {
                let handle = handle.clone();
                thread::spawn(move || {
                    let mut closed = handle.closed();
                    let _ = Pin::new(&mut closed).poll(&mut Context::from_waker(Waker::noop()));
                })
            };
            drop(writer);
            block_on(handle.closed());
            join([waiter, leaver]);
        });
    }

    #[test]
    fn two_waiters_and_a_close_in_three_threads() {
        interleavings_with(3, || {
            let writer = writer(Stuck);
            let waiters = [writer.handle(), writer.handle()].map(|handle| {
                thread::spawn(move || {
                    block_on(handle.closed());
                    assert!(handle.is_closed());
                })
            });
            drop(writer);
            join(waiters);
        });
    }

    #[test]
    fn a_waiter_whose_waker_is_replaced_is_told_through_the_last() {
        every_interleaving(|| {
            let writer = writer(Stuck);
            let handle = writer.handle();
            let closer = thread::spawn(move || drop(writer));
            let mut closed = handle.closed();
            let mut first = Some(Pin::new(&mut closed).poll(&mut Context::from_waker(Waker::noop())));
            block_on(poll_fn(|cx| match first.take() {
                Some(Poll::Ready(())) => Poll::Ready(()),
                _ => Pin::new(&mut closed).poll(cx),
            }));
            join([closer]);
        });
    }

    /// What the closing thread did before is there for whoever sees that it closed.
    #[test]
    fn what_came_before_the_close_is_seen_by_who_sees_it() {
        every_interleaving(|| {
            let writer = writer(Stuck);
            let handle = writer.handle();
            let reason = Arc::new(UnsafeCell::new(0));
            let shared = Arc::clone(&reason);
            let closer = thread::spawn(move || {
                shared.with_mut(|_| ());
                drop(writer);
            });
            if handle.is_closed() {
                reason.with(|_| ());
            }
            join([closer]);
        });
    }

    #[test]
    fn the_last_handle_and_the_writer_may_be_dropped_at_once() {
        every_interleaving(|| {
            let writer = writer(Stuck);
            let handle = writer.handle();
            let mut closed = handle.closed();
            let _ = Pin::new(&mut closed).poll(&mut Context::from_waker(Waker::noop()));
            let dropper = thread::spawn(move || {
                drop(handle);
                drop(closed);
            });
            drop(writer);
            join([dropper]);
        });
    }

    #[test]
    fn a_handle_that_is_made_while_another_one_is_hears_of_the_close_too() {
        every_interleaving(|| {
            let writer = Arc::new(writer(Stuck));
            let other = {
                let writer = Arc::clone(&writer);
                thread::spawn(move || writer.handle())
            };
            let handles = [writer.handle(), other.join().unwrap()];
            let Ok(writer) = Arc::try_unwrap(writer) else { panic!("the thread has ended") };
            drop(writer);
            handles.iter().for_each(|handle| block_on(handle.closed()));
        });
    }

    #[test]
    fn a_cancel_may_meet_the_drop_of_the_writer() {
        every_interleaving(|| {
            let mut writer = writer(Stuck);
            let handle = writer.handle();
            assert!(poll_flush(&mut writer, Waker::noop()).is_pending());
            let canceler = canceling(handle.clone());
            drop(writer);
            assert!(handle.is_closed());
            join([canceler]);
        });
    }
}

/// The pipe of the core with a signal whose waker lies in an `AtomicWaker`, as on a machine without an operating system.
mod core_signal {
    use pipewriter_core::{Error, FlushResult, HeapPool, HeapPipe, Link, Options, Pipe, PollWrite, Signal, Wakers};

    use super::*;

    #[derive(Default)]
    struct OneTask(loom::future::AtomicWaker);

    impl Wakers for OneTask {
        fn register_flush(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }
        fn wake_flush(&self) {
            self.0.wake();
        }
        fn clear_flush(&self) {
            drop(self.0.take_waker());
        }
        fn wake_closed(&self) {}
    }

    /// A link by `Arc`: threads of a model borrow nothing.
    #[derive(Clone)]
    struct Shared(Arc<Signal<OneTask>>);

    impl Link for Shared {
        fn is_cancel_requested(&self) -> bool {
            self.0.is_cancel_requested()
        }
        fn clear_cancel(&mut self) {
            self.0.clear_cancel();
        }
        fn register(&mut self, waker: &Waker) {
            (&mut &*self.0).register(waker);
        }
        fn unregister(&mut self) {
            (&mut &*self.0).unregister();
        }
        fn wake(&self) {
            (&&*self.0).wake();
        }
        fn close(&mut self) {
            self.0.close();
        }
    }

    /// A stream that is stuck, or takes everything at once.
    struct Uart {
        is_stuck: bool,
    }

    impl PollWrite for Uart {
        type Error = Error;
        fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
            if self.is_stuck { Poll::Pending } else { Poll::Ready(Ok(buf.len())) }
        }
        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            if self.is_stuck { Poll::Pending } else { Poll::Ready(Ok(())) }
        }
        fn fault(&self, fault: Error) -> Error {
            fault
        }
    }

    fn pipe() -> (HeapPipe<HeapPool, Shared>, Arc<Signal<OneTask>>) {
        let signal = Arc::new(Signal::new(OneTask::default()));
        let link = Shared(Arc::clone(&signal));
        let mut pipe = Pipe::with_link(HeapPool::new(), Options::new(), link, Default::default());
        pipe.append(BYTES).unwrap();
        (pipe, signal)
    }

    fn canceling(signal: &Arc<Signal<OneTask>>) -> JoinHandle<()> {
        let signal = Arc::clone(signal);
        thread::spawn(move || signal.cancel_pending_flush())
    }

    fn flush(pipe: &mut HeapPipe<HeapPool, Shared>, stream: &mut Uart) -> FlushResult {
        block_on(poll_fn(|cx| pipe.poll_flush(cx, stream))).unwrap()
    }

    #[test]
    fn a_cancel_that_comes_while_a_flush_begins_to_wait_ends_it_and_only_it() {
        every_interleaving(|| {
            let (mut pipe, signal) = pipe();
            let canceler = canceling(&signal);
            assert!(flush(&mut pipe, &mut Uart { is_stuck: true }).is_canceled());
            join([canceler]);
            assert!(!flush(&mut pipe, &mut Uart { is_stuck: false }).is_canceled(), "seen twice");
        });
    }

    #[test]
    fn two_cancels_end_one_flush_or_two_and_no_third() {
        interleavings_with(3, || {
            let (mut pipe, signal) = pipe();
            let cancelers = [canceling(&signal), canceling(&signal)];
            assert!(flush(&mut pipe, &mut Uart { is_stuck: true }).is_canceled());
            join(cancelers);
            let mut stream = Uart { is_stuck: false };
            flush(&mut pipe, &mut stream);
            assert!(!flush(&mut pipe, &mut stream).is_canceled(), "seen a third time");
            assert_eq!(pipe.unflushed_bytes(), 0);
        });
    }

    #[test]
    fn a_cancel_that_comes_in_the_last_call_meets_the_next_flush() {
        every_interleaving(|| {
            let (mut pipe, signal) = pipe();
            let canceler = canceling(&signal);
            let mut stream = Uart { is_stuck: false };
            let first = flush(&mut pipe, &mut stream);
            join([canceler]);
            let second = flush(&mut pipe, &mut stream);
            assert!(first.is_canceled() != second.is_canceled(), "seen by one of both");
            assert!(!flush(&mut pipe, &mut stream).is_canceled());
        });
    }
}

mod shared_pool {
    use pipewriter_std::{SegmentPool, SharedPool};

    use super::*;

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
        interleavings_with(3, || {
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
        interleavings_with(3, || {
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
        interleavings_with(3, || {
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
        interleavings_with(2, || {
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
}
