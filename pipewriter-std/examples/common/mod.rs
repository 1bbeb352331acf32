//! What the examples share: the record format, the peer that checks, a stream that counts its calls, and how they end.

// No example uses all of it.
#![allow(dead_code)]

use std::{
    env,
    ffi::OsString,
    fmt,
    fs::File,
    hash::{DefaultHasher, Hasher},
    io::{self, BufRead, BufReader, IoSlice, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    pin::Pin,
    process::ExitCode,
    task::{Context, Poll},
    thread::{self, JoinHandle},
};

use futures_io::AsyncWrite;

/// Runs an example with somewhere to print its report to; an error is one line and exit status 1.
pub(crate) fn run(name: &str, example: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut report = Vec::new();
    let print = |report: Vec<u8>| {
        let mut out = io::stdout();
        out.write_all(&report).and_then(|()| out.flush()).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write the report to standard output: {error}"))
        })
    };
    match example(&mut report).and_then(|()| print(report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

// ---- records: a length in four bytes, then the line ----

pub(crate) const HEADER: usize = 4;

/// Writes `line` as a record to the front of `span`, which is long enough, and says how long the record is.
pub(crate) fn encode(span: &mut [u8], line: &[u8]) -> io::Result<usize> {
    let len = u32::try_from(line.len()).map_err(|_| io::Error::other("a line is longer than a record can be"))?;
    let (header, body) = span.split_at_mut(HEADER);
    header.copy_from_slice(&len.to_be_bytes());
    body[..line.len()].copy_from_slice(line);
    Ok(HEADER + line.len())
}

/// What one side has seen of a stream of records: equal on both sides if every byte arrived, in order.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    hash: DefaultHasher,
}

impl Tally {
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.records += 1;
        self.bytes += (HEADER + line.len()) as u64;
        self.hash.write_usize(line.len());
        self.hash.write(line);
    }

    /// Compares what was sent with what came out at the other end.
    pub(crate) fn check(&self, arrived: &Self) -> io::Result<()> {
        let facts = |tally: &Self| (tally.records, tally.bytes, tally.hash.finish());
        if facts(self) == facts(arrived) {
            return Ok(());
        }
        Err(io::Error::other(format!("sent {self}, but the peer got {arrived}: this is a bug")))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.records == 1 { "record" } else { "records" };
        write!(f, "{} {noun} ({} bytes, hash {:016x})", self.records, self.bytes, self.hash.finish())
    }
}

/// Decodes records until the stream ends. An end inside a record is an error.
pub(crate) fn decode(stream: impl Read) -> io::Result<Tally> {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while !stream.fill_buf()?.is_empty() {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let len = u64::from(u32::from_be_bytes(header));
        line.clear();
        // Not a buffer of `len` bytes up front: the peer believes no length before the bytes are there.
        if (&mut stream).take(len).read_to_end(&mut line)? as u64 != len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended inside a record"));
        }
        tally.add(&line);
    }
    Ok(tally)
}

/// Starts a peer on a thread of its own: it takes one connection, waits for `start`, and decodes what comes.
pub(crate) fn peer(start: impl FnOnce() + Send + 'static) -> io::Result<(SocketAddr, JoinHandle<io::Result<Tally>>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        start();
        decode(stream)
    });
    Ok((address, thread))
}

/// What a thread came to.
pub(crate) fn join<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the peer panicked")))
}

// ---- the input ----

/// The lines of FILE, or of the project's README.md where the command line names none.
pub(crate) struct Lines {
    pub(crate) name: String,
    file: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    pub(crate) fn open() -> io::Result<Self> {
        let mut arguments = env::args_os().skip(1);
        let (path, name) = match (arguments.next(), arguments.next()) {
            (Some(option), _) if option.to_string_lossy().starts_with('-') && option != "-" => {
                return Err(io::Error::other(format!(
                    "there is no option {}; the only argument is the FILE whose lines to send, by default README.md \
                     (one whose name begins with - as ./-name)",
                    option.to_string_lossy()
                )));
            }
            (_, Some(_)) => return Err(io::Error::other("there is one argument at most: the file to send")),
            (Some(path), None) => (path.clone(), path.to_string_lossy().into_owned()),
            (None, None) => {
                (OsString::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")), "README.md".to_owned())
            }
        };
        let file = File::open(&path).map_err(|error| cannot_read(&name, &error))?;
        let mut lines = Self { name, file: BufReader::with_capacity(64 * 1024, file), line: Vec::new() };
        // A directory opens like a file on some systems: only reading tells.
        lines.file.fill_buf().map_err(|error| cannot_read(&lines.name, &error))?;
        Ok(lines)
    }

    /// The next line, with its line ending; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        match self.file.read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(&self.line)),
            Err(error) => Err(cannot_read(&self.name, &error)),
        }
    }
}

fn cannot_read(name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {name}: {error}"))
}

// ---- a stream that counts ----

/// Passes everything on to the stream below and counts the calls.
pub(crate) struct Counted<S> {
    pub(crate) stream: S,
    pub(crate) calls: Calls,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Calls {
    writes: u64,
    vectored: u64,
    flushes: u64,
    closes: u64,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, calls: Calls::default() }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, vectored, flushes, closes } = *self;
        let all = writes + vectored + flushes + closes;
        write!(f, "{all} (writes: {writes}, vectored writes: {vectored}, flushes: {flushes}, closes: {closes})")
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.calls.writes += 1;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.calls.vectored += 1;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.calls.flushes += 1;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.calls.closes += 1;
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

impl<S: Write> Write for Counted<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.calls.writes += 1;
        self.stream.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls.vectored += 1;
        self.stream.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.calls.flushes += 1;
        self.stream.flush()
    }
}
