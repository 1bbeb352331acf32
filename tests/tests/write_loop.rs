//! Chapter 4 of the contract, where the stream does less than it is asked to: short writes, errors, false claims, and
//! writes that are put off.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use futures_io::AsyncWrite;
use pipewriter_std::{PipeWriter, PipeWriterOptions};
use pipewriter_tests::both;
use pipewriter_tests::exec::block_on;
use pipewriter_tests::model::{Model, Random, pattern};
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::sink::Sink;
use pipewriter_tests::subject::{Kind, Subject, assert_refused};

both! {
    // 4.3
    a_short_write_moves_on_by_what_was_accepted_wherever_that_falls,
    // 4.4
    an_interrupted_write_is_tried_again,
    an_interrupted_flush_of_the_stream_is_tried_again,
    a_write_of_nothing_is_write_zero_and_loses_nothing,
    an_error_of_a_write_is_returned_as_it_is_and_loses_nothing,
    an_error_of_the_stream_s_flush_is_returned_as_it_is,
    an_error_at_any_call_loses_nothing,
    a_write_that_would_block_loses_nothing,
    // 4.5
    a_claim_of_too_much_is_invalid_data_and_counts_as_nothing,
    a_claim_of_all_too_much_is_no_panic,
    a_claim_of_too_much_in_a_vectored_write_counts_as_nothing,
    // 4.9
    what_was_put_off_is_offered_again_and_no_shorter,
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

fn a_short_write_moves_on_by_what_was_accepted_wherever_that_falls<K: Kind>() {
    let bytes = pattern(0, 40);
    for first in 1..=40 {
        for second in 1..=40 {
            let script = ScriptHandle::new();
            let mut writer = exact::<K>(&script, 7);
            writer.append(&bytes).unwrap();
            script.on_write([Step::Take(first), Step::Take(second), Step::Pend]);
            let accepted = (first + second).min(40);
            if accepted < 40 {
                assert_refused(writer.flush(), ErrorKind::WouldBlock);
            } else {
                writer.flush_well();
            }
            assert_eq!(script.accepted(), bytes[..accepted]);
            assert_eq!(writer.unflushed_bytes(), 40 - accepted);
            writer.flush_well();
            assert_eq!(script.accepted(), bytes);
        }
    }
}

fn an_interrupted_write_is_tried_again<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 4);
    writer.append(b"hello world").unwrap();
    let interrupted = || Step::Fail(ErrorKind::Interrupted, "scripted");
    script.on_write([interrupted(), interrupted(), Step::Take(5), interrupted()]);
    writer.flush_well();
    assert_eq!(script.accepted(), b"hello world");
    assert_eq!(script.writes(), 5);
    script.assert_played();
}

fn an_interrupted_flush_of_the_stream_is_tried_again<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 64);
    writer.append(b"hello").unwrap();
    script.on_flush([Step::Fail(ErrorKind::Interrupted, "scripted"), Step::Fail(ErrorKind::Interrupted, "scripted")]);
    writer.flush_well();
    assert_eq!(script.calls(), [Call::write(5), Call::Flush, Call::Flush, Call::Flush]);
}

#[test]
fn an_interrupted_close_is_tried_again() {
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    script.on_close([Step::Fail(ErrorKind::Interrupted, "scripted")]);
    block_on(writer.complete()).unwrap();
    assert_eq!(script.calls(), [Call::Close, Call::Close]);
    let script = ScriptHandle::new();
    let mut writer = PipeWriter::new(script.stream());
    script.on_close([Step::Fail(ErrorKind::Interrupted, "scripted")]);
    block_on(writer.abort()).unwrap();
    assert!(script.is_closed());
}

fn a_write_of_nothing_is_write_zero_and_loses_nothing<K: Kind>() {
    for segment_size in [4, 64] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, segment_size);
        writer.append(b"hello world").unwrap();
        script.on_write([Step::Zero, Step::Take(3), Step::Zero]);
        assert_refused(writer.flush(), ErrorKind::WriteZero);
        assert_eq!((script.accepted_len(), writer.unflushed_bytes()), (0, 11));
        assert_refused(writer.flush(), ErrorKind::WriteZero);
        assert_eq!((script.accepted_len(), writer.unflushed_bytes()), (3, 8));
        assert_eq!(script.flushes(), 0);
        writer.flush_well();
        assert_eq!(script.accepted(), b"hello world");
    }
}

/// An error that only this test knows.
#[derive(Debug)]
struct Own(u32);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "own error {}", self.0)
    }
}

impl Error for Own {}

/// A stream whose next write fails with an [`Own`] error, and each of whose flushes does.
#[derive(Debug, Default)]
struct Failing {
    writes: bool,
    sink: Sink,
}

impl AsyncWrite for Failing {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(io::Write::write(&mut *self, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(io::Write::flush(&mut *self))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl io::Write for Failing {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.writes { Err(io::Error::other(Own(1))) } else { self.sink.write(buf) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::Error::other(Own(2)))
    }
}

fn assert_own<T: fmt::Debug>(result: io::Result<T>, expected: u32) {
    let error = result.unwrap_err();
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Own>());
    assert!(own.is_some_and(|own| own.0 == expected), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Other);
}

fn an_error_of_a_write_is_returned_as_it_is_and_loses_nothing<K: Kind>() {
    fn check<S: Subject<Stream = Failing>>(mut writer: S) {
        writer.get_mut().writes = true;
        writer.append(b"hello").unwrap();
        assert_own(writer.flush(), 1);
        assert_own(writer.emit(), 1);
        assert_own(writer.write_and_flush(&[0; 100]), 1);
        assert_own(writer.plain_flush(), 1);
        assert_own(writer.complete(), 1);
        assert_eq!(writer.unflushed_bytes(), 105);
        writer.get_mut().writes = false;
        writer.emit().unwrap();
        assert_eq!((writer.unflushed_bytes(), writer.get_ref().sink.bytes), (0, 105));
    }
    check(K::over(Failing::default(), options(64)));
    for code in [5, 11, 28, 32, 104] {
        // Also one of the operating system's.
        let script = ScriptHandle::new();
        let mut writer = K::over(OsFailing(code, script.stream()), options(64));
        writer.append(b"hello").unwrap();
        assert_eq!(writer.flush().unwrap_err().raw_os_error(), Some(code));
    }
}

/// A stream whose writes fail with an error of the operating system.
struct OsFailing(i32, Script);

impl AsyncWrite for OsFailing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::Error::from_raw_os_error(self.0)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.1).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.1).poll_close(cx)
    }
}

impl io::Write for OsFailing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(self.0))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.1)
    }
}

fn an_error_of_the_stream_s_flush_is_returned_as_it_is<K: Kind>() {
    let mut writer = K::over(Failing::default(), options(64));
    writer.append(b"hello").unwrap();
    assert_own(writer.flush(), 2);
    assert_own(writer.flush(), 2);
    assert_own(writer.plain_flush(), 2);
    assert_own(writer.complete(), 2);
    assert_eq!((writer.unflushed_bytes(), writer.get_ref().sink.bytes), (0, 5));
}

fn an_error_at_any_call_loses_nothing<K: Kind>() {
    let bytes = pattern(0, 50);
    // The write that fails, after how many that went well, and how often in a row; over chunks and over a single one.
    for segment_size in [7, 64] {
        for (before, failures) in (0..8).flat_map(|before| (1..4).map(move |failures| (before, failures))) {
            let script = ScriptHandle::new();
            let mut writer = exact::<K>(&script, segment_size);
            writer.append(&bytes).unwrap();
            script.on_write((0..before).map(|_| Step::Take(6)));
            script.on_write((0..failures).map(|_| fail()));
            for _ in 0..failures {
                assert_refused(writer.flush(), FAILED);
                assert_eq!(script.accepted(), bytes[..6 * before]);
                assert_eq!(writer.unflushed_bytes(), 50 - 6 * before);
                assert_eq!(script.flushes(), 0);
            }
            writer.flush_well();
            assert_eq!(script.accepted(), bytes);
            assert_eq!(script.flushes(), 1);
            script.assert_played();
        }
    }
}

fn a_write_that_would_block_loses_nothing<K: Kind>() {
    let bytes = pattern(0, 50);
    for step in [Step::Pend, Step::Fail(ErrorKind::WouldBlock, "scripted")] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 16);
        writer.append(&bytes).unwrap();
        for _ in 0..5 {
            script.on_write([Step::Take(10), step.clone(), step.clone()]);
        }
        for accepted in [10, 10, 20, 20, 30, 30, 40, 40] {
            assert_refused(writer.flush(), ErrorKind::WouldBlock);
            assert_eq!(script.accepted(), bytes[..accepted]);
            assert_eq!(writer.unflushed_bytes(), 50 - accepted);
        }
        writer.flush_well();
        assert_eq!(script.accepted(), bytes);
    }
}

fn a_claim_of_too_much_is_invalid_data_and_counts_as_nothing<K: Kind>() {
    for too_much in [1, 2, 1000] {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 64);
        writer.append(b"hello world").unwrap();
        script.on_write([Step::Take(4), Step::ClaimMore(too_much)]);
        assert_refused(writer.flush(), ErrorKind::InvalidData);
        assert_eq!(script.accepted(), b"hell");
        assert_eq!(writer.unflushed_bytes(), 7, "what went before counts");
        assert_eq!(script.flushes(), 0);
        writer.flush_well();
        assert_eq!(script.accepted(), b"hello world");
    }
}

fn a_claim_of_all_too_much_is_no_panic<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = exact::<K>(&script, 4);
    writer.append(b"hello world").unwrap();
    script.on_write([Step::ClaimMore(usize::MAX), Step::ClaimMore(usize::MAX)]);
    assert_refused(writer.flush(), ErrorKind::InvalidData);
    let error = writer.emit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("twice"), "it warns that some may be sent twice: {error}");
    assert_eq!(writer.unflushed_bytes(), 11);
    writer.flush_well();
    assert_eq!(script.accepted(), b"hello world");
}

fn a_claim_of_too_much_in_a_vectored_write_counts_as_nothing<K: Kind>() {
    for chunks_before in 0..4 {
        let script = ScriptHandle::new();
        let mut writer = exact::<K>(&script, 5);
        writer.append(&pattern(0, 25)).unwrap();
        script.on_write((0..chunks_before).map(|_| Step::FirstChunk));
        script.on_write([Step::ClaimMore(1)]);
        assert_refused(writer.flush(), ErrorKind::InvalidData);
        assert_eq!(writer.unflushed_bytes(), 25 - 5 * chunks_before);
        writer.flush_well();
        assert_eq!(script.accepted(), pattern(0, 25));
    }
}

fn what_was_put_off_is_offered_again_and_no_shorter<K: Kind>() {
    // The scripted stream itself checks each offer after one that was put off. Here everything that could change what is
    // offered happens in between.
    let put_off = [Step::Pend, Step::Fail(ErrorKind::WouldBlock, "scripted")];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let script = ScriptHandle::new();
        script.seed(seed);
        let mut writer = exact::<K>(&script, random.between(1, 30));
        let mut model = Model::new();
        for _ in 0..30 {
            let bytes = model.deal(random.below(60));
            script.on_write([random.pick(&[Step::Part, Step::FirstChunk, Step::Take(9)]).clone()]);
            script.on_write([random.pick(&put_off).clone()]);
            match random.below(6) {
                0 => writer.append(&bytes).unwrap(),
                1 => writer.put(&bytes),
                2 => drop(writer.write_and_flush(&bytes)),
                3 => {
                    writer.cancel_pending_flush();
                    assert!(writer.flush().unwrap().is_canceled());
                    writer.append(&bytes).unwrap();
                }
                4 => {
                    drop(writer.emit());
                    writer.append(&bytes).unwrap();
                }
                _ => {
                    drop(writer.flush());
                    writer.append(&bytes).unwrap();
                }
            }
            model.commit(&bytes);
            model.check(&script.accepted(), writer.unflushed_bytes());
        }
        while writer.flush().is_err() {}
        model.check(&script.accepted(), 0);
    }
}
