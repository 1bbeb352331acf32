//! Panics everywhere (rules 6.5 and 6.6): in each method of the stream and of the pool, and in a waker's, at the first call and at
//! every later one; caught, after which the program goes on, and unwinding through the writer's drop.

#[expect(dead_code, reason = "only the hooked waker is needed here")]
mod support;

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Waker};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pipewriter_std::{PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::poll_with;
use pipewriter_tests::model::pattern;
use pipewriter_tests::pools::{PoolLog, TestPool};
use pipewriter_tests::script::{Outcome, Script, ScriptHandle, Step};
use pipewriter_tests::step::Op;
use pipewriter_tests::subject::{Kind, Subject};
use support::{Event, hooked};

pipewriter_tests::both!(
    a_panic_that_is_caught_loses_and_repeats_nothing_wherever_it_comes,
    a_panic_that_unwinds_through_the_writer_repeats_nothing_and_gives_every_segment_back,
    a_pool_that_panics_as_a_full_writer_ends_gets_every_segment_back,
);

/// Who panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Write,
    Flush,
    Close,
    Take,
    Give,
}

impl Place {
    /// A close is put off as often as the script says, so that there is always one more.
    fn is_enough(self, n: usize) -> bool {
        self == Self::Close && n > 3
    }
}

const PLACES: [Place; 5] = [Place::Write, Place::Flush, Place::Close, Place::Take, Place::Give];

/// `WouldBlock` and `TimedOut` are the script's.
const PROGRAM: &[Op] = &[
    Op::Append(5),
    Op::Flush,
    Op::Append(60),
    Op::Span(30),
    Op::Emit,
    Op::WriteAndFlush(12),
    Op::Span(3),
    Op::WriteAndFlush(20_000),
    Op::PlainWrite(40),
    Op::PlainWrite(50),
    Op::Flush,
    Op::WriteAndFlush(100),
    Op::Append(9),
    Op::WriteAndFlush(30),
    Op::Append(25),
    Op::Complete,
];

/// The stream takes parts, and stalls now and then: enough steps for the whole program.
fn writes() -> impl Iterator<Item = Step> {
    [
        Step::Take(7),
        Step::FirstChunk,
        Step::Pend,
        Step::Take(11),
        Step::TakeAll,
        Step::Fail(ErrorKind::TimedOut, "late"),
    ]
    .into_iter()
    .cycle()
    .take(600)
}

struct Stage<K: Kind> {
    script: ScriptHandle,
    pool: PoolLog,
    writer: K::Writer<Script, TestPool>,
}

/// A writer where the call number `n` of that kind panics.
fn set<K: Kind>(place: Place, n: usize) -> Stage<K> {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let steps = |usual: &mut dyn Iterator<Item = Step>| {
        let mut steps: Vec<_> = usual.take(n).collect();
        steps.push(Step::Panic);
        steps
    };
    match place {
        Place::Write => script.on_write(steps(&mut writes())),
        Place::Flush => script.on_flush(steps(&mut [Step::TakeAll, Step::Pend].into_iter().cycle())),
        Place::Close => script.on_close(steps(&mut std::iter::repeat(Step::Pend))),
        Place::Take => log.panic_at_take(n),
        Place::Give => log.panic_at_give(n),
    }
    if place != Place::Write {
        script.on_write(writes());
    }
    let options = PipeWriterOptions::new().segment_size(16).high_water_mark(32).pool(pool);
    Stage { writer: K::writer(&script, options), script, pool: log }
}

/// Runs the program to its end, catching each panic and going on. Says how many there were, and whether the writer was aborted.
fn run_through<K: Kind>(stage: &mut Stage<K>, context: &str) -> (usize, bool) {
    let (mut panics, mut committed) = (0, 0);
    for &op in PROGRAM {
        let mut bytes = pattern(committed, op.bytes());
        loop {
            let result = catch_unwind(AssertUnwindSafe(|| op.call(&mut stage.writer, &bytes)));
            panics += usize::from(result.is_err());
            if stage.writer.is_completed() && !matches!(op, Op::Complete) {
                return (panics, true);
            }
            let taken = match (&result, op) {
                (Ok(Ok(n)), _) => *n,
                // From its first poll on the argument counts as committed, whatever comes of it.
                (_, Op::WriteAndFlush(n)) => n,
                _ => 0,
            };
            committed += taken;
            let unflushed = stage.writer.unflushed_bytes();
            let accepted = stage.script.accepted();
            assert_eq!(accepted.len() + unflushed, committed, "{context}, {op:?}, bytes were lost or repeated");
            assert_eq!(accepted, pattern(0, accepted.len()), "{context}, {op:?}");
            bytes.drain(..taken);
            match op {
                // All went well, or what it left will be sent by a later call.
                _ if matches!(result, Ok(Ok(_))) && bytes.is_empty() => break,
                Op::WriteAndFlush(_) => break,
                // Made again: nothing of it was committed.
                _ => {}
            }
        }
    }
    assert_eq!(stage.script.accepted(), pattern(0, committed), "{context}");
    (panics, false)
}

fn a_panic_that_is_caught_loses_and_repeats_nothing_wherever_it_comes<K: Kind>() {
    for place in PLACES {
        let mut met = 0;
        for n in 0.. {
            let context = format!("{place:?} {n}");
            let mut stage = set::<K>(place, n);
            let (panics, aborted) = run_through(&mut stage, &context);
            if panics == 0 || place.is_enough(n) {
                break;
            }
            met += 1;
            assert_eq!(panics, 1, "{context}");
            // Only a pool that panics instead of keeping the rest of an argument ends the writer, as a refusal does.
            assert!(!aborted || place == Place::Take, "{context}: aborted");
            if aborted {
                assert_eq!(stage.writer.append(b"x").unwrap_err().kind(), ErrorKind::OutOfMemory, "{context}");
            }
            assert!(stage.writer.is_completed());
            assert_eq!((stage.pool.held(), stage.writer.unflushed_bytes()), (0, 0), "{context}");
            drop(stage.writer);
            stage.pool.assert_all_back();
        }
        let least = match place {
            Place::Close if K::BLOCKING => 0,
            Place::Close => 1,
            Place::Flush => 5,
            _ => 15,
        };
        assert!(met >= least, "{place:?}: only {met} calls to panic at");
    }
}

/// Notes how many calls the stream has seen when the panic begins to unwind.
struct Seen<'a>(&'a ScriptHandle, &'a AtomicUsize);

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.log().len(), Ordering::Relaxed);
    }
}

fn a_panic_that_unwinds_through_the_writer_repeats_nothing_and_gives_every_segment_back<K: Kind>() {
    for place in PLACES {
        for n in 0.. {
            let context = format!("{place:?} {n}");
            let Stage { script, pool, writer } = set::<K>(place, n);
            let handle = writer.handle();
            let seen = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                let mut writer = writer;
                // Dropped first.
                let _seen = Seen(&script, &seen);
                let mut committed = 0;
                for &op in PROGRAM {
                    let mut bytes = pattern(committed, op.bytes());
                    while let n @ 1.. = bytes.len() {
                        let taken = op.call(&mut writer, &bytes);
                        let taken = taken.unwrap_or(if matches!(op, Op::WriteAndFlush(_)) { n } else { 0 });
                        committed += taken;
                        bytes.drain(..taken);
                    }
                    if matches!(op, Op::Flush | Op::Emit | Op::Complete) {
                        while op.call(&mut writer, &[]).is_err() {}
                    }
                }
            }));
            assert!(handle.is_closed(), "{context}");
            pool.assert_all_back();
            let accepted = script.accepted();
            assert_eq!(accepted, pattern(0, accepted.len()), "{context}: a byte was lost or repeated");
            if result.is_ok() || place.is_enough(n) {
                break;
            }
            assert_eq!(script.log().len(), seen.load(Ordering::Relaxed), "{context}: the drop called the stream");
            let panicked = script.log().iter().filter(|entry| entry.outcome == Outcome::Panicked).count();
            assert_eq!(panicked, usize::from(!matches!(place, Place::Take | Place::Give)), "{context}");
        }
    }
}

fn a_pool_that_panics_as_a_full_writer_ends_gets_every_segment_back<K: Kind>() {
    type End<W> = (&'static str, fn(W));
    let ends: [End<K::Writer<Script, TestPool>>; 4] = [
        ("abort", |mut w| drop(w.abort())),
        ("abort_with", |mut w| drop(w.abort_with(ErrorKind::TimedOut.into()))),
        ("drop", drop),
        ("into_parts", |w| drop(w.into_parts())),
    ];
    for (name, end) in ends {
        for n in 0.. {
            let script = ScriptHandle::new();
            // So that the drop of the blocking writer gives them back itself, and not one by one as they are sent.
            script.default_write(Step::Fail(ErrorKind::TimedOut, "late"));
            let (pool, log) = TestPool::new();
            let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(16).pool(pool));
            writer.append(&pattern(0, 100)).unwrap();
            let handle = writer.handle();
            log.panic_at_give(n);
            let result = catch_unwind(AssertUnwindSafe(move || end(writer)));
            log.assert_all_back();
            assert!(handle.is_closed(), "{name} {n}");
            assert_eq!(script.accepted_len(), 0, "{name} {n}");
            if result.is_ok() {
                assert_eq!(n, log.given(), "{name}: each give panicked once");
                break;
            }
        }
    }
}

/// All that code of a waker does in the life of a flush and of a wait for the end, with each of its calls panicking in turn.
#[test]
fn a_panic_in_a_waker_loses_nothing_whichever_of_its_methods_it_is_and_whenever_it_comes() {
    for event in [Event::Clone, Event::Wake, Event::Drop] {
        for handle_first in [false, true] {
            let mut met = 0;
            for n in 0.. {
                let panics = with_panicking_waker(event, n, handle_first);
                assert!(panics <= 1, "{event:?} {n}");
                if panics == 0 {
                    break;
                }
                met += 1;
            }
            assert!(met >= 2, "{event:?}: only {met} calls to panic at");
        }
    }
}

/// Runs a program whose wakers panic at the call number `n` of that kind; says how many panics it caught.
fn with_panicking_waker(event: Event, n: usize, handle_first: bool) -> usize {
    let context = format!("{event:?} {n}, {handle_first}");
    let calls = Arc::new(AtomicUsize::new(0));
    let armed = Arc::new(AtomicUsize::new(0));
    let waker = || {
        let (calls, armed) = (Arc::clone(&calls), Arc::clone(&armed));
        hooked(move |now| {
            if armed.load(Ordering::SeqCst) == 1 && now == event && calls.fetch_add(1, Ordering::SeqCst) == n {
                panic!("the waker says: {now:?} {n}");
            }
        })
    };
    // Their drop at the end is the test's own affair: only what the writer does with them counts.
    let wakers: Vec<Waker> = (0..6).map(|_| waker()).collect();
    let mut panics = 0;
    let mut guarded = |call: &mut dyn FnMut()| {
        armed.store(1, Ordering::SeqCst);
        panics += usize::from(catch_unwind(AssertUnwindSafe(call)).is_err());
        armed.store(0, Ordering::SeqCst);
    };

    // The script would keep wakers of its own, so its stalls are plain ones without.
    let (pool, log) = TestPool::new();
    let taken = Arc::new(AtomicUsize::new(0));
    let stream = Stalls { taken: Arc::clone(&taken), calls: 0, bytes: Vec::new() };
    let mut writer = PipeWriter::with_options(stream, PipeWriterOptions::new().segment_size(8).pool(pool));
    let handle = handle_first.then(|| writer.handle());
    writer.append(b"0123456789").unwrap();
    guarded(&mut || drop(poll_with(&wakers[0], &mut writer.flush())));
    guarded(&mut || drop(poll_with(&wakers[1], &mut writer.flush())));
    let handle = handle.unwrap_or_else(|| {
        let mut made = None;
        guarded(&mut || made = Some(writer.handle()));
        made.unwrap_or_else(|| writer.handle())
    });
    guarded(&mut || drop(poll_with(&wakers[2], &mut writer.write_and_flush(b"abcdef"))));
    if taken.load(Ordering::SeqCst) + writer.unflushed_bytes() == 10 {
        panic!("{context}: the argument was polled and does not count");
    }
    let mut waits = [handle.closed(), handle.closed()];
    guarded(&mut || assert!(poll_with(&wakers[3], &mut waits[0]).is_pending()));
    guarded(&mut || assert!(poll_with(&wakers[4], &mut waits[1]).is_pending()));
    guarded(&mut || assert!(poll_with(&wakers[5], &mut waits[1]).is_pending()));
    guarded(&mut || handle.cancel_pending_flush());
    let mut canceled = 0;
    let mut calls_left = 100;
    while !writer.is_completed() {
        calls_left -= 1;
        assert!(calls_left > 0, "{context}: the writer does not come to its end");
        guarded(&mut || {
            let flush = poll_with(&wakers[0], &mut writer.flush());
            canceled += usize::from(flush.is_ready_and_canceled());
        });
        if writer.unflushed_bytes() == 0 {
            guarded(&mut || drop(Pin::new(&mut writer).poll_complete(&mut Context::from_waker(&wakers[1]))));
        }
    }
    assert_eq!(canceled, 1, "{context}: one cancel ends one flush");
    assert_eq!(writer.get_ref().bytes, b"0123456789abcdef", "{context}");
    assert!(handle.is_closed(), "{context}");
    for wait in &mut waits {
        assert!(poll_with(Waker::noop(), wait).is_ready(), "{context}");
    }
    log.assert_all_back();
    guarded(&mut || drop(std::mem::replace(&mut waits, [handle.closed(), handle.closed()])));
    panics
}

trait Canceled {
    fn is_ready_and_canceled(&self) -> bool;
}

impl Canceled for core::task::Poll<io::Result<pipewriter_std::FlushResult>> {
    fn is_ready_and_canceled(&self) -> bool {
        matches!(self, Self::Ready(Ok(result)) if result.is_canceled())
    }
}

/// A stream that takes two bytes at every other call, and keeps no waker.
struct Stalls {
    taken: Arc<AtomicUsize>,
    calls: usize,
    bytes: Vec<u8>,
}

impl futures_io::AsyncWrite for Stalls {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> core::task::Poll<io::Result<usize>> {
        self.calls += 1;
        if self.calls % 2 == 0 {
            return core::task::Poll::Pending;
        }
        let n = buf.len().min(2);
        self.bytes.extend_from_slice(&buf[..n]);
        self.taken.fetch_add(n, Ordering::SeqCst);
        core::task::Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> core::task::Poll<io::Result<()>> {
        core::task::Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> core::task::Poll<io::Result<()>> {
        core::task::Poll::Ready(Ok(()))
    }
}
