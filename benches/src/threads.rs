//! Two threads at once, each with a writer of its own: what their pool costs them.

use std::{
    hint::black_box,
    io,
    sync::Barrier,
    thread::{Scope, ScopedJoinHandle, scope},
};

use pipewriter_std::{HeapPool, PipeWriterOptions, SegmentPool, SharedPool, blocking::PipeWriter};

use crate::{Sink, clock::nanoseconds, workload::HELLO};

/// Where the writers get their segments from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Each from its own pool.
    Own,
    /// Both from one.
    Shared,
}

/// Both, and what records call them.
pub const POOLS: [(Pool, &str); 2] =
    [(Pool::Own, "pipewriter blocking"), (Pool::Shared, "pipewriter blocking, shared pool")];

/// Nanoseconds of the processor that each of two threads at once needs for an `append` of 11 bytes and a flush.
///
/// # Panics
///
/// If not every byte arrives.
#[must_use]
pub fn append_and_flush(pool: Pool, ops: u64) -> f64 {
    let start = Barrier::new(2);
    let total: f64 = scope(|scope| {
        let threads = match pool {
            Pool::Own => [(); 2].map(|()| spawn(scope, HeapPool::new(), &start, ops)),
            Pool::Shared => {
                let pool = SharedPool::new();
                [(); 2].map(|()| spawn(scope, pool.clone(), &start, ops))
            }
        };
        threads.into_iter().map(|thread| thread.join().expect("a thread that ends well")).sum()
    });
    total / 2.0 / ops as f64
}

fn spawn<'s, P: SegmentPool + Send + 's>(
    scope: &'s Scope<'s, '_>,
    pool: P,
    start: &'s Barrier,
    ops: u64,
) -> ScopedJoinHandle<'s, f64> {
    scope.spawn(move || {
        let mut writer = PipeWriter::with_options(Sink::default(), PipeWriterOptions::new().pool(pool));
        repeat(&mut writer, 100).expect("a stream that takes everything");
        start.wait();
        let time = nanoseconds(|| repeat(&mut writer, ops).expect("a stream that takes everything"));
        assert_eq!(writer.get_ref().bytes, (ops + 100) * HELLO.len() as u64, "every byte arrives once");
        time
    })
}

#[inline(never)]
fn repeat<P: SegmentPool>(writer: &mut PipeWriter<Sink, P>, ops: u64) -> io::Result<()> {
    for _ in 0..ops {
        writer.append(black_box(&HELLO))?;
        writer.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_threads_deliver() {
        for (pool, _) in super::POOLS {
            assert!(super::append_and_flush(pool, 1000) > 0.0);
        }
    }
}
