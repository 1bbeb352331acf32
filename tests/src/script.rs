//! A stream that follows a script and writes down all that is done to it.
//!
//! [`ScriptHandle`] stays with the test, [`Script`] goes into the writer, and both see the same state. The stream is
//! also the judge of what every stream may expect of a pipe writer: see [`Script`].

use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use futures_io::AsyncWrite;

use crate::model::Random;

/// The most chunks that may be offered in one call.
pub const MAX_CHUNKS: usize = 1024;
/// The most bytes that may be offered in one call.
pub const MAX_BYTES: usize = 256 * 1024;

/// What the stream does with one call.
///
/// The steps for bytes (`TakeAll`, `Take`, `FirstChunk`, `Part`) mean success where a flush or a close meets them.
#[derive(Clone)]
pub enum Step {
    /// Accepts all that is offered.
    TakeAll,
    /// Accepts at most so many bytes, wherever in the chunks that falls.
    Take(usize),
    /// Accepts the first chunk only, as a stream without a vectored write of its own does.
    FirstChunk,
    /// Accepts some of the bytes, at least one: how many is drawn from a seeded source.
    Part,
    /// Accepts nothing and says so: `Ok(0)`.
    Zero,
    /// Claims to have accepted so many bytes more than were offered, and keeps none.
    ClaimMore(usize),
    /// Stays pending (`WouldBlock` for `io::Write`) and remembers the waker, for [`ScriptHandle::wake`].
    Pend,
    /// Stays pending and wakes at once.
    PendAndWake,
    /// Accepts nothing and fails with an error of this kind and text.
    Fail(io::ErrorKind, &'static str),
    /// Accepts nothing and panics.
    Panic,
    /// Runs the closure, while the script is not locked, and then does the other step.
    Run(Arc<dyn Fn() + Send + Sync>, Box<Step>),
}

impl Step {
    /// The step that runs `f` and then does `then`.
    pub fn run(f: impl Fn() + Send + Sync + 'static, then: Step) -> Self {
        Self::Run(Arc::new(f), Box::new(then))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakeAll => f.write_str("TakeAll"),
            Self::Take(n) => write!(f, "Take({n})"),
            Self::FirstChunk => f.write_str("FirstChunk"),
            Self::Part => f.write_str("Part"),
            Self::Zero => f.write_str("Zero"),
            Self::ClaimMore(n) => write!(f, "ClaimMore({n})"),
            Self::Pend => f.write_str("Pend"),
            Self::PendAndWake => f.write_str("PendAndWake"),
            Self::Fail(kind, text) => write!(f, "Fail({kind:?}, {text:?})"),
            Self::Panic => f.write_str("Panic"),
            Self::Run(_, then) => write!(f, "Run(.., {then:?})"),
        }
    }
}

/// A call that the stream has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The plain write.
    Write {
        /// Bytes offered.
        len: usize,
    },
    /// The vectored write.
    Vectored {
        /// Length of each chunk offered.
        chunks: Vec<usize>,
    },
    /// The flush.
    Flush,
    /// The close.
    Close,
}

impl Call {
    /// The plain write of `len` bytes.
    pub fn write(len: usize) -> Self {
        Self::Write { len }
    }

    /// The vectored write of chunks of these lengths.
    pub fn vectored(chunks: impl Into<Vec<usize>>) -> Self {
        Self::Vectored { chunks: chunks.into() }
    }

    /// Bytes offered; none with a flush or a close.
    pub fn offered(&self) -> usize {
        match self {
            Self::Write { len } => *len,
            Self::Vectored { chunks } => chunks.iter().sum(),
            Self::Flush | Self::Close => 0,
        }
    }

    /// Whether this is a write of either form.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Vectored { .. })
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A write accepted so many bytes.
    Took(usize),
    /// A write claimed so many bytes, more than it was offered.
    Claimed(usize),
    /// A flush or a close went well.
    Done,
    /// The call was put off (`Pending`, or `WouldBlock` for `io::Write`).
    Pending,
    /// The call failed with an error of this kind.
    Failed(io::ErrorKind),
    /// The call panicked.
    Panicked,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was called.
    pub call: Call,
    /// How it ended.
    pub outcome: Outcome,
}

/// The stream: goes into the writer under test.
///
/// It implements `AsyncWrite` and `io::Write`, both with a vectored write of their own, over the same script. Each call
/// takes the next step of its kind (write, flush, close), or the default of that kind once no step is left.
///
/// Whatever the script says, the stream holds the writer to these rules, and notes and panics on a call that breaks one:
///
/// * no empty buffer and no empty chunk is offered;
/// * at most [`MAX_CHUNKS`] chunks and at most [`MAX_BYTES`] bytes are offered in a call;
/// * the vectored write is used for two or more chunks only;
/// * after a write that was put off, the next write offers the same bytes first, and a first chunk no shorter;
/// * once a close was begun nothing is written or flushed, and once it has gone well there is no call at all.
pub struct Script {
    shared: Arc<Mutex<State>>,
}

/// The test's end of a [`Script`].
///
/// A broken rule fails the test even where the panic was caught on its way: asking the handle for anything the stream
/// has seen panics, and so does dropping it.
#[derive(Clone)]
pub struct ScriptHandle {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    writes: Lane,
    flushes: Lane,
    closes: Lane,
    random: Random,
    waker: Option<Waker>,
    accepted: Vec<u8>,
    log: Vec<Entry>,
    counts: Counts,
    addresses: Vec<usize>,
    put_off: Option<Offer>,
    close: Close,
    violations: Vec<String>,
}

/// What the log has: counted, since a log of a call for each byte is long.
#[derive(Debug, Default)]
struct Counts {
    writes: usize,
    /// Those that came to an end.
    flushes: usize,
    /// Those that came to an end.
    closes: usize,
}

/// The script for one kind of call.
#[derive(Debug)]
struct Lane {
    steps: VecDeque<Step>,
    default: Step,
    held: bool,
}

/// The bytes of a write that was put off.
#[derive(Debug)]
struct Offer {
    bytes: Vec<u8>,
    first_chunk: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    NotYet,
    Begun,
    Done,
}

/// What came of a step, before it is told in the words of either trait.
enum Answer {
    Count(usize),
    Done,
    Pending,
    Failed(io::Error),
    Panics,
}

impl ScriptHandle {
    /// A script of no steps: the stream accepts all, and flushes and closes well.
    pub fn new() -> Self {
        let lane = || Lane { steps: VecDeque::new(), default: Step::TakeAll, held: false };
        let state = State {
            writes: lane(),
            flushes: lane(),
            closes: lane(),
            random: Random::new(1),
            waker: None,
            accepted: Vec::new(),
            log: Vec::new(),
            counts: Counts::default(),
            addresses: Vec::new(),
            put_off: None,
            close: Close::NotYet,
            violations: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// The stream that follows this script.
    pub fn stream(&self) -> Script {
        Script { shared: Arc::clone(&self.shared) }
    }

    /// Appends steps for the writes, plain and vectored.
    pub fn on_write(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().writes.steps.extend(steps);
    }

    /// Appends steps for the flushes.
    pub fn on_flush(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().flushes.steps.extend(steps);
    }

    /// Appends steps for the closes.
    pub fn on_close(&self, steps: impl IntoIterator<Item = Step>) {
        self.state().closes.steps.extend(steps);
    }

    /// What writes do once no step is left.
    pub fn default_write(&self, step: Step) {
        let _old = mem::replace(&mut self.state().writes.default, step);
    }

    /// What flushes do once no step is left.
    pub fn default_flush(&self, step: Step) {
        let _old = mem::replace(&mut self.state().flushes.default, step);
    }

    /// What closes do once no step is left.
    pub fn default_close(&self, step: Step) {
        let _old = mem::replace(&mut self.state().closes.default, step);
    }

    /// From now on every write is put off, and no step is used up by it, until [`release`](Self::release).
    pub fn hold_writes(&self) {
        self.state().writes.held = true;
    }

    /// From now on every flush is put off, and no step is used up by it, until [`release`](Self::release).
    pub fn hold_flushes(&self) {
        self.state().flushes.held = true;
    }

    /// From now on every close is put off, and no step is used up by it, until [`release`](Self::release).
    pub fn hold_closes(&self) {
        self.state().closes.held = true;
    }

    /// Ends all that was held, and wakes. Says whether there was anyone to wake.
    pub fn release(&self) -> bool {
        {
            let mut state = self.state();
            state.writes.held = false;
            state.flushes.held = false;
            state.closes.held = false;
        }
        self.wake()
    }

    /// Wakes the task that was put off last. Says whether there was one.
    pub fn wake(&self) -> bool {
        let waker = self.state().waker.take();
        match waker {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        }
    }

    /// Draws the sizes of [`Step::Part`] from this seed.
    pub fn seed(&self, seed: u64) {
        self.state().random = Random::new(seed);
    }

    /// All bytes accepted so far.
    #[track_caller]
    pub fn accepted(&self) -> Vec<u8> {
        self.checked().accepted.clone()
    }

    /// How many bytes were accepted so far.
    #[track_caller]
    pub fn accepted_len(&self) -> usize {
        self.checked().accepted.len()
    }

    /// The log so far.
    #[track_caller]
    pub fn log(&self) -> Vec<Entry> {
        self.checked().log.clone()
    }

    /// The calls so far, without their outcomes.
    #[track_caller]
    pub fn calls(&self) -> Vec<Call> {
        self.checked().log.iter().map(|entry| entry.call.clone()).collect()
    }

    /// Where the chunks of the last write began, to tell whether bytes were copied on their way.
    #[track_caller]
    pub fn addresses(&self) -> Vec<usize> {
        self.checked().addresses.clone()
    }

    /// Empties the log; what was accepted stays.
    #[track_caller]
    pub fn clear_log(&self) {
        let mut state = self.checked();
        state.log.clear();
        state.counts = Counts::default();
    }

    /// How many writes the log has, however they ended.
    #[track_caller]
    pub fn writes(&self) -> usize {
        self.checked().counts.writes
    }

    /// How many flushes the log has that came to an end, well or with an error.
    #[track_caller]
    pub fn flushes(&self) -> usize {
        self.checked().counts.flushes
    }

    /// How many closes the log has that came to an end, well or with an error.
    #[track_caller]
    pub fn closes(&self) -> usize {
        self.checked().counts.closes
    }

    /// Whether a close has gone well.
    #[track_caller]
    pub fn is_closed(&self) -> bool {
        self.checked().close == Close::Done
    }

    /// How many steps for writes no call has met yet.
    pub fn write_steps_left(&self) -> usize {
        self.state().writes.steps.len()
    }

    /// How many steps for flushes no call has met yet.
    pub fn flush_steps_left(&self) -> usize {
        self.state().flushes.steps.len()
    }

    /// Checks that every step was met: a script that ended early tested less than it says.
    #[track_caller]
    pub fn assert_played(&self) {
        let state = self.checked();
        for (lane, kind) in [(&state.writes, "write"), (&state.flushes, "flush"), (&state.closes, "close")] {
            assert!(lane.steps.is_empty(), "no {kind} met {:?}", lane.steps);
        }
    }

    /// Forgets the write that was put off: for a test that takes the stream out of the writer and writes by itself.
    pub fn forget_put_off(&self) {
        self.state().put_off = None;
    }

    /// Takes away the notes on broken rules, so that they no longer fail the test.
    pub fn take_violations(&self) -> Vec<String> {
        mem::take(&mut self.state().violations)
    }

    #[track_caller]
    fn checked(&self) -> MutexGuard<'_, State> {
        let state = self.state();
        if !state.violations.is_empty() && !thread::panicking() {
            let all = state.violations.join("; ");
            drop(state);
            panic!("a rule of the stream was broken: {all}");
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }
}

impl Default for ScriptHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ScriptHandle {
    fn drop(&mut self) {
        drop(self.checked());
    }
}

impl fmt::Debug for ScriptHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Script {
    /// Carries one call out: `offer` has the chunks of a write and is empty for the others.
    fn carry_out(&self, call: Call, offer: &[&[u8]], waker: Option<&Waker>) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.shared);
        let known = state.violations.len();
        state.judge(&call, offer);
        if let Some(broken) = state.violations.get(known).cloned() {
            drop(state);
            // In a drop that runs while a panic unwinds a second panic would abort; the note is enough.
            assert!(thread::panicking(), "a rule of the stream was broken: {broken}");
            state = lock(&self.shared);
        }
        let mut step = state.next_step(&call);
        while let Step::Run(f, then) = step {
            drop(state);
            f();
            // The closure may hold a handle, which asks for the lock as it is dropped.
            drop(f);
            state = lock(&self.shared);
            step = *then;
        }
        let answer = state.answer(&call, offer, &step);
        let outcome = match &answer {
            Answer::Count(n) if *n > call.offered() => Outcome::Claimed(*n),
            Answer::Count(n) => Outcome::Took(*n),
            Answer::Done => Outcome::Done,
            Answer::Pending => Outcome::Pending,
            Answer::Failed(error) if error.kind() == io::ErrorKind::WouldBlock => Outcome::Pending,
            Answer::Failed(error) => Outcome::Failed(error.kind()),
            Answer::Panics => Outcome::Panicked,
        };
        state.note(call, offer, outcome);
        let wakes = matches!(step, Step::PendAndWake);
        if matches!(answer, Answer::Pending) && !wakes {
            state.waker = waker.cloned();
        }
        drop(state);
        match answer {
            Answer::Count(n) => Poll::Ready(Ok(n)),
            Answer::Done => Poll::Ready(Ok(0)),
            Answer::Failed(error) => Poll::Ready(Err(error)),
            Answer::Panics => panic!("the script says: panic"),
            Answer::Pending => {
                if wakes {
                    waker.into_iter().for_each(Waker::wake_by_ref);
                }
                Poll::Pending
            }
        }
    }

    /// As `carry_out`, for a stream that cannot wait.
    fn carry_out_now(&self, call: Call, offer: &[&[u8]]) -> io::Result<usize> {
        match self.carry_out(call, offer, None) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::Error::new(io::ErrorKind::WouldBlock, "the script says: would block")),
        }
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.carry_out(Call::write(buf.len()), &[buf], Some(cx.waker()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (call, offer) = vectored(bufs);
        self.carry_out(call, &offer, Some(cx.waker()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carry_out(Call::Flush, &[], Some(cx.waker())).map_ok(drop)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carry_out(Call::Close, &[], Some(cx.waker())).map_ok(drop)
    }
}

impl io::Write for Script {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.carry_out_now(Call::write(buf.len()), &[buf])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let (call, offer) = vectored(bufs);
        self.carry_out_now(call, &offer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.carry_out_now(Call::Flush, &[]).map(drop)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl State {
    /// Notes the rules that this call breaks.
    fn judge(&mut self, call: &Call, offer: &[&[u8]]) {
        match (self.close, call) {
            (Close::Done, _) => self.violation(format!("{call:?} after a close that went well")),
            (Close::Begun, Call::Close) | (Close::NotYet, _) => {}
            (Close::Begun, _) => self.violation(format!("{call:?} after a close was begun")),
        }
        if !call.is_write() {
            return;
        }
        self.addresses = offer.iter().map(|chunk| chunk.as_ptr().addr()).collect();
        let bytes = call.offered();
        if offer.is_empty() || offer.iter().any(|chunk| chunk.is_empty()) {
            self.violation(format!("nothing, or an empty chunk, offered: {call:?}"));
        }
        if offer.len() == 1 && matches!(call, Call::Vectored { .. }) {
            self.violation(format!("the vectored write for a single chunk of {bytes} bytes"));
        }
        if offer.len() > MAX_CHUNKS {
            self.violation(format!("{} chunks in a call", offer.len()));
        }
        if bytes > MAX_BYTES {
            self.violation(format!("{bytes} bytes in a call"));
        }
        if let Some(before) = self.put_off.take() {
            let now = offer.concat();
            let common = before.bytes.len().min(now.len());
            if before.bytes[..common] != now[..common] {
                self.violation(format!("other bytes offered than in the write that was put off: {call:?}"));
            }
            let first_chunk = offer.first().map_or(0, |chunk| chunk.len());
            if first_chunk < before.first_chunk {
                self.violation(format!(
                    "a first chunk of {first_chunk} bytes after one of {} was put off",
                    before.first_chunk
                ));
            }
        }
    }

    fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    fn next_step(&mut self, call: &Call) -> Step {
        let lane = match call {
            Call::Write { .. } | Call::Vectored { .. } => &mut self.writes,
            Call::Flush => &mut self.flushes,
            Call::Close => &mut self.closes,
        };
        if lane.held {
            return Step::Pend;
        }
        lane.steps.pop_front().unwrap_or_else(|| lane.default.clone())
    }

    /// Decides what comes of `step`, and takes the bytes that it accepts.
    fn answer(&mut self, call: &Call, offer: &[&[u8]], step: &Step) -> Answer {
        let offered = call.offered();
        let count = match step {
            Step::Pend | Step::PendAndWake => return Answer::Pending,
            Step::Fail(kind, text) => return Answer::Failed(io::Error::new(*kind, *text)),
            Step::Panic => return Answer::Panics,
            Step::Run(..) => unreachable!("run before"),
            Step::Zero | Step::ClaimMore(_) if !call.is_write() => panic!("{step:?} is a step for writes only"),
            _ if !call.is_write() => return Answer::Done,
            Step::Zero => return Answer::Count(0),
            Step::ClaimMore(n) => return Answer::Count(offered.saturating_add(*n)),
            Step::TakeAll => offered,
            Step::Take(n) => offered.min(*n),
            Step::FirstChunk => offer.first().map_or(0, |chunk| chunk.len()),
            Step::Part => self.random.between(offered.min(1), offered),
        };
        let mut left = count;
        for chunk in offer {
            let taken = chunk.len().min(left);
            self.accepted.extend_from_slice(&chunk[..taken]);
            left -= taken;
        }
        Answer::Count(count)
    }

    /// Writes the call into the log and keeps what the next calls are judged by.
    fn note(&mut self, call: Call, offer: &[&[u8]], outcome: Outcome) {
        if call == Call::Close {
            self.close = if outcome == Outcome::Done { Close::Done } else { Close::Begun };
        }
        if call.is_write() && outcome == Outcome::Pending {
            let first_chunk = offer.first().map_or(0, |chunk| chunk.len());
            self.put_off = Some(Offer { bytes: offer.concat(), first_chunk });
        }
        let ended = usize::from(outcome != Outcome::Pending);
        match call {
            Call::Write { .. } | Call::Vectored { .. } => self.counts.writes += 1,
            Call::Flush => self.counts.flushes += ended,
            Call::Close => self.counts.closes += ended,
        }
        self.log.push(Entry { call, outcome });
    }
}

fn vectored<'a>(bufs: &'a [IoSlice<'_>]) -> (Call, Vec<&'a [u8]>) {
    let offer: Vec<&[u8]> = bufs.iter().map(|buf| &**buf).collect();
    let chunks: Vec<usize> = offer.iter().map(|chunk| chunk.len()).collect();
    (Call::vectored(chunks), offer)
}

/// A panic under the lock leaves nothing half done, so a poisoned lock is taken as it is.
fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use core::task::Poll;
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::exec::Wakes;

    fn slices<'a>(bufs: &[&'a [u8]]) -> Vec<IoSlice<'a>> {
        bufs.iter().map(|buf| IoSlice::new(buf)).collect()
    }

    fn broken(f: impl FnOnce(&ScriptHandle, &mut Script)) -> Vec<String> {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        let caught = catch_unwind(AssertUnwindSafe(|| f(&script, &mut stream)));
        assert!(caught.is_err(), "a broken rule panics");
        script.take_violations()
    }

    #[test]
    fn each_step_does_what_it_says() {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        script.on_write([
            Step::Take(4),
            Step::FirstChunk,
            Step::Zero,
            Step::ClaimMore(2),
            Step::Fail(io::ErrorKind::TimedOut, "late"),
        ]);
        let bufs = [&b"abc"[..], b"de"];
        assert_eq!(stream.write_vectored(&slices(&bufs)).unwrap(), 4);
        assert_eq!(stream.write_vectored(&slices(&bufs)).unwrap(), 3);
        assert_eq!(stream.write_vectored(&slices(&bufs)).unwrap(), 0);
        assert_eq!(stream.write(b"abc").unwrap(), 5);
        assert_eq!(stream.write(b"abc").unwrap_err().to_string(), "late");
        assert_eq!(stream.write_vectored(&slices(&bufs)).unwrap(), 5);
        assert_eq!(script.accepted(), b"abcdabcabcde");
        let outcomes: Vec<_> = script.log().iter().map(|entry| entry.outcome).collect();
        let failed = Outcome::Failed(io::ErrorKind::TimedOut);
        use Outcome::{Claimed, Took};
        assert_eq!(outcomes, [Took(4), Took(3), Took(0), Claimed(5), failed, Took(5)]);
        assert_eq!(script.calls()[..1], [Call::vectored([3, 2])]);
        script.assert_played();
    }

    #[test]
    fn pending_remembers_the_waker_and_wakes_when_told() {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        script.on_write([Step::Pend, Step::PendAndWake]);
        let wakes = Wakes::new();
        let waker = wakes.waker();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut stream).poll_write(&mut cx, b"a").is_pending());
        assert_eq!(wakes.count(), 0);
        assert!(script.wake());
        assert!(!script.wake());
        assert_eq!(wakes.count(), 1);
        assert!(Pin::new(&mut stream).poll_write(&mut cx, b"ab").is_pending());
        assert_eq!(wakes.count(), 2);
        assert!(matches!(Pin::new(&mut stream).poll_write(&mut cx, b"abc"), Poll::Ready(Ok(3))));
    }

    #[test]
    fn what_is_held_is_put_off_and_uses_up_no_step() {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        script.on_flush([Step::Fail(io::ErrorKind::Other, "scripted")]);
        script.hold_flushes();
        for _ in 0..3 {
            assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        script.release();
        assert_eq!(stream.flush().unwrap_err().to_string(), "scripted");
        assert!(stream.flush().is_ok());
        assert_eq!((script.flushes(), script.log().len()), (2, 5));
    }

    #[test]
    fn a_closure_runs_inside_the_call_and_may_use_the_script() {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        let inside = script.clone();
        script.on_write([Step::run(move || inside.on_flush([Step::Pend]), Step::Take(1))]);
        assert_eq!(stream.write(b"ab").unwrap(), 1);
        assert_eq!(script.flush_steps_left(), 1);
    }

    #[test]
    fn broken_rules_are_noticed() {
        let empty = broken(|_, stream| drop(stream.write(b"")));
        assert!(empty[0].contains("empty"), "{empty:?}");
        let empty_chunk = broken(|_, stream| drop(stream.write_vectored(&slices(&[b"a", b""]))));
        assert!(empty_chunk[0].contains("empty"), "{empty_chunk:?}");
        let single = broken(|_, stream| drop(stream.write_vectored(&slices(&[b"abc"]))));
        assert!(single[0].contains("single chunk"), "{single:?}");
        let many = broken(|_, stream| drop(stream.write_vectored(&slices(&[&b"a"[..]; 1025]))));
        assert!(many[0].contains("1025 chunks"), "{many:?}");
        let large = broken(|_, stream| drop(stream.write(&vec![0; MAX_BYTES + 1])));
        assert!(large[0].contains("262145 bytes"), "{large:?}");
    }

    #[test]
    fn another_offer_after_a_write_that_was_put_off_is_noticed() {
        let put_off = |stream: &mut Script, script: &ScriptHandle| {
            script.on_write([Step::Pend]);
            drop(stream.write_vectored(&slices(&[b"abc", b"de"])));
        };
        let other = broken(|script, stream| {
            put_off(stream, script);
            drop(stream.write(b"abx"));
        });
        assert!(other[0].contains("other bytes"), "{other:?}");
        let shorter = broken(|script, stream| {
            put_off(stream, script);
            drop(stream.write_vectored(&slices(&[b"ab", b"cde"])));
        });
        assert!(shorter[0].contains("first chunk of 2"), "{shorter:?}");
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        put_off(&mut stream, &script);
        assert_eq!(stream.write(b"abcdef").unwrap(), 6);
        assert_eq!(stream.write(b"x").unwrap(), 1);
    }

    #[test]
    fn calls_after_a_close_are_noticed() {
        let close = |stream: &mut Script| {
            let mut cx = Context::from_waker(Waker::noop());
            drop(Pin::new(stream).poll_close(&mut cx));
        };
        let after_a_failed_one = broken(|script, stream| {
            script.on_close([Step::Fail(io::ErrorKind::Other, "scripted")]);
            close(stream);
            close(stream);
            drop(stream.flush());
        });
        assert!(after_a_failed_one[0].contains("went well"), "{after_a_failed_one:?}");
        let after_a_pending_one = broken(|script, stream| {
            script.on_close([Step::Pend]);
            close(stream);
            drop(stream.write(b"a"));
        });
        assert!(after_a_pending_one[0].contains("begun"), "{after_a_pending_one:?}");
    }

    #[test]
    fn a_broken_rule_fails_the_test_also_where_its_panic_was_caught() {
        let script = ScriptHandle::new();
        let mut stream = script.stream();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(stream.write(b"")))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| script.accepted())).is_err());
        let other = script.clone();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(other))).is_err());
        script.take_violations();
    }
}
