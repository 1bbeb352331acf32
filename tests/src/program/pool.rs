//! A pool around another one that keeps books and goes wrong as the program says.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::thread;

use pipewriter_core::SlicePool;
use pipewriter_std::{HeapPool, SegmentPool, SharedPool};

use super::Scripted;
use super::operation::PoolAnswer;

/// What was done to a pool, and what it will do.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) answers: VecDeque<PoolAnswer>,
    pub(super) panics_at_give: Option<u8>,
    /// The segments that the writer holds.
    pub(super) out: BTreeSet<usize>,
    next_id: usize,
    /// What the pool itself keeps, and the most that it may.
    pub(super) kept_bytes: usize,
    pub(super) bound: usize,
    /// The bytes of the segments that the writer holds.
    pub(super) out_bytes: usize,
    /// Once the writer has ended it takes no more.
    pub(super) detached: bool,
    pub(super) has_panicked: bool,
    pub(super) violation: Option<String>,
    /// In the present operation.
    pub(super) refused: bool,
    pub(super) panicked: bool,
    pub(super) most_out: usize,
}

pub(super) type SharedBook = Rc<RefCell<Book>>;

impl Book {
    pub(super) fn begin_operation(&mut self) {
        self.refused = false;
        self.panicked = false;
        self.most_out = self.out.len();
    }

    /// From here on the pool does nothing wrong.
    pub(super) fn disarm(&mut self) {
        self.answers.clear();
        self.panics_at_give = None;
    }

    fn violate(&mut self, text: impl Into<String>) {
        self.violation.get_or_insert(text.into());
    }
}

/// The pool.
pub(super) struct Tracked<P> {
    pub(super) inner: P,
    pub(super) book: SharedBook,
}

/// A segment of a [`Tracked`] pool. One that is dropped instead of given back is noticed.
pub(super) struct Segment<S> {
    inner: Option<S>,
    /// How many of its bytes are seen at most.
    visible: usize,
    id: usize,
    book: SharedBook,
}

/// What the books say of the pools that are tracked.
pub(super) trait Inner: SegmentPool {
    /// Bytes that it keeps, apart from what its writer holds.
    fn kept_bytes(&self) -> usize {
        0
    }
}

impl<P: Inner> Tracked<P> {
    pub(super) fn new(inner: P, book: &SharedBook, bound: usize) -> Self {
        book.borrow_mut().bound = bound;
        Self { inner, book: Rc::clone(book) }
    }

    fn note_kept(&self) {
        let mut book = self.book.borrow_mut();
        book.kept_bytes = self.inner.kept_bytes();
        if book.kept_bytes > book.bound {
            let text = format!("the pool keeps {} bytes, more than {}", book.kept_bytes, book.bound);
            book.violate(text);
        }
    }
}

impl<P: Inner> SegmentPool for Tracked<P> {
    type Segment = Segment<P::Segment>;

    fn take(&mut self, min_len: usize) -> Option<Self::Segment> {
        let mut book = self.book.borrow_mut();
        if min_len == 0 {
            book.violate("the pool is asked for a segment of no bytes");
        }
        let answer = book.answers.pop_front().unwrap_or(PoolAnswer::Grant);
        let asked = match answer {
            PoolAnswer::PanicAtTake if !thread::panicking() => {
                (book.panicked, book.has_panicked) = (true, true);
                drop(book);
                Scripted::panic();
            }
            // More than any machine has: what allocators make of it is for the tests of the pools.
            _ if min_len > 1 << 40 => None,
            PoolAnswer::Refuse => None,
            PoolAnswer::Longer(more) => Some(min_len + usize::from(more)),
            PoolAnswer::TooShort if min_len == 1 => None,
            _ => Some(min_len),
        };
        let Some(inner) = asked.and_then(|len| self.inner.take(len)) else {
            book.refused = true;
            return None;
        };
        let id = book.next_id;
        book.next_id += 1;
        book.out.insert(id);
        book.out_bytes += inner.as_ref().len();
        book.most_out = book.most_out.max(book.out.len());
        book.refused |= answer == PoolAnswer::TooShort;
        let visible = if answer == PoolAnswer::TooShort { min_len - 1 } else { usize::MAX };
        drop(book);
        self.note_kept();
        Some(Segment { inner: Some(inner), visible, id, book: Rc::clone(&self.book) })
    }

    fn give(&mut self, mut segment: Self::Segment) {
        let mut book = self.book.borrow_mut();
        let Some(inner) = segment.inner.take() else {
            return book.violate("a segment is given back twice");
        };
        if !Rc::ptr_eq(&segment.book, &self.book) || !book.out.remove(&segment.id) {
            book.violate("a segment is given to a pool that it is not of");
        }
        book.out_bytes -= inner.as_ref().len();
        let panics = match book.panics_at_give {
            Some(0) => !thread::panicking(),
            Some(left) => {
                book.panics_at_give = Some(left - 1);
                false
            }
            None => false,
        };
        if panics {
            book.panics_at_give = None;
            (book.panicked, book.has_panicked) = (true, true);
        }
        drop(book);
        self.inner.give(inner);
        self.note_kept();
        if panics {
            Scripted::panic();
        }
    }

    fn may_hold(&self, segment: &Self::Segment) -> bool {
        segment.inner.as_ref().is_some_and(|inner| self.inner.may_hold(inner))
    }

    fn attach(&mut self, segment_size: usize) {
        self.inner.attach(segment_size);
    }

    fn detach(&mut self) {
        self.inner.detach();
        self.note_kept();
        self.book.borrow_mut().detached = true;
    }
}

impl<S: AsRef<[u8]>> AsRef<[u8]> for Segment<S> {
    fn as_ref(&self) -> &[u8] {
        let bytes = self.inner.as_ref().map_or(&[][..], AsRef::as_ref);
        &bytes[..bytes.len().min(self.visible)]
    }
}

impl<S: AsMut<[u8]>> AsMut<[u8]> for Segment<S> {
    fn as_mut(&mut self) -> &mut [u8] {
        let bytes = self.inner.as_mut().map_or(&mut [][..], AsMut::as_mut);
        let len = bytes.len().min(self.visible);
        &mut bytes[..len]
    }
}

impl<S> Drop for Segment<S> {
    fn drop(&mut self) {
        if self.inner.is_some() {
            self.book.borrow_mut().violate("a segment is dropped, not given back");
        }
    }
}

/// Allocates exactly what is asked for.
pub(super) struct Plain {
    pub(super) may_hold: bool,
}

impl SegmentPool for Plain {
    type Segment = Box<[u8]>;

    fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        // Never zero: what the stream gets must have been written by the program.
        Some(vec![0xEE; min_len].into_boxed_slice())
    }

    fn give(&mut self, segment: Box<[u8]>) {
        drop(segment);
    }

    fn may_hold(&self, _: &Box<[u8]>) -> bool {
        self.may_hold
    }
}

impl Inner for Plain {}

impl Inner for HeapPool {
    fn kept_bytes(&self) -> usize {
        HeapPool::kept_bytes(self)
    }
}

impl Inner for SharedPool {
    fn kept_bytes(&self) -> usize {
        self.stats().bytes_kept
    }
}

impl<const N: usize> Inner for SlicePool<'_, N> {}
