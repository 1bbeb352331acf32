//! Chapter 4 of the contract, rule 8: `write_and_flush`, which passes its argument on uncopied where it can and loses none
//! of it where it cannot.

use core::mem;
use std::io::ErrorKind;

use pipewriter_std::{PipeWriter, PipeWriterOptions};
use pipewriter_tests::both;
use pipewriter_tests::exec::{Task, poll_once};
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, MAX_BYTES, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject, assert_refused};

both! {
    it_does_what_append_and_flush_do,
    an_argument_of_any_size_behind_any_batch_arrives_once,
    the_argument_goes_out_from_the_caller_s_slice,
    a_large_argument_goes_out_uncopied_right_behind_what_was_buffered,
    an_argument_takes_no_segment_where_all_goes_well,
    a_huge_argument_goes_out_within_the_bounds_of_a_call,
    what_a_stalling_stream_did_not_accept_is_kept_in_one_piece,
    what_a_failing_stream_did_not_accept_is_kept_in_one_piece,
    what_a_lying_stream_was_offered_is_kept,
    what_a_canceled_call_did_not_write_is_kept,
    a_cancel_under_way_keeps_the_progress_and_the_rest,
    an_argument_past_the_most_that_may_be_buffered_is_refused_up_front,
    an_argument_as_large_as_may_be_buffered_is_taken,
    an_argument_whose_copy_the_pool_refuses_aborts_the_writer,
    an_abort_for_want_of_memory_closes_the_stream_only_when_told,
    nothing_needs_to_be_copied_of_an_argument_that_was_accepted_whole,
    with_an_empty_argument_it_is_a_flush,
    on_a_completed_writer_an_argument_is_refused,
    a_segment_s_unused_rest_is_not_sent_in_between,
}

const FAILED: ErrorKind = ErrorKind::TimedOut;

fn fail() -> Step {
    Step::Fail(FAILED, "scripted")
}

fn options(segment_size: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().segment_size(segment_size)
}

/// A writer whose segments are exactly as long as asked for, so that the test knows the chunks.
fn exact<K: Kind>(script: &ScriptHandle, segment_size: usize) -> K::Writer<Script, TestPool> {
    K::writer(script, options(segment_size).pool(TestPool::new().0))
}

/// The bytes of the first chunk of a call.
fn first_chunk(call: &Call) -> usize {
    match call {
        Call::Write { len } => *len,
        Call::Vectored { chunks } => chunks[0],
        Call::Flush | Call::Close => 0,
    }
}

fn it_does_what_append_and_flush_do<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    let result = writer.write_and_flush(b", world").unwrap();
    assert!(!result.is_canceled() && !result.is_completed());
    assert_eq!(script.accepted(), b"hello, world");
    assert_eq!((writer.unflushed_bytes(), script.flushes()), (0, 1));
    assert_eq!(script.calls().last(), Some(&Call::Flush));
}

fn an_argument_of_any_size_behind_any_batch_arrives_once<K: Kind>() {
    let sizes = [0, 1, 5, 63, 64, 65, 1000, 16_384, 16_385, 50_000, 300_000];
    for (seed, &size) in sizes.iter().enumerate().cycle().take(10 * sizes.len()) {
        let mut random = Random::new(seed as u64 * 31 + size as u64);
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, *random.pick(&[1, 64, 4096]));
        let mut model = Model::new();
        for _ in 0..3 {
            let batch = model.deal(*random.pick(&[0, 1, 50, 200]));
            writer.append(&batch).unwrap();
            model.commit(&batch);
            let argument = model.deal(size);
            script.on_write([random.pick(&[Step::TakeAll, Step::FirstChunk, Step::Take(33), Step::Part]).clone()]);
            assert!(!writer.write_and_flush(&argument).unwrap().is_canceled());
            model.commit(&argument);
            model.check(&script.accepted(), 0);
        }
    }
}

fn the_argument_goes_out_from_the_caller_s_slice<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 4096);
    for size in [1, 11, 5000, 50_000, 200_000] {
        let argument = pattern(0, size);
        script.clear_log();
        writer.write_and_flush(&argument).unwrap();
        assert_eq!(script.calls(), [Call::write(size), Call::Flush]);
        assert_eq!(script.addresses(), [argument.as_ptr().addr()]);
        // Each part of it too.
        script.on_write([Step::Take(size / 2 + 1)]);
        script.clear_log();
        writer.write_and_flush(&argument).unwrap();
        let parts = script.calls().iter().filter(|call| call.is_write()).count();
        let last = if parts == 2 { size / 2 + 1 } else { 0 };
        assert_eq!(script.addresses(), [argument.as_ptr().addr() + last]);
    }
}

fn a_large_argument_goes_out_uncopied_right_behind_what_was_buffered<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(&pattern(0, 100)).unwrap();
    let argument = pattern(100, 50_000);
    writer.write_and_flush(&argument).unwrap();
    assert_eq!(script.calls(), [Call::vectored([64, 36, 50_000]), Call::Flush]);
    assert_eq!(script.addresses()[2], argument.as_ptr().addr());
    // The same where what is buffered is in the middle of a chunk that may have room for it.
    let mut writer = exact::<K>(&script, 100_000);
    writer.append(&pattern(0, 100)).unwrap();
    script.on_write([Step::Take(20), Step::Take(90)]);
    writer.write_and_flush(&argument).unwrap();
    assert_eq!(script.addresses(), [argument.as_ptr().addr() + 10]);
}

fn an_argument_takes_no_segment_where_all_goes_well<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options(64).pool(pool));
    for size in [1, 64, 5000, 300_000] {
        writer.write_and_flush(&pattern(0, size)).unwrap();
    }
    script.on_write([Step::Take(7), Step::Take(1)]);
    writer.write_and_flush(&pattern(0, 5000)).unwrap();
    assert_eq!(log.taken(), 0);
}

fn a_huge_argument_goes_out_within_the_bounds_of_a_call<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(&pattern(0, 10)).unwrap();
    let argument = pattern(10, 3 * MAX_BYTES);
    writer.write_and_flush(&argument).unwrap();
    assert!(script.accepted() == pattern(0, 10 + 3 * MAX_BYTES));
    assert_eq!((script.writes(), script.flushes()), (4, 1));
}

/// How many bytes are buffered before the call, and how many of buffer and argument the stream accepts before it stops.
const STOPS: [(usize, usize); 10] =
    [(0, 0), (0, 1), (0, 4999), (10, 0), (10, 4), (10, 10), (10, 11), (100, 50), (100, 100), (100, 2000)];

/// Stops the stream after each of `STOPS` with `stop`; checks what was kept, and that it goes out as a single chunk.
fn expect_rest_kept<K: Kind>(stop: fn() -> Step, kind: ErrorKind) {
    for size in [20, 5000, 270_000] {
        for (buffered, accepted) in STOPS.into_iter().filter(|(buffered, accepted)| *accepted < buffered + size) {
            let what = format!("{buffered} buffered, an argument of {size}, stopped after {accepted}");
            let script = ScriptHandle::new();
            let (pool, log) = TestPool::new();
            let mut writer = K::writer(&script, options(64).pool(pool));
            writer.append(&pattern(0, buffered)).unwrap();
            let argument = pattern(buffered, size);
            if accepted > 0 {
                script.on_write([Step::Take(accepted)]);
            }
            script.on_write([stop()]);
            assert_refused(writer.write_and_flush(&argument), kind);
            drop(argument);
            assert_eq!(script.accepted(), pattern(0, accepted), "{what}");
            assert_eq!(writer.unflushed_bytes(), buffered + size - accepted, "{what}");
            assert_eq!(script.flushes(), 0, "{what}");
            script.clear_log();
            writer.flush_well();
            assert!(script.accepted() == pattern(0, buffered + size), "{what}");
            assert_eq!(script.flushes(), 1, "{what}");
            if accepted >= buffered {
                let rest = buffered + size - accepted;
                assert_eq!(first_chunk(&script.calls()[0]), rest.min(MAX_BYTES), "in one piece: {what}");
            }
            drop(writer);
            log.assert_all_back();
        }
    }
}

fn what_a_stalling_stream_did_not_accept_is_kept_in_one_piece<K: Kind>() {
    expect_rest_kept::<K>(|| Step::Pend, ErrorKind::WouldBlock);
    expect_rest_kept::<K>(|| Step::Fail(ErrorKind::WouldBlock, "scripted"), ErrorKind::WouldBlock);
}

fn what_a_failing_stream_did_not_accept_is_kept_in_one_piece<K: Kind>() {
    expect_rest_kept::<K>(fail, FAILED);
    expect_rest_kept::<K>(|| Step::Zero, ErrorKind::WriteZero);
}

fn what_a_lying_stream_was_offered_is_kept<K: Kind>() {
    expect_rest_kept::<K>(|| Step::ClaimMore(1), ErrorKind::InvalidData);
    expect_rest_kept::<K>(|| Step::ClaimMore(usize::MAX), ErrorKind::InvalidData);
}

fn what_a_canceled_call_did_not_write_is_kept<K: Kind>() {
    for (buffered, size) in [(0, 5), (0, 50_000), (10, 5), (10, 50_000), (100, 300_000)] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 64);
        writer.append(&pattern(0, buffered)).unwrap();
        writer.cancel_pending_flush();
        assert!(writer.write_and_flush(&pattern(buffered, size)).unwrap().is_canceled());
        assert!(script.calls().is_empty());
        assert_eq!(writer.unflushed_bytes(), buffered + size);
        writer.flush_well();
        assert!(script.accepted() == pattern(0, buffered + size));
    }
}

fn a_cancel_under_way_keeps_the_progress_and_the_rest<K: Kind>() {
    for (buffered, accepted) in STOPS.into_iter().filter(|(_, accepted)| *accepted > 0) {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 64);
        let handle = writer.handle();
        writer.append(&pattern(0, buffered)).unwrap();
        script.on_write([Step::run(move || handle.cancel_pending_flush(), Step::Take(accepted))]);
        assert!(writer.write_and_flush(&pattern(buffered, 5000)).unwrap().is_canceled());
        assert_eq!(script.accepted(), pattern(0, accepted));
        assert_eq!(writer.unflushed_bytes(), buffered + 5000 - accepted);
        writer.flush_well();
        assert_eq!(script.accepted(), pattern(0, buffered + 5000));
    }
}

fn an_argument_past_the_most_that_may_be_buffered_is_refused_up_front<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64).max_buffered(100));
    assert_refused(writer.write_and_flush(&pattern(0, 101)), ErrorKind::QuotaExceeded);
    writer.append(&pattern(0, 60)).unwrap();
    assert_refused(writer.write_and_flush(&pattern(0, 41)), ErrorKind::QuotaExceeded);
    assert_eq!(writer.unflushed_bytes(), 60);
    assert!(script.calls().is_empty(), "up front");
    writer.write_and_flush(&pattern(60, 40)).unwrap();
    assert_eq!(script.accepted(), pattern(0, 100));
}

fn an_argument_as_large_as_may_be_buffered_is_taken<K: Kind>() {
    for buffered in [0, 1, 60, 99] {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options(16).max_buffered(100));
        writer.append(&pattern(0, buffered)).unwrap();
        script.on_write([Step::Pend]);
        assert_refused(writer.write_and_flush(&pattern(buffered, 100 - buffered)), ErrorKind::WouldBlock);
        assert_eq!(writer.unflushed_bytes(), 100);
        assert_refused(writer.append(b"x"), ErrorKind::QuotaExceeded);
        writer.flush_well();
        assert_eq!(script.accepted(), pattern(0, 100));
    }
}

/// A writer that was aborted because the rest of an argument could be kept nowhere, after 50 bytes of it were accepted.
fn aborted<K: Kind>(script: &ScriptHandle, stop: Step) -> K::Writer<Script, TestPool> {
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(script, options(64).pool(pool));
    let handle = writer.handle();
    writer.append(&pattern(0, 10)).unwrap();
    log.refuse_takes_from(log.taken());
    script.on_write([Step::Take(60), stop]);
    assert_refused(writer.write_and_flush(&pattern(10, 5000)), ErrorKind::OutOfMemory);
    log.assert_all_back();
    log.refuse_no_more();
    assert!(handle.is_closed(), "handles are told at once");
    assert_eq!(script.accepted(), pattern(0, 60));
    writer
}

fn an_argument_whose_copy_the_pool_refuses_aborts_the_writer<K: Kind>() {
    for stop in [Step::Pend, fail(), Step::Zero, Step::ClaimMore(1)] {
        let script = ScriptHandle::new();
        let mut writer = aborted::<K>(&script, stop);
        script.clear_log();
        for refused in [
            writer.append(b"x"),
            writer.advance(1),
            writer.span_mut(1).map(drop),
            writer.write_and_flush(b"x").map(drop),
            writer.flush().map(drop),
            writer.emit().map(drop),
            writer.plain_write(b"x").map(drop),
            writer.plain_flush(),
        ] {
            assert_refused(refused, ErrorKind::OutOfMemory);
        }
        assert!(script.calls().is_empty(), "the stream is left alone");
        assert_eq!(writer.unflushed_bytes(), 0);
    }
    // As where it is canceled in between.
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(0);
    let mut writer = K::writer(&script, options(64).pool(pool));
    let handle = writer.handle();
    script.on_write([Step::run(move || handle.cancel_pending_flush(), Step::Take(60))]);
    assert_refused(writer.write_and_flush(&pattern(0, 5000)), ErrorKind::OutOfMemory);
    assert_refused(writer.append(b"x"), ErrorKind::OutOfMemory);
}

fn an_abort_for_want_of_memory_closes_the_stream_only_when_told<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = aborted::<K>(&script, Step::Pend);
    assert!(!script.is_closed(), "the call does not close");
    writer.abort().unwrap();
    assert_eq!(script.is_closed(), !K::BLOCKING);
    assert!(writer.is_completed());
    let script = ScriptHandle::new();
    let mut writer = aborted::<K>(&script, fail());
    writer.complete().unwrap();
    assert_eq!(script.is_closed(), !K::BLOCKING);
    assert_eq!(script.accepted_len(), 60, "and nothing more is written");
}

fn nothing_needs_to_be_copied_of_an_argument_that_was_accepted_whole<K: Kind>() {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(0);
    let mut writer = K::writer(&script, options(64).pool(pool));
    script.on_flush([Step::Pend, fail()]);
    assert_refused(writer.write_and_flush(&pattern(0, 5000)), ErrorKind::WouldBlock);
    assert_refused(writer.write_and_flush(&pattern(5000, 5000)), FAILED);
    assert_eq!(writer.unflushed_bytes(), 0);
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 10_000));
}

fn with_an_empty_argument_it_is_a_flush<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.write_and_flush(b"").unwrap();
    assert!(script.calls().is_empty());
    writer.append(b"hello").unwrap();
    assert!(!writer.write_and_flush(b"").unwrap().is_canceled());
    assert_eq!(script.calls(), [Call::write(5), Call::Flush]);
    writer.cancel_pending_flush();
    assert!(writer.write_and_flush(b"").unwrap().is_canceled());
    writer.complete().unwrap();
    assert!(writer.write_and_flush(b"").unwrap().is_completed());
}

fn on_a_completed_writer_an_argument_is_refused<K: Kind>() {
    for abort in [false, true] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 64);
        if abort {
            writer.abort().unwrap()
        } else {
            writer.complete().unwrap()
        }
        let refused = writer.write_and_flush(b"x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
        assert!(refused.to_string().contains("completed"), "{refused}");
        assert_eq!((script.writes(), writer.unflushed_bytes()), (0, 0));
    }
}

fn a_segment_s_unused_rest_is_not_sent_in_between<K: Kind>() {
    for size in [10, 50_000] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 4096);
        writer.put(b"hello");
        writer.span_mut(100).unwrap().fill(b'?');
        script.on_write([Step::Take(8), Step::Pend]);
        drop(writer.write_and_flush(&pattern(0, size)));
        writer.flush_well();
        assert_eq!(script.accepted(), [b"hello", &pattern(0, size)[..]].concat());
    }
}

// What only a future can: be polled or not, dropped, and forgotten.

#[test]
fn before_its_first_poll_the_argument_does_not_count() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"hello").unwrap();
    drop(writer.write_and_flush(b" never"));
    assert_eq!(writer.unflushed_bytes(), 5);
    Subject::flush_well(&mut writer);
    assert_eq!(script.accepted(), b"hello");
}

#[test]
fn from_its_first_poll_on_the_argument_counts_though_the_future_is_dropped_or_forgotten() {
    for forget in [false, true] {
        for (buffered, accepted) in STOPS {
            let script = ScriptHandle::new();
            let mut writer = PipeWriter::with_options(script.stream(), options(64));
            writer.append(&pattern(0, buffered)).unwrap();
            if accepted > 0 {
                script.on_write([Step::Take(accepted)]);
            }
            script.on_write([Step::Pend, Step::Pend]);
            let argument = pattern(buffered, 5000);
            {
                let mut future = Box::pin(writer.write_and_flush(&argument));
                assert!(poll_once(&mut future).is_pending());
                assert!(poll_once(&mut future).is_pending());
                if forget { mem::forget(future) } else { drop(future) }
            }
            drop(argument);
            assert_eq!(script.accepted(), pattern(0, accepted));
            assert_eq!(writer.unflushed_bytes(), buffered + 5000 - accepted);
            Subject::flush_well(&mut writer);
            assert_eq!(script.accepted(), pattern(0, buffered + 5000));
        }
    }
}

#[test]
fn a_future_that_is_polled_on_sends_its_argument_once() {
    for (buffered, accepted) in STOPS.into_iter().filter(|(_, accepted)| *accepted < 4000) {
        let script = ScriptHandle::new();
        let mut writer = PipeWriter::with_options(script.stream(), options(64));
        writer.append(&pattern(0, buffered)).unwrap();
        if accepted > 0 {
            script.on_write([Step::Take(accepted)]);
        }
        script.on_write([Step::Pend, Step::Take(100), Step::Pend]);
        script.on_flush([Step::Pend]);
        let argument = pattern(buffered, 5000);
        let mut task = Task::new(writer.write_and_flush(&argument));
        for _ in 0..3 {
            assert!(task.poll_until_stalled().is_pending());
            script.wake();
        }
        assert!(!task.finish(2).unwrap().is_canceled());
        assert_eq!(script.accepted(), pattern(0, buffered + 5000));
        assert_eq!(writer.unflushed_bytes(), 0);
    }
}

#[test]
fn a_write_that_is_polled_again_after_an_error_of_its_flush_does_not_send_its_argument_again() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    script.on_flush([Step::Pend, fail()]);
    let mut task = Task::new(writer.write_and_flush(b"hello"));
    assert!(task.poll_until_stalled().is_pending());
    script.wake();
    assert_eq!(task.finish(0).unwrap_err().kind(), FAILED);
    Subject::flush_well(&mut writer);
    assert_eq!(script.accepted(), b"hello");
}
