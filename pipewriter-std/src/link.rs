use std::task::Waker;

use pipewriter_core::Link;

use crate::{
    handle::{PipeHandle, Shared},
    sync::{Arc, OnceLock},
};

/// A writer's own end of what it shares with its handles.
///
/// Nothing is shared, or allocated, until a handle is asked for. Until then a cancel can only come through `&self` of the
/// writer, between two polls: the pipe takes note of it, and the waker for it is right here.
#[derive(Default)]
pub(crate) struct WriterLink {
    shared: OnceLock<Arc<Shared>>,
    closed: bool,
    /// The task of a pending flush that began when nothing was shared.
    waker: Option<Waker>,
}

impl WriterLink {
    pub(crate) fn handle(&self) -> PipeHandle {
        let shared = self.shared.get().unwrap_or_else(|| {
            // Cloned out here: a waker's code may come back for a handle, and must not find us making one.
            let waker = self.waker.clone();
            self.shared.get_or_init(|| Arc::new(Shared::for_flush(waker, self.closed)))
        });
        PipeHandle::new(Arc::clone(shared))
    }
}

impl Link for WriterLink {
    #[inline]
    fn is_cancel_requested(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.is_cancel_requested())
    }

    fn clear_cancel(&mut self) {
        if let Some(shared) = self.shared.get() {
            shared.clear_cancel();
        }
    }

    fn register(&mut self, waker: &Waker) {
        if let Some(mut shared) = self.shared.get().map(|shared| shared.signal()) {
            shared.register(waker);
        } else if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    fn unregister(&mut self) {
        self.waker = None;
        if let Some(mut shared) = self.shared.get().map(|shared| shared.signal()) {
            shared.unregister();
        }
    }

    fn wake(&self) {
        match self.shared.get() {
            Some(shared) => shared.signal().wake(),
            None => {
                if let Some(waker) = &self.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        if let Some(shared) = self.shared.get().map(|shared| shared.signal()) {
            shared.close();
        }
    }
}
