//! What is shared between threads, swapped for the model checker's under `cfg(loom)`.

#[cfg(all(feature = "shared-pool", not(loom)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicUsize};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
#[cfg(all(feature = "shared-pool", not(loom)))]
pub(crate) use std::thread_local;

#[cfg(all(feature = "shared-pool", not(loom)))]
pub(crate) use crossbeam_queue::ArrayQueue;
#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(all(feature = "shared-pool", loom))]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicUsize},
    thread_local,
};

#[cfg(all(feature = "shared-pool", loom))]
pub(crate) use self::model::ArrayQueue;
#[cfg(loom)]
pub(crate) use self::model::OnceLock;

/// What the model checker has no counterpart of.
#[cfg(loom)]
mod model {
    use core::sync::atomic::Ordering;

    use loom::sync::{Mutex, atomic::AtomicBool};

    /// `std::sync::OnceLock`, with its protocol where the checker sees it.
    pub(crate) struct OnceLock<T> {
        is_set: AtomicBool,
        init: Mutex<()>,
        value: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self { is_set: AtomicBool::default(), init: Mutex::default(), value: std::sync::OnceLock::new() }
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            if let Some(value) = self.get() {
                return value;
            }
            let _guard = self.init.lock();
            if !self.is_set.load(Ordering::Relaxed) {
                let value = init();
                assert!(self.value.set(value).is_ok(), "set under the lock only");
                self.is_set.store(true, Ordering::Release);
            }
            self.value.get().expect("set above, or by another thread under the lock")
        }
    }

    /// A queue whose operations are one step each, as those of crossbeam's are.
    #[cfg(feature = "shared-pool")]
    pub(crate) struct ArrayQueue<T> {
        capacity: usize,
        items: Mutex<std::collections::VecDeque<T>>,
    }

    #[cfg(feature = "shared-pool")]
    impl<T> ArrayQueue<T> {
        pub(crate) fn new(capacity: usize) -> Self {
            Self { capacity, items: Mutex::default() }
        }

        fn items(&self) -> loom::sync::MutexGuard<'_, std::collections::VecDeque<T>> {
            self.items.lock().expect("nothing panics under the lock")
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items();
            if items.len() == self.capacity {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items().pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.items().len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}
