//! A thread that cancels the flushes of writers at random.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pipewriter_std::PipeHandle;
use pipewriter_tests::model::Random;

pub(crate) struct Canceler {
    handles: Sender<PipeHandle>,
    thread: JoinHandle<()>,
}

impl Canceler {
    pub(crate) fn start(seed: u64) -> Self {
        let (handles, of_writers) = mpsc::channel();
        Self { handles, thread: thread::spawn(move || run(seed, &of_writers)) }
    }

    /// Where the handles of the writers to cancel go.
    pub(crate) fn to(&self) -> Sender<PipeHandle> {
        self.handles.clone()
    }

    /// Ends the thread, once all writers have let go of their senders.
    pub(crate) fn end(self) {
        drop(self.handles);
        self.thread.join().unwrap();
    }
}

fn run(seed: u64, of_writers: &Receiver<PipeHandle>) {
    let mut random = Random::new(seed);
    let mut handles = Vec::new();
    loop {
        match of_writers.try_recv() {
            Ok(handle) => handles.push(handle),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if handles.is_empty() => thread::yield_now(),
            Err(TryRecvError::Empty) => {
                random.pick(&handles).cancel_pending_flush();
                thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
