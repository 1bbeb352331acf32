#[cfg(feature = "alloc")]
use alloc::collections::VecDeque;
use core::fmt;

/// A segment whose bytes are all committed: the writer has gone on to another one.
pub struct Sealed<S> {
    pub(crate) segment: S,
    /// The first byte that the stream has not accepted.
    pub(crate) start: usize,
    /// One past the last committed byte; equal to `start` once all are accepted.
    pub(crate) end: usize,
}

impl<S: AsRef<[u8]>> Sealed<S> {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.segment.as_ref()[self.start..self.end]
    }
}

impl<S> Sealed<S> {
    pub(crate) const fn len(&self) -> usize {
        self.end - self.start
    }
}

impl<S> fmt::Debug for Sealed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("start", &self.start).field("end", &self.end).finish_non_exhaustive()
    }
}

/// Where a pipe keeps its sealed segments, first in, first out.
///
/// The default, [`HeapQueue`], grows on the heap; a queue of fixed size serves where there is none.
pub trait SegmentQueue<S> {
    /// Makes room for one more, and says whether there is some.
    fn reserve(&mut self) -> bool;
    /// Adds `sealed` at the back.
    ///
    /// # Errors
    ///
    /// Gives `sealed` back where there is no room, which cannot be after a `reserve` that said `true`.
    fn push_back(&mut self, sealed: Sealed<S>) -> Result<(), Sealed<S>>;
    /// Takes the one at the front.
    fn pop_front(&mut self) -> Option<Sealed<S>>;
    /// Takes the one at the back.
    fn pop_back(&mut self) -> Option<Sealed<S>>;
    /// The one at `index`, counted from the front.
    fn get(&self, index: usize) -> Option<&Sealed<S>>;
    /// The one at `index`, counted from the front.
    fn get_mut(&mut self, index: usize) -> Option<&mut Sealed<S>>;
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Frees what the queue itself has too much of. It is empty, served segments of about `segment_len` bytes, and serves
    /// the next batch.
    fn shrink(&mut self, segment_len: usize) {
        let _ = segment_len;
    }
    /// Frees all memory of the queue itself. It is empty, and not soon used again.
    fn release(&mut self) {}
}

/// The default queue: a ring on the heap that allocates when a batch first needs a second segment.
///
/// After a batch of more than 1,024 segments, or of more than 64 of which the last is so long that as many would come to more than 16 MiB,
/// it gives its memory back.
#[cfg(feature = "alloc")]
pub struct HeapQueue<S>(VecDeque<Sealed<S>>);

/// Places that an idle queue keeps in any case, and at most: 2 KiB and 32 KiB of memory.
#[cfg(feature = "alloc")]
const KEPT_PLACES: core::ops::RangeInclusive<usize> = 64..=1024;
/// Between these it keeps those of a batch of up to so many bytes: a larger one is past any pool's bound, and what it costs
/// to make room again is nothing beside it.
#[cfg(feature = "alloc")]
const KEPT_FOR_BYTES: usize = 16 * 1024 * 1024;

#[cfg(feature = "alloc")]
impl<S> SegmentQueue<S> for HeapQueue<S> {
    fn reserve(&mut self) -> bool {
        self.0.try_reserve(1).is_ok()
    }
    fn push_back(&mut self, sealed: Sealed<S>) -> Result<(), Sealed<S>> {
        self.0.push_back(sealed);
        Ok(())
    }
    fn pop_front(&mut self) -> Option<Sealed<S>> {
        self.0.pop_front()
    }
    fn pop_back(&mut self) -> Option<Sealed<S>> {
        self.0.pop_back()
    }
    #[inline]
    fn get(&self, index: usize) -> Option<&Sealed<S>> {
        self.0.get(index)
    }
    #[inline]
    fn get_mut(&mut self, index: usize) -> Option<&mut Sealed<S>> {
        self.0.get_mut(index)
    }
    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }
    fn shrink(&mut self, segment_len: usize) {
        let kept = (KEPT_FOR_BYTES / segment_len.max(1)).clamp(*KEPT_PLACES.start(), *KEPT_PLACES.end());
        if self.0.capacity() > kept {
            self.release();
        }
    }
    fn release(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(feature = "alloc")]
impl<S> Default for HeapQueue<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(feature = "alloc")]
impl<S> fmt::Debug for HeapQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
