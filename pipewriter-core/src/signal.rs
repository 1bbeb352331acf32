use core::task::Waker;

use crate::sync::{AtomicBool, Ordering, fence};

/// What ties a pipe to those who may cancel its flush or want to know when it has closed.
///
/// The flush machine asks it before each call to the stream. `()` is a link to nobody; `&Signal` is one to a [`Signal`]
/// that lives elsewhere, in a `static` for example; `pipewriter-std` has one that allocates only once a handle is asked for.
pub trait Link {
    /// Whether a cancel waits to be seen. Asked often: a plain load and no more.
    fn is_cancel_requested(&self) -> bool;
    /// Uses up the cancel that waits.
    fn clear_cancel(&mut self);
    /// Asks for `waker` to be woken at the next cancel, instead of any that was given before.
    ///
    /// A cancel that comes during the call either wakes `waker` or is seen by an [`is_cancel_requested`](Self::is_cancel_requested) right after it.
    fn register(&mut self, waker: &Waker);
    /// Takes that back: nobody waits for a cancel any more.
    fn unregister(&mut self);
    /// Wakes the waker that is registered, for a cancel that came through the pipe itself.
    fn wake(&self);
    /// Tells all who want to know that the stream takes no more. May be called more than once.
    fn close(&mut self);
}

impl Link for () {
    #[inline]
    fn is_cancel_requested(&self) -> bool {
        false
    }
    fn clear_cancel(&mut self) {}
    fn register(&mut self, _: &Waker) {}
    fn unregister(&mut self) {}
    fn wake(&self) {}
    fn close(&mut self) {}
}

/// Where a [`Signal`] keeps the wakers that it must wake.
///
/// An implementation holds no lock while it clones, wakes or drops a waker, for these run code of others.
#[diagnostic::on_unimplemented(note = "for `AtomicWaker` enable the feature `atomic-waker` of `pipewriter-core`")]
pub trait Wakers {
    /// Keeps a clone of `waker` for the next [`wake_flush`](Self::wake_flush), instead of any that was kept before.
    fn register_flush(&self, waker: &Waker);
    /// Takes the waker that was kept and wakes it.
    fn wake_flush(&self);
    /// Takes the waker that was kept and drops it.
    fn clear_flush(&self);
    /// Wakes all that wait for the end.
    fn wake_closed(&self);
}

/// The cancel request and the closed mark of one pipe, shared with whoever may cancel it.
///
/// Both marks are plain loads and stores, so it works where there is no compare-and-swap. `K` keeps the wakers.
#[derive(Debug)]
pub struct Signal<K> {
    cancel: AtomicBool,
    closed: AtomicBool,
    wakers: K,
}

impl<K: Wakers> Signal<K> {
    /// Creates a signal with no cancel waiting that is not closed.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(wakers: K) -> Self {
        Self { cancel: AtomicBool::new(false), closed: AtomicBool::new(false), wakers }
    }

    /// Creates a signal with no cancel waiting that is not closed.
    #[cfg(loom)]
    #[must_use]
    pub fn new(wakers: K) -> Self {
        Self { cancel: AtomicBool::new(false), closed: AtomicBool::new(false), wakers }
    }

    /// Ends the flush that is pending, or else the next one. Several calls before one is seen count as one.
    ///
    /// Callable from any thread, from within the stream's own methods and from a waker; it holds no lock.
    pub fn cancel_pending_flush(&self) {
        // The counterpart of the one in `clear_cancel`.
        fence(Ordering::SeqCst);
        self.cancel.store(true, Ordering::Release);
        self.wakers.wake_flush();
    }

    /// Whether a cancel waits to be seen.
    #[inline]
    pub fn is_cancel_requested(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    /// Uses up the cancel that waits.
    ///
    /// Only the flush itself calls it, so a store will do: a cancel that comes between its look and this store ends the same flush.
    pub fn clear_cancel(&self) {
        self.cancel.store(false, Ordering::Release);
        // Whoever sets a flag and then cancels wants it seen behind the flush that this cancel ends. Without the fences
        // the flag could be looked at before this store takes effect, which would then undo a cancel that came after that look.
        fence(Ordering::SeqCst);
    }

    /// Marks the end and wakes all who wait for it. Once closed, always closed.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wakers.wake_closed();
    }

    /// Whether the stream takes no more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The wakers' keeper.
    pub const fn wakers(&self) -> &K {
        &self.wakers
    }
}

impl<K: Wakers> Link for &Signal<K> {
    #[inline]
    fn is_cancel_requested(&self) -> bool {
        Signal::is_cancel_requested(self)
    }
    fn clear_cancel(&mut self) {
        Signal::clear_cancel(self);
    }
    fn register(&mut self, waker: &Waker) {
        self.wakers.register_flush(waker);
    }
    fn unregister(&mut self) {
        self.wakers.clear_flush();
    }
    fn wake(&self) {
        self.wakers.wake_flush();
    }
    fn close(&mut self) {
        Signal::close(self);
    }
}

/// Keeps the waker of one flush. Nobody can wait for the end with it; `Signal::is_closed` tells.
#[cfg(feature = "atomic-waker")]
impl Wakers for atomic_waker::AtomicWaker {
    fn register_flush(&self, waker: &Waker) {
        self.register(waker);
    }
    fn wake_flush(&self) {
        self.wake();
    }
    fn clear_flush(&self) {
        drop(self.take());
    }
    fn wake_closed(&self) {}
}
