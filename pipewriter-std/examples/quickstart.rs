//! The main job on real input: `cargo run --release --example quickstart [FILE]`.
//!
//! Each line of FILE (by default this project's README.md) becomes a record, encoded straight into the writer's memory and
//! sent over a real TCP connection on smol to a peer, which decodes the records and checks that every byte arrived.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use common::{Counted, HEADER, Lines, Tally};
use pipewriter_std::{PipeWriter, PipeWriterOptions};
use smol::net::TcpStream;

/// A batch is flushed at so many records or bytes.
const BATCH_RECORDS: u64 = 32;
const BATCH_BYTES: usize = 32 * 1024;
/// Flushes before the steady state, in which allocations are counted.
const WARM_UP: u64 = 2;

fn main() -> ExitCode {
    common::run("quickstart", |out| smol::block_on(send(Lines::open()?, out)))
}

async fn send(mut lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let (address, peer) = common::peer(|| ())?;
    let stream = Counted::new(TcpStream::connect(address).await?);
    // Room for a whole batch in one segment, unless it ends with a very long line.
    let mut writer = PipeWriter::with_options(stream, PipeWriterOptions::new().segment_size(2 * BATCH_BYTES));

    let mut sent = Tally::default();
    let mut flushes = 0;
    let mut progress = Progress::new();
    while let Some(line) = lines.next()? {
        COUNTING.set(flushes >= WARM_UP);
        // The four calls that matter: ask for memory, encode into it, say how much of it counts, ...
        let span = writer.span_mut(HEADER + line.len())?;
        let len = common::encode(span, line)?;
        writer.advance(len)?;
        sent.add(line);
        if sent.records % BATCH_RECORDS == 0 || writer.unflushed_bytes() >= BATCH_BYTES {
            // ... and send it.
            writer.flush().await?;
            flushes += 1;
            COUNTING.set(false);
            progress.show(&sent);
        }
        // Reading the input is not counted.
        COUNTING.set(false);
    }
    if writer.unflushed_bytes() > 0 {
        COUNTING.set(flushes >= WARM_UP);
        writer.flush().await?;
        flushes += 1;
        COUNTING.set(false);
    }
    // Closes the connection, which tells the peer that this is all.
    writer.complete().await?;

    sent.check(&common::join(peer)?)?;
    let elapsed = progress.start.elapsed();
    writeln!(out, "records      {}, one for each line of {}", sent.records, lines.name)?;
    writeln!(out, "bytes        {}, all of them arrived and are right", sent.bytes)?;
    writeln!(out, "flushes      {flushes}")?;
    writeln!(out, "calls        {}", writer.get_ref().calls)?;
    match flushes.checked_sub(WARM_UP) {
        None | Some(0) => writeln!(out, "allocations  not counted: there were no flushes after the first {WARM_UP}")?,
        Some(steady) => {
            writeln!(out, "allocations  {} in the last {steady} flushes and their records", ALLOCATIONS.get())?;
        }
    }
    let hint = if elapsed < Duration::from_millis(100) { "; a longer FILE tells more" } else { "" };
    let rate = mib(sent.bytes) / elapsed.as_secs_f64();
    writeln!(out, "rate         {rate:.0} MiB/s in {elapsed:.1?}, with reading, encoding and checking{hint}")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A line on stderr each second, for input that takes that long.
struct Progress {
    start: Instant,
    shown: Duration,
}

impl Progress {
    fn new() -> Self {
        Self { start: Instant::now(), shown: Duration::ZERO }
    }

    fn show(&mut self, sent: &Tally) {
        let now = self.start.elapsed();
        if now - self.shown >= Duration::from_secs(1) {
            self.shown = now;
            eprintln!("{:3} s: {} records, {:.0} MiB", now.as_secs(), sent.records, mib(sent.bytes));
        }
    }
}

// ---- counting allocations: of the sending thread only, and only while it sends ----

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

impl CountingAllocator {
    fn count() {
        if COUNTING.get() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
    }
}

// SAFETY: every call goes to the system's allocator as it is; counting touches two thread-local cells that never allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
