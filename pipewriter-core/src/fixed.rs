//! A pool and a queue on memory that the caller brings: no allocator, no growth.

use core::fmt;

use crate::{Sealed, SegmentPool, SegmentQueue};

/// A pool of `N` equal segments, cut from memory that the caller brings: an array on the stack, or a `static`.
///
/// What does not fit is refused, never lost: flush, and try again. Give its pipe a [`FixedQueue`] of `N` places, and
/// [`segment_len`](Self::segment_len) as `segment_size`, for an `append` may be longer than a segment but asks for that size.
///
/// A plain [`poll_write`](crate::Pipe::poll_write) makes its caller wait from `high_water_mark` on, and is refused like an
/// `append` where memory ends before. With a mark of one segment less than all it never does, though a segment is not
/// free until its last byte is accepted; spans that leave a part of their segment unused ask for a lower one.
///
/// ```
/// use pipewriter_core::{Error, FixedQueue, Options, Pipe, SlicePool};
///
/// let mut memory = [0; 64];
/// let pool = SlicePool::<4>::new(&mut memory);
/// let options = Options::new().segment_size(pool.segment_len());
/// let mut pipe: Pipe<_, (), FixedQueue<_, 4>> = Pipe::with_options(pool, options);
/// pipe.append(&[7; 64])?;
/// assert_eq!(pipe.append(&[7; 1]), Err(Error::OutOfMemory));
/// assert_eq!(pipe.unflushed_bytes(), 64);
/// # Ok::<(), Error>(())
/// ```
pub struct SlicePool<'m, const N: usize> {
    free: [Option<&'m mut [u8]>; N],
    segment_len: usize,
}

impl<'m, const N: usize> SlicePool<'m, N> {
    /// Cuts `memory` into `N` segments of `memory.len() / N` bytes. What is left over at the end is not used.
    ///
    /// # Panics
    ///
    /// If `memory` is shorter than `N` bytes, or `N` is 0.
    #[must_use]
    pub fn new(memory: &'m mut [u8]) -> Self {
        assert!(N > 0 && memory.len() >= N, "a pool needs a byte for each of its segments at least");
        let segment_len = memory.len() / N;
        let mut segments = memory.chunks_exact_mut(segment_len);
        Self { free: core::array::from_fn(|_| segments.next()), segment_len }
    }

    /// The length of each segment, in bytes.
    #[must_use]
    pub const fn segment_len(&self) -> usize {
        self.segment_len
    }

    /// How many segments are free.
    #[must_use]
    pub fn free_segments(&self) -> usize {
        self.free.iter().flatten().count()
    }
}

impl<'m, const N: usize> SegmentPool for SlicePool<'m, N> {
    type Segment = &'m mut [u8];

    fn take(&mut self, min_len: usize) -> Option<&'m mut [u8]> {
        if min_len > self.segment_len {
            return None;
        }
        self.free.iter_mut().find_map(Option::take)
    }

    fn give(&mut self, segment: &'m mut [u8]) {
        if let Some(place) = self.free.iter_mut().find(|place| place.is_none()) {
            *place = Some(segment);
        }
    }

    fn may_hold(&self, _: &Self::Segment) -> bool {
        true
    }
}

impl<const N: usize> fmt::Debug for SlicePool<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicePool")
            .field("segments", &N)
            .field("segment_len", &self.segment_len)
            .field("free_segments", &self.free_segments())
            .finish()
    }
}

/// A queue of at most `N` full segments, in place: for a pipe without a heap.
pub struct FixedQueue<S, const N: usize> {
    /// A ring: the first of `len` is at `first`.
    places: [Option<Sealed<S>>; N],
    first: usize,
    len: usize,
}

impl<S, const N: usize> FixedQueue<S, N> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { places: [const { None }; N], first: 0, len: 0 }
    }

    /// Where the one at `index` lies.
    const fn place(&self, index: usize) -> usize {
        let place = self.first + index;
        if place < N { place } else { place - N }
    }
}

impl<S, const N: usize> SegmentQueue<S> for FixedQueue<S, N> {
    fn reserve(&mut self) -> bool {
        self.len < N
    }

    fn push_back(&mut self, sealed: Sealed<S>) -> Result<(), Sealed<S>> {
        if self.len == N {
            return Err(sealed);
        }
        let place = self.place(self.len);
        self.places[place] = Some(sealed);
        self.len += 1;
        Ok(())
    }

    fn pop_front(&mut self) -> Option<Sealed<S>> {
        let sealed = self.places.get_mut(self.first)?.take()?;
        self.first = self.place(1);
        self.len -= 1;
        Some(sealed)
    }

    fn pop_back(&mut self) -> Option<Sealed<S>> {
        let last = self.len.checked_sub(1)?;
        let place = self.place(last);
        let sealed = self.places[place].take()?;
        self.len = last;
        Some(sealed)
    }

    fn get(&self, index: usize) -> Option<&Sealed<S>> {
        if index < self.len { self.places[self.place(index)].as_ref() } else { None }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Sealed<S>> {
        if index >= self.len {
            return None;
        }
        let place = self.place(index);
        self.places[place].as_mut()
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<S, const N: usize> Default for FixedQueue<S, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, const N: usize> fmt::Debug for FixedQueue<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len).filter_map(|index| self.get(index))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(end: usize) -> Sealed<()> {
        Sealed { segment: (), start: 0, end }
    }

    fn ends<const N: usize>(queue: &FixedQueue<(), N>) -> impl Iterator<Item = usize> {
        (0..queue.len()).map(|index| queue.get(index).map_or(0, |sealed| sealed.end))
    }

    #[test]
    fn goes_round_in_order_at_every_length() {
        let mut queue = FixedQueue::<(), 3>::new();
        for (round, len) in (1..100).map(|round| (round, round % 4)) {
            for place in 0..len {
                assert!(queue.reserve());
                assert!(queue.push_back(sealed(10 * round + place)).is_ok());
            }
            assert_eq!(queue.reserve(), len < 3);
            assert_eq!(queue.push_back(sealed(0)).is_err(), len == 3);
            if len < 3 {
                assert!(queue.pop_back().is_some_and(|last| last.end == 0));
            }
            assert!(ends(&queue).eq((0..len).map(|place| 10 * round + place)));
            assert!(queue.get(len).is_none() && queue.get_mut(len).is_none());
            assert!(queue.get(usize::MAX).is_none() && queue.get_mut(usize::MAX).is_none());
            for place in 0..len {
                assert!(queue.pop_front().is_some_and(|first| first.end == 10 * round + place));
            }
            assert!(queue.is_empty() && queue.pop_front().is_none() && queue.pop_back().is_none());
        }
    }

    #[test]
    fn hands_out_each_segment_once() {
        let mut memory = [0; 11];
        let mut pool = SlicePool::<3>::new(&mut memory);
        assert!(pool.take(4).is_none());
        let segments = [pool.take(3), pool.take(1), pool.take(3)];
        assert!(segments.iter().flatten().all(|segment| segment.len() == 3));
        assert!(pool.take(1).is_none());
        segments.into_iter().flatten().for_each(|segment| pool.give(segment));
        assert_eq!(pool.free_segments(), 3);
    }
}
