//! The operations that drive the stream: the flushes and the ends.

use std::io::{self, ErrorKind};
use std::task::Poll;

use super::model::{Ended, committed_bytes};
use super::operation::{Call, PoolKind, WriterKind};
use super::rule;
use super::run::Run;
use super::stream::{Close, Permit};
use super::writer::{Flushed, Flushing};

/// Which flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Flush,
    Emit,
    /// With an argument of so many bytes.
    WriteAndFlush(usize),
    Plain,
}

impl Run<'_> {
    pub(super) fn flush(&mut self, which: Which, call: Call) -> Result<(), String> {
        let ended = self.model.ended;
        let before = self.buffered();
        let more = if let Which::WriteAndFlush(len) = which { len } else { 0 };
        let refusal = if more > 0 { self.model.refusal(more, before) } else { None };
        let data = committed_bytes(self.model.committed, more);
        let (canceled, due) = (self.seen.borrow().cancel, self.seen.borrow().flush_due);
        let nothing_to_do = before == 0 && more == 0 && (which == Which::Emit || !due);
        if ended.is_none() && !canceled && !nothing_to_do && refusal.is_none() {
            let mut seen = self.seen.borrow_mut();
            seen.permit = Permit::UnlessCanceled;
            seen.committed = self.model.committed + more;
        }
        self.model.span = None;
        self.model.waiting = None;
        let wakes = self.wakes(self.current_task());
        let poll = self.call(call, |writer, turn| match which {
            Which::Flush => writer.flush(turn),
            Which::Emit => writer.emit(turn),
            Which::WriteAndFlush(_) => writer.write_and_flush(turn, data),
            Which::Plain => writer.plain_flush(turn),
        })?;
        if let Some(kind) = refusal {
            let Some(Poll::Ready(Err(error))) = &poll else { return Err(format!("{poll:?} and not {kind:?}")) };
            return self.check_refused(error, kind);
        }
        if let Some(ended) = ended {
            return self.check_flush_after_end(which, ended, &poll);
        }
        if self.writer.is_completed() {
            return self.check_lost_argument(more, &poll);
        }
        self.model.committed += more;
        let buffered = self.buffered();
        let is_done = buffered == 0 && (which == Which::Emit || !self.seen.borrow().flush_due);
        match poll {
            None => {}
            Some(Poll::Pending) => {
                self.check_pending(wakes)?;
                rule!(!self.seen.borrow().cancel, "pending, and a cancel waits");
                // One that only let others have their turn has woken its task, which sees a cancel as it goes on.
                self.model.waiting = self.seen.borrow().pended.then(|| self.current_task());
            }
            Some(Poll::Ready(Ok(Flushed::All))) => {
                self.check_untroubled()?;
                rule!(is_done, "{which:?} is done, {buffered} bytes are unflushed or a flush is due");
                rule!(!canceled, "a cancel is not seen");
                if which != Which::Emit {
                    self.seen.borrow_mut().suspect = false;
                }
            }
            Some(Poll::Ready(Ok(Flushed::Canceled))) => {
                self.check_untroubled()?;
                rule!(self.seen.borrow().cancel, "canceled by nobody");
                rule!(canceled || !is_done, "a flush is undone by a cancel that came too late");
                self.seen.borrow_mut().cancel = false;
            }
            Some(Poll::Ready(Ok(Flushed::Completed))) => return Err("a flush says that the writer has ended".into()),
            Some(Poll::Ready(Err(error))) => self.check_streams(&error)?,
        }
        self.check_idle()
    }

    fn check_flush_after_end(&self, which: Which, ended: Ended, poll: &Option<Flushing>) -> Result<(), String> {
        let expected = if which == Which::Plain { Flushed::All } else { Flushed::Completed };
        match (ended, poll) {
            (Ended::Completed, Some(Poll::Ready(Ok(flushed)))) if *flushed == expected => Ok(()),
            (Ended::Aborted(kind), Some(Poll::Ready(Err(error)))) => self.check_refused(error, kind),
            _ => Err(format!("{which:?} of a writer that has ended, {ended:?}, is {poll:?}")),
        }
    }

    /// The flush has aborted the writer: the rest of its argument could not be kept.
    fn check_lost_argument(&mut self, more: usize, poll: &Option<Flushing>) -> Result<(), String> {
        let panicked = self.book.borrow().panicked;
        rule!(more > 0, "a flush completes the writer");
        rule!(panicked || self.may_lack_memory(), "write_and_flush aborts the writer, and there is memory");
        match poll {
            None => {}
            Some(Poll::Ready(Err(error))) if error.kind() == ErrorKind::OutOfMemory => {}
            _ => return Err(format!("an argument is lost, and write_and_flush is {poll:?}")),
        }
        self.model.committed = self.seen.borrow().accepted;
        self.model.ended = Some(Ended::Aborted(ErrorKind::OutOfMemory));
        Ok(())
    }

    /// Right after a flush of any kind the writer holds no segment in which nothing is buffered.
    fn check_idle(&self) -> Result<(), String> {
        let book = self.book.borrow();
        if self.writer.unflushed_bytes() > 0 || book.panicked {
            return Ok(());
        }
        let held = book.out.len();
        match self.settings.pool {
            _ if self.settings.writer == WriterKind::Core => rule!(held <= 1, "an idle pipe holds {held} segments"),
            PoolKind::Plain { may_hold: true } => rule!(held <= 1, "an idle writer holds {held} segments"),
            PoolKind::Heap { bound } => rule!(
                held <= 1 && book.out_bytes + book.kept_bytes <= bound.bytes(),
                "an idle writer holds {held} segments, {} bytes and {} in the pool",
                book.out_bytes,
                book.kept_bytes
            ),
            _ => rule!(held == 0, "an idle writer holds {held} segments"),
        }
        Ok(())
    }

    /// `complete`, or the plain `close`.
    pub(super) fn complete(&mut self, plain: bool, call: Call) -> Result<(), String> {
        let was_open = self.model.ended.is_none();
        let closes = self.closes();
        let close_due = closes && self.seen.borrow().close != Close::Done;
        self.seen.borrow_mut().permit = match (was_open, close_due) {
            (true, _) => Permit::All,
            (false, true) => Permit::CloseOnly,
            (false, false) => Permit::Nothing,
        };
        self.model.span = None;
        self.model.waiting = None;
        let wakes = self.wakes(self.current_task());
        let poll =
            self.call(call, |writer, turn| if plain { writer.plain_close(turn) } else { writer.complete(turn) })?;
        let close = self.seen.borrow().close;
        if was_open && (self.writer.is_completed() || close != Close::NotBegun) {
            self.model.ended = Some(Ended::Completed);
            let due = self.seen.borrow().flush_due;
            rule!(self.buffered() == 0 && !due, "completed with {} bytes unflushed", self.buffered());
        }
        match poll {
            None => {}
            Some(Poll::Pending) => self.check_pending(wakes)?,
            Some(Poll::Ready(Ok(()))) => {
                self.check_untroubled()?;
                rule!(self.writer.is_completed(), "complete is Ok, and the writer is not completed");
                self.check_close()?;
            }
            Some(Poll::Ready(Err(error))) => self.check_streams(&error)?,
        }
        Ok(())
    }

    /// `abort`, or `abort_with`.
    pub(super) fn abort(&mut self, reason: Option<io::Error>, call: Call) -> Result<(), String> {
        let was_completed = self.writer.is_completed();
        if self.closes() && self.seen.borrow().close != Close::Done {
            self.seen.borrow_mut().permit = Permit::CloseOnly;
        }
        self.model.span = None;
        self.model.waiting = None;
        let kind = reason.as_ref().map(io::Error::kind);
        let wakes = self.wakes(self.current_task());
        let poll = self.call(call, |writer, turn| writer.abort(turn, reason))?;
        rule!(self.writer.is_completed(), "an abort has no effect");
        if !was_completed {
            self.model.committed = self.seen.borrow().accepted;
            self.model.ended = Some(kind.map_or(Ended::Completed, Ended::Aborted));
        }
        match poll {
            None => {}
            Some(Poll::Pending) => self.check_pending(wakes)?,
            Some(Poll::Ready(Ok(()))) => {
                self.check_untroubled()?;
                self.check_close()?;
            }
            Some(Poll::Ready(Err(error))) => self.check_streams(&error)?,
        }
        Ok(())
    }

    /// Whether the writer closes its stream at the end.
    fn closes(&self) -> bool {
        !self.settings.leave_open && self.settings.writer != WriterKind::Blocking
    }

    fn check_close(&self) -> Result<(), String> {
        let expected = if self.closes() { Close::Done } else { Close::NotBegun };
        let close = self.seen.borrow().close;
        rule!(close == expected, "the close of the stream is {close:?} and not {expected:?}");
        Ok(())
    }
}
