//! The end of a writer and those who wait for it.

use crate::*;

fn is_told_of(preemptions: Option<usize>, close: impl Fn(PipeWriter<Gone>) + Copy + Send + Sync + 'static) {
    explore(preemptions, move || {
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
    is_told_of(None, drop);
}

#[test]
fn a_waiter_that_comes_while_the_writer_is_aborted_is_told() {
    is_told_of(Some(4), |mut writer| block_on(writer.abort()).unwrap());
}

#[test]
fn a_waiter_that_comes_while_the_stream_reports_its_reader_gone_is_told() {
    is_told_of(None, |mut writer| {
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
