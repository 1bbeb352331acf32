//! Real streams: sockets, a pipe, a file, `/dev/null`, with a thread that reads where there is something to read.

use std::{
    fs::File,
    io::{self, BufWriter, IoSlice, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    pin::Pin,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use async_io::Async;
use futures_io::AsyncWrite;
use futures_util::{AsyncWriteExt, io::BufWriter as FuturesBufWriter};
use pipewriter_std::{HeapPool, PipeWriter, PipeWriterOptions, blocking};

use crate::clock::thread_time;

const MIB: usize = 1 << 20;

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Unix socket pair.
    Unix,
    /// A Unix socket pair whose reader takes 1 KiB at a time.
    SlowUnix,
    /// TCP on loopback.
    Tcp,
    /// A pipe.
    Pipe,
    /// A file in the directory for temporary ones.
    File,
    /// `/dev/null`.
    Null,
}

/// Every kind of stream, and what records call it.
pub const KINDS: [(Kind, &str); 6] = [
    (Kind::Unix, "Unix socket"),
    (Kind::SlowUnix, "Unix socket, reader takes 1 KiB"),
    (Kind::Tcp, "TCP loopback"),
    (Kind::Pipe, "pipe"),
    (Kind::File, "file"),
    (Kind::Null, "/dev/null"),
];

/// What is sent: a message is a header and a body, each of which may be empty.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// How records call it.
    pub name: &'static str,
    /// Bytes that are written first.
    pub header: usize,
    /// Bytes of the body, which the program has in one piece.
    pub body: usize,
    /// From how many bytes on a message is followed by a flush.
    pub flush_at: usize,
}

/// Every pattern.
pub const PATTERNS: [Pattern; 5] = [
    Pattern { name: "100-byte records, flush per MiB", header: 100, body: 0, flush_at: MIB },
    Pattern { name: "100-byte records, flush per record", header: 100, body: 0, flush_at: 0 },
    Pattern { name: "16 KiB records, flush per MiB", header: 16 << 10, body: 0, flush_at: MIB },
    Pattern { name: "16 KiB records, flush per record", header: 16 << 10, body: 0, flush_at: 0 },
    Pattern { name: "header and 1 MiB body, flush per message", header: 100, body: MIB, flush_at: 0 },
];

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Our blocking writer, with a pool that keeps so many MiB for the next batch, or the default of 64 KiB.
    Ours(Option<usize>),
    /// The same through `io::Write`, as large as a `BufWriter` of so many KiB: it writes when that is full, and keeps as much.
    OursWrite(usize),
    /// std's with so many KiB.
    Std(usize),
    /// Our async writer, likewise.
    OursAsync(Option<usize>),
    /// The same through `AsyncWrite`.
    OursAsyncWrite(usize),
    /// That of futures with so many KiB.
    Futures(usize),
}

/// Every writer, and what records call it.
pub const WRITERS: [(Writer, &str); 12] = [
    (Writer::Ours(None), "pipewriter blocking"),
    (Writer::Ours(Some(2)), "pipewriter blocking, 2 MiB kept"),
    (Writer::OursWrite(256), "pipewriter blocking, io::Write of 256 KiB"),
    (Writer::Std(8), "std BufWriter, 8 KiB"),
    (Writer::Std(64), "std BufWriter, 64 KiB"),
    (Writer::Std(256), "std BufWriter, 256 KiB"),
    (Writer::OursAsync(None), "pipewriter async"),
    (Writer::OursAsync(Some(2)), "pipewriter async, 2 MiB kept"),
    (Writer::OursAsyncWrite(256), "pipewriter async, AsyncWrite of 256 KiB"),
    (Writer::Futures(8), "futures BufWriter, 8 KiB"),
    (Writer::Futures(64), "futures BufWriter, 64 KiB"),
    (Writer::Futures(256), "futures BufWriter, 256 KiB"),
];

/// What sending it all came to.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Until the last of them had arrived.
    pub time: Duration,
    /// Processor time of the writing thread.
    pub cpu: Duration,
    /// Calls to the stream.
    pub calls: u64,
}

/// Whether that writer can write to that stream.
#[must_use]
pub const fn has(kind: Kind, writer: Writer) -> bool {
    match writer {
        Writer::Ours(_) | Writer::OursWrite(_) | Writer::Std(_) => true,
        Writer::OursAsync(_) | Writer::OursAsyncWrite(_) | Writer::Futures(_) => {
            matches!(kind, Kind::Unix | Kind::SlowUnix | Kind::Tcp)
        }
    }
}

/// Sends about `total` bytes in whole messages and waits until all have arrived.
///
/// # Errors
///
/// If the operating system refuses something.
///
/// # Panics
///
/// If not every byte arrives.
pub fn send(kind: Kind, writer: Writer, pattern: &Pattern, total: usize) -> io::Result<Sent> {
    let messages = total.div_ceil(pattern.header + pattern.body);
    let expected = (messages * (pattern.header + pattern.body)) as u64;
    let path = std::env::temp_dir().join(format!("pipewriter-bench-{}", std::process::id()));
    let sent = match kind {
        Kind::Unix | Kind::SlowUnix => {
            let (ours, theirs) = UnixStream::pair()?;
            let at_once = if kind == Kind::SlowUnix { 1 << 10 } else { 256 << 10 };
            read_while(theirs, at_once, || match writer {
                Writer::OursAsync(_) | Writer::OursAsyncWrite(_) | Writer::Futures(_) => {
                    run_async(Async::new(ours)?, writer, pattern, messages)
                }
                _ => run(ours, writer, pattern, messages),
            })
        }
        Kind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let ours = TcpStream::connect(listener.local_addr()?)?;
            let theirs = listener.accept()?.0;
            read_while(theirs, 256 << 10, || match writer {
                Writer::OursAsync(_) | Writer::OursAsyncWrite(_) | Writer::Futures(_) => {
                    run_async(Async::new(ours)?, writer, pattern, messages)
                }
                _ => run(ours, writer, pattern, messages),
            })
        }
        Kind::Pipe => {
            let (theirs, ours) = rustix::pipe::pipe()?;
            read_while(File::from(theirs), 256 << 10, || run(File::from(ours), writer, pattern, messages))
        }
        Kind::File => {
            let file = File::create(&path)?;
            let start = Instant::now();
            let mut sent = run(&file, writer, pattern, messages);
            if let Ok(sent) = &mut sent {
                sent.time = start.elapsed();
                sent.bytes = file.metadata()?.len();
            }
            std::fs::remove_file(&path)?;
            sent
        }
        Kind::Null => {
            let file = File::options().write(true).open("/dev/null")?;
            let start = Instant::now();
            run(file, writer, pattern, messages).map(|sent| Sent { time: start.elapsed(), ..sent })
        }
    }?;
    assert_eq!(sent.bytes, expected, "{kind:?}, {writer:?}, {}", pattern.name);
    Ok(sent)
}

/// Runs `write`, which must close the stream, while a thread reads it to its end.
fn read_while(
    mut from: impl Read + Send,
    at_once: usize,
    write: impl FnOnce() -> io::Result<Sent>,
) -> io::Result<Sent> {
    thread::scope(|scope| {
        let start = Instant::now();
        let reader = scope.spawn(move || {
            let mut room = vec![0; at_once];
            let mut bytes = 0;
            loop {
                match from.read(&mut room)? {
                    0 => return io::Result::Ok((bytes, start.elapsed())),
                    n => bytes += n as u64,
                }
            }
        });
        let sent = write()?;
        let (bytes, time) = reader.join().expect("the reader")?;
        Ok(Sent { bytes, time, ..sent })
    })
}

/// Counts the calls.
struct Counted<W> {
    inner: W,
    bytes: u64,
    calls: u64,
}

impl<W> Counted<W> {
    const fn new(inner: W) -> Self {
        Self { inner, bytes: 0, calls: 0 }
    }

    fn count(&mut self, taken: &io::Result<usize>) {
        self.calls += 1;
        self.bytes += *taken.as_ref().unwrap_or(&0) as u64;
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(buf);
        self.count(&taken);
        taken
    }
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.inner.write_vectored(bufs);
        self.count(&taken);
        taken
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Counted<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(taken) = &poll {
            self.count(taken);
        }
        poll
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        if let Poll::Ready(taken) = &poll {
            self.count(taken);
        }
        poll
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

/// Sends all messages: `header` and `flush` as for any writer, `last` for what a flush follows at once.
macro_rules! messages {
    ($pattern:expr, $messages:expr, |$data:ident| $write:expr, $write_and_flush:expr, $flush:expr) => {{
        let (header, body) = (vec![b'h'; $pattern.header], vec![b'b'; $pattern.body]);
        let mut unflushed = 0;
        for _ in 0..$messages {
            unflushed += header.len() + body.len();
            let flushes = unflushed >= $pattern.flush_at;
            let $data = &header[..];
            if !body.is_empty() {
                $write;
                let $data = &body[..];
                if flushes { $write_and_flush } else { $write }
            } else if flushes {
                $write_and_flush
            } else {
                $write
            }
            if flushes {
                unflushed = 0;
            }
        }
        $flush;
    }};
}

fn options(kept: Option<usize>) -> PipeWriterOptions {
    let pool = kept.map_or_else(HeapPool::new, |mib| HeapPool::with_bound(mib * MIB));
    PipeWriterOptions::new().pool(pool)
}

fn as_large_as(kib: usize) -> PipeWriterOptions {
    PipeWriterOptions::new().high_water_mark(kib << 10).pool(HeapPool::with_bound(kib << 10))
}

#[inline(never)]
fn ours(stream: impl Write, kept: Option<usize>, pattern: &Pattern, messages: usize) -> io::Result<(u64, u64)> {
    let mut writer = blocking::PipeWriter::with_options(Counted::new(stream), options(kept));
    messages!(
        pattern,
        messages,
        |data| writer.append(data)?,
        {
            writer.write_and_flush(data)?;
        },
        writer.flush()?
    );
    Ok((writer.get_ref().bytes, writer.get_ref().calls))
}

/// A function for a writer through `io::Write`.
macro_rules! through_write {
    ($name:ident, |$stream:ident, $kib:ident| $new:expr) => {
        #[inline(never)]
        fn $name($stream: impl Write, $kib: usize, pattern: &Pattern, messages: usize) -> io::Result<(u64, u64)> {
            let mut writer = $new;
            messages!(
                pattern,
                messages,
                |data| writer.write_all(data)?,
                {
                    writer.write_all(data)?;
                    Write::flush(&mut writer)?;
                },
                Write::flush(&mut writer)?
            );
            Ok((writer.get_ref().bytes, writer.get_ref().calls))
        }
    };
}

through_write!(std, |stream, kib| BufWriter::with_capacity(kib << 10, Counted::new(stream)));
through_write!(ours_write, |stream, kib| {
    blocking::PipeWriter::with_options(Counted::new(stream), as_large_as(kib))
});

#[inline(never)]
async fn ours_async(
    stream: impl AsyncWrite + Unpin,
    kept: Option<usize>,
    pattern: &Pattern,
    messages: usize,
) -> io::Result<(u64, u64)> {
    let mut writer = PipeWriter::with_options(Counted::new(stream), options(kept));
    messages!(
        pattern,
        messages,
        |data| writer.append(data)?,
        {
            writer.write_and_flush(data).await?;
        },
        writer.flush().await?
    );
    Ok((writer.get_ref().bytes, writer.get_ref().calls))
}

/// A function for a writer through `AsyncWrite`.
macro_rules! through_async_write {
    ($name:ident, |$stream:ident, $kib:ident| $new:expr) => {
        #[inline(never)]
        async fn $name(
            $stream: impl AsyncWrite + Unpin,
            $kib: usize,
            pattern: &Pattern,
            messages: usize,
        ) -> io::Result<(u64, u64)> {
            let mut writer = $new;
            messages!(
                pattern,
                messages,
                |data| writer.write_all(data).await?,
                {
                    writer.write_all(data).await?;
                    AsyncWriteExt::flush(&mut writer).await?;
                },
                AsyncWriteExt::flush(&mut writer).await?
            );
            Ok((writer.get_ref().bytes, writer.get_ref().calls))
        }
    };
}

through_async_write!(futures, |stream, kib| FuturesBufWriter::with_capacity(kib << 10, Counted::new(stream)));
through_async_write!(ours_async_write, |stream, kib| {
    PipeWriter::with_options(Counted::new(stream), as_large_as(kib))
});

fn run(stream: impl Write, writer: Writer, pattern: &Pattern, messages: usize) -> io::Result<Sent> {
    let before = thread_time();
    let (bytes, calls) = match writer {
        Writer::Std(kib) => std(stream, kib, pattern, messages),
        Writer::Ours(kept) => ours(stream, kept, pattern, messages),
        Writer::OursWrite(kib) => ours_write(stream, kib, pattern, messages),
        Writer::OursAsync(_) | Writer::OursAsyncWrite(_) | Writer::Futures(_) => {
            unreachable!("`send` runs these as futures")
        }
    }?;
    Ok(Sent { bytes, time: Duration::ZERO, cpu: thread_time().saturating_sub(before), calls })
}

fn run_async(stream: impl AsyncWrite + Unpin, writer: Writer, pattern: &Pattern, messages: usize) -> io::Result<Sent> {
    let before = thread_time();
    let (bytes, calls) = async_io::block_on(async {
        match writer {
            Writer::Futures(kib) => futures(stream, kib, pattern, messages).await,
            Writer::OursAsync(kept) => ours_async(stream, kept, pattern, messages).await,
            Writer::OursAsyncWrite(kib) => ours_async_write(stream, kib, pattern, messages).await,
            Writer::Ours(_) | Writer::OursWrite(_) | Writer::Std(_) => unreachable!("`send` runs these blocking"),
        }
    })?;
    Ok(Sent { bytes, time: Duration::ZERO, cpu: thread_time().saturating_sub(before), calls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_writer_delivers_every_pattern_to_every_stream() {
        for (kind, _) in KINDS {
            for (writer, _) in WRITERS.into_iter().filter(|(writer, _)| has(kind, *writer)) {
                for pattern in PATTERNS {
                    let sent = send(kind, writer, &pattern, 100_000).expect("a stream that goes on");
                    assert!(sent.calls > 0);
                }
            }
        }
    }
}
