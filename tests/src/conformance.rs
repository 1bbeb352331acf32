//! Plays the recorded traces of .NET's writer on ours. What a trace is, and how to read one: `data/README.md`.

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use futures_io::AsyncWrite;
use pipewriter_std::{FlushResult, HeapPool, PipeWriterOptions};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::exec::Task;
use crate::model::pattern;
use crate::script::{Script, ScriptHandle, Step as Scripted};
use crate::subject::{Asynchronous, Blocking, Kind, Stream, Subject};

const WRITE_FAILED: (io::ErrorKind, &str) = (io::ErrorKind::TimedOut, "the sink's write failed");
const FLUSH_FAILED: (io::ErrorKind, &str) = (io::ErrorKind::PermissionDenied, "the sink's flush failed");

/// How many writes it should take about to send what a trace sends; more would only take time.
const MOST_CALLS: usize = 10_000;

/// The recording.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    format: u32,
    /// What was recorded.
    pub peer: String,
    /// The traces.
    pub traces: Vec<Trace>,
}

/// What was done to one writer, and what was seen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name; it says what the trace shows, or `random-...`.
    pub name: String,
    /// The rules of the contract that it bears on.
    pub rules: Vec<String>,
    options: Options,
    /// Whether a writer over a blocking stream cannot play it.
    pub async_only: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    segment_size: usize,
    leave_open: bool,
}

#[derive(Debug, Deserialize)]
struct Step {
    #[serde(flatten)]
    op: Op,
    expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", content = "args", rename_all = "snake_case", deny_unknown_fields)]
enum Op {
    Block { what: Blocked },
    Unblock,
    FailNextWrite,
    FailNextFlush,
    GetSpan { hint: Hint },
    Put { byte: u8, n: usize },
    Fill { byte: u8, n: usize },
    Advance(Advance),
    Append(Bytes),
    Flush,
    WriteAndFlush(Bytes),
    Cancel,
    Complete,
    Abort,
    StartFlush,
    StartWriteAndFlush(Bytes),
    UnblockAndFinish,
    CancelAndFinish,
    DropFlush,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Blocked {
    All,
    Flush,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Hint {
    Bytes(usize),
    Word(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Advance {
    N(usize),
    PastEnd(usize),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Bytes {
    Hex { hex: String },
    Pattern { start: usize, n: usize },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    result: Outcome,
    error: Option<Refusal>,
    completed: Option<bool>,
    min_len: Option<usize>,
    moved: Option<usize>,
    unflushed: Option<usize>,
    // The sink's state is left out where the step did not change it.
    sink: Option<Sunk>,
    flushes: Option<usize>,
    disposed: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Canceled,
    Pending,
    Dropped,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Refusal {
    Invalid,
    Completed,
    TooLarge,
    SinkWrite,
    SinkFlush,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Sunk {
    Hex { hex: String },
    Hash { len: usize, sha256: String },
}

/// How the stream takes what it is offered. Every trace comes out the same whichever it is.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    /// What each write does.
    pub write: TakingStep,
    /// Whether the stream has a vectored write of its own.
    pub vectored: bool,
}

/// How much a write takes.
#[derive(Clone, Copy, Debug)]
pub enum TakingStep {
    /// All of it.
    All,
    /// So many bytes, or somewhat more in a trace with very many.
    AtMost(usize),
    /// The first chunk.
    FirstChunk,
    /// A part, drawn anew for each write.
    Part,
}

/// The recording, read.
///
/// # Panics
///
/// If `json` is not a recording in the format that this player knows.
pub fn read(json: &str) -> Recording {
    let recording: Recording = serde_json::from_str(json).expect("a recording");
    assert_eq!(recording.format, 2, "the player knows format 2 only");
    recording
}

/// Plays every trace that the writer can play, and says how many these were.
///
/// # Panics
///
/// If any came out otherwise than recorded: the message names each such trace, its step and what differs.
pub fn play_all<K: Player>(recording: &Recording, taking: Taking) -> usize {
    let playable = || recording.traces.iter().filter(|trace| !(K::BLOCKING && trace.async_only));
    let different: Vec<String> = playable().filter_map(|trace| play::<K>(trace, taking).err()).collect();
    assert!(different.is_empty(), "{} traces differ ({taking:?}):\n{}", different.len(), different.join("\n"));
    playable().count()
}

fn play<K: Player>(trace: &Trace, taking: Taking) -> Result<(), String> {
    let script = ScriptHandle::new();
    script.default_write(match taking.write {
        TakingStep::All => Scripted::TakeAll,
        TakingStep::AtMost(n) => Scripted::Take(n.max(trace.accepted() / MOST_CALLS)),
        TakingStep::FirstChunk => Scripted::FirstChunk,
        TakingStep::Part => Scripted::Part,
    });
    if taking.vectored {
        Play::<K, _>::new(trace, &script, script.stream()).steps(trace)
    } else {
        Play::<K, _>::new(trace, &script, Plain(script.stream())).steps(trace)
    }
}

/// A writer that traces are played on: for the async one with flushes that are pending for a while.
pub trait Player: Kind {
    /// Begins a flush, or a write with `bytes`, which must be pending. Then `meanwhile` says how it goes on: to its end,
    /// once it was woken, with that result; or not at all.
    fn pending_flush<S: Stream>(
        writer: &mut Self::Writer<S, HeapPool>,
        bytes: Option<&[u8]>,
        meanwhile: impl FnOnce() -> Result<GoOn, String>,
    ) -> Result<Option<io::Result<FlushResult>>, String>;
}

/// What becomes of a pending flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoOn {
    /// It is polled to its end.
    Yes,
    /// It is dropped.
    No,
}

impl Player for Asynchronous {
    fn pending_flush<S: Stream>(
        writer: &mut Self::Writer<S, HeapPool>,
        bytes: Option<&[u8]>,
        meanwhile: impl FnOnce() -> Result<GoOn, String>,
    ) -> Result<Option<io::Result<FlushResult>>, String> {
        let mut task = match bytes {
            Some(bytes) => Task::new(writer.write_and_flush(bytes)),
            None => Task::new(writer.flush()),
        };
        if let Poll::Ready(result) = task.poll_until_stalled() {
            return Err(format!("expected it pending, not {result:?}"));
        }
        let seen = task.wakes();
        Ok(match meanwhile()? {
            GoOn::Yes => Some(task.finish(seen)),
            GoOn::No => None,
        })
    }
}

impl Player for Blocking {
    fn pending_flush<S: Stream>(
        _: &mut Self::Writer<S, HeapPool>,
        _: Option<&[u8]>,
        _: impl FnOnce() -> Result<GoOn, String>,
    ) -> Result<Option<io::Result<FlushResult>>, String> {
        unreachable!("a trace with a pending flush is async_only")
    }
}

impl Trace {
    /// How many bytes the sink has in the end.
    fn accepted(&self) -> usize {
        self.steps.iter().rev().find_map(|step| step.expect.sink.as_ref()).map_or(0, |sunk| match sunk {
            Sunk::Hex { hex } => hex.len() / 2,
            Sunk::Hash { len, .. } => *len,
        })
    }

    fn place(&self, number: usize, what: String) -> String {
        format!("{} ({}), step {number} {:?}: {what}", self.name, self.rules.join(" "), self.steps[number].op)
    }
}

/// A trace being played.
struct Play<'a, K: Player, S: Stream> {
    script: &'a ScriptHandle,
    writer: K::Writer<S, HeapPool>,
    span: Option<Span>,
    sink: SinkState,
    kind: PhantomData<K>,
}

/// The span that was asked for last.
#[derive(Clone, Copy)]
struct Span {
    address: usize,
    hint: usize,
    len: usize,
    advanced: usize,
}

/// What the sink should look like: what the last step that said so said.
#[derive(Default)]
struct SinkState {
    len: usize,
    flushes: usize,
    disposed: bool,
}

/// What a step came to.
enum Came {
    Done,
    Flushed(FlushResult),
    Failed(io::Error),
    Dropped,
    SpanOf(usize, usize),
}

impl<'a, K: Player, S: Stream> Play<'a, K, S> {
    fn new(trace: &Trace, script: &'a ScriptHandle, stream: S) -> Self {
        let options =
            PipeWriterOptions::new().segment_size(trace.options.segment_size).leave_open(trace.options.leave_open);
        Self { script, writer: K::over(stream, options), span: None, sink: SinkState::default(), kind: PhantomData }
    }

    fn steps(mut self, trace: &Trace) -> Result<(), String> {
        let mut steps = trace.steps.iter().enumerate();
        while let Some((number, step)) = steps.next() {
            if let Op::StartFlush | Op::StartWriteAndFlush(_) = step.op {
                let (end_number, end) = steps.next().expect("the step that ends a pending flush");
                let came = self.pending(step, end).map_err(|what| trace.place(number, what))?;
                self.check(came, &end.expect).map_err(|what| trace.place(end_number, what))?;
            } else {
                let came = self.carry_out(&step.op);
                came.and_then(|came| self.check(came, &step.expect)).map_err(|what| trace.place(number, what))?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, op: &Op) -> Result<Came, String> {
        let writer = &mut self.writer;
        let script = self.script;
        Ok(match op {
            Op::Block { what } => {
                script.release();
                script.hold_flushes();
                if let Blocked::All = what {
                    script.hold_writes();
                }
                Came::Done
            }
            Op::Unblock => {
                script.release();
                Came::Done
            }
            Op::FailNextWrite => {
                // A flag: setting it twice is setting it once.
                if script.write_steps_left() == 0 {
                    script.on_write([Scripted::Fail(WRITE_FAILED.0, WRITE_FAILED.1)]);
                }
                Came::Done
            }
            Op::FailNextFlush => {
                if script.flush_steps_left() == 0 {
                    script.on_flush([Scripted::Fail(FLUSH_FAILED.0, FLUSH_FAILED.1)]);
                }
                Came::Done
            }
            Op::GetSpan { hint } => {
                let hint = match hint {
                    Hint::Bytes(hint) => *hint,
                    Hint::Word(word) if word == "max" => usize::MAX,
                    Hint::Word(word) => return Err(format!("no hint: {word}")),
                };
                match writer.span_mut(hint) {
                    Ok(span) => {
                        let (address, len) = (span.as_ptr().addr(), span.len());
                        let before = self.span.replace(Span { address, hint, len, advanced: 0 });
                        Came::SpanOf(len, address.wrapping_sub(before.map_or(0, |span| span.address)))
                    }
                    Err(error) => Came::Failed(error),
                }
            }
            Op::Put { byte, n } => {
                self.put(*byte, *n)?;
                Came::Done
            }
            Op::Fill { byte, n } => {
                self.put(*byte, *n)?;
                self.advance(*n)
            }
            Op::Advance(Advance::N(n)) => self.advance(*n),
            Op::Advance(Advance::PastEnd(k)) => {
                let left = self.span.map_or(0, |span| span.len - span.advanced);
                self.advance(left + k)
            }
            Op::Append(bytes) => done(writer.append(&bytes.get())),
            Op::Flush => flushed(writer.flush()),
            Op::WriteAndFlush(bytes) => flushed(writer.write_and_flush(&bytes.get())),
            Op::Cancel => {
                writer.cancel_pending_flush();
                Came::Done
            }
            Op::Complete => done(writer.complete()),
            Op::Abort => done(writer.abort()),
            Op::StartFlush | Op::StartWriteAndFlush(_) | Op::UnblockAndFinish | Op::CancelAndFinish | Op::DropFlush => {
                return Err("out of place".to_string());
            }
        })
    }

    /// Writes into the span that was asked for last, by asking for it again.
    fn put(&mut self, byte: u8, n: usize) -> Result<(), String> {
        let asked = self.span.ok_or("no span to put into")?;
        let span = self.writer.span_mut(asked.hint).map_err(|error| format!("the span again: {error}"))?;
        ensure(span.as_ptr().addr() == asked.address, || "the same span lies somewhere else".to_string())?;
        span[..n].fill(byte);
        Ok(())
    }

    fn advance(&mut self, n: usize) -> Came {
        let result = self.writer.advance(n);
        if let (Ok(()), Some(span)) = (&result, &mut self.span) {
            span.advanced += n;
        }
        done(result)
    }

    /// The two steps of a flush that is pending for a while.
    fn pending(&mut self, start: &Step, end: &Step) -> Result<Came, String> {
        let bytes = match &start.op {
            Op::StartWriteAndFlush(bytes) => Some(bytes.get()),
            _ => None,
        };
        let handle = self.writer.handle();
        let (script, sink) = (self.script, &mut self.sink);
        let result = K::pending_flush(&mut self.writer, bytes.as_deref(), || {
            ensure(start.expect.result == Outcome::Pending, || "not expected pending".to_string())?;
            sink.check::<K>(script, &start.expect)?;
            match end.op {
                Op::UnblockAndFinish => drop(script.release()),
                Op::CancelAndFinish => handle.cancel_pending_flush(),
                Op::DropFlush => return Ok(GoOn::No),
                _ => return Err("out of place".to_string()),
            }
            Ok(GoOn::Yes)
        })?;
        Ok(result.map_or(Came::Dropped, flushed))
    }

    fn check(&mut self, came: Came, expect: &Expect) -> Result<(), String> {
        match (came, expect.result) {
            (Came::Done, Outcome::Ok) | (Came::Dropped, Outcome::Dropped) => {}
            (Came::Flushed(result), Outcome::Ok | Outcome::Canceled) => {
                let canceled = expect.result == Outcome::Canceled;
                ensure(result.is_canceled() == canceled, || format!("{result:?}, expected {:?}", expect.result))?;
                let completed = expect.completed.ok_or("no flush")?;
                ensure(result.is_completed() == completed, || format!("{result:?}"))?;
            }
            (Came::SpanOf(len, moved), Outcome::Ok) => {
                let min_len = expect.min_len.ok_or("no span expected")?;
                ensure(len >= min_len, || format!("a span of {len} bytes, at least {min_len} expected"))?;
                if let Some(expected) = expect.moved {
                    ensure(moved == expected, || format!("the span moved by {}, not {expected}", moved as isize))?;
                }
            }
            (Came::Failed(error), Outcome::Error) => {
                let refusal = expect.error.ok_or("no error named")?;
                ensure(refusal.matches(&error), || format!("{error:?}, expected {refusal:?}"))?;
            }
            (Came::Failed(error), expected) => return Err(format!("{error:?}, expected {expected:?}")),
            (_, expected) => return Err(format!("not {expected:?}")),
        }
        if let Some(expected) = expect.unflushed {
            let unflushed = self.writer.unflushed_bytes();
            ensure(unflushed == expected, || format!("{unflushed} bytes unflushed, not {expected}"))?;
        }
        self.sink.check::<K>(self.script, expect)
    }
}

impl SinkState {
    fn check<K: Kind>(&mut self, script: &ScriptHandle, expect: &Expect) -> Result<(), String> {
        if let Some(sunk) = &expect.sink {
            let accepted = script.accepted();
            let same = match sunk {
                Sunk::Hex { hex } => *hex == to_hex(&accepted),
                Sunk::Hash { len, sha256 } => *len == accepted.len() && *sha256 == to_hex(&Sha256::digest(&accepted)),
            };
            ensure(same, || format!("the sink has other bytes ({}) than {sunk:?}", accepted.len()))?;
            self.len = accepted.len();
        }
        // Accepted bytes are only ever added to, so an equal length means that none came.
        let len = script.accepted_len();
        ensure(len == self.len, || format!("the sink has {len} bytes, not {}", self.len))?;
        self.flushes = expect.flushes.unwrap_or(self.flushes);
        let flushes = script.flushes();
        ensure(flushes == self.flushes, || format!("{flushes} flushes of the sink, not {}", self.flushes))?;
        self.disposed = expect.disposed.unwrap_or(self.disposed);
        // A std stream has no close.
        let closed = script.is_closed();
        ensure(K::BLOCKING || closed == self.disposed, || format!("closed: {closed}, not {}", self.disposed))
    }
}

impl Refusal {
    fn matches(self, error: &io::Error) -> bool {
        use io::ErrorKind::{BrokenPipe, InvalidInput, OutOfMemory, QuotaExceeded};
        let is = |(kind, text): (io::ErrorKind, &str)| error.kind() == kind && error.to_string() == text;
        match self {
            Self::Invalid => error.kind() == InvalidInput,
            Self::Completed => error.kind() == BrokenPipe && error.to_string().contains("completed"),
            Self::TooLarge => matches!(error.kind(), InvalidInput | OutOfMemory | QuotaExceeded),
            Self::SinkWrite => is(WRITE_FAILED),
            Self::SinkFlush => is(FLUSH_FAILED),
        }
    }
}

impl Bytes {
    fn get(&self) -> Vec<u8> {
        match self {
            Self::Hex { hex } => {
                let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
                (0..hex.len()).step_by(2).map(digits).collect()
            }
            Self::Pattern { start, n } => pattern(*start, *n),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn done(result: io::Result<()>) -> Came {
    result.map_or_else(Came::Failed, |()| Came::Done)
}

fn flushed(result: io::Result<FlushResult>) -> Came {
    result.map_or_else(Came::Failed, Came::Flushed)
}

/// The scripted stream without its vectored write: what comes in is the first chunk only, by the traits' defaults.
#[derive(Debug)]
struct Plain(Script);

impl AsyncWrite for Plain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

impl io::Write for Plain {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What playing a trace of these steps says.
    fn play_steps(steps: &str) -> Result<(), String> {
        let json = format!(
            r#"{{"format":2,"peer":"none","traces":[{{"name":"probe","rules":[],"async_only":true,
            "options":{{"segment_size":16,"leave_open":false}},"steps":[{steps}]}}]}}"#
        );
        let taking = Taking { write: TakingStep::All, vectored: true };
        play::<Asynchronous>(&read(&json).traces[0], taking)
    }

    #[test]
    fn every_expectation_is_looked_at() {
        let append = r#"{"op":"append","args":{"hex":"6162"},"expect":{"result":"ok","unflushed":2}}"#;
        let flush = |expect: &str| play_steps(&format!(r#"{append},{{"op":"flush","expect":{{{expect}}}}}"#));
        let well = r#""result":"ok","completed":false,"unflushed":0,"sink":{"hex":"6162"},"flushes":1"#;
        assert_eq!(flush(well), Ok(()));
        for (right, wrong) in [
            (r#""result":"ok""#, r#""result":"canceled""#),
            (r#""result":"ok""#, r#""result":"error","error":"sink_write""#),
            ("false", "true"),
            (r#""unflushed":0"#, r#""unflushed":1"#),
            ("6162", "6163"),
            (r#","sink":{"hex":"6162"}"#, ""),
            (r#","flushes":1"#, ""),
            (r#""flushes":1"#, r#""flushes":1,"disposed":true"#),
        ] {
            let told = flush(&well.replace(right, wrong)).expect_err(wrong);
            assert!(told.starts_with("probe (), step 1 Flush: "), "{told}");
        }
        let span = |expect: &str| {
            let get = r#""op":"get_span","args":{"hint":3}"#;
            play_steps(&format!(r#"{{{get},"expect":{{"result":"ok","min_len":3}}}},{{{get},"expect":{{{expect}}}}}"#))
        };
        assert_eq!(span(r#""result":"ok","min_len":3,"moved":0"#), Ok(()));
        assert!(span(r#""result":"ok","min_len":300"#).is_err());
        assert!(span(r#""result":"ok","min_len":3,"moved":1"#).is_err());
        assert!(span(r#""result":"error","error":"too_large""#).is_err());
    }

    #[test]
    fn a_flush_that_should_be_pending_must_be() {
        let start = r#"{"op":"start_flush","expect":{"result":"pending"}}"#;
        let end = r#"{"op":"unblock_and_finish","expect":{"result":"ok","completed":false,"unflushed":0}}"#;
        let told = play_steps(&format!("{start},{end}")).unwrap_err();
        assert!(told.contains("expected it pending"), "{told}");
    }
}
