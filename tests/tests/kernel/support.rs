//! Streams of the operating system, and the rule that all tests here end with.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, process, thread};

use nix::fcntl::OFlag;
use pipewriter_std::PipeWriterOptions;
use pipewriter_tests::gauge::{Gauge, Plain, Reading};
use pipewriter_tests::model::Random;
use pipewriter_tests::subject::{Kind, Subject};
use socket2::{Domain, Socket, Type};

/// The end that a writer stands on.
pub(crate) type Wire = Gauge<Plain<Box<dyn Write + Send>>>;
/// A writer of kind `K` over a stream of the operating system.
pub(crate) type Writer<K> = <K as Kind>::Writer<Wire, pipewriter_std::HeapPool>;

/// Buffers of the kernel, set because those that grow by themselves may hold whatever a test sends.
const SOCKET_BUFFER: usize = 128 * 1024;

/// What carries the bytes from the writer to the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp,
    Unix,
    Pipe,
}

impl Transport {
    pub(crate) const ALL: [Self; 3] = [Self::Tcp, Self::Unix, Self::Pipe];

    /// The writer's end and the reader's.
    pub(crate) fn connect(self) -> (Box<dyn Write + Send>, OwnedFd) {
        match self {
            Self::Tcp => {
                let (ours, theirs) = tcp(SOCKET_BUFFER);
                (Box::new(ours), theirs.into())
            }
            Self::Unix => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                (Box::new(ours), theirs.into())
            }
            Self::Pipe => {
                // Not to be inherited by the children of other tests, which would keep a closed end open.
                let (theirs, ours) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
                (Box::new(File::from(ours)), theirs)
            }
        }
    }
}

/// The two ends of a TCP connection over loopback, with kernel buffers of about `buffer` bytes.
pub(crate) fn tcp(buffer: usize) -> (TcpStream, TcpStream) {
    let listener = listen(Ipv4Addr::LOCALHOST, buffer);
    let ours = connect(&listener.local_addr().unwrap().as_socket().unwrap(), buffer);
    (ours, listener.accept().unwrap().0.into())
}

/// A listener on a free port of `address`. Its connections inherit the size of the buffers.
pub(crate) fn listen(address: Ipv4Addr, buffer: usize) -> Socket {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.set_recv_buffer_size(buffer).unwrap();
    listener.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    listener.listen(1).unwrap();
    listener
}

pub(crate) fn connect(address: &SocketAddr, buffer: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_send_buffer_size(buffer).unwrap();
    socket.connect(&(*address).into()).unwrap();
    socket.into()
}

/// A writer over `stream`, and what the kernel says to it.
pub(crate) fn writer<K: Kind>(stream: impl Write + Send + 'static) -> (Writer<K>, Reading) {
    let wire = Gauge::new(Plain(Box::new(stream) as Box<dyn Write + Send>));
    let reading = wire.reading();
    (K::over(wire, PipeWriterOptions::new()), reading)
}

/// Commits `bytes`, cut at random into spans and appends, so that they lie in many segments with gaps between.
pub(crate) fn commit(writer: &mut impl Subject, bytes: &[u8]) {
    let mut random = Random::new(bytes.len() as u64);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(random.between(1, 30_000).min(rest.len()));
        if random.one_in(2) {
            writer.put(piece);
        } else {
            writer.append(piece).unwrap();
        }
        rest = behind;
    }
}

/// The rule: of all that was `committed` the stream has `accepted` so many bytes, the writer holds the rest, and what was
/// `received` is the beginning.
#[track_caller]
pub(crate) fn check(committed: &[u8], accepted: usize, held: &[u8], received: &[u8]) {
    assert_eq!(accepted + held.len(), committed.len(), "accepted and held bytes must add up to the committed ones");
    assert!(held == &committed[accepted..], "what the writer holds is not the rest of what was committed");
    check_prefix(committed, accepted, received);
}

/// The reader's half of the rule.
#[track_caller]
pub(crate) fn check_prefix(committed: &[u8], accepted: usize, received: &[u8]) {
    assert!(received.len() <= accepted, "{} bytes were received, but only {accepted} accepted", received.len());
    assert!(received == &committed[..received.len()], "what was received is not what was committed");
}

/// Whether the error says that the reader is gone.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Reads `n` bytes, or all there are if that is less.
pub(crate) fn read(source: &mut impl Read, n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.take(n as u64).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads all there is, `piece` bytes at a time, and sleeps before each.
pub(crate) fn read_sleepily(source: &mut impl Read, piece: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        thread::sleep(Duration::from_millis(1));
        let part = read(source, piece);
        if part.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&part);
    }
}

/// A new folder for a test, that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("pipewriter-{}-{number}", process::id()));
        // One of a process by the same number, that was ended before it could clean up.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Says that a test can not run here, and why.
pub(crate) fn skipped(test: &str, reason: &str) {
    eprintln!("skipped: {test}: {reason}");
}
