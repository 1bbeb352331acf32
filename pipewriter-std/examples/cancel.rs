//! A flush that is stuck, and two ways out of it: `cargo run --release --example cancel`.
//!
//! The peer does not read, so the flush of 32 MiB stalls. Another thread cancels it through a handle; a timer drops the
//! next one. Then the peer reads, a third flush sends the rest, and every byte arrives once.

mod common;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::mpsc,
    thread,
    time::Duration,
};

use common::{HEADER, Tally};
use pipewriter_std::PipeWriter;
use smol::{Timer, future::FutureExt, net::TcpStream};

/// More than the operating system takes for a peer that does not read.
const BYTES: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    common::run("cancel", |out| smol::block_on(send(out)))
}

async fn send(out: &mut dyn Write) -> io::Result<()> {
    let (let_it_read, may_read) = mpsc::channel::<()>();
    // If this side fails, its end of the channel is dropped and the peer goes on.
    let (address, peer) = common::peer(move || {
        let _ = may_read.recv();
    })?;
    let mut writer = PipeWriter::new(TcpStream::connect(address).await?);

    let mut sent = Tally::default();
    while writer.unflushed_bytes() < BYTES {
        let line = format!("this is record {}", sent.records);
        let span = writer.span_mut(HEADER + line.len())?;
        let len = common::encode(span, line.as_bytes())?;
        writer.advance(len)?;
        sent.add(line.as_bytes());
    }
    writeln!(out, "encoded: {} bytes wait, and the peer does not read", writer.unflushed_bytes())?;

    // While its future lives a flush borrows the writer, so the handle is made before.
    let handle = writer.handle();
    let canceler = thread::spawn(move || {
        thread::sleep(PATIENCE);
        handle.cancel_pending_flush();
    });
    let result = writer.flush().await?;
    canceler.join().map_err(|_| io::Error::other("the canceling thread panicked"))?;
    if !result.is_canceled() {
        return Err(io::Error::other(
            "the flush was not canceled: this system takes 32 MiB for a peer that does not read",
        ));
    }
    writeln!(out, "flush 1: canceled by another thread, {} bytes wait", writer.unflushed_bytes())?;

    let timeout = async {
        Timer::after(PATIENCE).await;
        Ok(None)
    };
    let result = async { writer.flush().await.map(Some) }.or(timeout).await?;
    if result.is_some() {
        return Err(io::Error::other("the flush did not stall although the peer does not read"));
    }
    writeln!(out, "flush 2: dropped by a timer, {} bytes wait", writer.unflushed_bytes())?;

    // An error here would mean that the peer is gone, which the flush tells.
    let _ = let_it_read.send(());
    writer.flush().await?;
    writeln!(out, "flush 3: the peer reads, {} bytes wait", writer.unflushed_bytes())?;
    writer.complete().await?;

    let arrived = common::join(peer)?;
    sent.check(&arrived)?;
    writeln!(out, "arrived: {} bytes, each once and in order", arrived.bytes)
}
