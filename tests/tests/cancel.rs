//! Chapter 5: a cancel ends one flush, can come from anywhere, and loses nothing.

mod support;

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::thread;

use pipewriter_std::{FlushResult, HeapPool, PipeHandle, PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::{Task, Wakes, block_on, poll_once, waker_fn};
use pipewriter_tests::model::{Model, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject};
use support::{Event, hooked, without_hanging};

pipewriter_tests::both!(
    a_cancel_with_no_flush_pending_ends_the_next_one,
    a_cancel_through_a_handle_ends_the_next_flush_too,
    a_cancel_that_came_before_the_first_handle_is_not_forgotten,
    a_cancel_from_another_thread_ends_the_flush_that_is_under_way,
    a_cancel_from_inside_the_streams_own_methods_ends_the_flush,
    a_cancel_from_inside_the_last_call_always_meets_the_same_flush,
    several_cancels_before_one_is_seen_count_as_one,
    each_cancel_ends_one_flush,
    a_cancel_is_seen_by_a_flush_that_has_nothing_to_write,
    a_cancel_is_seen_where_only_the_flush_of_the_stream_is_due,
    a_flush_that_fails_leaves_the_cancel,
    a_refused_argument_leaves_the_cancel,
    a_flush_that_is_put_off_leaves_the_cancel,
    a_flush_that_starts_canceled_writes_nothing,
    a_write_and_flush_that_starts_canceled_keeps_its_argument,
    the_cancel_is_looked_at_before_every_call_retries_included,
    the_cancel_is_looked_at_before_every_call_of_an_emit,
    the_cancel_is_looked_at_before_every_call_of_a_write_and_flush,
    a_flush_that_had_ended_is_not_undone,
    complete_neither_sees_nor_uses_up_a_cancel,
    a_complete_that_fails_does_not_use_up_a_cancel,
    abort_neither_sees_nor_uses_up_a_cancel,
    the_plain_write_neither_sees_nor_uses_up_a_cancel,
);

/// A call that a cancel ends, and its name.
type Cancelable<W> = (&'static str, fn(&mut W) -> io::Result<FlushResult>);

/// All such calls, with nothing to send of their own.
fn cancelable<W: Subject>() -> [Cancelable<W>; 3] {
    [("flush", |w| w.flush()), ("emit", |w| w.emit()), ("write_and_flush of nothing", |w| w.write_and_flush(b""))]
}

/// `step`, with a cancel from inside it.
fn canceling(handle: &PipeHandle, step: Step) -> Step {
    let handle = handle.clone();
    Step::run(move || handle.cancel_pending_flush(), step)
}

#[track_caller]
fn assert_canceled(result: io::Result<FlushResult>) {
    let result = result.expect("a cancel is no error");
    assert!(result.is_canceled() && !result.is_completed(), "{result:?}");
}

// ---- 5.1 ----

fn a_cancel_with_no_flush_pending_ends_the_next_one<K: Kind>() {
    for (name, call) in cancelable() {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        writer.append(b"abc").unwrap();
        writer.cancel_pending_flush();
        assert_canceled(call(&mut writer));
        assert!(script.calls().is_empty(), "{name}");
        assert_eq!(writer.unflushed_bytes(), 3);
        writer.flush_well();
        assert_eq!(script.accepted(), b"abc");
    }
}

fn a_cancel_through_a_handle_ends_the_next_flush_too<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    let (clone, second) = (handle.clone(), writer.handle());
    for handle in [handle, clone, second] {
        writer.append(b"abc").unwrap();
        handle.cancel_pending_flush();
        assert_canceled(writer.flush());
        writer.flush_well();
        // With a handle out the writer's own way still works.
        writer.cancel_pending_flush();
        assert_canceled(writer.flush());
        writer.flush_well();
    }
    assert_eq!(script.accepted(), b"abcabcabc");
}

fn a_cancel_that_came_before_the_first_handle_is_not_forgotten<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.cancel_pending_flush();
    let handle = writer.handle();
    assert_canceled(writer.flush());
    assert!(!writer.flush().unwrap().is_canceled());
    assert!(!handle.is_closed());
}

fn a_cancel_from_another_thread_ends_the_flush_that_is_under_way<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    let (enter, entered) = channel();
    let (cancel, canceled) = channel();
    let canceler = thread::spawn(move || {
        let () = entered.recv().unwrap();
        handle.cancel_pending_flush();
        cancel.send(()).unwrap();
    });
    // The stream is inside its write until the other thread has canceled, and what it takes then counts.
    let canceled = std::sync::Mutex::new(canceled);
    let rendezvous = move || {
        enter.send(()).unwrap();
        canceled.lock().unwrap().recv().unwrap();
    };
    script.on_write([Step::run(rendezvous, Step::Take(2))]);
    writer.append(b"abcde").unwrap();
    assert_canceled(writer.flush());
    canceler.join().unwrap();
    assert_eq!((script.calls(), writer.unflushed_bytes()), (vec![Call::write(5)], 3));
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcde");
}

fn a_cancel_from_inside_the_streams_own_methods_ends_the_flush<K: Kind>() {
    let (pool, _log) = TestPool::new();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(4).pool(pool));
    let handle = writer.handle();
    writer.append(&pattern(0, 10)).unwrap();
    // From the vectored write, from the plain write, and from a flush that is to be retried.
    script.on_write([canceling(&handle, Step::Take(7)), Step::Take(1), canceling(&handle, Step::Take(1))]);
    assert_canceled(writer.flush());
    assert_canceled(writer.flush());
    script.on_flush([canceling(&handle, Step::Fail(ErrorKind::Interrupted, "again"))]);
    assert_canceled(writer.flush());
    writer.flush_well();
    script.assert_played();
    assert_eq!(script.accepted(), pattern(0, 10));
}

/// The flush that is under way, or else the next one: which, must not hang on how the flush got there.
fn a_cancel_from_inside_the_last_call_always_meets_the_same_flush<K: Kind>() {
    let plans: [&[Step]; 3] = [&[Step::TakeAll], &[Step::Take(1), Step::TakeAll], &[Step::Take(1), Step::Take(1)]];
    let met = plans.map(|writes| {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        let handle = writer.handle();
        script.on_write(writes.iter().cloned());
        script.on_flush([canceling(&handle, Step::TakeAll)]);
        writer.append(b"abc").unwrap();
        let first = writer.flush().unwrap().is_canceled();
        let second = writer.flush().unwrap().is_canceled();
        assert!(first != second, "one cancel ends one flush");
        assert_eq!((script.accepted(), writer.unflushed_bytes(), script.flushes()), (b"abc".to_vec(), 0, 1));
        first
    });
    assert_eq!(met, [met[0]; 3], "ended the flush under way in one case and the next one in the other");
}

#[test]
fn a_cancel_wakes_the_task_whose_flush_is_pending() {
    type Start = for<'a> fn(&'a mut PipeWriter<Script>) -> Task<'a, io::Result<FlushResult>>;
    let starts: [(&str, bool, Start); 5] = [
        ("flush, in the write", true, |w| Task::new(w.flush())),
        ("flush, in the flush", false, |w| Task::new(w.flush())),
        ("emit", true, |w| Task::new(w.emit())),
        ("write_and_flush, in the write", true, |w| Task::new(w.write_and_flush(b"xyz"))),
        ("write_and_flush, in the flush", false, |w| Task::new(w.write_and_flush(b"xyz"))),
    ];
    for (name, in_write, start) in starts {
        let script = ScriptHandle::new();
        if in_write {
            script.hold_writes();
        } else {
            script.hold_flushes();
        }
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let mut task = start(&mut writer);
        assert!(task.poll().is_pending(), "{name}");
        assert_eq!(task.wakes(), 0);
        let calls = script.calls().len();
        thread::spawn(move || handle.cancel_pending_flush()).join().unwrap();
        assert_canceled(task.finish(0));
        assert_eq!(script.calls().len(), calls, "{name}: no call after the cancel");
        script.release();
        block_on(writer.flush()).unwrap();
        let sent = if name.starts_with("write_and_flush") { &b"abcxyz"[..] } else { b"abc" };
        assert_eq!(script.accepted(), sent, "{name}");
    }
}

#[test]
fn a_cancel_wakes_a_flush_that_became_pending_before_there_was_a_handle() {
    for through_handle in [true, false] {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        writer.append(b"abc").unwrap();
        let wakes = Wakes::new();
        assert!(poll_flush(&mut writer, &wakes.waker()).is_pending());
        if through_handle {
            writer.handle().cancel_pending_flush();
        } else {
            writer.cancel_pending_flush();
        }
        assert_eq!(wakes.count(), 1);
        assert_canceled(ready(poll_flush(&mut writer, &wakes.waker())));
    }
}

#[test]
fn a_cancel_through_the_writer_wakes_a_flush_that_handles_know_of() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::new(script.stream());
    let _handle = writer.handle();
    writer.append(b"abc").unwrap();
    let wakes = Wakes::new();
    assert!(poll_flush(&mut writer, &wakes.waker()).is_pending());
    writer.cancel_pending_flush();
    assert_eq!(wakes.count(), 1);
    assert_canceled(ready(poll_flush(&mut writer, &wakes.waker())));
}

#[test]
fn a_cancel_wakes_the_task_that_polled_last() {
    for with_handle in [true, false] {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        let handle = with_handle.then(|| writer.handle());
        writer.append(b"abc").unwrap();
        let (first, last) = (Wakes::new(), Wakes::new());
        assert!(poll_flush(&mut writer, &first.waker()).is_pending());
        assert!(poll_flush(&mut writer, &last.waker()).is_pending());
        match handle {
            Some(handle) => handle.cancel_pending_flush(),
            None => writer.cancel_pending_flush(),
        }
        assert_eq!(last.count(), 1, "with a handle: {with_handle}");
        assert_eq!(first.wakers(), 0, "the waker of the first poll is not kept");
    }
}

#[test]
fn a_cancel_that_woke_once_wakes_again_after_the_next_poll() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    for _ in 0..3 {
        let mut task = Task::new(writer.flush());
        assert!(task.poll().is_pending());
        handle.cancel_pending_flush();
        assert_canceled(task.finish(0));
    }
}

#[test]
fn a_cancel_from_another_thread_is_seen_or_wakes_the_task_at_any_moment() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    let (go, gone) = sync_channel(0);
    let (tell, done) = sync_channel(0);
    let canceler = thread::spawn(move || {
        while gone.recv().is_ok() {
            handle.cancel_pending_flush();
            tell.send(()).unwrap();
        }
    });
    for _ in 0..2000 {
        let mut task = Task::new(writer.flush());
        go.send(()).unwrap();
        let first = task.poll();
        done.recv().unwrap();
        match first {
            Poll::Ready(result) => assert_canceled(result),
            Poll::Pending => assert_canceled(task.finish(0)),
        }
    }
    drop(go);
    canceler.join().unwrap();
}

#[test]
fn a_flush_or_emit_that_has_ended_keeps_no_waker() {
    for (with_handle, canceled, emits) in [true, false].into_iter().flat_map(|handle| {
        [(true, true), (true, false), (false, true), (false, false)].map(|(canceled, emits)| (handle, canceled, emits))
    }) {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        let _handle = with_handle.then(|| writer.handle());
        writer.append(b"abc").unwrap();
        let wakes = Wakes::new();
        let waker = wakes.waker();
        let poll = |writer: &mut PipeWriter<_, HeapPool>| {
            let cx = &mut Context::from_waker(&waker);
            let writer = Pin::new(writer);
            if emits { writer.poll_emit(cx) } else { writer.poll_flush(cx) }
        };
        assert!(poll(&mut writer).is_pending());
        if canceled {
            writer.cancel_pending_flush();
        }
        script.release();
        let result = ready(poll(&mut writer)).unwrap();
        assert_eq!(result.is_canceled(), canceled);
        drop(waker);
        assert_eq!(wakes.wakers(), 0, "with a handle: {with_handle}, canceled: {canceled}, emit: {emits}");
        let woken = wakes.count();
        writer.cancel_pending_flush();
        assert_eq!(wakes.count(), woken, "nobody waits any more");
    }
}

#[test]
fn a_waker_may_call_back_into_the_handle_whenever_it_is_cloned_woken_or_dropped() {
    without_hanging(|| {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let seen: Arc<[AtomicUsize; 3]> = Arc::default();
        let new_waker = |cancels: bool| {
            let (handle, seen) = (handle.clone(), Arc::clone(&seen));
            hooked(move |event| {
                seen[event as usize].fetch_add(1, Ordering::SeqCst);
                if cancels {
                    handle.cancel_pending_flush();
                }
                let mut closed = handle.clone().closed();
                assert!(poll_once(&mut closed).is_pending());
                assert!(!handle.is_closed());
            })
        };
        // Registered, registered again, replaced, and dropped with the end of the flush.
        let (one, two) = (new_waker(false), new_waker(false));
        assert!(poll_flush(&mut writer, &one).is_pending());
        assert!(poll_flush(&mut writer, &one).is_pending());
        assert!(poll_flush(&mut writer, &two).is_pending());
        script.release();
        assert!(!ready(poll_flush(&mut writer, &two)).unwrap().is_canceled());
        // Canceled from its own clone, and from its own wakeup.
        script.hold_writes();
        writer.append(b"def").unwrap();
        let three = new_waker(true);
        assert_canceled(ready(poll_flush(&mut writer, &three)));
        script.release();
        for event in [Event::Clone, Event::Wake, Event::Drop] {
            assert!(seen[event as usize].load(Ordering::SeqCst) > 0, "no {event:?}");
        }
    });
}

#[test]
fn no_lock_is_held_while_a_waker_that_is_replaced_is_dropped() {
    without_hanging(|| {
        let script = ScriptHandle::new();
        script.on_write([Step::PendAndWake, Step::PendAndWake]);
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let inside = handle.clone();
        let first = hooked(move |event| {
            if event == Event::Drop {
                inside.cancel_pending_flush();
            }
        });
        assert!(poll_flush(&mut writer, &first).is_pending());
        let second = Wakes::new();
        match poll_flush(&mut writer, &second.waker()) {
            Poll::Ready(result) => assert_canceled(result),
            Poll::Pending => assert!(second.count() > 0, "the cancel is neither seen nor told"),
        }
    });
}

/// As on an executor that runs a task at once, on the thread that wakes it.
#[test]
fn a_task_that_is_run_inside_its_wakeup_sees_the_cancel() {
    for through_handle in [false, true] {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        let handle = through_handle.then(|| writer.handle());
        writer.append(b"abc").unwrap();
        let writer: Arc<Reachable> = Arc::new(RwLock::new(writer));
        let (inside, seen): (Weak<Reachable>, _) = (Arc::downgrade(&writer), Arc::new(AtomicBool::new(false)));
        let canceled = Arc::clone(&seen);
        let waker = waker_fn(move || {
            // With a handle nobody holds the writer meanwhile; without one only its readers do, and the task runs later.
            let writer = inside.upgrade().unwrap();
            if let Ok(mut writer) = writer.try_write() {
                let result = ready(poll_flush(&mut writer, Waker::noop())).unwrap();
                canceled.store(result.is_canceled(), Ordering::SeqCst);
            }
        });
        assert!(poll_flush(&mut writer.write().unwrap(), &waker).is_pending());
        match handle {
            Some(handle) => {
                handle.cancel_pending_flush();
                assert!(seen.load(Ordering::SeqCst));
            }
            None => {
                writer.read().unwrap().cancel_pending_flush();
                assert_canceled(ready(poll_flush(&mut writer.write().unwrap(), &waker)));
            }
        }
    }
}

#[test]
fn a_waker_that_cancels_again_ends_one_flush_all_the_same() {
    without_hanging(|| {
        let script = ScriptHandle::new();
        script.hold_writes();
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let armed = Arc::new(AtomicBool::new(true));
        let (inside, is_armed) = (handle.clone(), Arc::clone(&armed));
        let waker = waker_fn(move || {
            if is_armed.load(Ordering::SeqCst) {
                inside.cancel_pending_flush();
            }
        });
        assert!(poll_flush(&mut writer, &waker).is_pending());
        handle.cancel_pending_flush();
        assert_canceled(ready(poll_flush(&mut writer, &waker)));
        // The stream, too, has the waker and wakes it.
        armed.store(false, Ordering::SeqCst);
        script.release();
        assert!(!block_on(writer.flush()).unwrap().is_canceled());
        assert_eq!(script.accepted(), b"abc");
    });
}

/// A writer that its own waker can reach, as a user would make it: behind a lock that many can read.
type Reachable = RwLock<PipeWriter<Script>>;

#[test]
fn a_waker_may_cancel_through_the_writer_itself() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let writer: Arc<Reachable> = Arc::new(RwLock::new(PipeWriter::new(script.stream())));
    writer.write().unwrap().append(b"abc").unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (inside, counter): (Weak<Reachable>, _) = (Arc::downgrade(&writer), Arc::clone(&count));
    let waker = waker_fn(move || {
        // Stopped here, for it must not fill the stack if it never ends.
        if counter.fetch_add(1, Ordering::SeqCst) < 50 {
            inside.upgrade().unwrap().read().unwrap().cancel_pending_flush();
        }
    });
    assert!(poll_flush(&mut writer.write().unwrap(), &waker).is_pending());
    writer.read().unwrap().cancel_pending_flush();
    assert!(count.load(Ordering::SeqCst) < 50, "the wakeup cancels, the cancel wakes, and so on without end");
    assert_canceled(ready(poll_flush(&mut writer.write().unwrap(), &waker)));
}

#[test]
fn no_lock_is_held_while_the_first_handle_clones_the_waker() {
    without_hanging(|| {
        let script = ScriptHandle::new();
        script.hold_writes();
        let writer: Arc<Reachable> = Arc::new(RwLock::new(PipeWriter::new(script.stream())));
        writer.write().unwrap().append(b"abc").unwrap();
        let armed = Arc::new(AtomicBool::new(false));
        let (inside, is_armed): (Weak<Reachable>, _) = (Arc::downgrade(&writer), Arc::clone(&armed));
        let made = Arc::new(OnceLock::new());
        let keep = Arc::clone(&made);
        let waker = hooked(move |event| {
            if event == Event::Clone && is_armed.swap(false, Ordering::SeqCst) {
                let handle = inside.upgrade().unwrap().read().unwrap().handle();
                keep.set(handle).unwrap();
            }
        });
        assert!(poll_flush(&mut writer.write().unwrap(), &waker).is_pending());
        armed.store(true, Ordering::SeqCst);
        let handle = writer.read().unwrap().handle();
        // All handles are of one kind, whenever they were made.
        for handle in [Some(&handle), made.get()].into_iter().flatten() {
            handle.cancel_pending_flush();
            assert_canceled(ready(poll_flush(&mut writer.write().unwrap(), &waker)));
        }
    });
}

// ---- 5.2 ----

fn several_cancels_before_one_is_seen_count_as_one<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.cancel_pending_flush();
    let handle = writer.handle();
    handle.cancel_pending_flush();
    handle.clone().cancel_pending_flush();
    writer.cancel_pending_flush();
    assert_canceled(writer.flush());
    writer.flush_well();
    assert_eq!(script.accepted(), b"abc");
}

fn each_cancel_ends_one_flush<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    for (name, call) in cancelable() {
        for _ in 0..3 {
            handle.cancel_pending_flush();
            assert_canceled(call(&mut writer));
        }
        assert!(!call(&mut writer).unwrap().is_canceled(), "{name}");
    }
}

fn a_cancel_is_seen_by_a_flush_that_has_nothing_to_write<K: Kind>() {
    for (name, call) in cancelable() {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        writer.cancel_pending_flush();
        assert_canceled(call(&mut writer));
        let result = call(&mut writer).unwrap();
        assert!(!result.is_canceled() && !result.is_completed(), "{name}");
        assert!(script.calls().is_empty(), "{name}");
    }
}

fn a_cancel_is_seen_where_only_the_flush_of_the_stream_is_due<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    writer.cancel_pending_flush();
    assert_canceled(writer.flush());
    assert_eq!(script.calls(), [Call::write(3)]);
    writer.flush_well();
    assert_eq!(script.calls(), [Call::write(3), Call::Flush], "the flush stays due");
}

/// The error is returned and the cancel stays, also where both come in one call.
fn a_flush_that_fails_leaves_the_cancel<K: Kind>() {
    let fails = |kind| Step::Fail(kind, "scripted");
    let plans: [(Step, Step, ErrorKind); 5] = [
        (fails(ErrorKind::TimedOut), Step::TakeAll, ErrorKind::TimedOut),
        (fails(ErrorKind::BrokenPipe), Step::TakeAll, ErrorKind::BrokenPipe),
        (Step::Zero, Step::TakeAll, ErrorKind::WriteZero),
        (Step::ClaimMore(1), Step::TakeAll, ErrorKind::InvalidData),
        (Step::TakeAll, fails(ErrorKind::TimedOut), ErrorKind::TimedOut),
    ];
    for (write, flush, kind) in plans {
        for short_before in [false, true] {
            let script = ScriptHandle::new();
            let mut writer = K::writer(&script, PipeWriterOptions::new());
            let handle = writer.handle();
            writer.append(b"abc").unwrap();
            if short_before {
                script.on_write([Step::Take(1)]);
            }
            if matches!(flush, Step::TakeAll) {
                script.on_write([canceling(&handle, write.clone())]);
            } else {
                script.on_write([write.clone()]);
                script.on_flush([canceling(&handle, flush.clone())]);
            }
            assert_eq!(writer.flush().unwrap_err().kind(), kind);
            let calls = script.calls().len();
            assert_canceled(writer.flush());
            assert_eq!(script.calls().len(), calls);
            writer.flush_well();
            assert_eq!(script.accepted(), b"abc");
        }
    }
}

fn a_refused_argument_leaves_the_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().max_buffered(4));
    writer.cancel_pending_flush();
    assert_eq!(writer.write_and_flush(b"abcde").unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_canceled(writer.flush());
}

/// Pending for ever and dropped, or `WouldBlock`: in both cases the cancel came too late for this flush.
fn a_flush_that_is_put_off_leaves_the_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    script.hold_writes();
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
    handle.cancel_pending_flush();
    script.release();
    let calls = script.calls().len();
    assert_canceled(writer.flush());
    assert_eq!(script.calls().len(), calls);
    writer.flush_well();
    assert_eq!(script.accepted(), b"abc");
}

#[test]
fn a_flush_that_is_dropped_after_its_cancel_leaves_it() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    handle.cancel_pending_flush();
    assert_eq!(task.wakes(), 1);
    drop(task);
    script.release();
    assert_canceled(block_on(writer.flush()));
    assert!(!block_on(writer.flush()).unwrap().is_canceled());
    assert_eq!(script.accepted(), b"abc");
}

#[test]
fn a_pending_flush_that_fails_with_a_cancel_in_the_same_poll_leaves_the_cancel() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    script.on_write([Step::Pend, canceling(&handle, Step::Fail(ErrorKind::TimedOut, "late"))]);
    writer.append(b"abc").unwrap();
    let mut task = Task::new(writer.flush());
    assert!(task.poll().is_pending());
    script.wake();
    assert_eq!(task.finish(0).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_canceled(block_on(writer.flush()));
    block_on(writer.flush()).unwrap();
    assert_eq!(script.accepted(), b"abc");
}

// ---- 5.3 ----

fn a_flush_that_starts_canceled_writes_nothing<K: Kind>() {
    for (name, call) in cancelable() {
        let (pool, _log) = TestPool::new();
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(4).pool(pool));
        let mut model = Model::new();
        for len in [3, 10] {
            let bytes = model.deal(len);
            writer.append(&bytes).unwrap();
            model.commit(&bytes);
            let calls = script.calls().len();
            writer.cancel_pending_flush();
            assert_canceled(call(&mut writer));
            writer.handle().cancel_pending_flush();
            assert_canceled(call(&mut writer));
            assert_eq!(script.calls().len(), calls, "{name}");
            model.check(&script.accepted(), writer.unflushed_bytes());
            script.on_write([Step::Take(1)]);
            call(&mut writer).unwrap();
            model.check(&script.accepted(), 0);
        }
    }
}

fn a_write_and_flush_that_starts_canceled_keeps_its_argument<K: Kind>() {
    let sizes = [(0, 5), (3, 5), (3, 30_000), (0, 300_000)];
    for (through_handle, (buffered, len)) in [false, true].into_iter().flat_map(|by| sizes.map(|sizes| (by, sizes))) {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        writer.append(&pattern(0, buffered)).unwrap();
        if through_handle {
            writer.handle().cancel_pending_flush();
        } else {
            writer.cancel_pending_flush();
        }
        assert_canceled(writer.write_and_flush(&pattern(buffered, len)));
        assert!(script.calls().is_empty());
        assert_eq!(writer.unflushed_bytes(), buffered + len);
        writer.flush_well();
        assert_eq!(script.accepted(), pattern(0, buffered + len));
    }
}

/// Cancels from inside call number 0, 1, 2, ... of one and the same flush, and checks that none follows.
///
/// `calls` is how many calls the flush makes in all. The last is left out: after it there is none to be kept from.
fn sweep<K: Kind>(
    writes: &[Step],
    flushes: &[Step],
    segment_size: usize,
    buffered: usize,
    call: impl Fn(&mut K::Writer<Script, TestPool>, &mut Model) -> io::Result<FlushResult>,
) {
    for at in 0..writes.len() + flushes.len() - 1 {
        let (pool, log) = TestPool::new();
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(segment_size).pool(pool));
        let handle = writer.handle();
        let plan = |steps: &[Step], first: usize| {
            let step = |(i, step): (usize, &Step)| {
                if first + i == at { canceling(&handle, step.clone()) } else { step.clone() }
            };
            steps.iter().enumerate().map(step).collect::<Vec<_>>()
        };
        script.on_write(plan(writes, 0));
        script.on_flush(plan(flushes, writes.len()));
        let mut model = Model::new();
        let bytes = model.deal(buffered);
        writer.append(&bytes).unwrap();
        model.commit(&bytes);
        assert_canceled(call(&mut writer, &mut model));
        assert_eq!(script.log().len(), at + 1, "no call after the one that was canceled in");
        model.check(&script.accepted(), writer.unflushed_bytes());
        writer.flush_well();
        model.check(&script.accepted(), 0);
        script.assert_played();
        drop(writer);
        log.assert_all_back();
    }
}

fn interrupted() -> Step {
    Step::Fail(ErrorKind::Interrupted, "again")
}

fn the_cancel_is_looked_at_before_every_call_retries_included<K: Kind>() {
    // In one chunk and in many.
    for segment_size in [64, 4] {
        let writes = [interrupted(), Step::Take(3), interrupted(), interrupted(), Step::Take(6), Step::TakeAll];
        let flushes = [interrupted(), interrupted(), Step::TakeAll];
        sweep::<K>(&writes, &flushes, segment_size, 20, |writer, _| writer.flush());
        // The short cut of a flush that takes one write.
        sweep::<K>(&[Step::TakeAll], &flushes, segment_size, 20, |writer, _| writer.flush());
    }
}

fn the_cancel_is_looked_at_before_every_call_of_an_emit<K: Kind>() {
    for segment_size in [64, 4] {
        let writes = [interrupted(), Step::Take(3), interrupted(), Step::Take(6), Step::TakeAll];
        sweep::<K>(&writes, &[], segment_size, 20, |writer, _| writer.emit());
    }
}

fn the_cancel_is_looked_at_before_every_call_of_a_write_and_flush<K: Kind>() {
    let call = |writer: &mut K::Writer<Script, TestPool>, model: &mut Model| {
        let bytes = model.deal(15);
        model.commit(&bytes);
        writer.write_and_flush(&bytes)
    };
    for buffered in [0, 9] {
        for segment_size in [64, 4] {
            let writes = [interrupted(), Step::Take(3), interrupted(), Step::Take(8), Step::TakeAll];
            let flushes = [interrupted(), Step::TakeAll];
            sweep::<K>(&writes, &flushes, segment_size, buffered, call);
            sweep::<K>(&[Step::TakeAll], &flushes, segment_size, buffered, call);
        }
    }
}

#[test]
fn a_cancel_from_inside_a_call_that_stays_pending_is_seen_in_that_poll() {
    for (writes, flushes) in
        [(vec![Step::Pend], vec![]), (vec![Step::Take(1), Step::Pend], vec![]), (vec![], vec![Step::Pend])]
    {
        let script = ScriptHandle::new();
        let mut writer = PipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        let cancel_at_pend = |step| if matches!(step, Step::Pend) { canceling(&handle, step) } else { step };
        script.on_write(writes.into_iter().map(cancel_at_pend));
        script.on_flush(flushes.into_iter().map(cancel_at_pend));
        let mut task = Task::new(writer.flush());
        match task.poll() {
            Poll::Ready(result) => assert_canceled(result),
            Poll::Pending => panic!("the cancel came before the flush went to sleep"),
        }
        drop(task);
        script.assert_played();
        block_on(writer.flush()).unwrap();
        assert_eq!(script.accepted(), b"abc");
    }
}

#[test]
fn a_flush_canceled_while_pending_keeps_the_progress_it_made() {
    let (pool, log) = TestPool::new();
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::with_options(script.stream(), PipeWriterOptions::new().segment_size(4).pool(pool));
    let handle = writer.handle();
    let mut model = Model::new();
    let bytes = model.deal(30);
    writer.append(&bytes).unwrap();
    model.commit(&bytes);
    for round in 0..5 {
        script.on_write([Step::Take(round + 1), Step::PendAndWake, Step::Take(1), Step::Pend]);
        let mut task = Task::new(writer.flush());
        assert!(task.poll().is_pending());
        assert_eq!(task.wakes(), 1);
        assert!(task.poll().is_pending());
        handle.cancel_pending_flush();
        assert_canceled(task.finish(1));
        model.check(&script.accepted(), writer.unflushed_bytes());
    }
    block_on(writer.flush()).unwrap();
    model.check(&script.accepted(), 0);
    log.assert_all_back();
}

/// A flush may give other tasks their turn while the stream takes all that it is offered.
#[test]
fn a_cancel_between_two_polls_of_a_long_flush_is_seen_by_the_second() {
    let script = ScriptHandle::new();
    let bytes = pattern(0, 10 << 20);
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(&bytes).unwrap();
    let mut task = Task::new(writer.flush());
    let first = task.poll();
    let calls = script.calls().len();
    handle.cancel_pending_flush();
    match first {
        Poll::Ready(result) => {
            assert!(!result.unwrap().is_canceled());
            drop(task);
        }
        Poll::Pending => {
            assert!(task.wakes() > 0, "the stream has woken nobody, so the flush must");
            assert_canceled(task.finish(0));
            assert_eq!(script.calls().len(), calls);
        }
    }
    block_on(writer.flush()).unwrap();
    assert_eq!(writer.unflushed_bytes(), 0, "a flush that goes well is over when nothing is buffered");
    assert!(script.accepted() == bytes);
}

// ---- 5.4 ----

fn a_flush_that_had_ended_is_not_undone<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    let result = writer.flush().unwrap();
    writer.cancel_pending_flush();
    assert!(!result.is_canceled());
    assert_eq!(script.accepted(), b"abc");
    writer.append(b"def").unwrap();
    assert_canceled(writer.flush());
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcdef");
}

// ---- 5.5 ----

fn complete_neither_sees_nor_uses_up_a_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    handle.cancel_pending_flush();
    // It may come before, and from inside any of its calls.
    script.on_write([canceling(&handle, interrupted()), canceling(&handle, Step::Take(1)), Step::TakeAll]);
    script.on_flush([canceling(&handle, interrupted()), canceling(&handle, Step::TakeAll)]);
    if !K::BLOCKING {
        script.on_close([canceling(&handle, interrupted()), canceling(&handle, Step::TakeAll)]);
    }
    writer.complete().unwrap();
    script.assert_played();
    assert_eq!(script.accepted(), b"abc");
    assert!(writer.is_completed());
    let result = writer.flush().unwrap();
    assert!(result.is_completed() && !result.is_canceled());
}

fn a_complete_that_fails_does_not_use_up_a_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.cancel_pending_flush();
    script.on_write([Step::Take(1), Step::Fail(ErrorKind::TimedOut, "late")]);
    assert_eq!(writer.complete().unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(script.accepted(), b"a");
    assert_canceled(writer.flush());
    writer.flush_well();
    assert_eq!(script.accepted(), b"abc");
}

#[test]
fn a_cancel_leaves_a_pending_complete_pending() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    let mut task = Task::new(writer.complete());
    assert!(task.poll().is_pending());
    handle.cancel_pending_flush();
    assert!(task.poll().is_pending());
    let seen = task.wakes();
    assert!(script.release());
    task.finish(seen).unwrap();
    assert_eq!(script.accepted(), b"abc");
    assert!(script.is_closed());
}

fn abort_neither_sees_nor_uses_up_a_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.cancel_pending_flush();
    writer.abort().unwrap();
    assert!(writer.is_completed());
    assert_eq!(script.is_closed(), !K::BLOCKING);
    let result = writer.flush().unwrap();
    assert!(result.is_completed() && !result.is_canceled());
}

fn the_plain_write_neither_sees_nor_uses_up_a_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().high_water_mark(4));
    let handle = writer.handle();
    handle.cancel_pending_flush();
    assert_eq!(writer.plain_write(b"abcd").unwrap(), 4);
    script.on_write([canceling(&handle, interrupted()), canceling(&handle, Step::Take(1))]);
    assert_eq!(writer.plain_write(b"efgh").unwrap(), 4);
    script.assert_played();
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (b"abcd".to_vec(), 4));
    assert_canceled(writer.flush());
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcdefgh");
}

// ---- helpers ----

fn poll_flush<S>(writer: &mut PipeWriter<S, HeapPool>, waker: &Waker) -> Poll<io::Result<FlushResult>>
where
    S: pipewriter_tests::subject::Stream,
{
    Pin::new(writer).poll_flush(&mut Context::from_waker(waker))
}

#[track_caller]
fn ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("pending"),
    }
}
