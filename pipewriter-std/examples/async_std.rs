//! The main job on async-std: `cargo run --release --example async_std [FILE]`.
//!
//! The same as `quickstart` without its counting of allocations. The writer is the same type as on smol: it takes any
//! `futures_io::AsyncWrite`, and does not know what runs it.

mod common;

use std::{
    io::{self, Write},
    net::Shutdown,
    process::ExitCode,
};

use async_std::net::TcpStream;
use common::{Counted, HEADER, Lines, Tally};
use pipewriter_std::PipeWriter;

fn main() -> ExitCode {
    common::run("async_std", |out| async_std::task::block_on(send(Lines::open()?, out)))
}

async fn send(mut lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let (address, peer) = common::peer(|| ())?;
    let mut writer = PipeWriter::new(Counted::new(TcpStream::connect(address).await?));

    let mut sent = Tally::default();
    let mut flushes = 0;
    while let Some(line) = lines.next()? {
        let span = writer.span_mut(HEADER + line.len())?;
        let len = common::encode(span, line)?;
        writer.advance(len)?;
        sent.add(line);
        if sent.records % 32 == 0 || writer.unflushed_bytes() >= 32 * 1024 {
            writer.flush().await?;
            flushes += 1;
        }
    }
    // Flushes what is left and closes the stream. To async-std's `TcpStream` that means only to flush it: unlike smol's it
    // leaves the connection open, so the peer is told that this is all by hand.
    writer.complete().await?;
    writer.get_ref().stream.shutdown(Shutdown::Write)?;

    sent.check(&common::join(peer)?)?;
    writeln!(out, "records  {}, one for each line of {}", sent.records, lines.name)?;
    writeln!(out, "bytes    {}, all of them arrived and are right", sent.bytes)?;
    writeln!(out, "flushes  {flushes}, and what was left with complete")?;
    writeln!(out, "calls    {}", writer.get_ref().calls)
}
