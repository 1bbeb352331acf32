use std::{
    cell::{Cell, RefCell},
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crossbeam_queue::ArrayQueue;
use pipewriter_core::SegmentPool;

/// A pool that many writers share: a writer with nothing buffered holds no memory at all.
///
/// Clone it into the options of each writer. It keeps at most [`bound`](Self::with_bound) bytes for the next batches of all
/// of them; what exceeds that goes back to the allocator. Segments are powers of two in size, 1 KiB at least; within one
/// batch of a writer they double up to 64 KiB. A batch past the bound takes 128 KiB at a time.
///
/// **Spans show what other writers wrote** into the same memory before, unless it was told to [`clear`](Self::clearing).
///
/// # How it is fast
///
/// Each thread keeps the segment that it gave back last, within the bound, and takes it again without an atomic
/// read-modify-write; all others lie in lock-free queues, one for each size. A thread's segment goes back to the queues when the
/// thread ends.
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
    /// Bytes of the segments that are kept, at most the bound.
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
/// Threads that may keep a segment of their own.
const THREADS: usize = 64;

type Queue = ArrayQueue<Box<[u8]>>;

static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

struct Inner {
    /// Tells a thread whether what it keeps is of this pool.
    id: usize,
    bound: usize,
    clear: bool,
    /// Bytes in the queues, and those that threads may keep beside them: never more than `bound`.
    reserved: AtomicUsize,
    /// Goes up with each trim: threads free what they kept before.
    trims: AtomicUsize,
    segments: AtomicUsize,
    bytes: AtomicUsize,
    allocated: AtomicUsize,
    /// The queue at `n` keeps segments of `1 << (MIN_CLASS + n)` bytes. All are made with the pool, for a queue can not be made
    /// where the allocator may refuse.
    queues: Box<[Queue]>,
    places: [Place; THREADS],
}

/// What one thread keeps, where the statistics see it.
#[derive(Default)]
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

    /// Creates a pool that keeps at most `bytes` bytes, and at most 4,096 segments of one size. With 0 it keeps nothing.
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
        let inner = Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            bound,
            clear,
            reserved: AtomicUsize::new(0),
            trims: AtomicUsize::new(0),
            segments: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            allocated: AtomicUsize::new(0),
            queues: sizes.map(|len| ArrayQueue::new((bound / len).clamp(1, MAX_KEPT_OF_A_SIZE))).collect(),
            places: core::array::from_fn(|_| Place::default()),
        };
        Self { inner: Arc::new(inner), out_bytes: 0 }
    }

    /// Frees what is kept. What another thread keeps is freed at the next `take` or `give` of that thread, or at its end.
    pub fn trim(&self) {
        self.inner.trims.fetch_add(1, Ordering::Relaxed);
        let _ = LOCAL.try_with(|local| {
            if local.id.get() == self.inner.id {
                local.leave();
            }
        });
        for queue in &self.inner.queues {
            while let Some(segment) = queue.pop() {
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
        for (class, queue) in inner.queues.iter().enumerate() {
            segments_kept += queue.len();
            bytes_kept += queue.len() << (MIN_CLASS as usize + class);
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

    #[inline]
    fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        let spare = LOCAL.try_with(|local| local.take(&self.inner, min_len));
        let segment = match spare {
            Ok(Some(segment)) => segment,
            _ => self.inner.take(min_len, self.out_bytes)?,
        };
        self.out_bytes += segment.len();
        Some(segment)
    }

    #[inline]
    fn give(&mut self, mut segment: Box<[u8]>) {
        self.out_bytes = self.out_bytes.saturating_sub(segment.len());
        if self.inner.clear {
            segment.fill(0);
        }
        // A thread that is ending leaves it in the slot.
        let mut slot = Some(segment);
        let _ = LOCAL.try_with(|local| local.give(&self.inner, &mut slot));
        if let Some(segment) = slot {
            self.inner.give(segment);
        }
    }
}

impl Inner {
    /// Counts `len` bytes as kept, if the bound allows.
    fn reserve(&self, len: usize) -> bool {
        let add = |kept: usize| kept.checked_add(len).filter(|sum| *sum <= self.bound);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn release(&self, len: usize) {
        self.reserved.fetch_sub(len, Ordering::Relaxed);
    }

    /// Which queue keeps segments of `len` bytes, a power of two: one past the last where they are too long to be kept.
    fn class(&self, len: usize) -> usize {
        len.trailing_zeros().saturating_sub(MIN_CLASS) as usize
    }

    /// Takes what a batch of `out_bytes` so far is best served with, of `min_len` bytes at least.
    #[cold]
    fn take(&self, min_len: usize, out_bytes: usize) -> Option<Box<[u8]>> {
        let shortest = min_len.max(1 << MIN_CLASS).checked_next_power_of_two()?;
        let wanted = out_bytes.min(MAX_GROWTH).next_power_of_two().max(shortest);
        let (first, class) = (self.class(shortest), self.class(wanted));
        let longest = self.class(MAX_GROWTH).max(class) + 1;
        // The size that is wanted, else a longer one, else a shorter one.
        let classes = (class..longest).chain((first..class).rev());
        let kept = classes.filter_map(|class| self.queues.get(class)).find_map(ArrayQueue::pop);
        if let Some(segment) = kept {
            self.release(segment.len());
            return Some(segment);
        }
        let is_past_bound = out_bytes.saturating_add(wanted) > self.bound;
        let len = if is_past_bound { wanted.max(STRIDE) } else { wanted };
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        memory.resize(len, 0);
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.allocated.fetch_add(1, Ordering::Relaxed);
        Some(memory.into_boxed_slice())
    }

    #[cold]
    fn give(&self, segment: Box<[u8]>) {
        let len = segment.len();
        let queue = self.queues.get(self.class(len)).filter(|_| len.is_power_of_two() && len >= 1 << MIN_CLASS);
        // A segment of another length is not of this pool.
        let Some(queue) = queue else { return self.free(segment) };
        if !self.reserve(len) {
            return self.free(segment);
        }
        if let Err(segment) = queue.push(segment) {
            self.release(len);
            self.free(segment);
        }
    }

    fn free(&self, segment: Box<[u8]>) {
        self.segments.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(segment.len(), Ordering::Relaxed);
        drop(segment);
    }
}

thread_local! {
    static LOCAL: Local = const { Local::new() };
}

/// What one thread keeps: at most one segment, of one pool.
struct Local {
    /// Of the pool that it belongs to; 0 if to none.
    id: Cell<usize>,
    /// Its place in that pool.
    place: Cell<usize>,
    /// Bytes of the pool's bound set aside for `spare`, whether it is there or not.
    reserved: Cell<usize>,
    trims: Cell<usize>,
    spare: Cell<Option<Box<[u8]>>>,
    pool: RefCell<Weak<Inner>>,
}

impl Local {
    const fn new() -> Self {
        Self {
            id: Cell::new(0),
            place: Cell::new(0),
            reserved: Cell::new(0),
            trims: Cell::new(0),
            spare: Cell::new(None),
            pool: RefCell::new(Weak::new()),
        }
    }

    #[inline]
    fn take(&self, pool: &Arc<Inner>, min_len: usize) -> Option<Box<[u8]>> {
        if self.id.get() != pool.id {
            return None;
        }
        if self.trims.get() != pool.trims.load(Ordering::Relaxed) {
            self.leave();
            return None;
        }
        let segment = self.spare.take()?;
        if segment.len() < min_len {
            self.spare.set(Some(segment));
            return None;
        }
        self.note(pool, 0);
        Some(segment)
    }

    /// Keeps the segment in `slot`, or leaves it there.
    #[inline]
    fn give(&self, pool: &Arc<Inner>, slot: &mut Option<Box<[u8]>>) {
        let Some(segment) = slot.take() else { return };
        let len = segment.len();
        let known = self.id.get() == pool.id
            && len <= self.reserved.get()
            && self.trims.get() == pool.trims.load(Ordering::Relaxed);
        if known || self.adopt(pool, len) {
            let spare = self.spare.replace(Some(segment));
            self.note(pool, len);
            if spare.is_some() {
                self.keep_longer(pool, slot, spare);
            }
        } else {
            *slot = Some(segment);
        }
    }

    /// Of the segment just kept and the one that was kept before, leaves the shorter in `slot`: the bytes are set aside for
    /// the longer.
    #[cold]
    fn keep_longer(&self, pool: &Inner, slot: &mut Option<Box<[u8]>>, before: Option<Box<[u8]>>) {
        let now = self.spare.take();
        let (longer, shorter) = if len_of(&before) > len_of(&now) { (before, now) } else { (now, before) };
        self.note(pool, len_of(&longer));
        self.spare.set(longer);
        *slot = shorter;
    }

    #[inline]
    fn note(&self, pool: &Inner, len: usize) {
        if let Some(place) = pool.places.get(self.place.get()) {
            place.len.store(len, Ordering::Relaxed);
        }
    }

    /// Sees to it that this thread may keep a segment of `len` bytes for `pool`, unless it is busy with another pool.
    #[cold]
    fn adopt(&self, pool: &Arc<Inner>, len: usize) -> bool {
        let others = self.id.get() != pool.id && self.pool.borrow().strong_count() > 0;
        if others || len > MAX_GROWTH || !len.is_power_of_two() {
            return false;
        }
        self.leave();
        if !pool.reserve(len) {
            return false;
        }
        let take =
            |place: &Place| place.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let Some(place) = pool.places.iter().position(take) else {
            pool.release(len);
            return false;
        };
        *self.pool.borrow_mut() = Arc::downgrade(pool);
        self.id.set(pool.id);
        self.place.set(place);
        self.reserved.set(len);
        self.trims.set(pool.trims.load(Ordering::Relaxed));
        true
    }

    /// Gives what this thread keeps back to its pool, if that is still there, and belongs to none.
    #[cold]
    fn leave(&self) {
        self.id.set(0);
        let pool = self.pool.take();
        let spare = self.spare.take();
        let Some(pool) = pool.upgrade() else { return };
        pool.release(self.reserved.take());
        if let Some(place) = pool.places.get(self.place.get()) {
            place.len.store(0, Ordering::Relaxed);
            place.taken.store(false, Ordering::Release);
        }
        if let Some(segment) = spare {
            if self.trims.get() == pool.trims.load(Ordering::Relaxed) { pool.give(segment) } else { pool.free(segment) }
        }
    }
}

fn len_of(segment: &Option<Box<[u8]>>) -> usize {
    segment.as_ref().map_or(0, |segment| segment.len())
}

impl Drop for Local {
    fn drop(&mut self) {
        self.leave();
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
