//! What a writer costs that waits for its next batch: the heap it holds, and its own size.

use std::{hint::black_box, io::Write};

use pipewriter_std::{HeapPool, PipeWriter, PipeWriterOptions, SharedPool, blocking};

use crate::{Sink, ledger, now};

/// What one of many idle writers holds.
#[derive(Clone, Debug)]
pub struct Idle {
    /// Whose writer.
    pub name: &'static str,
    /// Bytes of heap for each.
    pub heap: f64,
    /// The size of the type over a stream of 8 bytes.
    pub size: usize,
}

/// What every writer has sent before it went idle.
static MESSAGE: [u8; 1024] = [b'm'; 1024];

fn measure<W>(name: &'static str, size: usize, count: usize, make: impl Fn() -> W, send: impl Fn(&mut W)) -> Idle {
    let mut writers = Vec::with_capacity(count);
    let before = ledger::live_bytes();
    for _ in 0..count {
        let mut writer = make();
        send(&mut writer);
        writers.push(writer);
    }
    let heap = (ledger::live_bytes() - before) as f64 / count as f64;
    black_box(&writers);
    Idle { name, heap, size }
}

/// A row for a blocking writer of `pipewriter`, given its options.
macro_rules! ours {
    ($name:literal, $count:expr, $pool:ty, $options:expr) => {
        measure(
            $name,
            size_of::<blocking::PipeWriter<&mut Sink, $pool>>(),
            $count,
            || blocking::PipeWriter::with_options(Sink::default(), $options),
            |writer| {
                writer.append(&MESSAGE).expect("memory");
                writer.flush().expect("a stream that takes everything");
            },
        )
    };
}

/// What `count` idle writers of each kind hold. The [`Ledger`](ledger::Ledger) must be the program's allocator.
#[must_use]
pub fn idle(count: usize) -> Vec<Idle> {
    let shared = SharedPool::new();
    // What the pool allocates once, and keeps, is not the writers'.
    let _ = ours!("", 1, SharedPool, PipeWriterOptions::new().pool(shared.clone()));
    vec![
        measure(
            "std BufWriter",
            size_of::<std::io::BufWriter<&mut Sink>>(),
            count,
            || std::io::BufWriter::new(Sink::default()),
            |writer| {
                writer.write_all(&MESSAGE).expect("a stream that takes everything");
                writer.flush().expect("a stream that takes everything");
            },
        ),
        measure(
            "futures BufWriter",
            size_of::<futures_util::io::BufWriter<&mut Sink>>(),
            count,
            || futures_util::io::BufWriter::new(Sink::default()),
            |writer| {
                use futures_util::AsyncWriteExt;
                now(writer.write_all(&MESSAGE)).expect("a stream that takes everything");
                now(writer.flush()).expect("a stream that takes everything");
            },
        ),
        measure(
            "tokio BufWriter",
            size_of::<tokio::io::BufWriter<&mut Sink>>(),
            count,
            || tokio::io::BufWriter::new(Sink::default()),
            |writer| {
                use tokio::io::AsyncWriteExt;
                now(writer.write_all(&MESSAGE)).expect("a stream that takes everything");
                now(writer.flush()).expect("a stream that takes everything");
            },
        ),
        measure(
            "pipewriter async, own pool",
            size_of::<PipeWriter<&mut Sink>>(),
            count,
            || PipeWriter::new(Sink::default()),
            |writer| {
                writer.append(&MESSAGE).expect("memory");
                now(writer.flush()).expect("a stream that takes everything");
            },
        ),
        ours!("pipewriter, own pool", count, HeapPool, PipeWriterOptions::new()),
        ours!("pipewriter, own pool, 1 KiB segments", count, HeapPool, PipeWriterOptions::new().segment_size(1024)),
        ours!(
            "pipewriter, own pool that keeps nothing",
            count,
            HeapPool,
            PipeWriterOptions::new().pool(HeapPool::with_bound(0))
        ),
        ours!("pipewriter, shared pool", count, SharedPool, PipeWriterOptions::new().pool(shared.clone())),
    ]
}
