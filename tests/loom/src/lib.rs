//! Every interleaving of the threads that meet at one writer or one pool, by the model checker loom.
//!
//! Built only with `--cfg loom`, which swaps the locks and atomics of the library for loom's; `.ci/loom` runs it. A model
//! fails where an assertion does, where all threads wait (a wake was lost), or where an `Arc` is never freed.
//!
//! Not modelled is what belongs to others: the queue of crossbeam (a lock stands in for it), the crate atomic-waker (loom's
//! own model of it stands in), std's `OnceLock` (its protocol is spelled out in `pipewriter-std/src/sync.rs`), and `Weak`.
//! loom lets stores to one place take effect in the order in which threads made them, so a `Relaxed` store that another
//! processor could see late is found only where a value that it publishes is read.
#![cfg(all(loom, test))]

mod cancel;
mod closed;
mod core_signal;
mod shared_pool;

use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};
use std::io;

use futures_io::AsyncWrite;
use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::{Arc, Mutex, atomic::AtomicUsize};
use loom::thread::{self, JoinHandle};
use pipewriter_std::{FlushResult, PipeHandle, PipeWriter, blocking};

/// Explores all interleavings of the threads that `f` starts.
fn every_interleaving(f: impl Fn() + Sync + Send + 'static) {
    explore(None, f);
}

/// Explores those in which a thread is interrupted at most `preemptions` times where it could have gone on: three threads
/// have too many others.
fn interleavings_with(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    explore(Some(preemptions), f);
}

fn explore(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let runs = std::sync::Arc::new(core::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&runs);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        f();
    });
    println!("{} interleavings", runs.load(Ordering::Relaxed));
}

/// A stream that takes nothing and wakes nobody until it is opened, and then everything.
#[derive(Clone)]
struct Gate(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    waiting: Option<Waker>,
    accepted: Vec<u8>,
}

impl Gate {
    fn shut() -> Self {
        Self(Arc::new(Mutex::new(GateState::default())))
    }

    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_open = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn accepted(&self) -> Vec<u8> {
        self.0.lock().unwrap().accepted.clone()
    }
}

impl AsyncWrite for Gate {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if !state.is_open {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.accepted.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream that never takes anything and wakes nobody: only a cancel ends a flush of it.
struct Stuck;

impl AsyncWrite for Stuck {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream whose reader is gone.
struct Gone;

impl AsyncWrite for Gone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const BYTES: &[u8] = b"hello";

fn writer<W: AsyncWrite + Unpin>(stream: W) -> PipeWriter<W> {
    let mut writer = PipeWriter::new(stream);
    writer.append(BYTES).unwrap();
    writer
}

fn canceling(handle: PipeHandle) -> JoinHandle<()> {
    thread::spawn(move || handle.cancel_pending_flush())
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn poll_flush<W: AsyncWrite + Unpin>(writer: &mut PipeWriter<W>, waker: &Waker) -> Poll<io::Result<FlushResult>> {
    Pin::new(writer).poll_flush(&mut Context::from_waker(waker))
}

/// Flushes a writer over a stuck stream, with nothing else going on, and says whether it was canceled.
fn is_canceled_next(writer: &mut PipeWriter<Stuck>) -> bool {
    match poll_flush(writer, Waker::noop()) {
        Poll::Ready(result) => result.unwrap().is_canceled(),
        Poll::Pending => false,
    }
}
