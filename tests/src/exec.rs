//! Running futures in a test: nothing here waits, so a lost wakeup is a failed test and not one that hangs.

use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

/// Runs `future` to its end on this thread.
///
/// # Panics
///
/// If the future is pending and its waker was not woken: on a real executor the task would sleep for ever.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    match drive(future) {
        Some(output) => output,
        None => panic!("pending and nobody will wake"),
    }
}

thread_local! {
    /// The wakeups of what [`drive`] runs on this thread: one count for all, so that driving a future allocates nothing
    /// (after the first on a thread), for tests that count allocations.
    static DRIVEN: Wakes = Wakes::new();
}

/// Polls `future` as long as it is woken. `None` if it stays pending with nobody to wake it; it is dropped then.
pub fn drive<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let wakes = DRIVEN.with(Wakes::clone);
    let waker = wakes.waker();
    loop {
        let seen = wakes.count();
        if let Poll::Ready(output) = poll_with(&waker, &mut future) {
            return Some(output);
        }
        if wakes.count() == seen {
            return None;
        }
    }
}

/// Polls `future` once, with a waker that does nothing. For a future that is not `Unpin`, pin it first (`pin!`) and
/// pass the pin.
pub fn poll_once<F: Future + Unpin + ?Sized>(future: &mut F) -> Poll<F::Output> {
    poll_with(Waker::noop(), future)
}

/// Polls `future` once with `waker`.
pub fn poll_with<F: Future + Unpin + ?Sized>(waker: &Waker, future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A future under way together with the count of its wakeups, for tests that poll by hand.
pub struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    wakes: Wakes,
}

impl<'a, T> Task<'a, T> {
    /// Takes `future` in; it is not polled yet.
    pub fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), wakes: Wakes::new() }
    }

    /// Polls the future once.
    pub fn poll(&mut self) -> Poll<T> {
        poll_with(&self.wakes.waker(), &mut self.future)
    }

    /// Polls the future until it stays pending with nobody to wake it, or is ready: one that only lets others have a turn
    /// is polled again at once.
    pub fn poll_until_stalled(&mut self) -> Poll<T> {
        loop {
            let seen = self.wakes();
            let poll = self.poll();
            if poll.is_ready() || self.wakes() == seen {
                return poll;
            }
        }
    }

    /// How often the future was woken so far.
    pub fn wakes(&self) -> usize {
        self.wakes.count()
    }

    /// Polls as an executor would: again only when woken since the poll before. Call it after something woke the task.
    ///
    /// # Panics
    ///
    /// If the task was not woken since the wakeup number `seen`, or if it stays pending with nobody to wake it.
    #[track_caller]
    pub fn finish(mut self, seen: usize) -> T {
        assert!(self.wakes() > seen, "pending and nobody woke the task");
        match self.poll_until_stalled() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("pending again and nobody woke the task"),
        }
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("wakes", &self.wakes()).finish_non_exhaustive()
    }
}

/// A count of wakeups and the wakers that add to it.
#[derive(Clone, Debug, Default)]
pub struct Wakes(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl Wakes {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    /// A waker that adds to this count.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// How many wakers of this count are alive: one that was handed out, cloned or stored somewhere.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker that runs `f` at each wakeup.
pub fn waker_fn(f: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Runs<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Runs<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Runs(f)))
}

/// A waker that panics when it is woken.
pub fn panicking_waker() -> Waker {
    waker_fn(|| panic!("the panicking waker was woken"))
}

#[cfg(test)]
mod tests {
    use core::future::{pending, poll_fn, ready};
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_future_that_wakes_itself_is_run_to_its_end() {
        let mut left = 3;
        let future = poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready("done");
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(block_on(future), "done");
    }

    #[test]
    #[should_panic(expected = "pending and nobody will wake")]
    fn a_future_that_nobody_wakes_is_a_failure() {
        block_on(pending::<()>());
    }

    #[test]
    fn wakeups_are_counted_and_stored_wakers_too() {
        let wakes = Wakes::new();
        let (one, two) = (wakes.waker(), wakes.waker());
        one.wake_by_ref();
        two.wake();
        assert_eq!((wakes.count(), wakes.wakers()), (2, 1));
    }

    #[test]
    fn a_task_goes_on_only_when_woken() {
        let mut stored = None;
        let mut polls = 0;
        let mut task = Task::new(poll_fn(|cx| {
            polls += 1;
            stored = Some(cx.waker().clone());
            cx.waker().wake_by_ref();
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        }));
        assert!(task.poll().is_pending());
        assert_eq!(task.finish(0), 3);
    }

    #[test]
    #[should_panic(expected = "nobody woke the task")]
    fn a_task_that_was_not_woken_does_not_go_on() {
        let task = Task::new(ready(()));
        task.finish(0);
    }

    #[test]
    fn the_panicking_waker_panics() {
        let waker = panicking_waker();
        assert!(catch_unwind(|| waker.wake_by_ref()).is_err());
    }
}
