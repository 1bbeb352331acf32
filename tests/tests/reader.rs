//! Chapter 7: the reader is gone, and who gets to know of it.

mod support;

use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread;

use futures_io::AsyncWrite;
use pipewriter_std::{Closed, HeapPool, PipeHandle, PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::{Task, Wakes, block_on, panicking_waker, poll_once, poll_with, waker_fn};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject};
use support::{Event, hooked, without_hanging};

pipewriter_tests::both!(
    an_error_of_a_write_that_says_the_reader_is_gone_closes,
    an_error_of_a_flush_that_says_the_reader_is_gone_closes,
    a_write_of_zero_closes,
    every_call_that_meets_such_an_error_closes,
    any_other_error_does_not_close,
    a_flush_that_is_put_off_or_canceled_does_not_close,
    once_closed_always_closed,
    a_handle_made_after_the_reader_has_gone_is_closed,
    all_handles_of_a_writer_are_told,
    completing_closes,
    completing_closes_also_where_the_stream_stays_open,
    a_complete_that_fails_for_another_reason_does_not_close,
    aborting_closes,
    dropping_the_writer_closes,
    taking_the_writer_apart_closes,
    an_argument_that_cannot_be_kept_is_told_at_once,
    waiting_ends_when_the_reader_has_gone,
    waiting_ends_with_the_writer,
    any_number_of_tasks_can_wait,
    waiting_on_a_closed_handle_is_over_at_once,
    waiting_neither_borrows_the_handle_nor_the_writer,
    a_handle_keeps_no_stream_and_no_segment_alive,
    a_cancel_does_not_wake_who_waits_for_the_end,
    waiting_on_other_threads_ends_with_the_writer,
    no_lock_is_held_while_a_waiting_waker_is_cloned_woken_or_dropped,
);

/// The kinds of error that say it.
const GONE: [ErrorKind; 5] = [
    ErrorKind::BrokenPipe,
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::WriteZero,
];

fn fails(kind: ErrorKind) -> Step {
    Step::Fail(kind, "scripted")
}

#[track_caller]
fn assert_scripted<T: core::fmt::Debug>(result: io::Result<T>, kind: ErrorKind) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (kind, "scripted".to_owned()), "the error is returned as it is");
}

fn is_over(closed: &mut Closed) -> bool {
    poll_once(closed).is_ready()
}

// ---- errors ----

fn an_error_of_a_write_that_says_the_reader_is_gone_closes<K: Kind>() {
    for kind in GONE {
        // In the first call and in a later one, in one chunk and in many.
        for before in [0, 1] {
            for segment_size in [4, 64] {
                let (pool, _log) = TestPool::new();
                let script = ScriptHandle::new();
                script.on_write(core::iter::repeat_n(Step::Take(3), before));
                script.on_write([fails(kind)]);
                let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(segment_size).pool(pool));
                let handle = writer.handle();
                assert!(!handle.is_closed());
                writer.append(&[7; 10]).unwrap();
                assert_scripted(writer.flush(), kind);
                assert!(handle.is_closed(), "{kind}");
                assert_eq!(writer.unflushed_bytes(), 10 - 3 * before, "the bytes stay");
                writer.flush_well();
                assert_eq!(script.accepted(), [7; 10]);
            }
        }
    }
}

fn an_error_of_a_flush_that_says_the_reader_is_gone_closes<K: Kind>() {
    for kind in GONE {
        for writes in [&[Step::TakeAll][..], &[Step::Take(1), Step::TakeAll]] {
            let script = ScriptHandle::new();
            script.on_write(writes.iter().cloned());
            script.on_flush([fails(kind)]);
            let mut writer = K::writer(&script, PipeWriterOptions::new());
            let handle = writer.handle();
            writer.append(b"abc").unwrap();
            assert_scripted(writer.flush(), kind);
            assert!(handle.is_closed(), "{kind}");
            assert!(!writer.is_completed());
        }
    }
}

#[test]
fn an_error_of_a_close_that_says_the_reader_is_gone_closes() {
    for kind in GONE {
        for abort in [false, true] {
            let script = ScriptHandle::new();
            script.on_close([fails(kind)]);
            let mut writer = PipeWriter::new(script.stream());
            let handle = writer.handle();
            let mut closed = handle.closed();
            assert!(!is_over(&mut closed));
            assert_scripted(if abort { block_on(writer.abort()) } else { block_on(writer.complete()) }, kind);
            assert!(handle.is_closed() && is_over(&mut closed), "{kind}");
            assert_eq!(writer.is_completed(), abort);
        }
    }
}

#[test]
fn any_other_error_of_a_close_does_not_close() {
    let script = ScriptHandle::new();
    script.on_close([Step::Fail(ErrorKind::Interrupted, "again"), fails(ErrorKind::TimedOut), Step::Pend]);
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    assert_scripted(block_on(writer.complete()), ErrorKind::TimedOut);
    assert!(!handle.is_closed());
    assert!(Task::new(writer.complete()).poll().is_pending());
    assert!(!handle.is_closed());
    block_on(writer.complete()).unwrap();
    assert!(handle.is_closed());
}

fn a_write_of_zero_closes<K: Kind>() {
    for before in [0, 1] {
        let script = ScriptHandle::new();
        script.on_write(core::iter::repeat_n(Step::Take(1), before));
        script.on_write([Step::Zero]);
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::WriteZero);
        assert!(handle.is_closed());
        assert_eq!(writer.unflushed_bytes(), 3 - before);
    }
}

fn every_call_that_meets_such_an_error_closes<K: Kind>() {
    type Call<W> = (&'static str, fn(&mut W) -> io::Result<()>);
    let calls: [Call<K::Writer<Script, HeapPool>>; 6] = [
        ("flush", |w| w.flush().map(drop)),
        ("emit", |w| w.emit().map(drop)),
        ("write_and_flush", |w| w.write_and_flush(b"def").map(drop)),
        ("complete", |w| w.complete()),
        ("plain write", |w| w.plain_write(b"def").map(drop)),
        ("plain flush", |w| w.plain_flush()),
    ];
    for (name, call) in calls {
        for (step, kind) in [(fails(ErrorKind::BrokenPipe), ErrorKind::BrokenPipe), (Step::Zero, ErrorKind::WriteZero)]
        {
            let script = ScriptHandle::new();
            script.on_write([step]);
            let mut writer = K::writer(&script, PipeWriterOptions::new().high_water_mark(3));
            let handle = writer.handle();
            let mut closed = handle.closed();
            assert!(!is_over(&mut closed));
            writer.append(b"abc").unwrap();
            assert_eq!(call(&mut writer).unwrap_err().kind(), kind);
            assert!(handle.is_closed(), "{name}");
            assert!(is_over(&mut closed), "{name}");
            let kept = if name == "write_and_flush" { 6 } else { 3 };
            assert_eq!(writer.unflushed_bytes(), kept, "{name}: the bytes stay");
        }
    }
}

fn any_other_error_does_not_close<K: Kind>() {
    for kind in [
        ErrorKind::TimedOut,
        ErrorKind::Other,
        ErrorKind::WouldBlock,
        ErrorKind::UnexpectedEof,
        ErrorKind::PermissionDenied,
        ErrorKind::OutOfMemory,
        ErrorKind::InvalidData,
    ] {
        let script = ScriptHandle::new();
        script.on_write([Step::Fail(ErrorKind::Interrupted, "again"), fails(kind), Step::ClaimMore(1)]);
        script.on_flush([Step::Fail(ErrorKind::Interrupted, "again"), fails(kind)]);
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        let handle = writer.handle();
        let mut closed = handle.closed();
        writer.append(b"abc").unwrap();
        assert_scripted(writer.flush(), kind);
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::InvalidData);
        assert_scripted(writer.flush(), kind);
        assert!(!handle.is_closed() && !is_over(&mut closed), "{kind}");
        writer.flush_well();
    }
}

fn a_flush_that_is_put_off_or_canceled_does_not_close<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Pend]);
    script.on_flush([Step::Pend]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    for _ in 0..2 {
        assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    handle.cancel_pending_flush();
    assert!(writer.flush().unwrap().is_canceled());
    assert!(!handle.is_closed());
}

fn once_closed_always_closed<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([fails(ErrorKind::ConnectionReset)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    assert!(writer.flush().is_err());
    writer.flush_well();
    writer.append(b"def").unwrap();
    handle.cancel_pending_flush();
    assert!(writer.flush().unwrap().is_canceled(), "a closed handle cancels all the same");
    writer.flush_well();
    assert!(handle.is_closed() && writer.handle().is_closed());
    writer.complete().unwrap();
    drop(writer);
    assert!(handle.is_closed());
    assert_eq!(script.accepted(), b"abcdef");
}

fn a_handle_made_after_the_reader_has_gone_is_closed<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Zero]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    assert!(writer.flush().is_err());
    let handle = writer.handle();
    assert!(handle.is_closed() && is_over(&mut handle.closed()));
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.complete().unwrap();
    assert!(writer.handle().is_closed());
}

fn all_handles_of_a_writer_are_told<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([fails(ErrorKind::BrokenPipe)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let first = writer.handle();
    let handles = [first.clone(), writer.handle(), first];
    let other = K::writer(&ScriptHandle::new(), PipeWriterOptions::new()).handle();
    writer.append(b"abc").unwrap();
    assert!(writer.flush().is_err());
    assert!(handles.iter().all(PipeHandle::is_closed));
    assert!(other.is_closed(), "its writer was dropped");
}

// ---- the end ----

/// A writer over a script of no steps, a handle to it, and a task that waits for its end.
fn watched<K: Kind>(options: PipeWriterOptions) -> (K::Writer<Script, HeapPool>, PipeHandle, Task<'static, ()>) {
    let mut writer = K::writer(&ScriptHandle::new(), options);
    writer.append(b"abc").unwrap();
    let handle = writer.handle();
    let mut waiting = Task::new(handle.closed());
    assert!(waiting.poll().is_pending() && !handle.is_closed());
    (writer, handle, waiting)
}

fn completing_closes<K: Kind>() {
    let (mut writer, handle, waiting) = watched::<K>(PipeWriterOptions::new());
    writer.complete().unwrap();
    assert!(handle.is_closed());
    waiting.finish(0);
}

fn completing_closes_also_where_the_stream_stays_open<K: Kind>() {
    let (mut writer, handle, waiting) = watched::<K>(PipeWriterOptions::new().leave_open(true));
    writer.complete().unwrap();
    assert!(handle.is_closed());
    waiting.finish(0);
}

fn a_complete_that_fails_for_another_reason_does_not_close<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    assert!(writer.complete().is_err());
    assert!(!handle.is_closed());
    writer.complete().unwrap();
    assert!(handle.is_closed());
}

fn aborting_closes<K: Kind>() {
    for with_reason in [false, true] {
        for leave_open in [false, true] {
            let (mut writer, handle, waiting) = watched::<K>(PipeWriterOptions::new().leave_open(leave_open));
            if with_reason {
                writer.abort_with(io::Error::other("reason")).unwrap();
            } else {
                writer.abort().unwrap();
            }
            assert!(handle.is_closed());
            waiting.finish(0);
        }
    }
}

fn dropping_the_writer_closes<K: Kind>() {
    let (writer, handle, waiting) = watched::<K>(PipeWriterOptions::new());
    drop(writer);
    assert!(handle.is_closed());
    waiting.finish(0);
    // What is left of the handle still answers.
    handle.cancel_pending_flush();
    assert!(handle.clone().is_closed() && is_over(&mut handle.closed()));
}

fn taking_the_writer_apart_closes<K: Kind>() {
    let (writer, handle, waiting) = watched::<K>(PipeWriterOptions::new());
    let (_stream, rest) = writer.into_parts();
    assert_eq!(rest, b"abc");
    assert!(handle.is_closed());
    waiting.finish(0);
}

fn an_argument_that_cannot_be_kept_is_told_at_once<K: Kind>() {
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(0);
    let script = ScriptHandle::new();
    script.on_write([Step::Take(1), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new().pool(pool));
    let waiting = {
        let mut waiting = Task::new(writer.handle().closed());
        assert!(waiting.poll().is_pending());
        waiting
    };
    assert_eq!(writer.write_and_flush(b"abc").unwrap_err().kind(), ErrorKind::OutOfMemory);
    waiting.finish(0);
}

// ---- waiting ----

fn waiting_ends_when_the_reader_has_gone<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Take(1), fails(ErrorKind::NotConnected)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let mut waiting = Task::new(writer.handle().closed());
    assert!(waiting.poll().is_pending());
    assert!(waiting.poll().is_pending());
    assert_eq!(waiting.wakes(), 0);
    writer.append(b"abc").unwrap();
    assert!(writer.flush().is_err());
    assert_eq!(waiting.wakes(), 1);
    waiting.finish(0);
}

fn waiting_ends_with_the_writer<K: Kind>() {
    let (writer, _, waiting) = watched::<K>(PipeWriterOptions::new());
    drop(writer);
    waiting.finish(0);
}

fn any_number_of_tasks_can_wait<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handles: Vec<_> = (0..50).map(|_| writer.handle()).collect();
    let mut waiting: Vec<_> =
        handles.iter().flat_map(|handle| [handle.closed(), handle.closed()]).map(Task::new).collect();
    for _ in 0..2 {
        assert!(waiting.iter_mut().all(|task| task.poll().is_pending()));
    }
    // Those that are given up cost the others nothing.
    let mut at = 0;
    waiting.retain(|_| {
        at += 1;
        at % 3 != 0
    });
    writer.complete().unwrap();
    for task in waiting {
        assert_eq!(task.wakes(), 1);
        task.finish(0);
    }
}

fn waiting_on_a_closed_handle_is_over_at_once<K: Kind>() {
    let script = ScriptHandle::new();
    let writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    let mut before = handle.closed();
    drop(writer);
    let wakes = Wakes::new();
    for closed in [&mut before, &mut handle.closed()] {
        assert!(poll_with(&wakes.waker(), closed).is_ready());
    }
    assert_eq!((wakes.count(), wakes.wakers()), (0, 0));
}

fn waiting_neither_borrows_the_handle_nor_the_writer<K: Kind>() {
    fn is_free<T: Send + Sync + Clone + 'static>(value: T) -> T {
        value
    }
    fn is_task<F: Future<Output = ()> + Send + 'static>(future: F) -> F {
        future
    }
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let mut closed = is_task(is_free(writer.handle()).closed());
    assert!(!is_over(&mut closed));
    writer.append(b"abc").unwrap();
    writer.complete().unwrap();
    assert!(is_over(&mut closed));
}

#[test]
fn a_waiting_task_that_is_polled_with_another_waker_is_woken_through_that_one() {
    let writer = PipeWriter::new(ScriptHandle::new().stream());
    let mut closed = writer.handle().closed();
    let (first, second) = (Wakes::new(), Wakes::new());
    assert!(poll_with(&first.waker(), &mut closed).is_pending());
    assert_eq!(first.wakers(), 1);
    assert!(poll_with(&second.waker(), &mut closed).is_pending());
    assert_eq!(first.wakers(), 0, "the first waker is not kept");
    drop(writer);
    assert_eq!((first.count(), second.count()), (0, 1));
    assert!(poll_with(&second.waker(), &mut closed).is_ready());
}

#[test]
fn a_wait_that_is_given_up_is_forgotten() {
    let writer = PipeWriter::new(ScriptHandle::new().stream());
    let handle = writer.handle();
    let wakes = Wakes::new();
    let mut other = Task::new(handle.closed());
    assert!(other.poll().is_pending());
    {
        let mut closed = pin!(handle.closed());
        assert!(poll_with(&wakes.waker(), &mut closed).is_pending());
        assert_eq!(wakes.wakers(), 1);
    }
    assert_eq!(wakes.wakers(), 0);
    drop(writer);
    assert_eq!(wakes.count(), 0);
    other.finish(0);
}

#[test]
fn a_waker_that_panics_leaves_the_others_to_the_next_chance() {
    let script = ScriptHandle::new();
    script.on_write([Step::Zero]);
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    let mut bad = handle.closed();
    assert!(poll_with(&panicking_waker(), &mut bad).is_pending());
    let mut good = Task::new(handle.closed());
    assert!(good.poll().is_pending());
    writer.append(b"abc").unwrap();
    let flush = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| block_on(writer.flush())));
    assert!(flush.is_err());
    assert!(handle.is_closed());
    drop(writer);
    good.finish(0);
    drop(bad);
}

/// A stream that takes everything, and whose life can be watched.
struct Watched(#[expect(dead_code, reason = "counted, not read")] Arc<()>);

impl io::Write for Watched {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncWrite for Watched {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn a_handle_keeps_no_stream_and_no_segment_alive<K: Kind>() {
    let life = Arc::new(());
    let (pool, log) = TestPool::new();
    let mut writer = K::over(Watched(Arc::clone(&life)), PipeWriterOptions::new().pool(pool));
    let handle = writer.handle();
    let mut waiting = handle.closed();
    assert!(!is_over(&mut waiting));
    writer.append(b"abc").unwrap();
    drop(writer);
    log.assert_all_back();
    assert_eq!(Arc::strong_count(&life), 1, "the stream is gone");
    assert!(handle.is_closed() && is_over(&mut waiting));
}

fn a_cancel_does_not_wake_who_waits_for_the_end<K: Kind>() {
    let (_writer, handle, mut waiting) = watched::<K>(PipeWriterOptions::new());
    handle.cancel_pending_flush();
    assert_eq!(waiting.wakes(), 0);
    assert!(waiting.poll().is_pending());
}

// ---- threads ----

/// Waits on this thread. Where nobody wakes it hangs, which is for `without_hanging` to notice.
fn wait(closed: Closed) {
    let (wake, woken) = channel();
    let waker = waker_fn(move || {
        // The wait may be over already.
        let _ = wake.send(());
    });
    let mut closed = pin!(closed);
    while closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        woken.recv().unwrap();
    }
}

fn waiting_on_other_threads_ends_with_the_writer<K: Kind>() {
    without_hanging(|| {
        let writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new());
        let (ready, all_ready) = channel();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (handle, ready) = (writer.handle(), ready.clone());
                thread::spawn(move || {
                    ready.send(()).unwrap();
                    wait(handle.closed());
                    assert!(handle.is_closed());
                })
            })
            .collect();
        for _ in &threads {
            all_ready.recv().unwrap();
        }
        drop(writer);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn an_end_on_another_thread_is_seen_or_wakes_the_task_at_any_moment() {
    let (give, given) = sync_channel::<PipeWriter<Script>>(0);
    let (tell, done) = sync_channel(0);
    let dropper = thread::spawn(move || {
        while let Ok(writer) = given.recv() {
            drop(writer);
            tell.send(()).unwrap();
        }
    });
    for _ in 0..2000 {
        let writer = PipeWriter::new(ScriptHandle::new().stream());
        let mut waiting = Task::new(writer.handle().closed());
        give.send(writer).unwrap();
        let first = waiting.poll();
        done.recv().unwrap();
        if first.is_pending() {
            waiting.finish(0);
        }
    }
    drop(give);
    dropper.join().unwrap();
}

// ---- no lock ----

fn no_lock_is_held_while_a_waiting_waker_is_cloned_woken_or_dropped<K: Kind>() {
    without_hanging(|| {
        let writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new());
        let handle = writer.handle();
        let seen: Arc<[AtomicUsize; 3]> = Arc::default();
        let new_waker = || {
            let (handle, seen) = (handle.clone(), Arc::clone(&seen));
            hooked(move |event| {
                seen[event as usize].fetch_add(1, Ordering::SeqCst);
                // Takes each lock that there is, as a task that is run in its own waker would.
                handle.cancel_pending_flush();
                let _ = handle.is_closed();
                let mut closed = handle.clone().closed();
                let _ = poll_once(&mut closed);
                let _ = poll_once(&mut closed);
            })
        };
        // Put in place, found in place, replaced, given up, and woken.
        let (mut first, mut second) = (handle.closed(), handle.closed());
        let (one, two) = (new_waker(), new_waker());
        assert!(poll_with(&one, &mut first).is_pending());
        assert!(poll_with(&one, &mut first).is_pending());
        assert!(poll_with(&two, &mut first).is_pending());
        assert!(poll_with(&two, &mut second).is_pending());
        drop(second);
        drop(writer);
        assert!(poll_with(&two, &mut first).is_ready());
        drop((one, two));
        for event in [Event::Clone, Event::Wake, Event::Drop] {
            assert!(seen[event as usize].load(Ordering::SeqCst) > 0, "no {event:?}");
        }
    });
}

/// A task that is run inside its wakeup gives up what else it waited for.
#[test]
fn no_lock_is_held_while_who_waits_is_woken() {
    without_hanging(|| {
        let writer = PipeWriter::new(ScriptHandle::new().stream());
        let handle = writer.handle();
        let other = Arc::new(Mutex::new(Some(handle.closed())));
        let (inside, given_up) = (handle.clone(), Arc::clone(&other));
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&seen);
        let waker = waker_fn(move || {
            counter.fetch_add(usize::from(inside.is_closed()), Ordering::SeqCst);
            drop(given_up.lock().unwrap().take());
        });
        let mut first = handle.closed();
        assert!(poll_with(&waker, &mut first).is_pending());
        assert!(poll_with(Waker::noop(), other.lock().unwrap().as_mut().unwrap()).is_pending());
        drop(writer);
        assert_eq!(seen.load(Ordering::SeqCst), 1, "who is woken finds it closed");
        assert!(is_over(&mut first));
    });
}

/// Between the first look and the moment that the waker is in place.
#[test]
fn an_end_that_comes_while_the_waker_is_cloned_is_not_missed() {
    let writer = PipeWriter::new(ScriptHandle::new().stream());
    let handle = writer.handle();
    let writer = Mutex::new(Some(writer));
    let wakes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&wakes);
    let waker = hooked(move |event| match event {
        Event::Clone => drop(writer.lock().unwrap().take()),
        Event::Wake => {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        Event::Drop => {}
    });
    let mut closed = handle.closed();
    let seen = poll_with(&waker, &mut closed).is_ready();
    assert!(handle.is_closed());
    assert!(seen || wakes.load(Ordering::SeqCst) > 0, "neither seen nor woken");
}

#[test]
fn no_lock_is_held_while_the_end_of_a_writer_drops_the_waker_of_its_flush() {
    without_hanging(|| {
        let script = ScriptHandle::new();
        script.on_write([Step::PendAndWake]);
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let inside = handle.clone();
        let drops = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&drops);
        let waker = hooked(move |event| {
            if event == Event::Drop {
                inside.cancel_pending_flush();
                let _ = poll_once(&mut inside.closed());
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(Pin::new(&mut writer).poll_flush(&mut Context::from_waker(&waker)).is_pending());
        drop(writer);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        drop(waker);
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        assert!(handle.is_closed());
    });
}

#[test]
fn the_end_is_told_also_if_the_waker_of_a_flush_panics_as_it_is_dropped() {
    /// Panics as its last waker is dropped, once armed.
    struct Boom(Arc<AtomicBool>);

    impl Wake for Boom {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Boom {
        fn drop(&mut self) {
            if self.0.load(Ordering::Relaxed) && !std::thread::panicking() {
                panic!("a waker that can not be dropped");
            }
        }
    }

    /// Stalls, and keeps no waker.
    struct Stalled;

    impl AsyncWrite for Stalled {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    for (handle_first, aborts) in [(false, false), (false, true), (true, false), (true, true)] {
        let armed = Arc::new(AtomicBool::new(false));
        let mut writer = PipeWriter::new(Stalled);
        let early = handle_first.then(|| writer.handle());
        writer.append(b"x").unwrap();
        let waker = Waker::from(Arc::new(Boom(Arc::clone(&armed))));
        assert!(Pin::new(&mut writer).poll_flush(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        let handle = early.unwrap_or_else(|| writer.handle());
        armed.store(true, Ordering::Relaxed);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            if aborts {
                let _ = Pin::new(&mut writer).poll_abort(&mut Context::from_waker(Waker::noop()));
            } else {
                drop(writer);
            }
        }));
        assert!(ended.is_err(), "the panic is the caller's to see");
        assert!(handle.is_closed(), "handle first: {handle_first}, aborts: {aborts}");
    }
}
