//! The core on a stream and an executor of one's own: `cargo run --release -p pipewriter-core --example port`.
//!
//! The stream is a serial port that takes a few bytes at a time, as a small machine has it; here a thread plays the wire.
//! The executor is written by hand, and nothing but the core is used. First the wire stands still, and the flush is
//! canceled from outside; then it runs, and every byte comes out.

use std::{
    pin::pin,
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use pipewriter_core::{Error, HeapPipe, HeapPool, HeapQueue, Options, Pipe, PollWrite, Signal, Wakers};

// ---- the port: a stream ----

/// A serial port with a queue of sixteen bytes.
struct Uart<'a> {
    wire: &'a Mutex<Wire>,
}

impl PollWrite for Uart<'_> {
    type Error = Error;

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
        let mut wire = lock(self.wire);
        let room = Wire::QUEUE - wire.queue.len();
        if room == 0 {
            wire.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = buf.len().min(room);
        wire.queue.extend_from_slice(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut wire = lock(self.wire);
        if wire.queue.is_empty() {
            return Poll::Ready(Ok(()));
        }
        wire.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn fault(&self, fault: Error) -> Error {
        fault
    }
}

// ---- the port: a keeper for the waker of the flush, so that it can be canceled ----

struct OneWaker(Mutex<Option<Waker>>);

impl Wakers for OneWaker {
    fn register_flush(&self, waker: &Waker) {
        let waker = waker.clone();
        let old = lock(&self.0).replace(waker);
        drop(old);
    }

    fn wake_flush(&self) {
        // Taken out first: no lock is held while it wakes.
        let waker = lock(&self.0).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn clear_flush(&self) {
        let old = lock(&self.0).take();
        drop(old);
    }

    fn wake_closed(&self) {}
}

/// A `static` is enough: no memory is allocated for it.
static CANCEL: Signal<OneWaker> = Signal::new(OneWaker(Mutex::new(None)));

// ---- the port: an executor ----

/// Wakes by letting the thread go on.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

// ---- the program ----

const MESSAGE: &str = "A message of more than sixteen bytes, and each of them comes out of the wire once.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("port: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn core::error::Error>> {
    let wire = Mutex::new(Wire { queue: Vec::new(), out: Vec::new(), waker: None });
    let mut uart = Uart { wire: &wire };
    let mut pipe: HeapPipe<HeapPool, &Signal<OneWaker>> =
        Pipe::with_link(HeapPool::new(), Options::new(), &CANCEL, HeapQueue::default());

    let span = pipe.span_mut(MESSAGE.len())?;
    span[..MESSAGE.len()].copy_from_slice(MESSAGE.as_bytes());
    pipe.advance(MESSAGE.len())?;
    println!("encoded: {} bytes wait, and the wire stands still", pipe.unflushed_bytes());

    let canceler = thread::spawn(|| {
        thread::sleep(Duration::from_millis(50));
        CANCEL.cancel_pending_flush();
    });
    let result = block_on(pipe.flush(&mut uart))?;
    canceler.join().map_err(|_| "the canceling thread panicked")?;
    if !result.is_canceled() {
        return Err("the flush ended although the wire stands still: this is a bug".into());
    }
    println!("flush 1: canceled from outside, {} bytes wait", pipe.unflushed_bytes());

    thread::scope(|scope| {
        scope.spawn(|| Wire::run(&wire, MESSAGE.len()));
        block_on(pipe.flush(&mut uart))?;
        println!("flush 2: the wire runs, {} bytes wait", pipe.unflushed_bytes());
        block_on(pipe.complete(&mut uart))
    })?;
    let out = String::from_utf8_lossy(&lock(&wire).out).into_owned();
    println!("the wire carried: {out}");
    if out == MESSAGE { Ok(()) } else { Err("that is not what was sent: this is a bug".into()) }
}

// ---- what stands in for the hardware ----

struct Wire {
    queue: Vec<u8>,
    out: Vec<u8>,
    waker: Option<Waker>,
}

impl Wire {
    const QUEUE: usize = 16;

    /// Carries five bytes at a time, and tells the port each time that there is room; ends after `bytes` bytes.
    fn run(this: &Mutex<Self>, bytes: usize) {
        loop {
            let mut wire = lock(this);
            let n = wire.queue.len().min(5);
            let moved: Vec<u8> = wire.queue.drain(..n).collect();
            wire.out.extend(moved);
            let done = wire.out.len() >= bytes;
            let waker = wire.waker.take();
            drop(wire);
            if let Some(waker) = waker {
                waker.wake();
            }
            if done {
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
