//! Chapter 8: the writer as a plain stream, where a `BufWriter` stood.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::error::Error;
use std::io::{self, ErrorKind, IoSlice};

use futures_io::AsyncWrite;
use pipewriter_std::blocking::PipeWriter as BlockingPipeWriter;
use pipewriter_std::{Canceled, PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::{Task, block_on};
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject};

pipewriter_tests::both!(
    below_the_mark_a_write_does_no_io,
    at_the_mark_a_write_drives_the_stream_first,
    what_was_committed_in_other_ways_counts_for_the_mark_too,
    the_mark_is_64_kib_by_default,
    a_write_takes_no_more_than_up_to_the_mark,
    a_stream_that_stalls_pushes_back,
    a_write_that_fails_took_nothing,
    a_write_that_gets_no_memory_took_nothing,
    a_write_retries_what_was_interrupted,
    a_write_of_nothing_takes_nothing_and_does_no_io,
    a_write_of_something_never_takes_nothing,
    a_mark_of_zero_counts_as_one,
    a_mark_above_max_buffered_counts_as_that,
    a_vectored_write_takes_from_all_slices,
    a_vectored_write_stops_at_the_mark,
    a_vectored_write_passes_over_empty_slices,
    a_vectored_write_drives_the_stream_first,
    a_vectored_write_keeps_what_fitted_when_memory_runs_out,
    a_plain_write_ends_the_span,
    a_drive_leaves_the_flush_of_the_stream_due,
    the_plain_flush_is_flush,
    the_plain_flush_returns_the_streams_errors_as_they_are,
    a_canceled_plain_flush_is_an_error_of_kind_other,
    a_plain_flush_without_work_does_no_io,
    the_plain_close_is_complete,
    whatever_the_stream_does_each_write_counts_its_own_bytes,
);

fn fails(kind: ErrorKind) -> Step {
    Step::Fail(kind, "scripted")
}

fn mark(bytes: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().high_water_mark(bytes)
}

// ---- write ----

fn below_the_mark_a_write_does_no_io<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(10));
    for len in [4, 5, 1] {
        assert_eq!(writer.plain_write(&pattern(0, len)).unwrap(), len);
    }
    assert_eq!(writer.unflushed_bytes(), 10);
    assert!(script.calls().is_empty());
}

fn at_the_mark_a_write_drives_the_stream_first<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(10));
    assert_eq!(writer.plain_write(&pattern(0, 10)).unwrap(), 10);
    assert_eq!(writer.plain_write(&pattern(10, 3)).unwrap(), 3);
    assert_eq!(script.accepted(), pattern(0, 10));
    assert_eq!(writer.unflushed_bytes(), 3);
    assert_eq!(script.calls(), [Call::write(10)]);
    assert_eq!(writer.plain_write(&pattern(13, 9)).unwrap(), 7);
    assert_eq!(script.calls().len(), 1, "only once the mark is reached");
}

fn what_was_committed_in_other_ways_counts_for_the_mark_too<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(10));
    writer.append(&pattern(0, 8)).unwrap();
    writer.put(&pattern(8, 20));
    assert_eq!(writer.plain_write(&pattern(28, 3)).unwrap(), 3);
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (pattern(0, 28), 3));
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 31));
}

fn the_mark_is_64_kib_by_default<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    let bytes = pattern(0, 100_000);
    assert_eq!(writer.plain_write(&bytes).unwrap(), 65_536);
    assert!(script.calls().is_empty());
    assert_eq!(writer.plain_write(&bytes[65_536..]).unwrap(), 100_000 - 65_536);
    assert_eq!(script.accepted_len(), 65_536);
    writer.flush_well();
    assert_eq!(script.accepted(), bytes);
}

fn a_write_takes_no_more_than_up_to_the_mark<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(10));
    assert_eq!(writer.plain_write(&pattern(0, 7)).unwrap(), 7);
    // With room in the segment, and with a mark that is not at its end.
    assert_eq!(writer.plain_write(&pattern(7, 30)).unwrap(), 3);
    assert_eq!(writer.unflushed_bytes(), 10);
    let (pool, _log) = TestPool::new();
    let mut writer = K::writer(&script, mark(10).segment_size(4).pool(pool));
    assert_eq!(writer.plain_write(&pattern(0, 30)).unwrap(), 10);
    assert_eq!(writer.unflushed_bytes(), 10);
    let _ = writer.into_parts();
}

fn a_stream_that_stalls_pushes_back<K: Kind>() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = K::writer(&script, mark(10));
    assert_eq!(writer.plain_write(&pattern(0, 10)).unwrap(), 10);
    for _ in 0..3 {
        assert_eq!(writer.plain_write(&pattern(10, 5)).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(writer.plain_write_vectored(&[IoSlice::new(b"x")]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(writer.unflushed_bytes(), 10, "it does not grow");
    }
    script.release();
    assert_eq!(writer.plain_write(&pattern(10, 5)).unwrap(), 5);
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 15));
}

#[test]
fn a_pending_write_goes_on_when_the_stream_wakes() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = PipeWriter::with_options(script.stream(), mark(4));
    writer.append(b"abcd").unwrap();
    let mut task = Task::new(poll_fn(|cx| Pin::new(&mut writer).poll_write(cx, b"ef")));
    assert!(task.poll().is_pending());
    assert!(script.release());
    assert_eq!(task.finish(0).unwrap(), 2);
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (b"abcd".to_vec(), 2));
}

fn a_write_that_fails_took_nothing<K: Kind>() {
    let mischief = [
        (fails(ErrorKind::TimedOut), ErrorKind::TimedOut),
        (fails(ErrorKind::BrokenPipe), ErrorKind::BrokenPipe),
        (Step::Zero, ErrorKind::WriteZero),
        (Step::ClaimMore(2), ErrorKind::InvalidData),
    ];
    for (step, kind) in mischief {
        for before in [0, 3] {
            let script = ScriptHandle::new();
            script.on_write(core::iter::repeat_n(Step::Take(1), before));
            script.on_write([step.clone()]);
            let mut writer = K::writer(&script, mark(10));
            writer.append(&pattern(0, 10)).unwrap();
            assert_eq!(writer.plain_write(&pattern(10, 5)).unwrap_err().kind(), kind);
            assert_eq!(writer.unflushed_bytes(), 10 - before);
            assert_eq!(writer.plain_write(&pattern(10, 2)).unwrap(), 2);
            writer.flush_well();
            assert_eq!(script.accepted(), pattern(0, 12));
        }
    }
}

fn a_write_that_gets_no_memory_took_nothing<K: Kind>() {
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(1);
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(100).segment_size(4).pool(pool));
    assert_eq!(writer.plain_write(&pattern(0, 3)).unwrap(), 3);
    assert_eq!(writer.plain_write(&pattern(3, 5)).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(writer.unflushed_bytes(), 3);
    assert_eq!(writer.plain_write(&pattern(3, 1)).unwrap(), 1);
    writer.flush_well();
    assert_eq!(script.accepted(), pattern(0, 4));
}

fn a_write_retries_what_was_interrupted<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([fails(ErrorKind::Interrupted), Step::Take(1), fails(ErrorKind::Interrupted)]);
    let mut writer = K::writer(&script, mark(4));
    writer.append(b"abcd").unwrap();
    assert_eq!(writer.plain_write(b"ef").unwrap(), 2);
    script.assert_played();
    assert_eq!(script.accepted(), b"abcd");
}

fn a_write_of_nothing_takes_nothing_and_does_no_io<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(4));
    for buffered in [0, 4] {
        writer.append(&pattern(0, buffered)).unwrap();
        assert_eq!(writer.plain_write(b"").unwrap(), 0);
        assert_eq!(writer.plain_write_vectored(&[]).unwrap(), 0);
        assert_eq!(writer.plain_write_vectored(&[IoSlice::new(b""), IoSlice::new(b"")]).unwrap(), 0);
        assert_eq!(writer.unflushed_bytes(), buffered);
    }
    assert!(script.calls().is_empty());
}

fn a_write_of_something_never_takes_nothing<K: Kind>() {
    for high_water_mark in 0..6 {
        for segment_size in 1..6 {
            let (pool, _log) = TestPool::new();
            let script = ScriptHandle::new();
            script.default_write(Step::Part);
            let mut writer = K::writer(&script, mark(high_water_mark).segment_size(segment_size).pool(pool));
            let mut sent = 0;
            for len in 1..8 {
                let taken = writer.plain_write(&pattern(sent, len)).unwrap();
                assert!(taken >= 1 && taken <= len);
                sent += taken;
                assert!(writer.unflushed_bytes() <= high_water_mark.max(1));
            }
            writer.flush_well();
            assert_eq!(script.accepted(), pattern(0, sent));
        }
    }
}

fn a_mark_of_zero_counts_as_one<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(0));
    for sent in 0..4 {
        assert_eq!(writer.plain_write(&pattern(sent, 10)).unwrap(), 1);
        assert_eq!((script.accepted_len(), writer.unflushed_bytes()), (sent, 1));
    }
}

fn a_mark_above_max_buffered_counts_as_that<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(1000).max_buffered(10));
    assert_eq!(writer.plain_write(&pattern(0, 50)).unwrap(), 10);
    assert_eq!(writer.append(b"x").unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(writer.plain_write(&pattern(10, 50)).unwrap(), 10, "it drives the stream instead of refusing");
    assert_eq!(script.accepted(), pattern(0, 10));
}

// ---- write_vectored ----

fn a_vectored_write_takes_from_all_slices<K: Kind>() {
    let (pool, _log) = TestPool::new();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(100).segment_size(4).pool(pool));
    let bytes = pattern(0, 21);
    let slices = [IoSlice::new(&bytes[..3]), IoSlice::new(&bytes[3..4]), IoSlice::new(&bytes[4..21])];
    assert_eq!(writer.plain_write_vectored(&slices).unwrap(), 21);
    assert!(script.calls().is_empty());
    writer.flush_well();
    assert_eq!(script.accepted(), bytes);
}

fn a_vectored_write_stops_at_the_mark<K: Kind>() {
    let bytes = pattern(0, 30);
    for (first, second) in [(3, 7), (12, 2), (10, 5), (0, 12)] {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, mark(10));
        let slices = [&bytes[..first], &bytes[first..first + second], &bytes[first + second..]].map(IoSlice::new);
        assert_eq!(writer.plain_write_vectored(&slices).unwrap(), 10);
        assert_eq!(writer.unflushed_bytes(), 10);
        writer.flush_well();
        assert_eq!(script.accepted(), pattern(0, 10));
    }
}

fn a_vectored_write_passes_over_empty_slices<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(4));
    let slices = [&b""[..], b"ab", b"", b"", b"c", b""].map(IoSlice::new);
    assert_eq!(writer.plain_write_vectored(&slices).unwrap(), 3);
    writer.append(b"d").unwrap();
    assert_eq!(writer.plain_write_vectored(&[IoSlice::new(b""), IoSlice::new(b"e")]).unwrap(), 1);
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcde");
}

fn a_vectored_write_drives_the_stream_first<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(4));
    writer.append(b"abcd").unwrap();
    assert_eq!(writer.plain_write_vectored(&[IoSlice::new(b"ef"), IoSlice::new(b"ghi")]).unwrap(), 4);
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (b"abcd".to_vec(), 4));
}

fn a_vectored_write_keeps_what_fitted_when_memory_runs_out<K: Kind>() {
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(1);
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(100).segment_size(4).pool(pool));
    let slices = [&b"ab"[..], b"c", b"defgh"].map(IoSlice::new);
    let taken = writer.plain_write_vectored(&slices).unwrap();
    assert!(taken > 0, "an error would say that it took nothing");
    assert_eq!(writer.unflushed_bytes(), taken);
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcdefgh"[..taken]);
}

fn a_plain_write_ends_the_span<K: Kind>() {
    let (pool, _log) = TestPool::new();
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(100).segment_size(40).pool(pool));
    type Write<W> = fn(&mut W) -> io::Result<usize>;
    let writes: [Write<K::Writer<Script, TestPool>>; 4] = [
        |w| w.plain_write(b"ab"),
        |w| w.plain_write(b""),
        |w| w.plain_write_vectored(&[IoSlice::new(b"c"), IoSlice::new(b"d")]),
        |w| w.plain_write_vectored(&[]),
    ];
    for write in writes {
        writer.span_mut(5).unwrap()[..2].copy_from_slice(b"no");
        write(&mut writer).unwrap();
        assert_eq!(writer.advance(1).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    writer.flush_well();
    assert_eq!(script.accepted(), b"abcd");
}

// ---- flush and close ----

fn a_drive_leaves_the_flush_of_the_stream_due<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, mark(4));
    writer.plain_write(b"abcd").unwrap();
    writer.plain_write(b"e").unwrap();
    assert_eq!(script.flushes(), 0);
    writer.plain_flush().unwrap();
    assert_eq!(script.calls(), [Call::write(4), Call::write(1), Call::Flush]);
}

fn the_plain_flush_is_flush<K: Kind>() {
    let (pool, log) = TestPool::new();
    let script = ScriptHandle::new();
    script.on_write([Step::Take(3), fails(ErrorKind::Interrupted)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(4).pool(pool));
    writer.append(&pattern(0, 10)).unwrap();
    writer.plain_flush().unwrap();
    assert_eq!((script.accepted(), script.flushes(), writer.unflushed_bytes()), (pattern(0, 10), 1, 0));
    log.assert_all_back();
}

fn the_plain_flush_returns_the_streams_errors_as_they_are<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Take(1), fails(ErrorKind::TimedOut), Step::Pend]);
    script.on_flush([fails(ErrorKind::BrokenPipe)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    for kind in [ErrorKind::TimedOut, ErrorKind::WouldBlock, ErrorKind::BrokenPipe] {
        let error = writer.plain_flush().unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(kind == ErrorKind::WouldBlock || error.to_string() == "scripted");
    }
    writer.plain_flush().unwrap();
    assert_eq!(script.accepted(), b"abc");
}

fn a_canceled_plain_flush_is_an_error_of_kind_other<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.cancel_pending_flush();
    let error = writer.plain_flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.get_ref().is_some_and(|inner| inner.is::<Canceled>()), "{error:?}");
    assert!(script.calls().is_empty());
    // It is used up, and nothing is lost.
    writer.plain_flush().unwrap();
    assert_eq!(script.accepted(), b"abc");
    // Under way it keeps the progress that it made.
    let handle = writer.handle();
    script.on_write([Step::run(move || handle.cancel_pending_flush(), Step::Take(1))]);
    writer.append(b"def").unwrap();
    assert!(writer.plain_flush().unwrap_err().get_ref().is_some_and(|inner| inner.is::<Canceled>()));
    assert_eq!(writer.unflushed_bytes(), 2);
    writer.plain_flush().unwrap();
    assert_eq!(script.accepted(), b"abcdef");
}

#[test]
fn canceled_is_an_error_that_users_can_name() {
    fn is_error<E: Error + Copy + Send + Sync + 'static + Into<io::Error>>() {}
    is_error::<Canceled>();
    let error: io::Error = Canceled::default().into();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("canceled"));
}

#[test]
fn a_pending_plain_flush_is_woken_by_a_cancel() {
    let script = ScriptHandle::new();
    script.hold_flushes();
    let mut writer = PipeWriter::new(script.stream());
    let handle = writer.handle();
    writer.append(b"abc").unwrap();
    let mut task = Task::new(poll_fn(|cx| AsyncWrite::poll_flush(Pin::new(&mut writer), cx)));
    assert!(task.poll().is_pending());
    handle.cancel_pending_flush();
    assert_eq!(task.finish(0).unwrap_err().kind(), ErrorKind::Other);
}

fn a_plain_flush_without_work_does_no_io<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.plain_flush().unwrap();
    writer.append(b"abc").unwrap();
    writer.plain_flush().unwrap();
    writer.plain_flush().unwrap();
    assert_eq!(script.calls(), [Call::write(3), Call::Flush]);
}

fn the_plain_close_is_complete<K: Kind>() {
    let script = ScriptHandle::new();
    script.on_write([Step::Take(1), fails(ErrorKind::TimedOut)]);
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    assert_eq!(writer.plain_close().unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(!writer.is_completed());
    writer.plain_close().unwrap();
    assert!(writer.is_completed());
    assert_eq!((script.accepted(), script.is_closed()), (b"abc".to_vec(), !K::BLOCKING));
    script.clear_log();
    writer.plain_close().unwrap();
    writer.plain_flush().unwrap();
    assert_eq!(writer.plain_write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(script.calls().is_empty());
}

// ---- whatever comes ----

fn whatever_the_stream_does_each_write_counts_its_own_bytes<K: Kind>() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (pool, log) = TestPool::new();
        let script = ScriptHandle::new();
        script.seed(seed);
        script.default_write(Step::Part);
        let high_water_mark = random.between(1, 30);
        let segment_size = random.between(1, 20);
        let mut writer = K::writer(&script, mark(high_water_mark).segment_size(segment_size).pool(pool));
        let mut model = Model::new();
        for _ in 0..40 {
            match random.below(8) {
                0 => script.on_write([fails(ErrorKind::TimedOut)]),
                1 => script.on_write([Step::Part, Step::Pend]),
                2 => script.on_write([Step::Part, Step::Part, Step::Part]),
                3 => script.on_write([Step::Zero]),
                _ => {}
            }
            let mut at = model.committed().len();
            let mut bufs = Vec::new();
            for _ in 0..random.between(1, 4) {
                let len = random.below(12);
                bufs.push(pattern(at, len));
                at += len;
            }
            let slices: Vec<_> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
            let all = bufs.concat();
            let single = random.one_in(2);
            let result = if single { writer.plain_write(&all) } else { writer.plain_write_vectored(&slices) };
            match result {
                Ok(n) => {
                    assert!(n <= all.len() && (n > 0 || all.is_empty()));
                    model.commit(&all[..n]);
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::QuotaExceeded),
            }
            model.check(&script.accepted(), writer.unflushed_bytes());
            assert!(writer.unflushed_bytes() <= high_water_mark);
            if random.one_in(5) {
                let _ = writer.plain_flush();
                model.check(&script.accepted(), writer.unflushed_bytes());
            }
        }
        while writer.plain_flush().is_err() {}
        model.check(&script.accepted(), 0);
        log.assert_all_back();
    }
}

// ---- dropping in ----

#[test]
fn the_blocking_writer_stands_where_any_write_is_asked_for() {
    fn send(mut to: impl io::Write) -> io::Result<()> {
        let two = "two";
        to.write_all(b"one ")?;
        write!(to, "{two} ")?;
        io::copy(&mut &pattern(0, 200_000)[..], &mut to)?;
        to.flush()
    }
    let script = ScriptHandle::new();
    script.default_write(Step::Part);
    let mut writer = BlockingPipeWriter::new(script.stream());
    send(&mut writer).unwrap();
    assert_eq!(script.accepted(), [&b"one two "[..], &pattern(0, 200_000)].concat());
    send(writer).unwrap();
    assert_eq!(script.accepted_len(), 400_016);
}

#[test]
fn write_all_goes_on_after_each_part_and_stops_at_an_error() {
    use io::Write;
    let script = ScriptHandle::new();
    script.on_write([Step::Take(3), fails(ErrorKind::Interrupted), Step::TakeAll, fails(ErrorKind::TimedOut)]);
    let mut writer = BlockingPipeWriter::with_options(script.stream(), mark(10));
    let error = writer.write_all(&pattern(0, 35)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!((script.accepted(), writer.unflushed_bytes()), (pattern(0, 10), 10));
    writer.write_all(b"").unwrap();
    writer.complete().unwrap();
    assert_eq!(script.accepted(), pattern(0, 20));
    assert_eq!(writer.write_all(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(writer.write_all(b"").map_err(|error| error.kind()), Ok(()), "no write, as std has it");
}

#[test]
fn write_all_ends_the_span_like_any_write() {
    use io::Write;
    let mut writer = BlockingPipeWriter::new(Vec::new());
    writer.span_mut(5).unwrap()[..2].copy_from_slice(b"no");
    writer.write_all(b"ab").unwrap();
    assert_eq!(writer.advance(1).unwrap_err().kind(), ErrorKind::InvalidInput);
    writer.flush().unwrap();
    assert_eq!(writer.get_ref(), b"ab");
}

#[test]
fn the_async_writer_stands_where_any_async_write_is_asked_for() {
    async fn send(mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
        let bytes = pattern(0, 200_000);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let taken = poll_fn(|cx| Pin::new(&mut to).poll_write(cx, rest)).await?;
            rest = &rest[taken..];
        }
        poll_fn(|cx| Pin::new(&mut to).poll_flush(cx)).await?;
        poll_fn(|cx| Pin::new(&mut to).poll_close(cx)).await
    }
    let script = ScriptHandle::new();
    script.default_write(Step::Part);
    script.on_write([Step::PendAndWake, Step::Part, Step::PendAndWake]);
    script.on_flush([Step::PendAndWake]);
    script.on_close([Step::PendAndWake]);
    block_on(send(PipeWriter::new(script.stream()))).unwrap();
    assert_eq!(script.accepted(), pattern(0, 200_000));
    assert!(script.is_closed());
}

#[test]
fn a_writer_can_stand_on_a_writer() {
    let script = ScriptHandle::new();
    let mut outer = PipeWriter::new(PipeWriter::new(script.stream()));
    outer.append(b"abc").unwrap();
    block_on(outer.emit()).unwrap();
    assert_eq!((script.accepted_len(), outer.get_ref().unflushed_bytes()), (0, 3));
    block_on(outer.flush()).unwrap();
    assert_eq!(script.accepted(), b"abc");
    block_on(outer.complete()).unwrap();
    assert!(outer.get_ref().is_completed() && script.is_closed());
}

#[test]
fn inherent_methods_come_first_and_say_more() {
    use io::Write;
    let mut writer = BlockingPipeWriter::new(Vec::new());
    writer.write_all(b"abc").unwrap();
    assert!(!writer.flush().unwrap().is_canceled());
    let () = Write::flush(&mut writer).unwrap();
    // On a box the trait's comes first.
    let mut boxed = Box::new(writer);
    let () = boxed.flush().unwrap();
    assert!(!(*boxed).flush().unwrap().is_canceled());
    let mut writer = PipeWriter::new(Vec::<u8>::new());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(Pin::new(&mut writer).poll_flush(&mut cx), Poll::Ready(Ok(result)) if !result.is_canceled()));
    assert!(matches!(AsyncWrite::poll_flush(Pin::new(&mut writer), &mut cx), Poll::Ready(Ok(()))));
}
