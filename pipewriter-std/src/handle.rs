use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

use pipewriter_core::{Signal, Wakers};

use crate::sync::{Arc, Mutex, MutexGuard};

/// Cancels a writer's flush from anywhere, and tells when the writer has closed.
///
/// Cheap to clone; made with [`PipeWriter::handle`](crate::PipeWriter::handle), also while no flush is pending. It keeps
/// neither the writer nor its stream alive.
///
/// ```
/// use pipewriter_std::blocking::PipeWriter;
///
/// let mut writer = PipeWriter::new(Vec::new());
/// let handle = writer.handle();
/// writer.append(b"hello")?;
/// std::thread::spawn(move || handle.cancel_pending_flush()).join().unwrap();
/// assert!(writer.flush()?.is_canceled());
/// assert_eq!(writer.unflushed_bytes(), 5);
/// assert!(!writer.flush()?.is_canceled());
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "CancellationToken")]
#[derive(Clone)]
pub struct PipeHandle {
    shared: Arc<Shared>,
}

impl PipeHandle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Ends the flush that is pending, or with none pending the next one: it returns with
    /// [`is_canceled`](crate::FlushResult::is_canceled), and nothing is lost.
    ///
    /// Callable from any thread, from within the stream's own methods and from a waker. Several cancels before one is
    /// seen count as one. One that comes too late meets the next flush, and cannot be taken back: whoever lets handles out
    /// looks at `is_canceled()`, or flushes in a loop. For a timeout drop the future instead. A thread inside the operating system's blocking write is not interrupted.
    #[doc(alias = "CancelPendingFlush")]
    pub fn cancel_pending_flush(&self) {
        self.shared.0.cancel_pending_flush();
    }

    /// Whether what is written can not arrive any more: the stream has said that its reader is gone, or the writer was
    /// completed, aborted, dropped or taken apart. Once true, always true.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.0.is_closed()
    }

    /// Waits until [`is_closed`](Self::is_closed). Any number of tasks may wait.
    ///
    /// The stream is only ever asked by a write, flush or close of the writer; so with nothing to send a reader that is gone may
    /// go unnoticed. Cancel safe: dropping it forgets the wait and nothing else. It does not borrow the handle.
    #[doc(alias = "OnReaderCompleted")]
    pub fn closed(&self) -> Closed {
        Closed { shared: Arc::clone(&self.shared), place: None }
    }
}

impl fmt::Debug for PipeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeHandle").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// The future of [`PipeHandle::closed`].
#[must_use = "futures do nothing unless awaited"]
pub struct Closed {
    shared: Arc<Shared>,
    /// Where this future's waker is among those that wait.
    place: Option<u64>,
}

impl Future for Closed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.shared.0.is_closed() {
            // Looked at again once the waker is in place: whoever closes marks first and wakes then.
            this.place = Some(this.shared.0.wakers().wait(this.place, cx.waker()));
            if !this.shared.0.is_closed() {
                return Poll::Pending;
            }
        }
        this.leave();
        Poll::Ready(())
    }
}

impl Closed {
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.shared.0.wakers().leave(place);
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("is_closed", &self.shared.0.is_closed()).finish_non_exhaustive()
    }
}

/// What a writer and its handles share.
pub(crate) struct Shared(Signal<TaskWakers>);

impl Shared {
    /// For a writer whose pending flush, if any, is to be woken through `waker`.
    pub(crate) fn for_flush(waker: Option<Waker>, closed: bool) -> Self {
        let wakers = TaskWakers { flush: Mutex::new(waker), waiting: Mutex::default() };
        let signal = Signal::new(wakers);
        if closed {
            signal.close();
        }
        Self(signal)
    }

    pub(crate) const fn signal(&self) -> &Signal<TaskWakers> {
        &self.0
    }

    #[inline]
    pub(crate) fn is_cancel_requested(&self) -> bool {
        self.0.is_cancel_requested()
    }

    pub(crate) fn clear_cancel(&self) {
        self.0.clear_cancel();
    }
}

/// The wakers of the flush and of all who wait for the end.
///
/// A waker's clone, wake and drop run code of others, which may well call back into here: no lock is held meanwhile.
pub(crate) struct TaskWakers {
    flush: Mutex<Option<Waker>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// No code of others runs under a lock, so a poisoned one is sound all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TaskWakers {
    /// Keeps `waker` in `place`, or in a place of its own, until the end.
    fn wait(&self, place: Option<u64>, waker: &Waker) -> u64 {
        if let Some(place) = place {
            if lock(&self.waiting).wakers.get(&place).is_some_and(|known| known.will_wake(waker)) {
                return place;
            }
        }
        let waker = waker.clone();
        let mut waiting = lock(&self.waiting);
        let place = place.unwrap_or(waiting.next);
        waiting.next = waiting.next.max(place + 1);
        let old = waiting.wakers.insert(place, waker);
        drop(waiting);
        drop(old);
        place
    }

    fn leave(&self, place: u64) {
        let waker = lock(&self.waiting).wakers.remove(&place);
        drop(waker);
    }
}

impl Wakers for TaskWakers {
    fn register_flush(&self, waker: &Waker) {
        if lock(&self.flush).as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        let old = {
            let waker = waker.clone();
            lock(&self.flush).replace(waker)
        };
        drop(old);
    }

    fn wake_flush(&self) {
        let waker = lock(&self.flush).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn clear_flush(&self) {
        let waker = lock(&self.flush).take();
        drop(waker);
    }

    fn wake_closed(&self) {
        // One at a time: if one of them panics, the others are still there for the next call.
        loop {
            let first = lock(&self.waiting).wakers.pop_first();
            let Some((_, waker)) = first else { break };
            waker.wake();
        }
    }
}
