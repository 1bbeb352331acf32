use std::{
    cell::{Cell, RefCell},
    fmt,
    mem::ManuallyDrop,
    ptr,
    sync::{
        Arc, Weak,
        atomic::{self, Ordering},
    },
};

use pipewriter_core::SegmentPool;

use crate::sync::{ArrayQueue, AtomicBool, AtomicUsize, thread_local};

/// A pool that many writers share: a writer with nothing buffered holds no segment.
///
/// It holds no other memory either, unless a batch took several segments: then the list that they were in, of 128
/// bytes after a few and of 32 KiB at most, after a thousand short ones. `complete` frees it.
///
/// Clone it into the options of each writer. It keeps at most [`bound`](Self::with_bound) bytes for the next batches
/// of all of them; what exceeds that goes back to the allocator. Each thread may keep one segment of up to 64 KiB out
/// of that, and its part of the bound stays set aside while a writer has the segment and as long as the thread lives:
/// give a pool a bound of some times 64 KiB for each thread. Batches allocate nothing once a few were sent if all
/// that are out at a time stay below a quarter of what is left of the bound, and have no more than 4,096 segments of
/// one size (256 MiB of 64 KiB). Past that, what is cut so that its segments, rounded up, do not fit the bound, or
/// batches that want other lengths in turns, may allocate each time. A segment that comes back replaces kept ones of
/// other lengths where the bound has no room for both, those that were taken longest ago before the others. A batch
/// of more than 64 segments may allocate the list that they are in each time.
///
/// Segments are powers of two in size, 1 KiB at least; within one batch of a writer each is longer than all before
/// it, up to 64 KiB, so that a batch of less that comes again soon needs a single one. A batch past the bound takes
/// 128 KiB at a time, and with a bound shorter than a segment every batch is past it.
///
/// **Spans show what other writers wrote** into the same memory before, unless it was told to [`clear`](Self::clearing).
///
/// # How it is fast
///
/// Each thread keeps the longest segment that it gave back, of up to 64 KiB and within the bound, and takes it again without an atomic
/// read-modify-write; all others lie in lock-free queues, one for each size. It does so for four pools at most, and a pool lets 64
/// threads do so at most. A thread's segment goes back to the queues when the
/// thread ends. That of a pool that is gone, and the 8 KiB of the pool itself, are freed then, or when the thread needs its place for another pool.
///
/// ```
/// use pipewriter_std::{PipeWriterOptions, SharedPool, blocking::PipeWriter};
///
/// let pool = SharedPool::new();
/// let options = PipeWriterOptions::new().pool(pool.clone());
/// let mut writers: Vec<_> = (0..100).map(|_| PipeWriter::with_options(Vec::new(), options.clone())).collect();
/// for writer in &mut writers {
///     writer.append(b"hello")?;
///     writer.flush()?;
/// }
/// assert_eq!(pool.stats().segments_out, 0);
/// assert_eq!(pool.stats().segments_allocated, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "MemoryPool")]
#[doc(alias = "ArrayPool")]
pub struct SharedPool {
    inner: Arc<Inner>,
    /// Bytes that the writer with this handle has out: how large its present batch is.
    out_bytes: usize,
}

/// What a [`SharedPool`] has handed out, keeps, and has taken from the allocator.
///
/// Read while other threads work, the figures may be a moment apart from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedPoolStats {
    /// Segments that writers hold.
    pub segments_out: usize,
    /// Segments that are kept for the next batch.
    pub segments_kept: usize,
    /// Segments that were ever taken from the allocator.
    pub segments_allocated: usize,
    /// Bytes of the segments that writers hold.
    pub bytes_out: usize,
    /// Bytes of the segments that are kept: at most the bound, when nobody gives back or takes meanwhile.
    pub bytes_kept: usize,
}

/// Segments of one size that are kept at most.
const MAX_KEPT_OF_A_SIZE: usize = 4096;
/// The shortest segment is `1 << MIN_CLASS` bytes.
const MIN_CLASS: u32 = 10;
/// A batch grows by segments of up to this size; a longer one only where a span asks for it.
const MAX_GROWTH: usize = 64 * 1024;
/// What a batch past the bound takes at a time: it serves 64 KiB at least, however spans are cut.
const STRIDE: usize = 128 * 1024;
const DEFAULT_BOUND: usize = 16 * 1024 * 1024;
/// Threads that may keep a segment of their own for one pool.
const PLACES: usize = if cfg!(loom) { 2 } else { 64 };
/// Pools that one thread may keep a segment for.
const POOLS: usize = if cfg!(loom) { 1 } else { 4 };
/// Keys and places are counted in steps of the size of what they select, so that finding that is a mask and no shift.
const SPARE_SIZE: usize = size_of::<Spare>();
const PLACE_SIZE: usize = size_of::<Place>();
/// So often a pool goes without a spare before it takes that of another pool.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 64 };

/// The segments of one size that are kept.
struct Kept {
    queue: ArrayQueue<Box<[u8]>>,
    /// When a batch last took one of this size, by `Inner::clock`. Only a hint of what is in use, hence no part of a model.
    used: atomic::AtomicUsize,
}

/// A key that no pool has had, for the spares at `index`.
fn next_key(index: usize) -> usize {
    static NEXT_BLOCK: atomic::AtomicUsize = atomic::AtomicUsize::new(POOLS);
    (NEXT_BLOCK.fetch_add(POOLS, Ordering::Relaxed) + index).wrapping_mul(SPARE_SIZE)
}

/// Which of a thread's spares may be of the pool with this key.
#[inline]
const fn spare_of(key: usize) -> usize {
    key / SPARE_SIZE % POOLS
}

struct Inner {
    /// Tells a thread whether what it keeps is of this pool and no trim has come since: unique among all pools, and another after each trim.
    key: AtomicUsize,
    bound: usize,
    clear: bool,
    /// Bytes in the queues, and those that threads may keep beside them: never more than `bound`.
    reserved: AtomicUsize,
    segments: AtomicUsize,
    bytes: AtomicUsize,
    allocated: AtomicUsize,
    /// Goes on by one with each segment that is not of a thread's own.
    clock: atomic::AtomicUsize,
    /// The one at `n` keeps segments of `1 << (MIN_CLASS + n)` bytes. All are made with the pool, for a queue can not be made
    /// where the allocator may refuse.
    kept: Box<[Kept]>,
    places: [Place; PLACES],
}

/// What one thread keeps, where the statistics see it. Two threads that wrote into one cache line would wait for each other at
/// each take and give; 128 bytes, for processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Place {
    taken: AtomicBool,
    /// The length of the segment, or 0. Only the thread that has the place writes it.
    len: AtomicUsize,
}

impl SharedPool {
    /// Creates a pool that keeps at most 16 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bound(DEFAULT_BOUND)
    }

    /// Creates a pool that keeps at most `bytes` bytes, and at most 4,096 segments of one size beside those that threads keep. With 0 it keeps nothing.
    ///
    /// Allocates its lists at once, up to 100 KiB for each size of segment; the segments themselves as they are needed.
    #[must_use]
    #[doc(alias = "with_capacity")]
    pub fn with_bound(bytes: usize) -> Self {
        Self::create(bytes, false)
    }

    /// As [`with_bound`](Self::with_bound), and overwrites each segment with zeros when it comes back, so that no writer
    /// sees in a span what another one sent. Costs a pass over the whole segment at each flush.
    #[must_use]
    #[doc(alias = "clearArray")]
    pub fn clearing(bytes: usize) -> Self {
        Self::create(bytes, true)
    }

    fn create(bound: usize, clear: bool) -> Self {
        let sizes = (MIN_CLASS..usize::BITS).map(|class| 1_usize << class).take_while(|len| *len <= bound);
        static NEXT_INDEX: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
        let key = next_key(NEXT_INDEX.fetch_add(1, Ordering::Relaxed) % POOLS);
        let inner = Inner {
            key: AtomicUsize::new(key),
            bound,
            clear,
            reserved: AtomicUsize::new(0),
            segments: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            allocated: AtomicUsize::new(0),
            clock: atomic::AtomicUsize::new(0),
            kept: sizes
                .map(|len| Kept {
                    queue: ArrayQueue::new((bound / len).clamp(1, MAX_KEPT_OF_A_SIZE)),
                    used: atomic::AtomicUsize::new(0),
                })
                .collect(),
            places: core::array::from_fn(|_| Place::default()),
        };
        Self { inner: Arc::new(inner), out_bytes: 0 }
    }

    /// Frees what is kept. What another thread keeps is freed when it next gives a segment back, or ends.
    pub fn trim(&self) {
        let index = self.inner.index();
        self.inner.key.store(next_key(index), Ordering::Relaxed);
        let _ = OWNERS.try_with(|owners| {
            // By its owner: the key of what this thread keeps may be from before another thread's trim.
            let is_ours = ptr::eq(owners.pools[index].borrow().as_ptr(), Arc::as_ptr(&self.inner));
            if is_ours {
                owners.leave(index);
            }
        });
        for kept in &self.inner.kept {
            while let Some(segment) = kept.queue.pop() {
                self.inner.release(segment.len());
                self.inner.free(segment);
            }
        }
    }

    /// What the pool has handed out, keeps, and has allocated.
    #[must_use]
    pub fn stats(&self) -> SharedPoolStats {
        let inner = &*self.inner;
        let (mut segments_kept, mut bytes_kept) = (0, 0);
        for (class, kept) in inner.kept.iter().enumerate() {
            segments_kept += kept.queue.len();
            bytes_kept += kept.bytes(class);
        }
        for place in &inner.places {
            let len = place.len.load(Ordering::Relaxed);
            segments_kept += usize::from(len > 0);
            bytes_kept += len;
        }
        SharedPoolStats {
            segments_out: inner.segments.load(Ordering::Relaxed).saturating_sub(segments_kept),
            segments_kept,
            segments_allocated: inner.allocated.load(Ordering::Relaxed),
            bytes_out: inner.bytes.load(Ordering::Relaxed).saturating_sub(bytes_kept),
            bytes_kept,
        }
    }
}

impl SegmentPool for SharedPool {
    type Segment = Box<[u8]>;
    const HAS_QUICK_TAKE: bool = true;

    fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        if let Some(segment) = self.take_first(min_len) {
            return Some(segment);
        }
        let segment = self.inner.take(min_len, self.out_bytes)?;
        self.out_bytes += segment.len();
        Some(segment)
    }

    /// What this thread keeps, and only that.
    #[inline]
    fn take_first(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        // All within, for what is loaded before the thread's memory is found has to be kept meanwhile.
        SPARES.with(|spares| {
            let key = self.inner.key.load(Ordering::Relaxed);
            let segment = spares[spare_of(key)].take(&self.inner, key, min_len)?;
            self.out_bytes += segment.len();
            Some(segment)
        })
    }

    #[inline]
    fn give(&mut self, mut segment: Box<[u8]>) {
        self.out_bytes = self.out_bytes.saturating_sub(segment.len());
        if self.inner.clear {
            clear(&mut segment);
        }
        let key = self.inner.key.load(Ordering::Relaxed);
        SPARES.with(|spares| spares[spare_of(key)].give(&self.inner, key, segment));
    }
}

#[cold]
fn clear(segment: &mut [u8]) {
    segment.fill(0);
}

impl Inner {
    /// Which of a thread's spares may be of this pool: always the same.
    #[inline]
    fn index(&self) -> usize {
        spare_of(self.key.load(Ordering::Relaxed))
    }

    /// Counts `len` bytes as kept, if the bound allows.
    fn reserve(&self, len: usize) -> bool {
        let add = |kept: usize| kept.checked_add(len).filter(|sum| *sum <= self.bound);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn release(&self, len: usize) {
        self.reserved.fetch_sub(len, Ordering::Relaxed);
    }

    /// As `reserve`, and frees kept segments of other lengths for it where the bound demands that: those that no batch takes
    /// any more would else keep out for ever what was in use just now. Those of the length that was taken longest ago first; none
    /// if all are too few, or if all are in use and there are enough of this length.
    #[cold]
    fn make_room(&self, len: usize) -> bool {
        if len > self.bound || self.reserve(len) {
            return len <= self.bound;
        }
        let own = self.class(len);
        let others = || self.kept.iter().enumerate().filter(|(class, _)| *class != own);
        let bytes: usize = others().map(|(class, kept)| kept.bytes(class)).sum();
        if self.reserved.load(Ordering::Relaxed).saturating_sub(bytes) > self.bound - len {
            return false;
        }
        while let Some((class, kept)) = others()
            .filter(|(_, kept)| !kept.queue.is_empty())
            .min_by_key(|(_, kept)| kept.used.load(Ordering::Relaxed))
        {
            // Since then each segment there is could have been taken twice.
            let age = self.clock.load(Ordering::Relaxed).wrapping_sub(kept.used.load(Ordering::Relaxed));
            let is_in_use = age <= 2 * self.segments.load(Ordering::Relaxed);
            if is_in_use && self.kept[own].bytes(own) > kept.bytes(class).max(self.bound / 4) {
                return false;
            }
            // What has lain there longest comes first.
            while let Some(segment) = kept.queue.pop() {
                self.release(segment.len());
                self.free(segment);
                if self.reserve(len) {
                    return true;
                }
            }
        }
        false
    }

    /// Which of `kept` is for segments of `len` bytes, a power of two: one past the last where they are too long to be kept.
    fn class(&self, len: usize) -> usize {
        len.trailing_zeros().saturating_sub(MIN_CLASS) as usize
    }

    /// Takes what a batch of `out_bytes` so far is best served with, of `min_len` bytes at least.
    #[cold]
    fn take(&self, min_len: usize, out_bytes: usize) -> Option<Box<[u8]>> {
        let shortest = min_len.max(1 << MIN_CLASS).checked_next_power_of_two()?;
        // Longer than all that the batch has, so that the next one of its kind needs no other; past `MAX_GROWTH` as long as that.
        let wanted = out_bytes.saturating_add(1).min(MAX_GROWTH).next_power_of_two().max(shortest);
        let (first, class) = (self.class(shortest), self.class(wanted));
        let left = self.bound.saturating_sub(out_bytes);
        // The size that is wanted, else a longer one (past 64 KiB of four times as much and half the bound at most), else a
        // shorter one: not where a new one is worth more, which soon keeps the batch from needing several.
        let half = 1 << (self.bound / 2).max(1).ilog2();
        let longest = self.class(MAX_GROWTH).max(class).max(self.class(half).min(class + 2)) + 1;
        let outgrown = out_bytes < MAX_GROWTH && wanted <= left;
        let classes = (class..longest).chain((first..class).rev().filter(|_| !outgrown));
        for class in classes {
            if let Some(segment) = self.kept.get(class).and_then(|kept| kept.queue.pop()) {
                self.release(segment.len());
                self.use_of(segment.len());
                return Some(segment);
            }
        }
        // A batch that fits the bound takes none that does not: it could not be kept for the next.
        let wanted = if wanted > left && shortest <= left { 1 << left.ilog2() } else { wanted };
        let is_past_bound = out_bytes.saturating_add(wanted) > self.bound;
        let len = if is_past_bound { wanted.max(STRIDE) } else { wanted };
        self.use_of(len);
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        memory.resize(len, 0);
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.allocated.fetch_add(1, Ordering::Relaxed);
        Some(memory.into_boxed_slice())
    }

    /// Takes note that a batch takes a segment of `len` bytes.
    fn use_of(&self, len: usize) {
        if let Some(kept) = self.kept.get(self.class(len)) {
            let now = self.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            kept.used.store(now, Ordering::Relaxed);
        }
    }

    #[cold]
    fn give(&self, segment: Box<[u8]>) {
        let len = segment.len();
        let kept = self.kept.get(self.class(len)).filter(|_| len.is_power_of_two() && len >= 1 << MIN_CLASS);
        // A segment of another length is not of this pool.
        let Some(kept) = kept else { return self.free(segment) };
        if !self.make_room(len) {
            return self.free(segment);
        }
        if let Err(segment) = kept.queue.push(segment) {
            self.release(len);
            self.free(segment);
        }
    }

    fn free(&self, segment: Box<[u8]>) {
        // A segment that is not of this pool was never counted.
        let less = |count: &AtomicUsize, by| {
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_sub(by)));
        };
        less(&self.segments, 1);
        less(&self.bytes, segment.len());
        drop(segment);
    }
}

impl Kept {
    /// How many bytes are kept, at this place among the sizes.
    fn bytes(&self, class: usize) -> usize {
        self.queue.len() << (MIN_CLASS as usize + class)
    }
}

#[cfg(not(loom))]
thread_local! {
    /// What this thread keeps, reached without a look at whether the thread is ending: nothing in it has to be dropped.
    static SPARES: [Spare; POOLS] = const { [const { Spare::new() }; POOLS] };
    /// Gives it back when the thread ends.
    static OWNERS: Owners = const { Owners { pools: [const { RefCell::new(Weak::new()) }; POOLS] } };
}

#[cfg(loom)]
thread_local! {
    static SPARES: [Spare; POOLS] = [const { Spare::new() }; POOLS];
    static OWNERS: Owners = Owners { pools: [const { RefCell::new(Weak::new()) }; POOLS] };
}

/// What one thread keeps for one pool: at most one segment.
#[repr(align(64))]
struct Spare {
    /// The key of that pool when it became so; 0 if it is for none. As long as it equals the pool's, `place` and `reserved` are of that pool.
    key: Cell<usize>,
    /// The thread's place in that pool.
    place: Cell<usize>,
    /// Bytes of the pool's bound set aside for `segment`, whether it is there or not.
    reserved: Cell<usize>,
    /// How often another pool had to go without, since this one has it.
    misses: Cell<u32>,
    segment: Cell<Option<ManuallyDrop<Box<[u8]>>>>,
}

impl Spare {
    const fn new() -> Self {
        Self {
            key: Cell::new(0),
            place: Cell::new(0),
            reserved: Cell::new(0),
            misses: Cell::new(0),
            segment: Cell::new(None),
        }
    }

    #[inline]
    fn take(&self, pool: &Arc<Inner>, key: usize, min_len: usize) -> Option<Box<[u8]>> {
        if self.key.get() != key {
            return None;
        }
        let segment = self.segment.take()?;
        if segment.len() < min_len {
            self.segment.set(Some(segment));
            return None;
        }
        self.note(pool, 0);
        Some(ManuallyDrop::into_inner(segment))
    }

    /// Keeps `segment`, or sees to it that it gets where it belongs.
    #[inline(never)]
    fn give(&self, pool: &Arc<Inner>, key: usize, segment: Box<[u8]>) {
        let len = segment.len();
        if self.key.get() != key || len > self.reserved.get() {
            return give_slow(pool, segment);
        }
        let before = self.segment.replace(Some(ManuallyDrop::new(segment)));
        self.note(pool, len);
        if let Some(before) = before {
            let shorter = self.keep_longer(pool, ManuallyDrop::into_inner(before));
            pool.give(shorter);
        }
    }

    /// Of the segment just kept and the one that was kept before, gives back the shorter: the bytes are set aside for the longer.
    #[cold]
    fn keep_longer(&self, pool: &Inner, before: Box<[u8]>) -> Box<[u8]> {
        let Some(now) = self.segment.take() else { return before };
        let now = ManuallyDrop::into_inner(now);
        let (longer, shorter) = if before.len() > now.len() { (before, now) } else { (now, before) };
        self.note(pool, longer.len());
        self.segment.set(Some(ManuallyDrop::new(longer)));
        shorter
    }

    #[inline]
    fn note(&self, pool: &Inner, len: usize) {
        pool.places[self.place.get() / PLACE_SIZE % PLACES].len.store(len, Ordering::Relaxed);
    }

    /// Makes the segment in `slot` the one that this thread keeps for `pool`, if that may be; else leaves it there.
    fn adopt(&self, owner: &RefCell<Weak<Inner>>, pool: &Arc<Inner>, slot: &mut Option<Box<[u8]>>) {
        let key = pool.key.load(Ordering::Relaxed);
        let len = slot.as_ref().map_or(0, |segment| segment.len());
        let has_longer = self.key.get() == key && len <= self.reserved.get();
        let is_ours = len.is_power_of_two() && len >= 1 << MIN_CLASS;
        if has_longer || len > MAX_GROWTH || !is_ours {
            // What was kept before a trim goes all the same.
            if self.key.get() != key && ptr::eq(owner.borrow().as_ptr(), Arc::as_ptr(pool)) {
                self.leave(owner);
            }
            return;
        }
        let is_of_another = {
            let owner = owner.borrow();
            owner.strong_count() > 0 && !ptr::eq(owner.as_ptr(), Arc::as_ptr(pool))
        };
        if is_of_another && self.misses.replace(self.misses.get() + 1) < PATIENCE {
            return;
        }
        self.leave(owner);
        if !pool.make_room(len) {
            return;
        }
        let take =
            |place: &Place| place.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some(place) = pool.places.iter().position(take) else { return pool.release(len) };
        owner.replace(Arc::downgrade(pool));
        self.key.set(key);
        self.place.set(place * PLACE_SIZE);
        self.reserved.set(len);
        self.segment.set(slot.take().map(ManuallyDrop::new));
        self.note(pool, len);
    }

    /// Gives what is kept back to its pool, if that is still there, and is for none.
    fn leave(&self, owner: &RefCell<Weak<Inner>>) {
        let key = self.key.take();
        self.misses.set(0);
        let segment = self.segment.take().map(ManuallyDrop::into_inner);
        let reserved = self.reserved.take();
        let Some(pool) = owner.take().upgrade() else { return };
        pool.release(reserved);
        self.note(&pool, 0);
        pool.places[self.place.get() / PLACE_SIZE % PLACES].taken.store(false, Ordering::Release);
        if let Some(segment) = segment {
            // After a trim it is what the trim was to free.
            if key == pool.key.load(Ordering::Relaxed) { pool.give(segment) } else { pool.free(segment) }
        }
    }
}

/// Takes back a segment that this thread can not keep as it is.
#[cold]
fn give_slow(pool: &Arc<Inner>, segment: Box<[u8]>) {
    let index = pool.index();
    let mut slot = Some(segment);
    // A thread that is ending keeps nothing.
    let _ = OWNERS.try_with(|owners| SPARES.with(|spares| spares[index].adopt(&owners.pools[index], pool, &mut slot)));
    if let Some(segment) = slot {
        pool.give(segment);
    }
}

/// The pools that a thread keeps segments for.
struct Owners {
    pools: [RefCell<Weak<Inner>>; POOLS],
}

impl Owners {
    fn leave(&self, index: usize) {
        SPARES.with(|spares| spares[index].leave(&self.pools[index]));
    }
}

/// In a model `join` does not wait for what a thread does as it ends, so there the thread says itself when that is.
#[cfg(loom)]
impl SharedPool {
    #[doc(hidden)]
    pub fn end_thread() {
        OWNERS.with(|owners| (0..POOLS).for_each(|index| owners.leave(index)));
    }
}

#[cfg(not(loom))]
impl Drop for Owners {
    fn drop(&mut self) {
        (0..POOLS).for_each(|index| self.leave(index));
    }
}

/// Another handle to the same pool, for another writer.
impl Clone for SharedPool {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), out_bytes: 0 }
    }
}

impl Default for SharedPool {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPool")
            .field("bound", &self.inner.bound)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
