//! Segment pools that misbehave as they are told, and one that is shared.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipewriter_std::SegmentPool;

/// A pool that keeps nothing, counts everything, and goes wrong where its [`PoolLog`] says so.
///
/// What it goes wrong at is numbered from 0, in the order of the calls.
pub struct TestPool {
    shared: Arc<Mutex<Book>>,
}

/// The test's end of a [`TestPool`].
#[derive(Clone)]
pub struct PoolLog {
    shared: Arc<Mutex<Book>>,
}

/// A segment of a [`TestPool`]. One that is dropped instead of given back is noticed.
pub struct TestSegment {
    bytes: Vec<u8>,
    id: usize,
    given_back: bool,
    shared: Arc<Mutex<Book>>,
}

/// What a [`TestPool`] has seen.
#[derive(Debug, Default)]
struct Book {
    plan: Plan,
    asked: Vec<usize>,
    taken: usize,
    given: usize,
    out: BTreeSet<usize>,
    most_out: usize,
    lost: usize,
}

/// What a [`TestPool`] does wrong.
#[derive(Debug, Default)]
struct Plan {
    refuse: BTreeSet<usize>,
    refuse_from: Option<usize>,
    short: BTreeSet<usize>,
    panic_at_take: Option<usize>,
    panic_at_give: Option<usize>,
    surplus: usize,
}

impl TestPool {
    /// A pool that does nothing wrong yet, and its log.
    pub fn new() -> (Self, PoolLog) {
        let shared = Arc::new(Mutex::new(Book::default()));
        (Self { shared: Arc::clone(&shared) }, PoolLog { shared })
    }
}

impl SegmentPool for TestPool {
    type Segment = TestSegment;

    fn take(&mut self, min_len: usize) -> Option<TestSegment> {
        let mut book = lock(&self.shared);
        let call = book.asked.len();
        book.asked.push(min_len);
        if book.plan.panic_at_take == Some(call) {
            drop(book);
            panic!("the pool says: panic at take {call}");
        }
        if book.plan.refuse.contains(&call) || book.plan.refuse_from.is_some_and(|from| call >= from) {
            return None;
        }
        let len = if book.plan.short.contains(&call) { min_len.saturating_sub(1) } else { min_len + book.plan.surplus };
        let id = book.taken;
        book.taken += 1;
        book.out.insert(id);
        book.most_out = book.most_out.max(book.out.len());
        // Never zero: what a test reads as data must have been written by it.
        Some(TestSegment { bytes: vec![0xEE; len], id, given_back: false, shared: Arc::clone(&self.shared) })
    }

    fn give(&mut self, mut segment: TestSegment) {
        assert!(Arc::ptr_eq(&segment.shared, &self.shared), "the segment is another pool's");
        let mut book = lock(&self.shared);
        let call = book.given;
        book.given += 1;
        assert!(book.out.remove(&segment.id), "segment {} was given back before", segment.id);
        segment.given_back = true;
        let panics = book.plan.panic_at_give == Some(call);
        drop(book);
        assert!(!panics, "the pool says: panic at give {call}");
    }
}

impl fmt::Debug for TestPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lock(&self.shared).fmt(f)
    }
}

impl PoolLog {
    /// The `n`-th take gets nothing.
    pub fn refuse_take(&self, n: usize) {
        self.book().plan.refuse.insert(n);
    }

    /// Every take gets nothing from the `n`-th on.
    pub fn refuse_takes_from(&self, n: usize) {
        self.book().plan.refuse_from = Some(n);
    }

    /// Takes are no longer refused.
    pub fn refuse_no_more(&self) {
        let mut book = self.book();
        book.plan.refuse.clear();
        book.plan.refuse_from = None;
    }

    /// The `n`-th take gets a segment that is a byte too short.
    pub fn shorten_take(&self, n: usize) {
        self.book().plan.short.insert(n);
    }

    /// The `n`-th take panics.
    pub fn panic_at_take(&self, n: usize) {
        self.book().plan.panic_at_take = Some(n);
    }

    /// The `n`-th give panics. The segment counts as given back.
    pub fn panic_at_give(&self, n: usize) {
        self.book().plan.panic_at_give = Some(n);
    }

    /// Segments are so many bytes longer than asked for.
    pub fn add_to_each(&self, surplus: usize) {
        self.book().plan.surplus = surplus;
    }

    /// The length asked for at each take, refused ones too.
    pub fn asked(&self) -> Vec<usize> {
        self.book().asked.clone()
    }

    /// How many segments were handed out.
    pub fn taken(&self) -> usize {
        self.book().taken
    }

    /// How many segments came back.
    pub fn given(&self) -> usize {
        self.book().given
    }

    /// How many segments the writer holds now.
    pub fn held(&self) -> usize {
        self.book().out.len()
    }

    /// The most segments that the writer has held at a time.
    pub fn most_held(&self) -> usize {
        self.book().most_out
    }

    /// Checks that each segment was given back, once.
    #[track_caller]
    pub fn assert_all_back(&self) {
        let book = self.book();
        assert_eq!(book.lost, 0, "segments were dropped, not given back");
        assert!(book.out.is_empty(), "segments {:?} of {} are still held", book.out, book.taken);
        assert_eq!(book.given, book.taken, "each segment is given back once");
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.shared)
    }
}

impl fmt::Debug for PoolLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.book().fmt(f)
    }
}

impl AsRef<[u8]> for TestSegment {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for TestSegment {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for TestSegment {
    fn drop(&mut self) {
        if !self.given_back {
            lock(&self.shared).lost += 1;
        }
    }
}

impl fmt::Debug for TestSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestSegment").field("id", &self.id).field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A pool that any number of writers share: whatever one gives back the next may take.
#[derive(Clone, Debug, Default)]
pub struct SharedPool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl SharedPool {
    /// A pool with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many segments wait to be taken.
    pub fn free(&self) -> usize {
        lock(&self.free).len()
    }
}

impl SegmentPool for SharedPool {
    type Segment = Vec<u8>;

    fn take(&mut self, min_len: usize) -> Option<Vec<u8>> {
        let mut free = lock(&self.free);
        let found = free.iter().position(|segment| segment.len() >= min_len);
        Some(found.map_or_else(|| vec![0; min_len], |at| free.swap_remove(at)))
    }

    fn give(&mut self, segment: Vec<u8>) {
        lock(&self.free).push(segment);
    }
}

/// A panic under the lock leaves nothing half done, so a poisoned lock is taken as it is.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_pool_goes_wrong_where_it_is_told() {
        let (mut pool, log) = TestPool::new();
        log.refuse_take(0);
        log.shorten_take(1);
        log.panic_at_take(2);
        log.panic_at_give(1);
        assert!(pool.take(10).is_none());
        let short = pool.take(10).unwrap();
        assert_eq!(short.as_ref().len(), 9);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(pool.take(10)))).is_err());
        let good = pool.take(10).unwrap();
        assert_eq!((good.as_ref().len(), log.held(), log.most_held()), (10, 2, 2));
        pool.give(good);
        assert!(catch_unwind(AssertUnwindSafe(|| pool.give(short))).is_err());
        log.assert_all_back();
        assert_eq!(log.asked(), [10; 4]);
    }

    #[test]
    #[should_panic(expected = "not given back")]
    fn a_segment_that_is_dropped_is_noticed() {
        let (mut pool, log) = TestPool::new();
        drop(pool.take(1));
        log.assert_all_back();
    }

    #[test]
    #[should_panic(expected = "still held")]
    fn a_segment_that_is_kept_is_noticed() {
        let (mut pool, log) = TestPool::new();
        let _kept = pool.take(1);
        log.assert_all_back();
    }

    #[test]
    fn a_shared_pool_hands_on_what_it_got() {
        let mut one = SharedPool::new();
        let mut two = one.clone();
        let segment = one.take(16).unwrap();
        one.give(segment);
        assert_eq!(two.free(), 1);
        assert_eq!(two.take(8).unwrap().len(), 16);
        assert_eq!(two.free(), 0);
    }
}
