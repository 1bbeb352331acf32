//! The stream of a program: it answers as it is told, and judges each call by what the contract allows at that moment.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::{error, fmt};

use futures_io::AsyncWrite;

use super::Scripted;
use super::model::committed_bytes;
use super::operation::{Answer, Otherwise};
use super::pool::SharedBook;
use super::writer::Handle;
use crate::script::{MAX_BYTES, MAX_CHUNKS};

/// Which calls of the stream the present operation may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Nothing,
    /// All, as long as no cancel waits.
    UnlessCanceled,
    All,
    WritesOnly,
    CloseOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    NotBegun,
    Begun,
    Done,
}

/// What the stream has seen, and what it will do.
pub(super) struct Seen {
    pub(super) answers: VecDeque<Answer>,
    pub(super) otherwise: Otherwise,
    pub(super) accepted: usize,
    /// The stream has accepted bytes and not been flushed since.
    pub(super) flush_due: bool,
    pub(super) close: Close,
    /// It has said that its reader is gone.
    pub(super) gone: bool,
    /// It has panicked or claimed too much, or the pool has panicked, and no flush has gone well since.
    pub(super) suspect: bool,
    /// A cancel waits to be seen.
    pub(super) cancel: bool,
    pub(super) handle: Option<Handle>,
    pub(super) book: SharedBook,
    /// Who called the stream when it was put off last.
    pub(super) waker: Option<Waker>,
    /// What was offered in the write that was put off last: bytes, and those of the first chunk.
    put_off: Option<(usize, usize)>,
    errors: usize,
    pub(super) violation: Option<String>,
    /// All that follows is of the present operation.
    pub(super) permit: Permit,
    /// The bytes that the writer may offer end here.
    pub(super) committed: usize,
    /// Whose waker the stream must be given.
    pub(super) task: Option<Waker>,
    pub(super) calls: usize,
    pub(super) taken: usize,
    /// The last call was put off.
    pub(super) pended: bool,
    pub(super) panicked: bool,
    pub(super) zero: bool,
    pub(super) claimed: bool,
    /// The last error but `Interrupted`: its number.
    pub(super) error: Option<usize>,
}

/// More calls than any one operation can need: one for each byte of several of the longest appends.
const MAX_CALLS: usize = 4 << 20;

/// The stream and the program both have it.
pub(super) type SharedSeen = Rc<RefCell<Seen>>;

/// The stream itself.
pub(super) struct ModelStream(pub(super) SharedSeen);

/// What an error of the stream carries, so that it can be recognized.
#[derive(Debug)]
pub(super) struct Told(pub(super) usize);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {} of the stream", self.0)
    }
}

impl error::Error for Told {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Write,
    Flush,
    Close,
}

impl Seen {
    pub(super) fn new(otherwise: Otherwise, book: SharedBook) -> Self {
        Self {
            answers: VecDeque::new(),
            otherwise,
            accepted: 0,
            flush_due: false,
            close: Close::NotBegun,
            gone: false,
            suspect: false,
            cancel: false,
            handle: None,
            book,
            waker: None,
            put_off: None,
            errors: 0,
            violation: None,
            permit: Permit::Nothing,
            committed: 0,
            task: None,
            calls: 0,
            taken: 0,
            pended: false,
            panicked: false,
            zero: false,
            claimed: false,
            error: None,
        }
    }

    pub(super) fn begin_operation(&mut self, committed: usize) {
        self.permit = Permit::Nothing;
        self.committed = committed;
        self.task = None;
        (self.calls, self.taken, self.error) = (0, 0, None);
        (self.pended, self.panicked, self.zero, self.claimed) = (false, false, false, false);
    }

    fn violate(&mut self, text: impl Into<String>) {
        self.violation.get_or_insert(text.into());
    }

    fn judge(&mut self, what: What) {
        let allowed = match self.permit {
            Permit::Nothing => false,
            Permit::UnlessCanceled => !self.cancel,
            Permit::All => true,
            Permit::WritesOnly => what == What::Write,
            Permit::CloseOnly => what == What::Close,
        };
        if !allowed {
            self.violate(format!("{what:?} of the stream where {:?} is allowed, cancel: {}", self.permit, self.cancel));
        }
        if self.close == Close::Done || self.close == Close::Begun && what != What::Close {
            self.violate(format!("{what:?} of the stream after its close"));
        }
        if what == What::Flush && self.accepted != self.committed {
            self.violate("the stream is flushed before all was written");
        }
        if what == What::Flush && !self.flush_due {
            self.violate("the stream is flushed and owes nothing");
        }
    }

    fn judge_offer(&mut self, chunks: &[&[u8]], vectored: bool) {
        let mut at = self.accepted;
        for chunk in chunks {
            if chunk.is_empty() {
                self.violate("an empty chunk is offered");
            }
            if *chunk != committed_bytes(at, chunk.len()) {
                self.violate(format!("bytes from {at} on are offered that are not those committed there"));
            }
            at += chunk.len();
        }
        let bytes = at - self.accepted;
        if at > self.committed {
            self.violate(format!("bytes up to {at} are offered, {} are committed", self.committed));
        }
        if vectored != (chunks.len() > 1) || chunks.is_empty() || chunks.len() > MAX_CHUNKS || bytes > MAX_BYTES {
            self.violate(format!("{} chunks of {bytes} bytes are offered, vectored: {vectored}", chunks.len()));
        }
        let first = chunks.first().map_or(0, |chunk| chunk.len());
        if let Some((bytes_before, first_before)) = self.put_off.take() {
            if bytes < bytes_before || first < first_before {
                self.violate(format!(
                    "{bytes} bytes, {first} in the first chunk, are offered after {bytes_before} and {first_before} were put off"
                ));
            }
        }
        // Where all is offered, each segment that the writer holds has something of it, but for one that has just been begun. A
        // pool that panics leaves more behind.
        let held = self.book.borrow().out.len();
        let may_tell = !self.book.borrow().has_panicked;
        if may_tell && at == self.committed && held > chunks.len() + 1 {
            self.violate(format!("{held} segments are held for {} chunks", chunks.len()));
        }
    }

    fn fail(&mut self, kind: ErrorKind) -> io::Error {
        if kind != ErrorKind::Interrupted {
            self.error = Some(self.errors);
            self.gone |= matches!(
                kind,
                ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::NotConnected
                    | ErrorKind::WriteZero
            );
        }
        self.errors += 1;
        io::Error::new(kind, Told(self.errors - 1))
    }

    /// Whether `error` is the last one that the stream has returned in this operation.
    pub(super) fn has_told(&self, error: &io::Error) -> bool {
        let told = error.get_ref().and_then(|inner| inner.downcast_ref::<Told>()).map(|told| told.0);
        told.is_some() && told == self.error
    }
}

impl ModelStream {
    /// The next answer, after what it makes happen first.
    fn begin(&self, what: What) -> Answer {
        let mut seen = self.0.borrow_mut();
        seen.calls += 1;
        seen.pended = false;
        seen.judge(what);
        if seen.calls > MAX_CALLS {
            seen.violate("the stream is called without end");
            drop(seen);
            self.panic();
        }
        let mut answer = seen.answers.pop_front();
        if answer == Some(Answer::Cancel) {
            answer = seen.answers.pop_front();
            seen.cancel = true;
            let handle = seen.handle.clone();
            drop(seen);
            if let Some(handle) = handle {
                handle.cancel();
            }
            seen = self.0.borrow_mut();
        }
        answer.unwrap_or(match seen.otherwise {
            Otherwise::All => Answer::All,
            Otherwise::FirstChunk => Answer::FirstChunk,
            Otherwise::Bytes(size) => Answer::Bytes(size),
        })
    }

    fn pend(&self, wake: bool, cx: Option<&Context<'_>>) -> Poll<io::Error> {
        let mut seen = self.0.borrow_mut();
        seen.pended = true;
        let Some(cx) = cx else { return Poll::Ready(seen.fail(ErrorKind::WouldBlock)) };
        if !seen.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            seen.violate("the stream gets the waker of another task");
        }
        if wake {
            drop(seen);
            cx.waker().wake_by_ref();
        } else {
            seen.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn panic(&self) -> ! {
        let mut seen = self.0.borrow_mut();
        seen.panicked = true;
        seen.suspect = true;
        drop(seen);
        Scripted::panic()
    }

    pub(super) fn write(&self, cx: Option<&Context<'_>>, chunks: &[&[u8]], vectored: bool) -> Poll<io::Result<usize>> {
        let offered: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let first = chunks.first().map_or(0, |chunk| chunk.len());
        let answer = self.begin(What::Write);
        self.0.borrow_mut().judge_offer(chunks, vectored);
        let otherwise = matches!(self.0.borrow().otherwise, Otherwise::Bytes(_));
        let unsent = self.0.borrow().committed - self.0.borrow().accepted;
        let put_off = Some((offered, first));
        let taken = match answer {
            Answer::Zero => {
                let mut seen = self.0.borrow_mut();
                (seen.zero, seen.gone) = (true, true);
                return Poll::Ready(Ok(0));
            }
            Answer::ClaimMore(more) => {
                let mut seen = self.0.borrow_mut();
                (seen.claimed, seen.suspect) = (true, true);
                return Poll::Ready(Ok(offered + 1 + usize::from(more)));
            }
            Answer::Pend | Answer::WakeAndPend => {
                let poll = self.pend(answer == Answer::WakeAndPend, cx);
                self.0.borrow_mut().put_off = put_off;
                return poll.map(Err);
            }
            Answer::Fail(kind) => {
                let kind = kind.into();
                let mut seen = self.0.borrow_mut();
                if matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock) {
                    seen.put_off = put_off;
                }
                return Poll::Ready(Err(seen.fail(kind)));
            }
            Answer::Panic => self.panic(),
            Answer::All | Answer::Cancel => offered,
            Answer::FirstChunk => first,
            Answer::IntoSecondChunk => offered.min(first + 1),
            // Not too few for long, or a program would take for ever.
            Answer::Bytes(size) if otherwise => size.bytes().max(unsent / 64).clamp(1, offered.max(1)),
            Answer::Bytes(size) => size.bytes().clamp(1, offered.max(1)),
            Answer::AllBut(size) => offered.saturating_sub(size.bytes()).max(1),
        };
        let mut seen = self.0.borrow_mut();
        seen.accepted += taken;
        seen.taken += taken;
        seen.flush_due = true;
        Poll::Ready(Ok(taken))
    }

    pub(super) fn flush(&self, cx: Option<&Context<'_>>) -> Poll<io::Result<()>> {
        self.finish(What::Flush, cx)
    }

    pub(super) fn close(&self, cx: Option<&Context<'_>>) -> Poll<io::Result<()>> {
        self.finish(What::Close, cx)
    }

    fn finish(&self, what: What, cx: Option<&Context<'_>>) -> Poll<io::Result<()>> {
        let answer = self.begin(what);
        if what == What::Close {
            self.0.borrow_mut().close = Close::Begun;
        }
        match answer {
            Answer::Pend | Answer::WakeAndPend => return self.pend(answer == Answer::WakeAndPend, cx).map(Err),
            Answer::Fail(kind) => return Poll::Ready(Err(self.0.borrow_mut().fail(kind.into()))),
            Answer::Panic => self.panic(),
            _ => {}
        }
        let mut seen = self.0.borrow_mut();
        match what {
            What::Close => seen.close = Close::Done,
            _ => seen.flush_due = false,
        }
        Poll::Ready(Ok(()))
    }
}

fn chunks<'a>(bufs: &'a [IoSlice<'_>]) -> Vec<&'a [u8]> {
    bufs.iter().map(|buf| &**buf).collect()
}

impl AsyncWrite for ModelStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(Some(cx), &[buf], false)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(Some(cx), &chunks(bufs), true)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush(Some(cx))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close(Some(cx))
    }
}

/// A blocking stream is never put off without an error.
fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("without a context nothing is pending"),
    }
}

impl io::Write for ModelStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        now(ModelStream::write(self, None, &[buf], false))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        now(ModelStream::write(self, None, &chunks(bufs), true))
    }

    fn flush(&mut self) -> io::Result<()> {
        now(ModelStream::flush(self, None))
    }
}
