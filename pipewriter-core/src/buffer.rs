//! The bytes of one writer: a tail segment with the cursor, behind a queue of sealed segments.
//!
//! ```text
//!   sealed: [ .... start=====end ] [ start==========end ] ...    tail: [ .... start=====end----span---- ]
//! ```
//!
//! `=` is committed and not yet accepted by the stream, `-` is the span handed out. Bytes in front of `start` are accepted, those behind
//! the span are free. The tail has a cursor of its own, for most batches never need another segment.

use core::{fmt, mem};

use crate::{Error, Options, SegmentPool, SegmentQueue, queue::Sealed};

/// How much of what is buffered one call to the stream is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) chunks: usize,
    pub(crate) bytes: usize,
}

pub(crate) struct Buffer<P: SegmentPool, Q: SegmentQueue<P::Segment>> {
    tail: Option<P::Segment>,
    /// First byte of the tail that is not accepted. 0 if the tail holds nothing.
    start: usize,
    /// One past the last committed byte of the tail, where the next byte goes. 0 without a tail.
    end: usize,
    /// Where the span begins: equal to `end` as long as there is one, for whatever else commits a byte moves `end` away.
    span: usize,
    /// How far `end` may go: to the end of the tail, or until `max_buffered` is reached. See `set_limits`.
    limit: usize,
    /// How far a plain write may move `end`: as `limit`, until the high-water mark is reached.
    write_limit: usize,
    /// The bytes of the sealed segments that are not accepted.
    sealed_bytes: usize,
    max_buffered: usize,
    high_water_mark: usize,
    segment_size: usize,
    /// What surely fits into the first segment of a batch: the smaller of `segment_size` and `max_buffered`.
    first_len: usize,
    sealed: Q,
    pool: P,
}

/// No span: `end` is never as large.
const NO_SPAN: usize = usize::MAX;

impl<P: SegmentPool, Q: SegmentQueue<P::Segment>> Buffer<P, Q> {
    pub(crate) fn new(mut pool: P, sealed: Q, options: &Options) -> Self {
        pool.attach(options.segment_size);
        Self {
            tail: None,
            start: 0,
            end: 0,
            span: NO_SPAN,
            limit: 0,
            write_limit: 0,
            sealed_bytes: 0,
            max_buffered: options.max_buffered,
            high_water_mark: options.high_water_mark.clamp(1, options.max_buffered),
            segment_size: options.segment_size,
            first_len: options.segment_size.min(options.max_buffered),
            sealed,
            pool,
        }
    }

    /// All that is committed and not accepted.
    #[inline]
    pub(crate) const fn buffered(&self) -> usize {
        self.sealed_bytes + (self.end - self.start)
    }

    pub(crate) const fn max_buffered(&self) -> usize {
        self.max_buffered
    }

    /// Bytes that a plain write may add before the stream has to be driven.
    pub(crate) const fn room_to_mark(&self) -> usize {
        self.high_water_mark.saturating_sub(self.buffered())
    }

    pub(crate) const fn pool(&self) -> &P {
        &self.pool
    }

    pub(crate) const fn pool_mut(&mut self) -> &mut P {
        &mut self.pool
    }

    /// Called whenever `tail`, `start` or `sealed_bytes` has changed.
    fn set_limits(&mut self) {
        let len = self.tail.as_ref().map_or(0, |tail| tail.as_ref().len());
        let until = |bytes: usize| bytes.saturating_sub(self.sealed_bytes).saturating_add(self.start).min(len);
        (self.limit, self.write_limit) = (until(self.max_buffered), until(self.high_water_mark));
    }

    // ---- the producer's side ----

    /// Whether the tail has `hint` bytes left (1 at least) that `max_buffered` allows: then `span` can not fail.
    #[inline]
    pub(crate) fn has_span(&self, hint: usize) -> bool {
        self.limit.checked_sub(self.end).is_some_and(|left| hint.max(1) <= left)
    }

    /// Hands out all that is left of the tail.
    #[inline]
    pub(crate) fn span(&mut self) -> &mut [u8] {
        self.span = self.end;
        self.tail.as_mut().and_then(|tail| tail.as_mut().get_mut(self.end..)).unwrap_or_default()
    }

    /// Sees to it that `has_span(hint)`. If it fails everything is as before, the span too.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_span(&mut self, hint: usize) -> Result<(), Error> {
        let hint = hint.max(1);
        self.check(hint)?;
        self.release_sealed();
        self.new_tail(hint.max(self.segment_size))
    }

    #[inline]
    pub(crate) fn advance(&mut self, n: usize) -> Result<(), Error> {
        if self.span == self.end && n <= self.limit.saturating_sub(self.end) {
            self.end += n;
            self.span = self.end;
            Ok(())
        } else {
            self.refuse_advance(n)
        }
    }

    #[cold]
    fn refuse_advance(&mut self, n: usize) -> Result<(), Error> {
        if n == 0 {
            return Ok(());
        }
        let has_span = mem::replace(&mut self.span, NO_SPAN) == self.end;
        let left = self.tail.as_ref().filter(|_| has_span).map_or(0, |tail| tail.as_ref().len() - self.end);
        Err(if n > left {
            Error::SpanOverrun { asked: n, left }
        } else {
            Error::QuotaExceeded { asked: n, buffered: self.buffered(), max: self.max_buffered }
        })
    }

    /// Ends the span: what was written into it and not advanced over is not data.
    #[inline]
    pub(crate) const fn end_span(&mut self) {
        self.span = NO_SPAN;
    }

    /// Ends the span and takes no more bytes, whatever becomes of the tail.
    pub(crate) const fn shut(&mut self) {
        self.end_span();
        (self.limit, self.write_limit) = (0, 0);
    }

    /// Commits a copy of `data` if it is not empty and the tail has room for it, and says whether it did.
    #[inline]
    pub(crate) fn append_to_tail(&mut self, data: &[u8]) -> bool {
        self.append_up_to(data, self.limit)
    }

    /// `append_to_tail` for a plain write, which stops at the high-water mark.
    #[inline]
    pub(crate) fn write_to_tail(&mut self, data: &[u8]) -> bool {
        self.append_up_to(data, self.write_limit)
    }

    #[inline]
    fn append_up_to(&mut self, data: &[u8], limit: usize) -> bool {
        // Both are lengths of memory: the sum can not overflow. An empty `data` must end the span, which this would not.
        let end = self.end.wrapping_add(data.len());
        if end <= limit && !data.is_empty() {
            if let Some(room) = self.tail.as_mut().and_then(|tail| tail.as_mut().get_mut(self.end..end)) {
                room.copy_from_slice(data);
                self.end = end;
                return true;
            }
        }
        false
    }

    /// Commits a copy of `data` in the tail, which holds nothing and has room for it, and says so.
    #[inline]
    pub(crate) fn append_to_empty(&mut self, data: &[u8]) -> bool {
        if let Some(room) = self.tail.as_mut().and_then(|tail| tail.as_mut().get_mut(..data.len())) {
            room.copy_from_slice(data);
            self.end = data.len();
            return true;
        }
        false
    }

    /// Has `take` bring the first segment of a batch, if nothing is buffered and `len` bytes surely fit into it. Says whether
    /// one came, or `None` if this is not the way to go.
    ///
    /// A writer whose pool lets it hold nothing comes by here with every batch.
    #[inline]
    pub(crate) fn begin(&mut self, len: usize, take: impl FnOnce(&mut P, usize) -> Option<P::Segment>) -> Option<bool> {
        if self.tail.is_some() || len > self.first_len {
            return None;
        }
        let min_len = self.segment_size;
        let Some(segment) = take(&mut self.pool, min_len) else { return Some(false) };
        let len = segment.as_ref().len();
        if len < min_len {
            self.pool.give(segment);
            return Some(false);
        }
        self.tail = Some(segment);
        self.limit = len.min(self.max_buffered);
        self.write_limit = len.min(self.high_water_mark);
        Some(true)
    }

    /// Commits a copy of `data`, in as many segments as it takes: all of it or nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Error> {
        self.end_span();
        self.check(data.len())?;
        self.release_sealed();
        let append = Append {
            sealed_before: self.sealed.len(),
            sealed_bytes_before: self.sealed_bytes,
            start_before: self.start,
            end_before: self.end,
            buffer: self,
        };
        let mut rest = append.buffer.fill_tail(data);
        while !rest.is_empty() {
            append.buffer.new_tail(append.buffer.segment_size)?;
            rest = append.buffer.fill_tail(rest);
        }
        mem::forget(append);
        Ok(())
    }

    /// Commits a copy of `data` in one piece, whatever `max_buffered` says: the caller has checked.
    #[cold]
    pub(crate) fn append_whole(&mut self, data: &[u8]) -> Result<(), Error> {
        self.end_span();
        let room = self.tail.as_ref().map_or(0, |tail| tail.as_ref().len() - self.end);
        if room < data.len() {
            self.release_sealed();
            self.new_tail(data.len().max(self.segment_size))?;
        }
        self.fill_tail(data);
        Ok(())
    }

    /// Whether `more` bytes may be buffered on top of what is.
    pub(crate) fn check(&self, more: usize) -> Result<(), Error> {
        if more > isize::MAX as usize || self.buffered().checked_add(more).is_none() {
            return Err(Error::TooLarge { asked: more });
        }
        if more > self.max_buffered - self.buffered() {
            return Err(Error::QuotaExceeded { asked: more, buffered: self.buffered(), max: self.max_buffered });
        }
        Ok(())
    }

    /// Commits what fits into the tail; returns the rest.
    fn fill_tail<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let room = self.tail.as_mut().map_or(&mut [][..], |tail| &mut tail.as_mut()[self.end..]);
        let (now, later) = data.split_at(data.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        self.end += now.len();
        later
    }

    /// Takes a segment of at least `min_len` bytes as the new tail. The old one is sealed, or given back if it holds
    /// nothing. If no segment can be had everything is as before.
    fn new_tail(&mut self, min_len: usize) -> Result<(), Error> {
        let holds = self.end - self.start;
        if holds > 0 && !self.sealed.reserve() {
            return Err(Error::OutOfMemory);
        }
        let Some(segment) = self.pool.take(min_len) else { return Err(Error::OutOfMemory) };
        if segment.as_ref().len() < min_len {
            self.pool.give(segment);
            return Err(Error::OutOfMemory);
        }
        let old = self.tail.replace(segment);
        let (start, end) = (mem::replace(&mut self.start, 0), mem::replace(&mut self.end, 0));
        self.end_span();
        self.sealed_bytes += holds;
        self.set_limits();
        if let Some(segment) = old {
            if holds > 0 {
                // There is room: it was reserved.
                let _ = self.sealed.push_back(Sealed { segment, start, end });
            } else {
                self.pool.give(segment);
            }
        }
        Ok(())
    }

    // ---- the stream's side ----

    /// Whether all that is buffered is in the tail, from its first byte on.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.start == 0 && self.sealed.is_empty()
    }

    /// All that is buffered, if `is_plain`.
    #[inline]
    pub(crate) fn plain(&self) -> &[u8] {
        match &self.tail {
            Some(tail) => &tail.as_ref()[..self.end],
            None => &[],
        }
    }

    /// Counts all as accepted, if `is_plain` and there is no span.
    #[inline]
    pub(crate) fn accept_plain(&mut self) {
        self.end = 0;
        if let Some(tail) = &self.tail {
            if !self.pool.may_hold(tail) {
                // The rest of `release_tail` is so already.
                (self.limit, self.write_limit) = (0, 0);
                if let Some(tail) = self.tail.take() {
                    self.pool.give(tail);
                }
            }
        }
    }

    /// Gives the tail, which holds nothing, back, unless the pool lets the writer hold it.
    #[inline]
    pub(crate) fn release_empty_tail(&mut self) {
        if let Some(tail) = &self.tail {
            if !self.pool.may_hold(tail) {
                self.release_tail();
            }
        }
    }

    /// Gives the tail back if it holds nothing, whether the writer may hold it or not, and the queue's memory if it is empty.
    pub(crate) fn release_idle(&mut self) {
        self.end_span();
        if self.start == self.end {
            self.release_tail();
        }
        if self.sealed.is_empty() {
            self.sealed.release();
        }
    }

    #[inline(never)]
    fn release_tail(&mut self) {
        self.start = 0;
        self.end = 0;
        self.end_span();
        (self.limit, self.write_limit) = (0, 0);
        if let Some(tail) = self.tail.take() {
            self.pool.give(tail);
        }
    }

    /// What the next call is to offer of the buffer and of `extra` behind it, within the bounds.
    pub(crate) fn offer(&self, extra: &[u8], max_chunks: usize, max_bytes: usize) -> Offer {
        let mut offer = Offer { chunks: 0, bytes: 0 };
        for len in self.all(extra).map(<[u8]>::len).take(max_chunks) {
            offer.chunks += 1;
            offer.bytes += len;
            if offer.bytes >= max_bytes {
                offer.bytes = max_bytes;
                break;
            }
        }
        offer
    }

    /// The chunks of `offer`, none of them empty.
    pub(crate) fn chunks<'a>(&'a self, extra: &'a [u8], offer: Offer) -> Chunks<'a, P::Segment, Q> {
        Chunks { all: self.all(extra), offer }
    }

    fn all<'a>(&'a self, extra: &'a [u8]) -> All<'a, P::Segment, Q> {
        let tail = self.tail.as_ref().map_or(&[][..], |tail| &tail.as_ref()[self.start..self.end]);
        All { sealed: &self.sealed, next: 0, tail, extra, segment: core::marker::PhantomData }
    }

    /// Counts the first `n` bytes of the buffer and of `extra` behind it as accepted; `n` is no more than there is.
    ///
    /// Returns how many chunks were accepted to their end. Segments that are done with go back to the pool, after all
    /// counters are right: a pool that panics does no harm.
    pub(crate) fn accept(&mut self, n: usize, extra: &mut &[u8]) -> usize {
        let mut left = n;
        let mut whole = 0;
        let mut index = 0;
        while let Some(sealed) = self.sealed.get_mut(index) {
            let part = left.min(sealed.len());
            if part == 0 && sealed.len() > 0 {
                break;
            }
            sealed.start += part;
            self.sealed_bytes -= part;
            left -= part;
            whole += usize::from(sealed.len() == 0);
            index += 1;
        }
        let part = left.min(self.end - self.start);
        if part > 0 {
            self.start += part;
            left -= part;
            if self.start == self.end {
                self.start = 0;
                self.end = 0;
                whole += 1;
            }
        }
        if left > 0 {
            *extra = extra.get(left..).unwrap_or(&[]);
            whole += usize::from(extra.is_empty());
        }
        self.set_limits();
        self.release_accepted();
        whole
    }

    /// Gives back all that is accepted to its end.
    pub(crate) fn release_accepted(&mut self) {
        self.release_sealed();
        if self.start == self.end {
            self.release_empty_tail();
        }
    }

    /// Gives back the sealed segments at the front that are accepted to their end. Some are left there only by a pool
    /// that panicked.
    fn release_sealed(&mut self) {
        while self.sealed.get(0).is_some_and(|sealed| sealed.len() == 0) {
            if let Some(sealed) = self.sealed.pop_front() {
                if self.sealed.is_empty() {
                    self.sealed.shrink(sealed.segment.as_ref().len());
                }
                self.pool.give(sealed.segment);
            }
        }
    }

    // ---- the end ----

    /// Drops all that is buffered and gives every segment back, also if the pool panics at one of them.
    pub(crate) fn discard(&mut self) {
        /// Goes on where a panic cut it short.
        struct Discard<'b, P: SegmentPool, Q: SegmentQueue<P::Segment>>(&'b mut Buffer<P, Q>);

        impl<P: SegmentPool, Q: SegmentQueue<P::Segment>> Drop for Discard<'_, P, Q> {
            fn drop(&mut self) {
                self.0.give_all();
            }
        }

        self.sealed_bytes = 0;
        Discard(self).0.give_all();
    }

    fn give_all(&mut self) {
        self.release_tail();
        while let Some(sealed) = self.sealed.pop_front() {
            self.pool.give(sealed.segment);
        }
    }

    /// `discard`, after which the pool frees what it keeps, and the queue its memory: for a writer that takes no more.
    pub(crate) fn finish(&mut self) {
        self.discard();
        self.sealed.release();
        self.pool.detach();
    }

    /// A copy of all that is buffered, in order.
    #[cfg(feature = "alloc")]
    pub(crate) fn to_vec(&self) -> alloc::vec::Vec<u8> {
        let mut bytes = alloc::vec::Vec::with_capacity(self.buffered());
        self.all(&[]).for_each(|chunk| bytes.extend_from_slice(chunk));
        bytes
    }

    pub(crate) fn segments(&self) -> usize {
        self.sealed.len() + usize::from(self.tail.is_some())
    }

    pub(crate) fn debug(&self, f: &mut fmt::DebugStruct<'_, '_>) {
        f.field("unflushed_bytes", &self.buffered())
            .field("segments", &self.segments())
            .field("segment_size", &self.segment_size)
            .field("max_buffered", &self.max_buffered);
    }
}

/// Takes back what an append has put down so far, if it does not come to its end: because a segment was refused, or the
/// pool panicked.
struct Append<'b, P: SegmentPool, Q: SegmentQueue<P::Segment>> {
    buffer: &'b mut Buffer<P, Q>,
    sealed_before: usize,
    sealed_bytes_before: usize,
    start_before: usize,
    end_before: usize,
}

impl<P: SegmentPool, Q: SegmentQueue<P::Segment>> Drop for Append<'_, P, Q> {
    fn drop(&mut self) {
        let Self { sealed_before, sealed_bytes_before, start_before, end_before, .. } = *self;
        let buffer = &mut *self.buffer;
        if buffer.sealed.len() == sealed_before {
            // No segment was sealed: the tail is the one of before, or the first ever, where both marks are 0.
            (buffer.start, buffer.end) = (start_before, end_before);
            buffer.set_limits();
            if buffer.start == buffer.end {
                buffer.release_empty_tail();
            }
            return;
        }
        // The first one sealed is the tail of before. All that came after it holds nothing again. That much is settled before the
        // pool is called, which may panic.
        (buffer.start, buffer.end) = (0, 0);
        buffer.sealed_bytes = sealed_bytes_before + (end_before - start_before);
        for index in sealed_before..buffer.sealed.len() {
            if let Some(sealed) = buffer.sealed.get_mut(index) {
                let before = index == sealed_before;
                (sealed.start, sealed.end) = if before { (start_before, end_before) } else { (0, 0) };
            }
        }
        buffer.release_tail();
        while buffer.sealed.len() > sealed_before {
            let Some(sealed) = buffer.sealed.pop_back() else { break };
            if sealed.len() == 0 {
                buffer.pool.give(sealed.segment);
            } else {
                buffer.sealed_bytes = sealed_bytes_before;
                (buffer.start, buffer.end) = (sealed.start, sealed.end);
                buffer.tail = Some(sealed.segment);
                buffer.set_limits();
            }
        }
        if buffer.sealed.is_empty() {
            buffer.sealed.shrink(buffer.segment_size);
        }
    }
}

/// Every segment goes back to its pool.
impl<P: SegmentPool, Q: SegmentQueue<P::Segment>> Drop for Buffer<P, Q> {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Every chunk that is not empty: the sealed segments, the tail, and what the caller brings.
struct All<'a, S, Q> {
    sealed: &'a Q,
    next: usize,
    tail: &'a [u8],
    extra: &'a [u8],
    segment: core::marker::PhantomData<&'a S>,
}

impl<'a, S: AsRef<[u8]> + 'a, Q: SegmentQueue<S>> Iterator for All<'a, S, Q> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some(sealed) = self.sealed.get(self.next) {
            self.next += 1;
            if sealed.len() > 0 {
                return Some(sealed.bytes());
            }
        }
        for last in [&mut self.tail, &mut self.extra] {
            if !last.is_empty() {
                return Some(mem::take(last));
            }
        }
        None
    }
}

/// The chunks of one offer.
pub(crate) struct Chunks<'a, S, Q> {
    all: All<'a, S, Q>,
    offer: Offer,
}

impl<'a, S: AsRef<[u8]> + 'a, Q: SegmentQueue<S>> Iterator for Chunks<'a, S, Q> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.offer.chunks == 0 {
            return None;
        }
        let chunk = self.all.next()?;
        let chunk = &chunk[..chunk.len().min(self.offer.bytes)];
        self.offer.chunks -= 1;
        self.offer.bytes -= chunk.len();
        Some(chunk)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.offer.chunks, Some(self.offer.chunks))
    }
}

impl<'a, S: AsRef<[u8]> + 'a, Q: SegmentQueue<S>> ExactSizeIterator for Chunks<'a, S, Q> {}
