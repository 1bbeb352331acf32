//! The operations that commit bytes: spans, appends, and the plain writes.

use std::io::{self, ErrorKind, IoSlice};
use std::task::Poll;

use super::model::{Span, committed_bytes};
use super::operation::{Call, Hint, PoolKind, Reach, WriterKind};
use super::rule;
use super::run::Run;
use super::stream::Permit;

/// The text of the error that `abort_with` is given.
pub(super) const REASON: &str = "the program gives up";

impl Run<'_> {
    pub(super) fn span(&mut self, hint: Hint) -> Result<(), String> {
        let hint = match hint {
            Hint::Bytes(size) => size.bytes(),
            Hint::Huge => isize::MAX as usize,
            Hint::TooLarge => isize::MAX as usize + 1,
            Hint::Max => usize::MAX,
        };
        let refusal = self.model.refusal(hint.max(1), self.buffered());
        if self.settings.pool == PoolKind::Default && hint > 1 << 40 && refusal.is_none() {
            // What the allocator makes of that is not ours to test.
            return Ok(());
        }
        let before = self.model.span;
        let start = self.model.committed;
        let result = self.call(Call::Poll, |writer, _| {
            writer.span_mut(hint).map(|span| {
                let found = Span { address: span.as_ptr().addr(), len: span.len() };
                let is_same = before == Some(found);
                let keeps = !is_same || *span == *committed_bytes(start, span.len());
                span.copy_from_slice(committed_bytes(start, span.len()));
                (found, keeps)
            })
        })?;
        let Some(result) = result else {
            // Whether the span has outlived the panic is nowhere said.
            let _ = self.writer.advance(usize::MAX);
            self.model.span = None;
            return Ok(());
        };
        match (result, refusal) {
            (Ok((span, keeps)), None) => {
                rule!(span.len >= hint.max(1), "a span of {} bytes for {hint}", span.len);
                rule!(keeps, "the same span does not show what was written into it");
                if let Some(before) = before.filter(|before| before.len >= hint.max(1)) {
                    rule!(before == span, "another span, {span:?} and not {before:?}");
                }
                self.model.span = Some(span);
            }
            (Err(error), Some(kind)) => self.check_refused(&error, kind)?,
            (Err(error), None) if error.kind() == ErrorKind::OutOfMemory && self.may_lack_memory() => {}
            (result, refusal) => {
                let result = result.map(|(span, _)| span);
                return Err(format!("span_mut({hint}) is {result:?}, refusal: {refusal:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, reach: Reach) -> Result<(), String> {
        let left = self.model.span.map_or(0, |span| span.len);
        let n = match reach {
            Reach::Nothing => 0,
            Reach::Share(share) => left * usize::from(share) / 255,
            Reach::All => left.max(1),
            Reach::OneMore => left + 1,
            Reach::Max => usize::MAX,
        };
        let quota = self.model.max_buffered - self.buffered();
        let refusal = match self.model.end_kind() {
            _ if n == 0 => None,
            Some(kind) => Some(kind),
            None if n > left => Some(ErrorKind::InvalidInput),
            None if n > quota => Some(ErrorKind::QuotaExceeded),
            None => None,
        };
        match (self.writer.advance(n), refusal) {
            (Ok(()), None) => {
                self.model.committed += n;
                if let Some(span) = &mut self.model.span {
                    span.address += n;
                    span.len -= n;
                }
            }
            (Err(error), Some(kind)) => {
                self.check_refused(&error, kind)?;
                self.model.span = None;
            }
            (result, _) => return Err(format!("advance({n}) of {left} is {result:?}, refusal: {refusal:?}")),
        }
        Ok(())
    }

    pub(super) fn append(&mut self, len: usize) -> Result<(), String> {
        let refusal = self.model.refusal(len, self.buffered());
        let data = committed_bytes(self.model.committed, len);
        self.model.span = None;
        match (self.call(Call::Poll, |writer, _| writer.append(data))?, refusal) {
            (None, None) => {}
            (Some(Ok(())), None) => self.model.committed += len,
            (Some(Err(error)), Some(kind)) => self.check_refused(&error, kind)?,
            (Some(Err(error)), None) if error.kind() == ErrorKind::OutOfMemory && self.may_lack_memory() => {}
            (result, refusal) => return Err(format!("append of {len} is {result:?}, refusal: {refusal:?}")),
        }
        Ok(())
    }

    /// `write`, or `write_vectored` of the writer as a plain stream.
    pub(super) fn plain_write(&mut self, lens: &[usize], vectored: bool) -> Result<(), String> {
        let mut at = self.model.committed;
        let mut parts = Vec::new();
        for len in lens {
            parts.push(committed_bytes(at, *len));
            at += len;
        }
        let total = at - self.model.committed;
        let (ended, mark) = (self.model.end_kind(), self.model.mark);
        if ended.is_none() && total > 0 && self.buffered() >= mark {
            self.seen.borrow_mut().permit = Permit::All;
        }
        self.model.span = None;
        let task = self.current_task();
        let wakes = self.wakes(task);
        let poll = self.call(Call::Poll, |writer, turn| {
            if vectored {
                let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
                writer.plain_write_vectored(turn, &slices)
            } else {
                writer.plain_write(turn, parts[0])
            }
        })?;
        // Only after a panic in the middle of a vectored write is it not known.
        let taken = match &poll {
            Some(Poll::Ready(Ok(n))) => *n,
            None if vectored => (self.writer.unflushed_bytes() + self.seen.borrow().accepted)
                .checked_sub(self.model.committed)
                .ok_or("a panic loses bytes")?,
            _ => 0,
        };
        rule!(taken <= total, "a plain write of {total} bytes takes {taken}");
        self.model.committed += taken;
        match (poll, ended) {
            (None, _) => {}
            (Some(Poll::Ready(Err(error))), Some(kind)) => self.check_refused(&error, kind)?,
            (Some(Poll::Pending), None) => {
                self.check_pending(wakes)?;
                rule!(self.buffered() >= mark, "a plain write is pending below the mark");
            }
            (Some(Poll::Ready(Ok(_))), None) => {
                self.check_untroubled()?;
                rule!((taken == 0) == (total == 0), "a plain write of {total} bytes takes {taken}");
                rule!(taken == 0 || self.buffered() <= mark, "a plain write goes past the mark");
                let all = taken == total || self.buffered() == mark || self.may_lack_memory();
                rule!(all, "a plain write of {total} bytes takes {taken}, below the mark");
            }
            (Some(Poll::Ready(Err(error))), None) => self.check_plain_error(&error)?,
            (poll, ended) => return Err(format!("a plain write is {poll:?}, ended: {ended:?}")),
        }
        Ok(())
    }

    /// `write_all` of the blocking writer.
    pub(super) fn write_all(&mut self, len: usize) -> Result<(), String> {
        if self.settings.writer != WriterKind::Blocking {
            return Ok(());
        }
        let ended = self.model.end_kind();
        let before = self.model.committed;
        // It goes from mark to mark, perhaps with a segment for each.
        let len = len.min(self.model.mark.saturating_mul(64));
        let data = committed_bytes(before, len);
        if ended.is_none() && self.buffered().saturating_add(len) > self.model.mark {
            let mut seen = self.seen.borrow_mut();
            seen.permit = Permit::All;
            // How far it has come when it calls the stream is its own affair.
            seen.committed = before + len;
        }
        // Of nothing it is no write, as that of the standard library is none.
        self.model.span = self.model.span.filter(|_| len == 0);
        let result = self.call(Call::Poll, |writer, _| writer.write_all(data))?.flatten();
        let now = self.writer.unflushed_bytes() + self.seen.borrow().accepted;
        rule!(now >= before && now - before <= len, "write_all of {len} bytes takes {before} to {now}");
        self.model.committed = now;
        match (result, ended) {
            (None, _) => {}
            (Some(Ok(())), _) => {
                self.check_untroubled()?;
                rule!(now == before + len && (ended.is_none() || len == 0), "write_all of {len}: {}", now - before);
                rule!(len == 0 || self.buffered() <= self.model.mark, "write_all goes past the mark");
            }
            (Some(Err(error)), Some(kind)) => self.check_refused(&error, kind)?,
            (Some(Err(error)), None) => self.check_plain_error(&error)?,
        }
        Ok(())
    }

    fn check_plain_error(&self, error: &io::Error) -> Result<(), String> {
        if error.kind() == ErrorKind::OutOfMemory && self.may_lack_memory() {
            return Ok(());
        }
        self.check_streams(error)
    }

    /// The error must be the writer's own, of this kind.
    pub(super) fn check_refused(&self, error: &io::Error, kind: ErrorKind) -> Result<(), String> {
        rule!(error.kind() == kind, "refused with {error:?} and not with {kind:?}");
        if kind == ErrorKind::TimedOut && self.settings.writer != WriterKind::Core {
            rule!(error.to_string() == REASON, "refused with another text: {error}");
        }
        Ok(())
    }

    /// The error must be what the stream has come to in this operation.
    pub(super) fn check_streams(&self, error: &io::Error) -> Result<(), String> {
        let seen = self.seen.borrow();
        let is_streams = seen.has_told(error)
            || seen.zero && error.kind() == ErrorKind::WriteZero
            || seen.claimed && error.kind() == ErrorKind::InvalidData;
        rule!(is_streams, "{error:?} is not what the stream said");
        Ok(())
    }

    /// The stream must not have failed in this operation.
    pub(super) fn check_untroubled(&self) -> Result<(), String> {
        let seen = self.seen.borrow();
        rule!(!seen.zero && !seen.claimed && seen.error.is_none(), "what the stream said is not told");
        Ok(())
    }

    /// Pending must be the stream's doing, or to let others have a turn; `wakes` is the count from before.
    pub(super) fn check_pending(&self, wakes: usize) -> Result<(), String> {
        /// After so many bytes others get a turn.
        const TURN: usize = 4 * 1024 * 1024;
        self.check_untroubled()?;
        let yields = self.seen.borrow().taken >= TURN && self.wakes(self.current_task()) > wakes;
        rule!(self.seen.borrow().pended || yields, "pending, and the stream is not");
        Ok(())
    }
}
