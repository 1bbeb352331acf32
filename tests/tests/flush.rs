//! Chapter 4 of the contract: what a flush does where all goes well, what it leaves due, and what an emit is. How it takes
//! short writes and errors is in `write_loop.rs`, what `write_and_flush` adds in `write_and_flush.rs`.

use core::pin::Pin;
use core::task::Poll;
use std::io::ErrorKind;

use pipewriter_std::{PipeWriter, PipeWriterOptions};
use pipewriter_tests::both;
use pipewriter_tests::exec::{Task, block_on, poll_once};
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, MAX_BYTES, MAX_CHUNKS, Outcome, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject, assert_refused};

both! {
    // 4.1
    a_flush_writes_everything_in_order_and_then_flushes_the_stream,
    a_flush_of_any_batch_over_any_stream_writes_each_byte_once,
    bytes_committed_while_the_flush_of_the_stream_is_put_off_are_written_and_flushed_again,
    // 4.2
    one_chunk_goes_out_by_the_plain_write,
    several_chunks_go_out_by_one_vectored_write,
    no_more_than_1024_chunks_are_offered_in_a_call,
    no_more_than_256_kib_are_offered_in_a_call,
    the_work_is_linear_whatever_part_of_each_call_the_stream_takes,
    the_work_is_linear_over_a_stream_that_takes_turns,
    // 4.6
    a_flush_is_due_after_an_error_of_the_stream_s_flush,
    a_flush_is_due_after_bytes_were_accepted_and_then_a_write_failed,
    a_flush_is_due_after_a_cancel_in_the_stream_s_flush,
    a_flush_is_due_after_an_emit,
    a_flush_is_due_after_a_plain_write_that_drove_the_stream,
    a_flush_is_due_after_a_write_and_flush_whose_flush_failed,
    a_flush_that_is_due_stays_due_until_one_goes_well,
    // 4.7
    a_flush_of_nothing_does_not_call_the_stream,
    // 4.11
    an_emit_writes_everything_and_flushes_nothing,
    an_emit_of_nothing_does_not_call_the_stream,
    an_emit_that_fails_or_stalls_loses_nothing,
    an_emit_can_be_canceled,
}

fn options(segment_size: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().segment_size(segment_size)
}

/// A writer whose segments are exactly as long as asked for, so that the test knows the chunks.
fn exact<K: Kind>(script: &ScriptHandle, segment_size: usize) -> K::Writer<Script, TestPool> {
    K::writer(script, options(segment_size).pool(TestPool::new().0))
}

const FAILED: ErrorKind = ErrorKind::TimedOut;

fn fail() -> Step {
    Step::Fail(FAILED, "scripted")
}

fn a_flush_writes_everything_in_order_and_then_flushes_the_stream<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 8);
    writer.append(b"one ").unwrap();
    writer.put(b"two ");
    writer.append(b"three, and more").unwrap();
    assert!(script.calls().is_empty(), "nothing is written before a flush");
    assert_eq!(writer.unflushed_bytes(), 23);
    let result = writer.flush().unwrap();
    assert!(!result.is_canceled() && !result.is_completed());
    assert_eq!(script.accepted(), b"one two three, and more");
    assert_eq!(script.calls().last(), Some(&Call::Flush));
    assert_eq!((script.flushes(), writer.unflushed_bytes()), (1, 0));
}

fn a_flush_of_any_batch_over_any_stream_writes_each_byte_once<K: Kind>() {
    let behaviours =
        [Step::TakeAll, Step::Take(1), Step::Take(3), Step::Take(17), Step::FirstChunk, Step::Part, Step::PendAndWake];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let script = ScriptHandle::new();
        script.seed(seed);
        let mut writer = exact::<K>(&script, random.between(1, 40));
        let mut model = Model::new();
        for _ in 0..6 {
            for _ in 0..random.below(8) {
                let bytes = model.deal(random.below(100));
                if random.one_in(2) {
                    writer.append(&bytes).unwrap();
                } else {
                    writer.put(&bytes);
                }
                model.commit(&bytes);
            }
            assert_eq!(script.accepted_len() + writer.unflushed_bytes(), model.committed().len());
            script.on_write((0..random.below(5)).map(|_| random.pick(&behaviours).clone()));
            while let Err(error) = writer.flush() {
                assert!(K::BLOCKING && error.kind() == ErrorKind::WouldBlock, "{error}");
            }
            model.check(&script.accepted(), 0);
            assert!(script.calls().last().is_none_or(|call| *call == Call::Flush));
        }
    }
}

fn bytes_committed_while_the_flush_of_the_stream_is_put_off_are_written_and_flushed_again<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"before").unwrap();
    script.on_flush([Step::Pend]);
    assert_refused(writer.flush(), ErrorKind::WouldBlock);
    writer.append(b", meanwhile").unwrap();
    writer.flush_well();
    assert_eq!(script.accepted(), b"before, meanwhile");
    let calls = script.calls();
    assert_eq!(calls.last(), Some(&Call::Flush));
    let last_write = calls.iter().rposition(Call::is_write).unwrap();
    assert_eq!(calls[last_write], Call::write(11));
}

/// What the async writer promises to a program that polls by itself.
#[test]
fn bytes_committed_between_two_polls_of_a_pending_stream_flush_are_written_and_flushed_again() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"before").unwrap();
    script.on_flush([Step::Pend]);
    let poll = |writer: &mut PipeWriter<Script>| {
        block_on(core::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *writer).poll_flush(cx))))
    };
    assert!(poll(&mut writer).is_pending());
    writer.append(b", meanwhile").unwrap();
    assert!(matches!(poll(&mut writer), Poll::Ready(Ok(_))));
    assert_eq!(script.accepted(), b"before, meanwhile");
    let flushed = [Call::write(6), Call::Flush, Call::Flush, Call::write(11), Call::Flush];
    let at_once = [Call::write(6), Call::Flush, Call::write(11), Call::Flush];
    assert!([&flushed[..], &at_once].contains(&&script.calls()[..]), "{:?}", script.calls());
}

fn one_chunk_goes_out_by_the_plain_write<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    writer.flush_well();
    assert_eq!(script.calls(), [Call::write(5), Call::Flush]);
    // Also where it is what is left of more.
    script.clear_log();
    writer.append(&pattern(0, 100)).unwrap();
    script.on_write([Step::Take(70)]);
    writer.flush_well();
    assert_eq!(script.calls(), [Call::vectored([64, 36]), Call::write(30), Call::Flush]);
}

fn several_chunks_go_out_by_one_vectored_write<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 16);
    writer.append(&pattern(0, 40)).unwrap();
    writer.put(&pattern(40, 20));
    writer.flush_well();
    assert_eq!(script.calls(), [Call::vectored([16, 16, 8, 20]), Call::Flush]);
    assert_eq!(script.accepted(), pattern(0, 60));
}

fn no_more_than_1024_chunks_are_offered_in_a_call<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 1);
    for batch in 0..3 {
        writer.append(&pattern(3000 * batch, 3000)).unwrap();
        writer.flush_well();
    }
    assert_eq!(script.accepted(), pattern(0, 9000));
    let most = script.log().iter().map(|entry| chunks(&entry.call)).max();
    assert_eq!(most, Some(MAX_CHUNKS), "and no fewer, where the stream takes them all");
    assert_eq!(script.writes(), 9);
}

fn no_more_than_256_kib_are_offered_in_a_call<K: Kind>() {
    let bytes = pattern(0, 1 << 20);
    // In one segment, and in segments of which none ends where a call does.
    for segment_size in [1 << 20, 100_000] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, segment_size);
        writer.append(&bytes).unwrap();
        writer.flush_well();
        assert!(script.accepted() == bytes);
        assert_eq!(script.log().iter().map(|entry| entry.call.offered()).max(), Some(MAX_BYTES));
        assert_eq!((script.writes(), script.flushes()), (4, 1), "in as few calls as the bound allows");
    }
}

fn chunks(call: &Call) -> usize {
    match call {
        Call::Write { .. } => 1,
        Call::Vectored { chunks } => chunks.len(),
        Call::Flush | Call::Close => 0,
    }
}

/// Sends `count` segments of `len` bytes and says how many chunks were offered in all calls together.
fn chunks_offered<K: Kind>(script: &ScriptHandle, count: usize, len: usize) -> usize {
    let mut writer = exact::<K>(script, len);
    let bytes = pattern(0, count * len);
    writer.append(&bytes).unwrap();
    writer.flush_well();
    assert!(script.accepted() == bytes);
    script.log().iter().map(|entry| chunks(&entry.call)).sum()
}

fn the_work_is_linear_whatever_part_of_each_call_the_stream_takes<K: Kind>() {
    for default in [Step::TakeAll, Step::FirstChunk, Step::Take(1), Step::Take(5), Step::Take(40), Step::Part] {
        let script = ScriptHandle::new();
        script.default_write(default.clone());
        let offered = chunks_offered::<K>(&script, 3000, 4);
        // A stream that accepts a byte a call of 12,000 bytes gets 12,000 calls; it may be offered two chunks in each, once it is known.
        let bound = 2 * (3000 + script.writes()) + 1024;
        assert!(offered <= bound, "{offered} chunks offered, at most {bound} expected over {default:?}");
    }
}

fn the_work_is_linear_over_a_stream_that_takes_turns<K: Kind>() {
    // What a call takes tells nothing of what the next will: all, and then the first chunk a few times.
    for firsts in [1, 2, 3, 10] {
        let script = ScriptHandle::new();
        for _ in 0..3000 {
            script.on_write([Step::Take(1024)]);
            script.on_write((0..firsts).map(|_| Step::FirstChunk));
        }
        let offered = chunks_offered::<K>(&script, 3000, 4);
        let bound = 32 * 3000;
        assert!(offered <= bound, "{offered} chunks offered, at most {bound} expected with {firsts} in between");
    }
}

/// Expects that a flush of the stream is due, and nothing else: the next flush makes that one call, the one after none.
#[track_caller]
fn expect_only_a_flush_due<S: Subject>(mut writer: S, script: &ScriptHandle) {
    assert_eq!(writer.unflushed_bytes(), 0);
    script.clear_log();
    writer.flush_well();
    assert_eq!(script.calls(), [Call::Flush]);
    writer.flush_well();
    assert_eq!(script.calls(), [Call::Flush], "and then no more");
}

fn a_flush_is_due_after_an_error_of_the_stream_s_flush<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    script.on_flush([fail()]);
    assert_refused(writer.flush(), FAILED);
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_is_due_after_bytes_were_accepted_and_then_a_write_failed<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    script.on_write([Step::Take(4), fail()]);
    assert_refused(writer.flush(), FAILED);
    writer.emit().unwrap();
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_is_due_after_a_cancel_in_the_stream_s_flush<K: Kind>() {
    // What was accepted before the cancel is not flushed yet.
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    let handle = writer.handle();
    writer.append(b"hello").unwrap();
    script.on_write([Step::run(move || handle.cancel_pending_flush(), Step::TakeAll)]);
    assert!(writer.flush().unwrap().is_canceled());
    assert_eq!(script.accepted(), b"hello");
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_is_due_after_an_emit<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    writer.emit().unwrap();
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_is_due_after_a_plain_write_that_drove_the_stream<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, options(64).high_water_mark(4));
    assert_eq!(writer.plain_write(b"hello").unwrap(), 4);
    assert_eq!(writer.plain_write(b"o").unwrap(), 1);
    assert_eq!(script.accepted(), b"hell", "the mark was reached, so the stream was driven");
    writer.emit().unwrap();
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_is_due_after_a_write_and_flush_whose_flush_failed<K: Kind>() {
    for (size, step) in [(5, fail()), (50_000, fail()), (5, Step::Pend), (50_000, Step::Pend)] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 64);
        script.on_flush([step]);
        assert!(writer.write_and_flush(&pattern(0, size)).is_err());
        assert_eq!(script.accepted(), pattern(0, size));
        expect_only_a_flush_due(writer, &script);
    }
}

fn a_flush_that_is_due_stays_due_until_one_goes_well<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    writer.emit().unwrap();
    script.on_flush([fail(), Step::Pend, fail()]);
    assert_refused(writer.flush(), FAILED);
    assert_refused(writer.flush(), ErrorKind::WouldBlock);
    assert_refused(writer.plain_flush(), FAILED);
    writer.cancel_pending_flush();
    assert!(writer.flush().unwrap().is_canceled());
    writer.emit().unwrap();
    expect_only_a_flush_due(writer, &script);
}

#[test]
fn a_flush_is_due_after_a_future_was_dropped_in_the_stream_s_flush() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"hello").unwrap();
    script.hold_flushes();
    assert!(poll_once(&mut writer.flush()).is_pending());
    script.release();
    expect_only_a_flush_due(writer, &script);
}

fn a_flush_of_nothing_does_not_call_the_stream<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    let expect_no_call = |writer: &mut K::Writer<Script, TestPool>| {
        script.clear_log();
        writer.flush_well();
        writer.plain_flush().unwrap();
        assert!(!writer.write_and_flush(b"").unwrap().is_canceled());
        assert!(script.calls().is_empty());
    };
    expect_no_call(&mut writer);
    writer.append(b"").unwrap();
    expect_no_call(&mut writer);
    writer.span_mut(10).unwrap();
    expect_no_call(&mut writer);
    writer.append(b"hello").unwrap();
    writer.flush_well();
    expect_no_call(&mut writer);
    writer.write_and_flush(b"hello").unwrap();
    expect_no_call(&mut writer);
    // A stream that has taken nothing has nothing to flush, whatever was tried.
    writer.append(b"hello").unwrap();
    script.on_write([fail(), Step::Zero, Step::Pend, Step::ClaimMore(1)]);
    for _ in 0..4 {
        assert!(writer.flush().is_err());
    }
    assert_eq!(script.flushes(), 0);
}

#[test]
fn a_dropped_flush_loses_nothing_wherever_it_was() {
    let bytes = pattern(0, 60);
    for segment_size in [7, 64] {
        for polls in 0..20 {
            let script = ScriptHandle::new();
            let mut writer = PipeWriter::with_options(script.stream(), options(segment_size).pool(TestPool::new().0));
            writer.append(&bytes).unwrap();
            for _ in 0..10 {
                script.on_write([Step::Pend, Step::Take(5), Step::Pend, Step::Take(1)]);
            }
            script.on_flush([Step::Pend, Step::Pend]);
            for poll in 0..polls {
                // Each future is polled once and dropped.
                let ready = poll_once(&mut writer.flush()).is_ready();
                let accepted = script.accepted();
                assert_eq!(accepted, bytes[..accepted.len()], "after {poll} polls");
                assert_eq!(accepted.len() + writer.unflushed_bytes(), 60);
                assert!(!ready, "the script is longer than that");
            }
            drop(writer.flush());
            script.default_write(Step::TakeAll);
            while poll_once(&mut writer.flush()).is_pending() {}
            assert_eq!(script.accepted(), bytes);
            assert_eq!(script.calls().last(), Some(&Call::Flush));
            assert_eq!(script.log().last().unwrap().outcome, Outcome::Done);
        }
    }
}

#[test]
fn the_state_lives_in_the_writer_so_that_a_program_may_commit_between_polls() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::with_options(script.stream(), options(8).pool(TestPool::new().0));
    let mut model = Model::new();
    script.default_write(Step::Take(3));
    for _ in 0..200 {
        script.on_write([Step::Take(5), Step::Pend]);
    }
    for round in 0..100 {
        let bytes = model.deal(round % 13);
        if round % 2 == 0 {
            writer.append(&bytes).unwrap()
        } else {
            Subject::put(&mut writer, &bytes)
        }
        model.commit(&bytes);
        let mut flush = core::future::poll_fn(|cx| Pin::new(&mut writer).poll_flush(cx));
        let poll = poll_once(&mut flush);
        model.check(&script.accepted(), writer.unflushed_bytes());
        assert_eq!(poll.is_ready(), writer.unflushed_bytes() == 0, "round {round}");
    }
    block_on(core::future::poll_fn(|cx| match Pin::new(&mut writer).poll_flush(cx) {
        Poll::Pending => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        ready => ready,
    }))
    .unwrap();
    model.check(&script.accepted(), 0);
}

#[test]
fn a_flush_goes_on_only_when_the_stream_wakes_it_and_asks_with_the_newest_waker() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    writer.append(b"hello").unwrap();
    script.hold_writes();
    let mut first = Task::new(writer.flush());
    assert!(first.poll_until_stalled().is_pending());
    drop(first);
    let mut second = Task::new(writer.flush());
    assert!(second.poll_until_stalled().is_pending());
    let seen = second.wakes();
    assert!(script.release());
    second.finish(seen).unwrap();
    assert_eq!(script.accepted(), b"hello");
}

fn an_emit_writes_everything_and_flushes_nothing<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 8);
    writer.append(b"hello, world").unwrap();
    let result = writer.emit().unwrap();
    assert!(!result.is_canceled() && !result.is_completed());
    assert_eq!(script.calls(), [Call::vectored([8, 4])]);
    assert_eq!(script.accepted(), b"hello, world");
    assert_eq!(writer.unflushed_bytes(), 0);
    writer.append(b"!").unwrap();
    script.on_write([Step::Fail(ErrorKind::Interrupted, "scripted")]);
    writer.emit().unwrap();
    assert_eq!(script.flushes(), 0);
    writer.flush_well();
    assert_eq!(script.flushes(), 1);
}

fn an_emit_of_nothing_does_not_call_the_stream<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 8);
    writer.emit().unwrap();
    writer.append(b"hello").unwrap();
    writer.emit().unwrap();
    script.clear_log();
    writer.emit().unwrap();
    assert!(script.calls().is_empty(), "also where a flush is due");
}

fn an_emit_that_fails_or_stalls_loses_nothing<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 4);
    writer.append(b"hello, world").unwrap();
    script.on_write([Step::Take(5), fail(), Step::Take(2), Step::Pend, Step::Zero, Step::ClaimMore(1)]);
    for kind in [FAILED, ErrorKind::WouldBlock, ErrorKind::WriteZero, ErrorKind::InvalidData] {
        assert_refused(writer.emit(), kind);
        assert_eq!(script.accepted_len() + writer.unflushed_bytes(), 12);
    }
    writer.emit().unwrap();
    assert_eq!(script.accepted(), b"hello, world");
}

fn an_emit_can_be_canceled<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    writer.cancel_pending_flush();
    assert!(writer.emit().unwrap().is_canceled());
    assert!(script.calls().is_empty());
    assert!(!writer.emit().unwrap().is_canceled());
    assert_eq!(script.accepted(), b"hello");
}
