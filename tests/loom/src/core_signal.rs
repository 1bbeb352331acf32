//! The pipe of the core with a signal whose waker lies in an `AtomicWaker`, as on a machine without an operating system.

use pipewriter_core::{Error, FlushResult, HeapPipe, HeapPool, Link, Options, Pipe, PollWrite, Signal, Wakers};

use crate::*;

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
