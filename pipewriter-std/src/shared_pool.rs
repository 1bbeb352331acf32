use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use crossbeam_queue::ArrayQueue;
use pipewriter_core::SegmentPool;

/// A pool that many writers share: a writer with nothing buffered holds no memory at all.
///
/// Clone it into the options of each writer. It keeps at most [`bound`](Self::with_bound) bytes for the next batches of all
/// of them; what exceeds that goes back to the allocator. Segments are powers of two in size; within one batch of a
/// writer they double up to 64 KiB.
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

/// Segments of one size are at most so many.
const MAX_KEPT_OF_A_SIZE: usize = 4096;
/// A batch grows by segments of up to this size; a larger one only where a span asks for it.
const MAX_GROWTH: usize = 64 * 1024;
const DEFAULT_BOUND: usize = 16 * 1024 * 1024;
const CLASSES: usize = usize::BITS as usize;

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
    /// The queue at `n` keeps segments of `1 << n` bytes.
    queues: [OnceLock<Box<Queue>>; CLASSES],
    /// What each thread keeps, for the statistics.
    spares: Mutex<Vec<Arc<AtomicUsize>>>,
}

impl SharedPool {
    /// Creates a pool that keeps at most 16 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bound(DEFAULT_BOUND)
    }

    /// Creates a pool that keeps at most `bytes` bytes, and at most 4,096 segments of one size. With 0 it keeps nothing.
    #[must_use]
    pub fn with_bound(bytes: usize) -> Self {
        Self::create(bytes, false)
    }

    /// As [`with_bound`](Self::with_bound), and overwrites each segment with zeros when it comes back, so that no writer
    /// sees in a span what another one sent. Costs a pass over the whole segment at each flush.
    #[must_use]
    pub fn clearing(bytes: usize) -> Self {
        Self::create(bytes, true)
    }

    fn create(bound: usize, clear: bool) -> Self {
        let inner = Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            bound,
            clear,
            reserved: AtomicUsize::new(0),
            trims: AtomicUsize::new(0),
            segments: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            allocated: AtomicUsize::new(0),
            queues: [const { OnceLock::new() }; CLASSES],
            spares: Mutex::default(),
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
        for queue in self.inner.queues.iter().filter_map(OnceLock::get) {
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
            let count = queue.get().map_or(0, |queue| queue.len());
            segments_kept += count;
            bytes_kept += count << class;
        }
        for spare in &*inner.spares() {
            let len = spare.load(Ordering::Relaxed);
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
        let grown = if self.out_bytes == 0 { min_len } else { min_len.max(self.out_bytes.min(MAX_GROWTH)) };
        let spare = LOCAL.try_with(|local| local.take(&self.inner, grown));
        let segment = match spare {
            Ok(Some(segment)) => segment,
            _ => self.inner.take(grown)?,
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
    fn spares(&self) -> MutexGuard<'_, Vec<Arc<AtomicUsize>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `len` bytes as kept, if the bound allows.
    fn reserve(&self, len: usize) -> bool {
        self.reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
                kept.checked_add(len).filter(|sum| *sum <= self.bound)
            })
            .is_ok()
    }

    fn release(&self, len: usize) {
        self.reserved.fetch_sub(len, Ordering::Relaxed);
    }

    #[cold]
    fn take(&self, min_len: usize) -> Option<Box<[u8]>> {
        let len = min_len.checked_next_power_of_two()?;
        if let Some(segment) = self.queues[len.trailing_zeros() as usize].get().and_then(|queue| queue.pop()) {
            self.release(len);
            return Some(segment);
        }
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
        if !len.is_power_of_two() || !self.reserve(len) {
            // A segment of another length is not of this pool.
            return self.free(segment);
        }
        let queue = self.queues[len.trailing_zeros() as usize]
            .get_or_init(|| Box::new(ArrayQueue::new((self.bound / len).clamp(1, MAX_KEPT_OF_A_SIZE))));
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
    /// Bytes of the pool's bound set aside for `spare`, whether it is there or not.
    reserved: Cell<usize>,
    trims: Cell<usize>,
    spare: Cell<Option<Box<[u8]>>>,
    pool: RefCell<Weak<Inner>>,
    /// The length of `spare` where the pool's statistics see it; only this thread writes it.
    len: OnceCell<Arc<AtomicUsize>>,
}

impl Local {
    const fn new() -> Self {
        Self {
            id: Cell::new(0),
            reserved: Cell::new(0),
            trims: Cell::new(0),
            spare: Cell::new(None),
            pool: RefCell::new(Weak::new()),
            len: OnceCell::new(),
        }
    }

    #[inline]
    fn take(&self, pool: &Arc<Inner>, min_len: usize) -> Option<Box<[u8]>> {
        if self.id.get() != pool.id {
            return None;
        }
        let segment = self.spare.take()?;
        if segment.len() < min_len {
            self.spare.set(Some(segment));
            return None;
        }
        self.note(0);
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
            *slot = self.spare.replace(Some(segment));
            self.note(len);
        } else {
            *slot = Some(segment);
        }
    }

    #[inline]
    fn note(&self, len: usize) {
        if let Some(shared) = self.len.get() {
            shared.store(len, Ordering::Relaxed);
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
        pool.spares().push(Arc::clone(self.len.get_or_init(Arc::default)));
        *self.pool.borrow_mut() = Arc::downgrade(pool);
        self.id.set(pool.id);
        self.reserved.set(len);
        self.trims.set(pool.trims.load(Ordering::Relaxed));
        true
    }

    /// Gives what this thread keeps back to its pool, if that is still there, and belongs to none.
    fn leave(&self) {
        self.id.set(0);
        let pool = self.pool.take();
        let spare = self.spare.take();
        self.note(0);
        let Some(pool) = pool.upgrade() else { return };
        pool.release(self.reserved.take());
        if let Some(shared) = self.len.get() {
            pool.spares().retain(|other| !Arc::ptr_eq(other, shared));
        }
        if let Some(segment) = spare {
            if self.trims.get() == pool.trims.load(Ordering::Relaxed) { pool.give(segment) } else { pool.free(segment) }
        }
    }
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
