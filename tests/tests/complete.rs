//! Chapter 6: completing, aborting, dropping, and what a panic leaves behind.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pipewriter_std::blocking::PipeWriter as BlockingPipeWriter;
use pipewriter_std::{HeapPool, PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::{Task, Wakes, block_on, poll_once};
use pipewriter_tests::ledger::{Ledger, measure};
use pipewriter_tests::model::{Model, pattern};
use pipewriter_tests::pools::{PoolLog, TestPool};
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::sink::Sink;
use pipewriter_tests::subject::{Kind, Subject};

#[global_allocator]
static LEDGER: Ledger = Ledger;

pipewriter_tests::both!(
    complete_flushes_then_closes_and_gives_everything_back,
    complete_sends_everything_however_long_it_takes,
    complete_with_nothing_to_send_only_closes,
    complete_runs_a_flush_that_is_due,
    complete_leaves_the_stream_open_if_told_so,
    the_second_complete_does_nothing,
    a_complete_that_fails_loses_nothing_and_can_be_called_again,
    a_complete_that_was_put_off_goes_on_where_it_was,
    after_a_complete_that_failed_the_writer_takes_more,
    complete_retries_what_was_interrupted,
    a_completed_writer_holds_no_heap,
    abort_discards_what_is_buffered_and_gives_everything_back,
    abort_leaves_the_stream_open_if_told_so,
    abort_does_not_write_or_flush_even_where_a_flush_is_due,
    after_abort_with_each_call_returns_an_error_of_that_kind_and_text,
    the_first_reason_stays,
    abort_with_on_a_completed_writer_changes_nothing,
    a_completed_writer_refuses_to_commit_and_flushes_without_io,
    an_aborted_writer_answers_like_a_completed_one,
    a_flush_of_a_completed_writer_does_not_look_at_a_cancel,
    dropping_gives_every_segment_back,
    dropping_gives_every_segment_back_also_where_the_pool_panics,
    into_parts_of_a_completed_writer_has_nothing_left,
    an_argument_that_cannot_be_kept_aborts_the_writer,
    a_panic_inside_the_stream_leaves_the_writer_consistent,
    a_panic_inside_the_stream_counts_as_nothing_accepted,
    a_writer_can_be_taken_apart_after_a_panic,
    a_pool_that_panics_as_it_takes_back_costs_no_byte_and_no_segment,
    a_pool_that_panics_as_it_hands_out_costs_no_byte_and_no_segment,
    an_argument_accepted_in_part_is_not_repeated_when_the_pool_panics,
    an_argument_is_not_lost_when_the_pool_panics_instead_of_keeping_its_rest,
    a_writer_aborted_by_a_panic_of_the_pool_has_nothing_buffered_any_more,
    a_panic_of_the_pool_during_complete_is_made_good_by_the_next,
    a_panic_of_the_pool_during_abort_is_made_good_by_the_next,
);

/// Segments of four bytes, so that a few bytes make a batch of many.
fn small() -> (PipeWriterOptions<TestPool>, PoolLog) {
    let (pool, log) = TestPool::new();
    (PipeWriterOptions::new().segment_size(4).pool(pool), log)
}

fn fails(kind: ErrorKind) -> Step {
    Step::Fail(kind, "scripted")
}

/// What `complete` or `abort` calls at the end: the blocking writer has nothing to close.
fn closes<K: Kind>() -> Vec<Call> {
    if K::BLOCKING { vec![] } else { vec![Call::Close] }
}

#[track_caller]
fn assert_refused<T: fmt::Debug>(result: io::Result<T>, kind: ErrorKind, text: &str) {
    let error = result.expect_err("it is refused");
    assert_eq!(error.kind(), kind);
    assert!(error.to_string().contains(text), "{error}");
}

/// Everything that would commit is refused, and commits nothing.
#[track_caller]
fn assert_takes_nothing<W: Subject>(writer: &mut W, kind: ErrorKind, text: &str) {
    assert_refused(writer.span_mut(0).map(|span| span.len()), kind, text);
    assert_refused(writer.span_mut(10).map(|span| span.len()), kind, text);
    assert_refused(writer.append(b"x"), kind, text);
    assert_refused(writer.append(b""), kind, text);
    assert_refused(writer.advance(1), kind, text);
    assert_refused(writer.advance(usize::MAX), kind, text);
    assert_refused(writer.write_and_flush(b"x"), kind, text);
    assert_refused(writer.plain_write(b"x"), kind, text);
    assert_refused(writer.plain_write(b""), kind, text);
    assert_refused(writer.plain_write_vectored(&[io::IoSlice::new(b"x")]), kind, text);
    writer.advance(0).expect("advance(0) is always fine");
    assert_eq!(writer.unflushed_bytes(), 0);
}

/// All kinds of flush are `Ok` and say that the writer was completed.
#[track_caller]
fn assert_flushes_are_completed<W: Subject>(writer: &mut W) {
    for result in [writer.flush(), writer.emit(), writer.write_and_flush(b"")] {
        let result = result.expect("a flush of a completed writer is no error");
        assert!(result.is_completed() && !result.is_canceled(), "{result:?}");
    }
    writer.plain_flush().expect("nor is the plain one");
}

// ---- 6.1 ----

fn complete_flushes_then_closes_and_gives_everything_back<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options);
    writer.append(&pattern(0, 10)).unwrap();
    writer.put(&pattern(10, 3));
    let _unused = writer.span_mut(7).unwrap();
    assert!(!writer.is_completed());
    writer.complete().unwrap();
    assert!(writer.is_completed());
    let calls = script.calls();
    assert!(calls[0].is_write());
    assert_eq!(calls[1..], [vec![Call::Flush], closes::<K>()].concat());
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (pattern(0, 13), 0));
    log.assert_all_back();
}

fn complete_sends_everything_however_long_it_takes<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let bytes = pattern(0, 10 << 20);
    writer.append(&bytes).unwrap();
    writer.complete().unwrap();
    assert!(script.accepted() == bytes);
    assert_eq!((script.flushes(), script.is_closed()), (1, !K::BLOCKING));
}

fn complete_with_nothing_to_send_only_closes<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options);
    writer.complete().unwrap();
    assert_eq!(script.calls(), closes::<K>());
    let (options, spanned) = small();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options);
    let _unused = writer.span_mut(1).unwrap();
    writer.complete().unwrap();
    assert_eq!(script.calls(), closes::<K>());
    assert_eq!((log.taken(), spanned.taken()), (0, 1));
    spanned.assert_all_back();
}

fn complete_runs_a_flush_that_is_due<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    script.clear_log();
    writer.complete().unwrap();
    assert_eq!(script.calls(), [vec![Call::Flush], closes::<K>()].concat());
}

fn complete_leaves_the_stream_open_if_told_so<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().leave_open(true));
    writer.append(b"abc").unwrap();
    writer.complete().unwrap();
    assert!(writer.is_completed());
    writer.complete().unwrap();
    writer.abort().unwrap();
    assert_eq!(script.calls(), [Call::write(3), Call::Flush]);
}

fn the_second_complete_does_nothing<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.complete().unwrap();
    script.clear_log();
    writer.complete().unwrap();
    writer.plain_close().unwrap();
    writer.abort().unwrap();
    writer.complete().unwrap();
    assert!(script.calls().is_empty());
    assert!(writer.is_completed());
}

#[test]
fn a_close_that_failed_is_made_good_by_the_next_complete_or_abort() {
    for by_abort in [false, true] {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.on_close([fails(ErrorKind::TimedOut), fails(ErrorKind::Other)]);
        let mut writer = PipeWriter::with_options(script.stream(), options);
        writer.append(&pattern(0, 10)).unwrap();
        assert_refused(block_on(writer.complete()), ErrorKind::TimedOut, "scripted");
        log.assert_all_back();
        assert!(!writer.is_completed(), "only when the close succeeds");
        script.clear_log();
        let again = if by_abort { block_on(writer.abort()) } else { block_on(writer.complete()) };
        assert_refused(again, ErrorKind::Other, "scripted");
        assert_eq!(writer.is_completed(), by_abort);
        if by_abort {
            block_on(writer.abort()).unwrap();
        } else {
            block_on(writer.complete()).unwrap();
        }
        assert!(writer.is_completed() && script.is_closed());
        assert_eq!(script.calls(), [Call::Close, Call::Close]);
        assert_eq!(script.accepted(), pattern(0, 10));
    }
}

#[test]
fn a_close_that_was_dropped_is_made_good_by_the_next_complete_or_abort() {
    for by_abort in [false, true] {
        let script = ScriptHandle::new();
        script.on_close([Step::Pend]);
        let mut writer = PipeWriter::new(script.stream());
        writer.append(b"abc").unwrap();
        let mut task = Task::new(writer.complete());
        assert!(task.poll().is_pending());
        drop(task);
        assert!(!writer.is_completed());
        if by_abort {
            block_on(writer.abort()).unwrap();
        } else {
            block_on(writer.complete()).unwrap();
        }
        assert!(writer.is_completed() && script.is_closed());
        assert_eq!(script.calls(), [Call::write(3), Call::Flush, Call::Close, Call::Close]);
    }
}

#[test]
fn a_complete_whose_close_is_pending_goes_on_when_woken() {
    let script = ScriptHandle::new();
    script.hold_closes();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    let mut task = Task::new(writer.complete());
    assert!(task.poll().is_pending());
    assert!(script.release());
    task.finish(0).unwrap();
    assert!(writer.is_completed() && script.is_closed());
}

fn a_completed_writer_holds_no_heap<K: Kind>() {
    type End<W> = (&'static str, fn(&mut W));
    let ends: [End<K::Writer<Sink, HeapPool>>; 3] = [
        ("complete", |w| w.complete().unwrap()),
        ("abort", |w| w.abort().unwrap()),
        ("abort_with", |w| w.abort_with(ErrorKind::TimedOut.into()).unwrap()),
    ];
    // What the executor keeps for itself is not the writer's.
    block_on(async {});
    for (name, end) in ends {
        for buffered in [0, 100, 100_000] {
            let bytes = pattern(0, buffered);
            let (writer, usage) = measure(|| {
                let mut writer = K::over(Sink::new(), PipeWriterOptions::new());
                for _ in 0..3 {
                    writer.append(&bytes).unwrap();
                    writer.flush().unwrap();
                }
                writer.append(&bytes).unwrap();
                end(&mut writer);
                writer
            });
            assert_eq!(usage.kept, 0, "{name} with {buffered} bytes");
            assert!(writer.is_completed());
        }
    }
}

/// With a handle out there is what the handles share, and no more.
#[test]
fn a_completed_writer_holds_no_heap_but_what_its_handles_share() {
    block_on(async {});
    let (_handle, alone) = measure(|| PipeWriter::new(Sink::new()).handle());
    let (_both, usage) = measure(|| {
        let mut writer = PipeWriter::new(Sink::new());
        let handle = writer.handle();
        writer.append(&pattern(0, 10_000)).unwrap();
        block_on(writer.complete()).unwrap();
        (writer, handle)
    });
    assert_eq!(usage.kept, alone.kept);
}

/// Such a waker keeps a task alive that has nothing to wait for any more.
#[test]
fn a_completed_writer_holds_no_waker_of_a_flush_that_was_dropped() {
    for with_handle in [true, false] {
        for abort in [true, false] {
            let script = ScriptHandle::new();
            script.on_write([Step::Pend]);
            let mut writer = PipeWriter::new(script.stream());
            let _handle = with_handle.then(|| writer.handle());
            writer.append(b"abc").unwrap();
            let wakes = Wakes::new();
            let pending = Pin::new(&mut writer).poll_flush(&mut Context::from_waker(&wakes.waker()));
            assert!(pending.is_pending());
            // Takes the waker that the stream has remembered.
            script.wake();
            if abort {
                block_on(writer.abort()).unwrap();
            } else {
                block_on(writer.complete()).unwrap();
            }
            assert_eq!(wakes.wakers(), 0, "with a handle: {with_handle}, abort: {abort}");
        }
    }
}

// ---- 6.2 ----

fn a_complete_that_fails_loses_nothing_and_can_be_called_again<K: Kind>() {
    let plans: [(&[Step], &[Step], ErrorKind); 5] = [
        (&[fails(ErrorKind::TimedOut)], &[], ErrorKind::TimedOut),
        (&[Step::Take(5), fails(ErrorKind::BrokenPipe)], &[], ErrorKind::BrokenPipe),
        (&[Step::Take(5), Step::Zero], &[], ErrorKind::WriteZero),
        (&[Step::Take(5), Step::ClaimMore(1)], &[], ErrorKind::InvalidData),
        (&[], &[fails(ErrorKind::TimedOut)], ErrorKind::TimedOut),
    ];
    for (writes, flushes, kind) in plans {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.on_write(writes.iter().cloned());
        script.on_flush(flushes.iter().cloned());
        let mut writer = K::writer(&script, options);
        let mut model = Model::new();
        let bytes = model.deal(13);
        writer.append(&bytes).unwrap();
        model.commit(&bytes);
        assert_eq!(writer.complete().unwrap_err().kind(), kind);
        assert!(!writer.is_completed());
        model.check(&script.accepted(), writer.unflushed_bytes());
        assert_eq!(script.closes(), 0);
        writer.complete().unwrap();
        model.check(&script.accepted(), 0);
        assert!(writer.is_completed());
        assert_eq!(script.is_closed(), !K::BLOCKING);
        log.assert_all_back();
    }
}

fn a_complete_that_was_put_off_goes_on_where_it_was<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(5), Step::Pend, Step::Take(1), Step::Pend]);
    script.on_flush([Step::Pend]);
    let mut writer = K::writer(&script, options);
    let mut model = Model::new();
    let bytes = model.deal(13);
    writer.append(&bytes).unwrap();
    model.commit(&bytes);
    for _ in 0..3 {
        assert_eq!(writer.complete().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!writer.is_completed());
        model.check(&script.accepted(), writer.unflushed_bytes());
    }
    writer.complete().unwrap();
    model.check(&script.accepted(), 0);
    assert_eq!(script.flushes(), 1);
    log.assert_all_back();
}

fn after_a_complete_that_failed_the_writer_takes_more<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Take(1), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    assert!(writer.complete().is_err());
    writer.put(b"def");
    writer.flush_well();
    writer.append(b"ghi").unwrap();
    writer.complete().unwrap();
    assert_eq!(script.accepted(), b"abcdefghi");
}

fn complete_retries_what_was_interrupted<K: Kind>() {
    let again = || Step::Fail(ErrorKind::Interrupted, "again");
    let script = ScriptHandle::new();
    script.on_write([again(), Step::Take(1), again()]);
    script.on_flush([again(), again()]);
    if !K::BLOCKING {
        script.on_close([again(), again()]);
    }
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.complete().unwrap();
    script.assert_played();
    assert_eq!(script.accepted(), b"abc");
    assert_eq!(script.is_closed(), !K::BLOCKING);
}

#[test]
fn from_the_first_close_on_nothing_is_written_or_flushed_or_taken() {
    for step in [fails(ErrorKind::TimedOut), Step::Pend] {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.on_close([step]);
        let mut writer = PipeWriter::with_options(script.stream(), options);
        let handle = writer.handle();
        writer.append(&pattern(0, 10)).unwrap();
        assert!(Subject::complete(&mut writer).is_err());
        log.assert_all_back();
        script.clear_log();
        // A cancel is not looked at: were it, the flush would say so.
        handle.cancel_pending_flush();
        for _ in 0..2 {
            assert_takes_nothing(&mut writer, ErrorKind::BrokenPipe, "completed");
            assert_flushes_are_completed(&mut writer);
        }
        assert!(script.calls().is_empty(), "no I/O");
        assert!(!writer.is_completed(), "completed only when the close succeeds");
        assert!(!handle.is_closed());
        assert_eq!(log.taken(), log.given());
        block_on(writer.complete()).unwrap();
        assert!(writer.is_completed() && handle.is_closed());
        assert_eq!(script.calls(), [Call::Close]);
    }
}

#[test]
fn abort_gives_up_a_close_that_does_not_succeed() {
    let script = ScriptHandle::new();
    script.default_close(fails(ErrorKind::TimedOut));
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    assert!(block_on(writer.complete()).is_err());
    assert!(!writer.is_completed());
    assert_refused(block_on(writer.abort_with(io::Error::other("enough"))), ErrorKind::TimedOut, "scripted");
    assert!(writer.is_completed() && handle.is_closed());
    assert_refused(block_on(writer.flush()), ErrorKind::Other, "enough");
    assert_takes_nothing(&mut writer, ErrorKind::Other, "enough");
}

// ---- 6.3 ----

fn abort_discards_what_is_buffered_and_gives_everything_back<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(5), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, options);
    let handle = writer.handle();
    writer.append(&pattern(0, 20)).unwrap();
    assert!(writer.flush().is_err());
    let _unused = writer.span_mut(9).unwrap();
    script.clear_log();
    writer.abort().unwrap();
    assert!(writer.is_completed() && handle.is_closed());
    assert_eq!((writer.unflushed_bytes(), script.accepted_len()), (0, 5));
    assert_eq!(script.calls(), closes::<K>());
    log.assert_all_back();
    drop(writer);
    assert_eq!(script.accepted_len(), 5);
}

fn abort_leaves_the_stream_open_if_told_so<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().leave_open(true));
    writer.append(b"abc").unwrap();
    writer.abort().unwrap();
    writer.abort_with(io::Error::other("late")).unwrap();
    writer.complete().unwrap();
    assert!(writer.is_completed());
    assert!(script.calls().is_empty());
}

fn abort_does_not_write_or_flush_even_where_a_flush_is_due<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    writer.append(b"def").unwrap();
    script.clear_log();
    writer.abort().unwrap();
    assert_eq!(script.calls(), closes::<K>());
    drop(writer);
    assert_eq!(script.accepted(), b"abc");
}

#[test]
fn abort_takes_effect_at_its_first_poll_and_not_before() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_close([Step::Pend, fails(ErrorKind::TimedOut)]);
    let mut writer = PipeWriter::with_options(script.stream(), options);
    let handle = writer.handle();
    writer.append(&pattern(0, 10)).unwrap();
    drop(writer.abort());
    drop(writer.abort_with(io::Error::other("never")));
    assert!(!writer.is_completed() && !handle.is_closed());
    assert_eq!(writer.unflushed_bytes(), 10);
    // The close is dropped, then it fails: aborted all the same.
    let mut task = Task::new(writer.abort_with(io::Error::other("broken frame")));
    assert!(task.poll().is_pending());
    log.assert_all_back();
    assert!(handle.is_closed());
    drop(task);
    assert!(writer.is_completed());
    assert_eq!(writer.unflushed_bytes(), 0);
    assert_refused(block_on(writer.flush()), ErrorKind::Other, "broken frame");
    assert_refused(block_on(writer.abort()), ErrorKind::TimedOut, "scripted");
    block_on(writer.complete()).unwrap();
    assert!(script.is_closed());
    assert_eq!(script.accepted_len(), 0);
    assert_refused(block_on(writer.flush()), ErrorKind::Other, "broken frame");
}

#[test]
fn an_abort_that_is_polled_twice_keeps_its_reason() {
    let script = ScriptHandle::new();
    script.on_close([Step::PendAndWake, Step::PendAndWake]);
    let mut writer = PipeWriter::new(script.stream());
    block_on(writer.abort_with(io::Error::new(ErrorKind::InvalidData, "broken frame"))).unwrap();
    script.assert_played();
    assert_refused(block_on(writer.flush()), ErrorKind::InvalidData, "broken frame");
}

fn after_abort_with_each_call_returns_an_error_of_that_kind_and_text<K: Kind>() {
    let reasons: [fn() -> io::Error; 4] = [
        || io::Error::new(ErrorKind::InvalidData, "frame 7 is broken"),
        || ErrorKind::TimedOut.into(),
        || io::Error::from_raw_os_error(28),
        || io::Error::other("odd"),
    ];
    for reason in reasons {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        writer.append(b"abc").unwrap();
        writer.cancel_pending_flush();
        writer.abort_with(reason()).unwrap();
        let (kind, text) = (reason().kind(), reason().to_string());
        for _ in 0..2 {
            assert_takes_nothing(&mut writer, kind, &text);
            let flushes = [writer.flush(), writer.emit(), writer.write_and_flush(b"")];
            for error in flushes.into_iter().map(|result| result.unwrap_err()).chain(writer.plain_flush().err()) {
                assert_eq!((error.kind(), error.to_string()), (kind, text.clone()));
            }
            assert!(writer.plain_flush().is_err());
            writer.complete().unwrap();
            writer.plain_close().unwrap();
        }
        assert_eq!(script.calls(), closes::<K>());
    }
}

fn the_first_reason_stays<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.abort_with(io::Error::other("first")).unwrap();
    writer.abort_with(io::Error::new(ErrorKind::TimedOut, "second")).unwrap();
    writer.abort().unwrap();
    writer.complete().unwrap();
    assert_refused(writer.flush(), ErrorKind::Other, "first");
    assert_takes_nothing(&mut writer, ErrorKind::Other, "first");
    assert_eq!(script.calls(), closes::<K>());
}

fn abort_with_on_a_completed_writer_changes_nothing<K: Kind>() {
    for aborted in [false, true] {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        if aborted {
            writer.abort().unwrap();
        } else {
            writer.complete().unwrap();
        }
        script.clear_log();
        writer.abort_with(io::Error::new(ErrorKind::TimedOut, "late")).unwrap();
        assert_flushes_are_completed(&mut writer);
        assert_takes_nothing(&mut writer, ErrorKind::BrokenPipe, "completed");
        assert!(script.calls().is_empty());
    }
}

#[test]
fn a_reason_that_comes_while_an_aborted_close_is_due_is_not_the_first() {
    let script = ScriptHandle::new();
    script.on_close([fails(ErrorKind::TimedOut)]);
    let mut writer = PipeWriter::new(script.stream());
    assert!(block_on(writer.abort()).is_err());
    block_on(writer.abort_with(io::Error::other("late"))).unwrap();
    assert!(script.is_closed(), "the close is made good");
    assert_flushes_are_completed(&mut writer);
}

#[test]
fn a_pinned_writer_is_completed_and_aborted_through_its_poll_methods() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    block_on(core::future::poll_fn(|cx| Pin::new(&mut writer).poll_complete(cx))).unwrap();
    assert!(writer.is_completed() && script.is_closed());
    let script = ScriptHandle::new();
    script.on_close([Step::PendAndWake]);
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    block_on(core::future::poll_fn(|cx| Pin::new(&mut writer).poll_abort(cx))).unwrap();
    assert!(writer.is_completed() && script.is_closed());
    assert_eq!(script.accepted_len(), 0);
}

// ---- 6.4 ----

fn a_completed_writer_refuses_to_commit_and_flushes_without_io<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options);
    let _span = writer.span_mut(4).unwrap();
    writer.complete().unwrap();
    script.clear_log();
    for _ in 0..2 {
        assert_takes_nothing(&mut writer, ErrorKind::BrokenPipe, "completed");
        assert_flushes_are_completed(&mut writer);
        writer.complete().unwrap();
        writer.plain_close().unwrap();
    }
    assert!(script.calls().is_empty());
    assert_eq!(log.taken(), 1);
    log.assert_all_back();
}

fn an_aborted_writer_answers_like_a_completed_one<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    let _span = writer.span_mut(4).unwrap();
    writer.abort().unwrap();
    script.clear_log();
    assert_takes_nothing(&mut writer, ErrorKind::BrokenPipe, "completed");
    assert_flushes_are_completed(&mut writer);
    writer.complete().unwrap();
    writer.plain_close().unwrap();
    assert!(script.calls().is_empty());
}

fn a_flush_of_a_completed_writer_does_not_look_at_a_cancel<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let handle = writer.handle();
    handle.cancel_pending_flush();
    writer.cancel_pending_flush();
    writer.complete().unwrap();
    handle.cancel_pending_flush();
    assert_flushes_are_completed(&mut writer);
}

// ---- 6.5 ----

fn dropping_gives_every_segment_back<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(6), fails(ErrorKind::TimedOut), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, options);
    let handle = writer.handle();
    writer.append(&pattern(0, 30)).unwrap();
    assert!(writer.flush().is_err());
    let _unused = writer.span_mut(9).unwrap();
    drop(writer);
    log.assert_all_back();
    assert!(handle.is_closed());
}

fn dropping_gives_every_segment_back_also_where_the_pool_panics<K: Kind>() {
    for at in 0..3 {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.default_write(fails(ErrorKind::TimedOut));
        let mut writer = K::writer(&script, options);
        writer.append(&pattern(0, 12)).unwrap();
        assert_eq!(log.held(), 3);
        log.panic_at_give(at);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(writer)));
        log.assert_all_back();
    }
}

#[test]
fn dropping_the_async_writer_discards_what_is_buffered() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    block_on(writer.emit()).unwrap();
    writer.append(b"def").unwrap();
    script.clear_log();
    drop(writer);
    assert!(script.calls().is_empty());
}

#[test]
fn dropping_the_blocking_writer_writes_but_does_not_flush_the_stream() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(3), Step::Fail(ErrorKind::Interrupted, "again"), Step::Take(1)]);
    let mut writer = BlockingPipeWriter::with_options(script.stream(), options);
    writer.append(&pattern(0, 17)).unwrap();
    writer.put(&pattern(17, 3));
    drop(writer);
    script.assert_played();
    assert_eq!((script.accepted(), script.flushes()), (pattern(0, 20), 0));
    log.assert_all_back();
}

#[test]
fn dropping_the_blocking_writer_with_nothing_buffered_does_no_call() {
    let script = ScriptHandle::new();
    let mut writer = BlockingPipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    script.clear_log();
    // The flush is due, but a drop does not run it; nor is a span data that was not advanced over.
    let _span = writer.span_mut(10).unwrap();
    drop(writer);
    assert!(script.calls().is_empty());
}

#[test]
fn an_error_in_the_drop_of_the_blocking_writer_reaches_nobody() {
    for step in [fails(ErrorKind::BrokenPipe), fails(ErrorKind::WouldBlock), Step::Zero, Step::ClaimMore(3)] {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.default_write(step);
        let mut writer = BlockingPipeWriter::with_options(script.stream(), options);
        writer.append(&pattern(0, 10)).unwrap();
        drop(writer);
        assert_eq!(script.writes(), 1, "best effort is one try");
        log.assert_all_back();
    }
}

#[test]
fn dropping_the_blocking_writer_writes_nothing_after_its_end() {
    type End = (&'static str, fn(&mut BlockingPipeWriter<Script>));
    let ends: [End; 3] = [
        ("complete", |w| w.complete().unwrap()),
        ("abort", |w| w.abort().unwrap()),
        ("abort_with", |w| w.abort_with(io::Error::other("reason")).unwrap()),
    ];
    for (name, end) in ends {
        let script = ScriptHandle::new();
        let mut writer = BlockingPipeWriter::new(script.stream());
        writer.append(b"abc").unwrap();
        end(&mut writer);
        script.clear_log();
        drop(writer);
        assert!(script.calls().is_empty(), "{name}");
    }
}

type Drive = fn(&mut BlockingPipeWriter<Script>);

/// Calls that come to the stream with `abc` buffered, for the panics and claims below.
const DRIVES: [(&str, Drive); 5] = [
    ("flush", |w| drop(w.flush())),
    ("emit", |w| drop(w.emit())),
    ("write_and_flush", |w| drop(w.write_and_flush(b"def"))),
    ("complete", |w| drop(w.complete())),
    ("plain write", |w| drop(io::Write::write(w, b"def"))),
];

/// A blocking writer with `abc` buffered whose stream has just done `step` in answer to `drive`.
fn after_mischief(step: Step, drive: Drive) -> (ScriptHandle, BlockingPipeWriter<Script>) {
    let script = ScriptHandle::new();
    script.on_write([step]);
    let options = PipeWriterOptions::new().high_water_mark(3);
    let mut writer = BlockingPipeWriter::with_options(script.stream(), options);
    writer.append(b"abc").unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| drive(&mut writer)));
    script.assert_played();
    script.clear_log();
    (script, writer)
}

#[test]
fn dropping_the_blocking_writer_writes_nothing_after_a_panic_or_a_claim_of_too_much() {
    for step in [Step::Panic, Step::ClaimMore(1)] {
        for (name, drive) in DRIVES {
            let (script, writer) = after_mischief(step.clone(), drive);
            drop(writer);
            assert!(script.calls().is_empty(), "{step:?} in {name}");
        }
    }
}

#[test]
fn dropping_the_blocking_writer_does_not_write_an_argument_at_which_the_stream_panicked() {
    for step in [Step::Panic, Step::ClaimMore(1)] {
        let script = ScriptHandle::new();
        script.on_write([step.clone()]);
        let mut writer = BlockingPipeWriter::new(script.stream());
        let _ = caught(|| writer.write_and_flush(b"abc"));
        script.clear_log();
        assert_eq!(writer.unflushed_bytes(), 3);
        drop(writer);
        assert!(script.calls().is_empty(), "{step:?}");
    }
}

#[test]
fn dropping_the_blocking_writer_writes_nothing_after_a_panic_in_the_flush() {
    for (name, drive) in DRIVES {
        if matches!(name, "emit" | "plain write") {
            continue;
        }
        let script = ScriptHandle::new();
        script.on_flush([Step::Panic]);
        let mut writer = BlockingPipeWriter::new(script.stream());
        writer.append(b"abc").unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| drive(&mut writer))).is_err(), "{name}");
        writer.append(b"ghi").unwrap();
        script.clear_log();
        drop(writer);
        assert!(script.calls().is_empty(), "{name}");
    }
}

#[test]
fn dropping_the_blocking_writer_writes_again_once_a_flush_has_gone_well_since() {
    type Flush = (&'static str, fn(&mut BlockingPipeWriter<Script>));
    let flushes: [Flush; 3] = [
        ("flush", |w| w.flush_well()),
        ("plain flush", |w| w.plain_flush().unwrap()),
        ("write_and_flush", |w| assert!(w.write_and_flush(b"xyz").is_ok())),
    ];
    for step in [Step::Panic, Step::ClaimMore(1)] {
        for (name, flush) in flushes {
            let (script, mut writer) = after_mischief(step.clone(), DRIVES[0].1);
            flush(&mut writer);
            writer.append(b"late").unwrap();
            drop(writer);
            assert!(script.accepted().ends_with(b"late"), "{step:?}, then {name}");
        }
    }
}

#[test]
fn what_does_not_flush_to_the_end_does_not_make_the_drop_write_again() {
    let acts: [(&str, Drive); 4] = [
        ("an emit", |w| assert!(w.emit().is_ok())),
        ("a plain write", |w| assert!(io::Write::write(w, b"xyz").is_ok())),
        ("a canceled flush", |w| {
            w.cancel_pending_flush();
            assert!(w.flush().unwrap().is_canceled());
        }),
        ("a flush that fails", |w| assert!(w.flush().is_err())),
    ];
    for (name, act) in acts {
        let (script, mut writer) = after_mischief(Step::Panic, DRIVES[0].1);
        if name == "a flush that fails" {
            script.on_flush([fails(ErrorKind::TimedOut)]);
        }
        act(&mut writer);
        writer.append(b"late").unwrap();
        script.clear_log();
        drop(writer);
        assert!(script.calls().is_empty(), "{name}");
    }
}

#[test]
fn a_pending_cancel_does_not_keep_the_drop_from_writing() {
    for through_handle in [false, true] {
        let script = ScriptHandle::new();
        let mut writer = BlockingPipeWriter::new(script.stream());
        let handle = writer.handle();
        writer.append(b"abc").unwrap();
        if through_handle {
            handle.cancel_pending_flush();
        } else {
            writer.cancel_pending_flush();
        }
        drop(writer);
        assert_eq!(script.accepted(), b"abc");
    }
}

#[test]
fn after_a_complete_that_failed_the_drop_still_tries() {
    for (writes, flushes) in [
        (vec![Step::Take(1), fails(ErrorKind::TimedOut)], vec![]),
        (vec![fails(ErrorKind::BrokenPipe)], vec![]),
        (vec![], vec![fails(ErrorKind::TimedOut)]),
    ] {
        let script = ScriptHandle::new();
        script.on_write(writes);
        script.on_flush(flushes);
        let mut writer = BlockingPipeWriter::new(script.stream());
        writer.append(b"abc").unwrap();
        assert!(writer.complete().is_err());
        writer.append(b"def").unwrap();
        drop(writer);
        assert_eq!(script.accepted(), b"abcdef");
    }
}

#[test]
fn into_parts_of_the_blocking_writer_writes_nothing() {
    let script = ScriptHandle::new();
    let mut writer = BlockingPipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    let (_stream, rest) = writer.into_parts();
    assert_eq!(rest, b"abc");
    assert!(script.calls().is_empty());
}

fn into_parts_of_a_completed_writer_has_nothing_left<K: Kind>() {
    for abort in [false, true] {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new());
        writer.append(b"abc").unwrap();
        if abort {
            writer.abort().unwrap();
        } else {
            writer.complete().unwrap();
        }
        script.clear_log();
        let (_stream, rest) = writer.into_parts();
        assert!(rest.is_empty());
        assert!(script.calls().is_empty());
    }
}

/// 4.8 tells when; here is what it means for the writer and its handles.
fn an_argument_that_cannot_be_kept_aborts_the_writer<K: Kind>() {
    let (options, log) = small();
    log.refuse_takes_from(0);
    let script = ScriptHandle::new();
    script.on_write([Step::Take(2), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, options);
    let handle = writer.handle();
    assert_eq!(writer.write_and_flush(b"abcdef").unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(handle.is_closed() && writer.is_completed());
    assert_eq!(script.closes(), 0, "the call itself does not close");
    log.refuse_no_more();
    assert_takes_nothing(&mut writer, ErrorKind::OutOfMemory, "");
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::OutOfMemory);
    writer.complete().unwrap();
    assert_eq!(script.is_closed(), !K::BLOCKING);
    drop(writer);
    assert_eq!(script.accepted(), b"ab");
    log.assert_all_back();
}

// ---- 6.6: the stream panics ----

fn caught<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

/// Panics in call number 0, 1, 2, ... of one and the same flush of two kinds of buffer.
fn a_panic_inside_the_stream_leaves_the_writer_consistent<K: Kind>() {
    type Drive<W> = (&'static str, usize, fn(&mut W));
    let drives: [Drive<K::Writer<Script, TestPool>>; 5] = [
        ("flush", 0, |w| drop(w.flush())),
        ("emit", 0, |w| drop(w.emit())),
        ("write_and_flush", 5, |w| drop(w.write_and_flush(&pattern(11, 5)))),
        ("complete", 0, |w| drop(w.complete())),
        ("plain write", 0, |w| drop(w.plain_write(b"refused"))),
    ];
    for (name, argument, drive) in drives {
        for segment_size in [4, 64] {
            for at in 0..4 {
                let (pool, log) = TestPool::new();
                let script = ScriptHandle::new();
                let mut steps = vec![Step::Take(3), Step::Take(2), Step::TakeAll, Step::TakeAll];
                steps[at] = Step::Panic;
                let flushes = steps.split_off(3);
                script.on_write(steps);
                script.on_flush(flushes);
                let options = PipeWriterOptions::new().segment_size(segment_size).high_water_mark(1).pool(pool);
                let mut writer = K::writer(&script, options);
                let mut model = Model::new();
                let bytes = model.deal(11);
                writer.append(&bytes).unwrap();
                model.commit(&bytes);
                let panicked = caught(|| drive(&mut writer)).is_none();
                let flushes = matches!(name, "flush" | "write_and_flush" | "complete");
                assert_eq!(panicked, at < 3 || flushes, "{name}, call {at}");
                if !panicked {
                    continue;
                }
                let argument = model.deal(argument);
                model.commit(&argument);
                model.check(&script.accepted(), writer.unflushed_bytes());
                assert!(!writer.is_completed());
                // The writer goes on as if the call had never been made.
                writer.put(b"more");
                model.commit(b"more");
                model.check(&script.accepted(), writer.unflushed_bytes());
                writer.flush_well();
                model.check(&script.accepted(), 0);
                drop(writer);
                model.check(&script.accepted(), 0);
                log.assert_all_back();
            }
        }
    }
}

fn a_panic_inside_the_stream_counts_as_nothing_accepted<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(5), Step::Panic]);
    let mut writer = K::writer(&script, options);
    writer.append(&pattern(0, 10)).unwrap();
    assert!(caught(|| writer.flush()).is_none());
    assert_eq!(writer.unflushed_bytes(), 5);
    script.clear_log();
    writer.flush_well();
    assert_eq!(script.calls(), [Call::vectored([3, 2]), Call::Flush]);
    assert_eq!(script.accepted(), pattern(0, 10));
    log.assert_all_back();
}

#[test]
fn a_panic_inside_the_close_leaves_the_close_due() {
    let script = ScriptHandle::new();
    script.on_close([Step::Panic]);
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    assert!(caught(|| block_on(writer.complete())).is_none());
    assert!(!writer.is_completed());
    assert_flushes_are_completed(&mut writer);
    block_on(writer.complete()).unwrap();
    assert!(writer.is_completed() && script.is_closed());
    let script = ScriptHandle::new();
    script.on_close([Step::Panic]);
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    assert!(caught(|| block_on(writer.abort())).is_none());
    assert!(writer.is_completed());
    assert_eq!(writer.unflushed_bytes(), 0);
    block_on(writer.complete()).unwrap();
    assert!(script.is_closed());
}

fn a_writer_can_be_taken_apart_after_a_panic<K: Kind>() {
    for argument in [false, true] {
        let (options, log) = small();
        let script = ScriptHandle::new();
        script.on_write([Step::Take(5), Step::Panic]);
        let mut writer = K::writer(&script, options);
        writer.append(&pattern(0, 10)).unwrap();
        let panicked = if argument {
            caught(|| writer.write_and_flush(&pattern(10, 6))).is_none()
        } else {
            caught(|| writer.flush()).is_none()
        };
        assert!(panicked);
        let (_stream, rest) = writer.into_parts();
        assert_eq!(rest, pattern(5, if argument { 11 } else { 5 }));
        assert_eq!(script.accepted(), pattern(0, 5));
        log.assert_all_back();
    }
}

// ---- 6.6: the pool panics ----

/// One step of the run below.
type Act<'a, W> = &'a dyn Fn(&mut W, &[u8]) -> usize;

/// A run of everything that takes segments and gives them back, with one panic of the pool in it. Whatever a call was
/// doing when the pool panicked, the bytes it had committed stay and are sent once.
///
/// Returns whether the pool came to its panic.
fn run_with_panic<K: Kind>(plan: impl Fn(&PoolLog), segment_size: usize) -> bool {
    let (pool, log) = TestPool::new();
    let script = ScriptHandle::new();
    let options = PipeWriterOptions::new().segment_size(segment_size).high_water_mark(12).pool(pool);
    let mut writer = K::writer(&script, options);
    let mut model = Model::new();
    plan(&log);
    script.on_write([
        Step::Take(3),
        Step::Take(4),
        Step::FirstChunk,
        Step::TakeAll,
        Step::Take(2),
        fails(ErrorKind::TimedOut),
        Step::Take(9),
        Step::Take(1),
    ]);
    let mut panicked = false;
    // Each act says how many of its bytes it has committed. Of those of one that the pool ended it may be all or nothing,
    // or, where the argument counts as committed from the first poll on, all.
    let mut act = |len: usize, always: bool, act: Act<'_, K::Writer<Script, TestPool>>| {
        let bytes = model.deal(len);
        let before = script.accepted_len() + writer.unflushed_bytes();
        let done = caught(|| act(&mut writer, &bytes));
        panicked |= done.is_none();
        let added = script.accepted_len() + writer.unflushed_bytes() - before;
        match done {
            Some(committed) => assert_eq!(added, committed),
            None if always => assert_eq!(added, len, "the argument counts as committed"),
            None => assert!(added == 0 || added == len, "{added} of {len} bytes"),
        }
        model.commit(&bytes[..added]);
        model.check(&script.accepted(), writer.unflushed_bytes());
    };
    for _ in 0..2 {
        act(5, false, &|w, bytes| w.append(bytes).map_or(0, |()| bytes.len()));
        act(9, false, &|w, bytes| {
            w.put(bytes);
            bytes.len()
        });
        act(0, false, &|w, _| w.flush().map_or(0, |_| 0));
        act(0, false, &|w, _| w.span_mut(1).map_or(0, |_| 0));
        act(7, true, &|w, bytes| w.write_and_flush(bytes).map_or(7, |_| 7));
        act(11, false, &|w, bytes| w.append(bytes).map_or(0, |()| bytes.len()));
        act(3, false, &|w, bytes| w.plain_write(bytes).unwrap_or(0));
        act(0, false, &|w, _| w.emit().map_or(0, |_| 0));
    }
    if caught(|| writer.complete().unwrap()).is_none() {
        panicked = true;
        writer.complete().unwrap();
    }
    model.check(&script.accepted(), 0);
    panicked |= caught(|| drop(writer)).is_none();
    log.assert_all_back();
    panicked
}

/// Runs with the panic at 0, 1, 2, ... until the run is over before it.
fn sweep<K: Kind>(plan: impl Fn(&PoolLog, usize)) {
    for segment_size in [4, 16] {
        let mut at = 0;
        while run_with_panic::<K>(|log| plan(log, at), segment_size) {
            at += 1;
        }
        assert!(at > 3, "only {at} panics");
    }
}

fn a_pool_that_panics_as_it_takes_back_costs_no_byte_and_no_segment<K: Kind>() {
    sweep::<K>(|log, at| log.panic_at_give(at));
}

fn a_pool_that_panics_as_it_hands_out_costs_no_byte_and_no_segment<K: Kind>() {
    sweep::<K>(|log, at| log.panic_at_take(at));
}

/// The segment of an unused span is given back between the write and the note of what it took.
fn an_argument_accepted_in_part_is_not_repeated_when_the_pool_panics<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(2)]);
    let mut writer = K::writer(&script, options);
    let _unused = writer.span_mut(4).unwrap();
    log.panic_at_give(0);
    let _ = caught(|| writer.write_and_flush(b"abcdef"));
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcdef");
    drop(writer);
    log.assert_all_back();
}

/// Otherwise the stream ends inside the argument and goes on with the next one, which nobody would notice.
fn an_argument_is_not_lost_when_the_pool_panics_instead_of_keeping_its_rest<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(2), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, options);
    log.panic_at_take(0);
    assert!(caught(|| writer.write_and_flush(b"abcdef")).is_none());
    assert!(writer.is_completed() || writer.unflushed_bytes() == 4, "neither kept nor aborted");
}

/// Whatever was buffered in front of it.
fn a_writer_aborted_by_a_panic_of_the_pool_has_nothing_buffered_any_more<K: Kind>() {
    let (options, log) = small();
    let script = ScriptHandle::new();
    script.on_write([fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, options);
    writer.append(b"abc").unwrap();
    log.panic_at_take(1);
    assert!(caught(|| writer.write_and_flush(b"defgh")).is_none());
    if writer.is_completed() {
        assert_eq!(writer.unflushed_bytes(), 0, "a completed writer has discarded what was buffered");
        writer.complete().unwrap();
        log.assert_all_back();
    } else {
        writer.flush_well();
        assert_eq!(script.accepted(), b"abcdefgh");
    }
    drop(writer);
    log.assert_all_back();
}

fn a_panic_of_the_pool_during_complete_is_made_good_by_the_next<K: Kind>() {
    for at in 0..3 {
        let (options, log) = small();
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options);
        writer.append(&pattern(0, 12)).unwrap();
        log.panic_at_give(at);
        assert!(caught(|| writer.complete()).is_none());
        writer.complete().unwrap();
        assert!(writer.is_completed());
        assert_eq!((script.accepted(), script.is_closed()), (pattern(0, 12), !K::BLOCKING));
        log.assert_all_back();
    }
}

fn a_panic_of_the_pool_during_abort_is_made_good_by_the_next<K: Kind>() {
    for at in 0..3 {
        let (options, log) = small();
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options);
        let handle = writer.handle();
        writer.append(&pattern(0, 12)).unwrap();
        log.panic_at_give(at);
        assert!(caught(|| writer.abort()).is_none());
        assert!(writer.is_completed() && handle.is_closed());
        assert_eq!(writer.unflushed_bytes(), 0);
        writer.abort().unwrap();
        assert_eq!(script.is_closed(), !K::BLOCKING);
        log.assert_all_back();
        drop(writer);
        assert_eq!(script.accepted_len(), 0);
    }
}

#[test]
fn a_future_that_panicked_leaves_a_writer_that_goes_on() {
    let script = ScriptHandle::new();
    script.on_write([Step::Pend, Step::Panic]);
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"abc").unwrap();
    {
        let mut flush = writer.flush();
        assert!(poll_once(&mut flush).is_pending());
        assert!(caught(|| poll_once(&mut flush)).is_none());
        // Polled again, as some executors do, it goes on.
        assert!(matches!(poll_once(&mut flush), Poll::Ready(Ok(_))));
    }
    assert_eq!(script.accepted(), b"abc");
}
