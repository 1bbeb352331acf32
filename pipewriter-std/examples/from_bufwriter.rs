//! Where a `BufWriter` stood: `cargo run --release --example from_bufwriter`.
//!
//! Code that is written for `io::Write` or `AsyncWrite` takes a `PipeWriter` as it is. What is new is what happens when
//! the stream fails: nothing is lost, and trying again sends nothing twice.

mod common;

use std::{
    io::{self, BufWriter, Write},
    pin::Pin,
    process::ExitCode,
    task::{Context, Poll},
};

use pipewriter_std::{PipeWriter, blocking};
use smol::io::{AsyncWrite, AsyncWriteExt, BufWriter as AsyncBufWriter};

fn main() -> ExitCode {
    common::run("from_bufwriter", |out| {
        let mut old = BufWriter::new(Vec::new());
        let mut new = blocking::PipeWriter::new(Vec::new());
        report(&mut old)?;
        report(&mut new)?;
        same(old.get_ref(), new.get_ref())?;
        writeln!(out, "io::Write: both writers wrote the same {} bytes", new.get_ref().len())?;

        let mut old = AsyncBufWriter::new(Vec::new());
        let mut new = PipeWriter::new(Vec::new());
        smol::block_on(async {
            report_async(&mut old).await?;
            report_async(&mut new).await
        })?;
        same(old.get_ref(), new.get_ref())?;
        writeln!(out, "AsyncWrite: both writers wrote the same {} bytes", new.get_ref().len())?;

        // A stream that takes five bytes a call, and fails in its second.
        let mut writer = PipeWriter::new(Flaky { got: Vec::new(), calls: 0 });
        smol::block_on(async {
            writer.write_all(b"hello, world").await?;
            if let Err(error) = writer.flush().await {
                writeln!(out, "flush failed: {error}; {} of 12 bytes wait", writer.unflushed_bytes())?;
            }
            writer.flush().await
        })?;
        same(b"hello, world", &writer.get_ref().got)?;
        writeln!(out, "flushed again: the stream got {:?}", String::from_utf8_lossy(&writer.get_ref().got))
    })
}

/// Does not know which writer it gets.
fn report(out: &mut impl Write) -> io::Result<()> {
    for day in 1..=3 {
        writeln!(out, "day {day}: nothing lost")?;
    }
    out.flush()
}

/// Does not know either.
async fn report_async(out: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    for day in 1..=3 {
        out.write_all(format!("day {day}: nothing lost\n").as_bytes()).await?;
    }
    out.flush().await
}

fn same(old: &[u8], new: &[u8]) -> io::Result<()> {
    if old == new { Ok(()) } else { Err(io::Error::other("the two writers wrote different bytes: this is a bug")) }
}

struct Flaky {
    got: Vec<u8>,
    calls: u32,
}

impl AsyncWrite for Flaky {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.calls += 1;
        if self.calls == 2 {
            return Poll::Ready(Err(io::Error::other("the line is down")));
        }
        let taken = &buf[..buf.len().min(5)];
        self.got.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
