//! A cancel and the flush that it ends.

use crate::*;

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

/// The usual way to stop a loop of flushes: set a flag, then cancel. A cancel that is used up together with an earlier one
/// must have its flag seen behind that flush, else the loop waits for ever.
#[test]
fn a_flag_set_before_a_cancel_is_seen_behind_the_flush_that_uses_it_up() {
    interleavings_with(3, || {
        let mut writer = writer(Stuck);
        let stop = Arc::new(AtomicUsize::new(0));
        let (handle, flag) = (writer.handle(), Arc::clone(&stop));
        let canceler = thread::spawn(move || {
            handle.cancel_pending_flush();
            flag.store(1, Ordering::Relaxed);
            handle.cancel_pending_flush();
        });
        loop {
            assert!(block_on(writer.flush()).unwrap().is_canceled());
            if stop.load(Ordering::Relaxed) == 1 {
                break;
            }
        }
        join([canceler]);
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

#[test]
fn one_through_a_handle_made_after_the_flush_began_to_wait_wakes_it() {
    every_interleaving(|| {
        let woken = Arc::new(AtomicUsize::new(0));
        let mut writer = writer(Stuck);
        assert!(poll_flush(&mut writer, &counting(&woken)).is_pending());
        join([canceling(writer.handle())]);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(is_canceled_next(&mut writer));
    });
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
