#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec::Vec};
#[cfg(feature = "alloc")]
use core::fmt;

/// Where a pipe takes its segments from and gives them back to.
///
/// Only [`take`](Self::take) and [`give`](Self::give) have to be written. A pool may live on the heap, on memory that the
/// caller brings, or be a handle to something shared by many writers.
///
/// A segment is initialised memory of fixed length: `as_ref` and `as_mut` give the same bytes at every call. It need not
/// be zeroed: a producer that asks for a span sees whatever the segment held before, so a pool that serves writers who must not see each
/// other's bytes clears a segment in `give`.
///
/// A panic of a pool does not harm the writer: what was committed stays, and each segment is given back once. A second one
/// while the first unwinds ends the process, as any does.
///
/// A writer holds segments: it is `Send` and `Sync` only if they are.
///
/// ```
/// use pipewriter_core::SegmentPool;
///
/// /// Blocks of 512 bytes, ten at most.
/// struct Blocks(Vec<Box<[u8; 512]>>, usize);
///
/// impl SegmentPool for Blocks {
///     type Segment = Block;
///     fn take(&mut self, min_len: usize) -> Option<Block> {
///         if min_len > 512 {
///             return None;
///         }
///         self.0.pop().or_else(|| {
///             (self.1 < 10).then(|| {
///                 self.1 += 1;
///                 Box::new([0; 512])
///             })
///         }).map(Block)
///     }
///     fn give(&mut self, segment: Block) {
///         self.0.push(segment.0);
///     }
/// }
///
/// struct Block(Box<[u8; 512]>);
/// impl AsRef<[u8]> for Block {
///     fn as_ref(&self) -> &[u8] { &*self.0 }
/// }
/// impl AsMut<[u8]> for Block {
///     fn as_mut(&mut self) -> &mut [u8] { &mut *self.0 }
/// }
/// let mut blocks = Blocks(Vec::new(), 0);
/// assert!(blocks.take(513).is_none());
/// ```
#[doc(alias = "MemoryPool")]
#[doc(alias = "ArrayPool")]
pub trait SegmentPool {
    /// A block of initialised memory.
    type Segment: AsRef<[u8]> + AsMut<[u8]>;

    /// Hands out a segment of at least `min_len` bytes (it may be longer), or `None` where there is none to be had.
    ///
    /// `min_len` is never 0. A shorter segment counts as a refusal and is given back at once.
    fn take(&mut self, min_len: usize) -> Option<Self::Segment>;

    /// Whether to ask [`take_first`](Self::take_first), right where bytes are appended: for a pool that lets its writers
    /// [hold](Self::may_hold) nothing and has a segment at hand in most cases. Each append that needs no segment takes two
    /// instructions more by it.
    const HAS_QUICK_TAKE: bool = false;

    /// Hands out a segment of at least `min_len` bytes for a batch that begins, if one is at hand: a few instructions, no
    /// allocation. A `None` only means that [`take`](Self::take) is to be asked.
    #[inline]
    fn take_first(&mut self, min_len: usize) -> Option<Self::Segment> {
        let _ = min_len;
        None
    }

    /// Takes back a segment that this pool handed out.
    fn give(&mut self, segment: Self::Segment);

    /// Says whether a writer with nothing buffered may hold on to `segment` instead of giving it back.
    ///
    /// A pool of one writer loses nothing by it and saves a `give` and a `take` at each flush. By default `false`: an idle
    /// writer then holds no segment at all.
    #[inline]
    fn may_hold(&self, segment: &Self::Segment) -> bool {
        let _ = segment;
        false
    }

    /// Told once, by the writer that gets this pool, the size of segment that it will ask for.
    #[inline]
    fn attach(&mut self, segment_size: usize) {
        let _ = segment_size;
    }

    /// Told that the writer which has this pool was completed or aborted, has given everything back, and asks for no more.
    ///
    /// A pool of one writer frees what it keeps. It may be told more than once.
    #[inline]
    fn detach(&mut self) {}
}

/// The default pool: belongs to one writer, allocates as needed and keeps a bounded number of bytes for the next batch.
///
/// It keeps at most 64 KiB (or one `segment_size` of its writer, where that is more), whatever was sent before, or what
/// [`with_bound`](Self::with_bound) says. Within one batch (what is out at the same time) each new segment is longer than all
/// that are out and takes the place of those that are kept and are not: so a large batch needs few of them, one that comes again and fits the
/// bound soon needs a single one, and the steady state allocates nothing. A batch past the bound takes at most one
/// allocation for every 64 KiB begun, which go back to the allocator as soon as they are sent: each of up to 1 MiB, and no more than
/// the batch has so far, rounded up to a power of two (128 KiB at least). With a bound shorter than the writer's `segment_size` every batch is past it.
///
/// Memory is zeroed once, when it is allocated, never per use. A refusal of the allocator is a `None` of
/// [`take`](SegmentPool::take), never a panic or an abort.
///
/// ```
/// use pipewriter_core::{HeapPool, SegmentPool};
///
/// let mut pool = HeapPool::with_bound(8192);
/// let segment = pool.take(4096).unwrap();
/// pool.give(segment);
/// assert_eq!(pool.kept_bytes(), 4096);
/// pool.trim();
/// assert_eq!(pool.kept_bytes(), 0);
/// ```
#[cfg(feature = "alloc")]
pub struct HeapPool {
    /// Sorted by length, the longest last; its bytes add up to `kept_bytes`, which is at most `bound`.
    kept: Vec<Box<[u8]>>,
    kept_bytes: usize,
    /// Bytes handed out and not given back: how large the present batch is.
    out_bytes: usize,
    /// How many of the segments handed out are as long as the bound: each could serve a batch within it alone.
    long_out: u32,
    /// Whether `bound` is what the user said, and not the default.
    is_set: bool,
    bound: usize,
}

#[cfg(feature = "alloc")]
impl HeapPool {
    const DEFAULT_BOUND: usize = 64 * 1024;
    /// A batch past the bound is worth at least so many bytes per allocation.
    const STRIDE: usize = 64 * 1024;
    /// Past the bound segments double up to so many bytes: what a batch may hold and not use.
    const MAX_GROWTH: usize = 1024 * 1024;

    /// Creates a pool with the default bound. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { kept: Vec::new(), kept_bytes: 0, out_bytes: 0, long_out: 0, is_set: false, bound: Self::DEFAULT_BOUND }
    }

    /// Creates a pool that keeps at most `bytes` bytes for the next batch. Allocates nothing.
    ///
    /// With 0 it keeps nothing: every batch allocates, 64 KiB or more at a time, and an idle writer holds no heap.
    #[must_use]
    pub const fn with_bound(bytes: usize) -> Self {
        Self { kept: Vec::new(), kept_bytes: 0, out_bytes: 0, long_out: 0, is_set: true, bound: bytes }
    }

    /// How many bytes the pool keeps at the moment, apart from what its writer holds.
    #[must_use]
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Frees everything that is kept. The next batch allocates again.
    pub fn trim(&mut self) {
        self.kept = Vec::new();
        self.kept_bytes = 0;
    }

    /// The length of a new segment: what a batch of this size is best served with.
    ///
    /// Up to the bound each new segment is longer than all that are out together, a power of two. The one that would pass the bound is
    /// as long as the bound itself. So it alone replaces all smaller ones when it comes back, and the next batch of that
    /// size needs no other, however its spans are cut. Past the bound segments are cut so that each serves 64 KiB at
    /// least (a segment of 128 KiB does so for spans of any size, one of `min_len` + 64 KiB for spans of up to `min_len`),
    /// and go on doubling up to 1 MiB: an allocator that gives what lies on top of its heap back to the system, as glibc's
    /// does with more than twice the longest block that it has mapped and freed, then has the pages of the next batch still.
    fn new_len(&self, min_len: usize) -> usize {
        let bound = self.bound;
        let doubled = self.out_bytes.saturating_add(1).checked_next_power_of_two().unwrap_or(usize::MAX).max(min_len);
        if self.out_bytes.checked_add(doubled).is_some_and(|sum| sum <= bound) {
            doubled
        } else if min_len <= bound && self.long_out == 0 {
            bound
        } else {
            let serves = min_len.saturating_add(Self::STRIDE).min(min_len.max(2 * Self::STRIDE));
            serves.max(doubled.min(Self::MAX_GROWTH))
        }
    }

    /// Whether a batch is better served with a new segment than with the longest that is kept: one that is longer than all there
    /// are, so that the batches after it begin with it. There are no more such than the bound has powers of two.
    #[cold]
    fn is_outgrown(&self, longest: usize) -> bool {
        longest < self.bound && self.long_out == 0
    }

    #[inline]
    fn count_out(&mut self, len: usize) {
        self.out_bytes = self.out_bytes.saturating_add(len);
        self.long_out += u32::from(len >= self.bound);
    }

    #[cold]
    fn allocate(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        let len = self.new_len(min_len);
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        memory.resize(len, 0);
        let segment = memory.into_boxed_slice();
        self.count_out(segment.len());
        Some(segment)
    }

    /// Makes room for `len` bytes more by freeing shorter segments, or says that it is not worth it.
    fn make_room(&mut self, len: usize) -> bool {
        let bound = self.bound;
        if len > bound {
            return false;
        }
        let mut freed = 0;
        let mut count = 0;
        while self.kept_bytes - freed > bound - len {
            match self.kept.get(count) {
                Some(shorter) if shorter.len() < len => {
                    freed += shorter.len();
                    count += 1;
                }
                _ => return false,
            }
        }
        self.kept_bytes -= freed;
        self.kept.drain(..count);
        self.kept.try_reserve(1).is_ok()
    }
}

#[cfg(feature = "alloc")]
impl SegmentPool for HeapPool {
    type Segment = Box<[u8]>;

    #[inline]
    fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        let fits = |longest: usize| longest >= min_len && !(longest <= self.out_bytes && self.is_outgrown(longest));
        if self.kept.last().is_some_and(|longest| fits(longest.len())) {
            let segment = self.kept.pop()?;
            self.kept_bytes -= segment.len();
            self.count_out(segment.len());
            return Some(segment);
        }
        self.allocate(min_len)
    }

    fn give(&mut self, segment: Box<[u8]>) {
        let len = segment.len();
        self.out_bytes = self.out_bytes.saturating_sub(len);
        self.long_out = self.long_out.saturating_sub(u32::from(len >= self.bound));
        if self.make_room(len) {
            let place = self.kept.partition_point(|other| other.len() <= len);
            self.kept_bytes += len;
            self.kept.insert(place, segment);
        }
    }

    #[inline]
    fn may_hold(&self, segment: &Box<[u8]>) -> bool {
        // What the writer holds counts as kept.
        segment.len() <= self.bound - self.kept_bytes
    }

    fn attach(&mut self, segment_size: usize) {
        if !self.is_set {
            // It may be told by several writers, where a pool of the user's own shares this one among them.
            self.bound = self.bound.max(segment_size);
        }
    }

    fn detach(&mut self) {
        self.trim();
    }
}

/// A pool with the same bound that keeps nothing yet: for the options of another writer.
#[cfg(feature = "alloc")]
impl Clone for HeapPool {
    fn clone(&self) -> Self {
        let empty = Self::with_bound(self.bound);
        Self { is_set: self.is_set, ..empty }
    }
}

#[cfg(feature = "alloc")]
impl Default for HeapPool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "alloc")]
impl fmt::Debug for HeapPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapPool")
            .field("bound", &self.bound)
            .field("kept_bytes", &self.kept_bytes)
            .field("out_bytes", &self.out_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    fn batch(pool: &mut HeapPool, bytes: usize, min_len: usize) -> usize {
        let mut out = Vec::new();
        let mut have = 0;
        while have < bytes {
            let segment = pool.take(min_len).expect("memory");
            have += segment.len();
            out.push(segment);
        }
        let count = out.len();
        out.drain(..).for_each(|segment| pool.give(segment));
        count
    }

    #[test]
    fn keeps_no_more_than_the_bound_whatever_was_out() {
        for bound in [0, 1, 4096, 10_000, 65_536, 1 << 20] {
            let mut pool = HeapPool::with_bound(bound);
            for bytes in [1, 5_000, 70_000, 3_000_000, 20_000] {
                batch(&mut pool, bytes, 4096);
                assert!(pool.kept_bytes() <= bound, "{bound}: {pool:?}");
                assert_eq!(pool.kept_bytes(), pool.kept.iter().map(|segment| segment.len()).sum::<usize>());
                assert_eq!(pool.out_bytes, 0);
                assert!(pool.kept.is_sorted_by_key(|segment| segment.len()));
            }
        }
    }

    #[test]
    fn a_longer_segment_replaces_shorter_ones() {
        let mut pool = HeapPool::new();
        batch(&mut pool, 100_000, 4096);
        assert_eq!(pool.kept.len(), 1);
        assert_eq!(pool.kept_bytes(), 65_536);
    }

    #[test]
    fn a_segment_that_does_not_fit_costs_no_kept_one() {
        let mut pool = HeapPool::with_bound(65_536);
        let (small, long, middle) = (pool.take(4096).unwrap(), pool.take(61_440).unwrap(), pool.take(10_000).unwrap());
        assert_eq!((small.len(), long.len()), (4096, 61_440));
        pool.give(small);
        pool.give(long);
        pool.give(middle.into_iter().take(10_000).collect());
        assert_eq!(pool.kept.iter().map(|segment| segment.len()).collect::<Vec<_>>(), [4096, 61_440]);
    }

    #[test]
    fn a_writer_of_shorter_segments_does_not_lower_the_bound() {
        let mut pool = HeapPool::new();
        pool.attach(1 << 20);
        let segment = pool.take(1 << 20).expect("memory");
        pool.give(segment);
        assert_eq!(pool.kept_bytes(), 1 << 20);
        pool.attach(4096);
        assert!(pool.kept_bytes() <= pool.bound);
        assert!(!pool.may_hold(&alloc::vec![0; 4096].into_boxed_slice()), "the bound is used up");
    }

    #[test]
    fn past_the_bound_segments_double_up_to_1_mib() {
        let mut pool = HeapPool::new();
        let mut out = Vec::new();
        while pool.out_bytes < 8 << 20 {
            let before = pool.out_bytes;
            let len = pool.take(4096).expect("memory").len();
            // One as long as the bound comes first.
            if before > 65_536 {
                let most = before.next_power_of_two().clamp(128 << 10, 1 << 20);
                assert_eq!(len, most, "after {before} bytes");
            }
            out.push(len);
        }
        assert!(out.len() <= 20, "{out:?}");
    }

    #[test]
    fn batches_within_the_bound_come_to_need_one_segment_and_allocate_no_more() {
        for bound in [4096, 10_000, 65_536, 1 << 20] {
            let mut pool = HeapPool::with_bound(bound);
            for bytes in [1, 100, 4_000, 5_000, 9_000, 11_000, 60_000, 65_536, 700_000, 3_000] {
                if bytes <= bound {
                    // Each of these may put a longer segment in the place of the longest.
                    for _ in 0..bound.ilog2() {
                        batch(&mut pool, bytes, 1);
                    }
                    let kept = pool.kept.last().map(|longest| longest.as_ptr());
                    assert_eq!(batch(&mut pool, bytes, 1), 1, "{bytes} of {bound}: {pool:?}");
                    assert_eq!(pool.kept.last().map(|longest| longest.as_ptr()), kept, "a new one");
                }
            }
        }
    }

    #[test]
    fn an_impossible_length_is_refused() {
        assert!(HeapPool::new().take(usize::MAX).is_none());
        assert!(HeapPool::with_bound(usize::MAX).take(usize::MAX / 2 + 1).is_none());
    }
}
