//! Sockets that have no room: one that says so to a blocking writer, and one that a slow reader empties bit by bit.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use async_io::Async;
use futures_lite::{AsyncWrite, future};
use pipewriter_std::PipeWriter;
use pipewriter_tests::both;
use pipewriter_tests::gauge::Gauge;
use pipewriter_tests::model::Random;
use pipewriter_tests::noise::noise;
use pipewriter_tests::subject::{Blocking, Kind, Subject};
use pipewriter_tests::wait::{self, Watchdog};
use socket2::SockRef;

use super::support::{check, check_prefix, commit, read_sleepily, tcp, writer};

both! {
    a_socket_that_would_block_leaves_the_rest_and_the_next_flush_goes_on_there,
}

/// A stream of which both ends may be set not to block.
trait Socket: Read + Write + Send + Sized + 'static {
    fn unblock(&self);
}

impl Socket for std::net::TcpStream {
    fn unblock(&self) {
        self.set_nonblocking(true).unwrap();
    }
}

impl Socket for UnixStream {
    fn unblock(&self) {
        self.set_nonblocking(true).unwrap();
    }
}

fn a_socket_that_would_block_leaves_the_rest_and_the_next_flush_goes_on_there<K: Kind>() {
    let (ours, theirs) = tcp(64 * 1024);
    drain_by_hand::<K, _>(ours, theirs);
    let (ours, theirs) = UnixStream::pair().unwrap();
    drain_by_hand::<K, _>(ours, theirs);
}

/// Flushes until there is no room, reads a little, and so on. Once the first half is out, which goes by vectored writes and
/// the second by plain ones, every third time with a new writer, that begins with what the old one held.
fn drain_by_hand<K: Kind, S: Socket>(ours: S, mut theirs: S) {
    ours.unblock();
    theirs.unblock();
    let bytes = noise(5, 4 << 20);
    let (mut writer, reading) = writer::<K>(ours);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    commit(&mut writer, first);
    assert_eq!(writer.write_and_flush(second).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut random = Random::new(5);
    let mut received = Vec::new();
    let mut buffer = vec![0; 100_000];
    let mut refusals = 1;
    wait::until("a reader that drains the socket to get all", || {
        match writer.flush() {
            Ok(_) => assert_eq!(writer.unflushed_bytes(), 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                refusals += 1;
            }
        }
        assert_eq!(reading.accepted() + writer.unflushed_bytes(), bytes.len());
        if refusals % 3 == 2 && reading.accepted() > first.len() {
            let (stream, held) = std::mem::replace(&mut writer, K::over(closed(), Default::default())).into_parts();
            check(&bytes, reading.accepted(), &held, &received);
            writer = K::over(stream, Default::default());
            writer.append(&held).unwrap();
        }
        let piece = random.between(1, buffer.len());
        match theirs.read(&mut buffer[..piece]) {
            Ok(n) => received.extend_from_slice(&buffer[..n]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        check_prefix(&bytes, reading.accepted(), &received);
        received.len() == bytes.len()
    });
    assert!(refusals > 3 && reading.stalled() == refusals, "the socket was meant to have no room now and then");
}

/// A stream to stand in for one that was taken out.
fn closed() -> super::support::Wire {
    Gauge::new(pipewriter_tests::gauge::Plain(Box::new(std::io::sink()) as Box<dyn Write + Send>))
}

/// The smallest that Linux lets a socket have.
const TINY: usize = 1;
const SENT: usize = 300_000;

#[test]
fn a_blocking_writer_gets_all_through_a_tiny_socket_to_a_reader_that_sleeps() {
    let (tcp, theirs) = tcp(TINY);
    send_blocking(tcp, theirs);
    let (unix, theirs) = tiny_unix();
    send_blocking(unix, theirs);
}

#[test]
fn an_async_writer_gets_all_through_a_tiny_socket_to_a_reader_that_sleeps() {
    let (ours, theirs) = tcp(TINY);
    send_async(Async::new(ours).unwrap(), theirs);
    let (ours, theirs) = tiny_unix();
    send_async(Async::new(ours).unwrap(), theirs);
}

/// As the other one, but every future of the writer is dropped as soon as it stalls.
#[test]
fn futures_that_are_dropped_over_a_tiny_socket_lose_nothing() {
    let _watchdog = Watchdog::new("a flush that is begun again and again to end");
    let (ours, mut theirs) = tiny_unix();
    let reader = thread::spawn(move || read_sleepily(&mut theirs, 20_000));
    let bytes = noise(6, SENT);
    let gauge = Gauge::new(Async::new(ours).unwrap());
    let reading = gauge.reading();
    let mut writer = PipeWriter::new(gauge);
    let mut rest = &bytes[..];
    let mut dropped = 0;
    async_io::block_on(async {
        while !rest.is_empty() || writer.unflushed_bytes() > 0 {
            let (piece, behind) = rest.split_at(rest.len().min(5_000));
            rest = behind;
            if future::poll_once(writer.write_and_flush(piece)).await.is_none() {
                dropped += 1;
            }
            assert_eq!(reading.accepted() + writer.unflushed_bytes() + rest.len(), bytes.len());
            if writer.unflushed_bytes() > 0 {
                writer.get_ref().get_ref().writable().await.unwrap();
            }
        }
        writer.complete().await.unwrap();
    });
    assert!(dropped > 10);
    drop(writer);
    assert!(reader.join().unwrap() == bytes);
}

fn tiny_unix() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    SockRef::from(&ours).set_send_buffer_size(TINY).unwrap();
    (ours, theirs)
}

fn send_blocking<S: Write + Send + 'static, R: Read + Send + 'static>(stream: S, mut theirs: R) {
    let _watchdog = Watchdog::new("a reader that sleeps to get what a blocking writer sends");
    let reader = thread::spawn(move || read_sleepily(&mut theirs, 20_000));
    let bytes = noise(7, SENT);
    let (mut writer, reading) = writer::<Blocking>(stream);
    commit(&mut writer, &bytes[..SENT / 2]);
    writer.flush().unwrap();
    writer.write_and_flush(&bytes[SENT / 2..]).unwrap();
    writer.complete().unwrap();
    assert_eq!(reading.accepted(), SENT);
    drop(writer);
    assert!(reader.join().unwrap() == bytes);
}

fn send_async<S, R: Read + Send + 'static>(stream: S, mut theirs: R)
where
    S: AsyncWrite + Unpin,
{
    let _watchdog = Watchdog::new("a reader that sleeps to get what an async writer sends");
    let reader = thread::spawn(move || read_sleepily(&mut theirs, 20_000));
    let bytes = noise(8, SENT);
    let gauge = Gauge::new(stream);
    let reading = gauge.reading();
    let mut writer = PipeWriter::new(gauge);
    async_io::block_on(async {
        for piece in bytes[..SENT / 2].chunks(7_001) {
            writer.append(piece).unwrap();
        }
        writer.flush().await.unwrap();
        writer.write_and_flush(&bytes[SENT / 2..]).await.unwrap();
        writer.complete().await.unwrap();
    });
    assert_eq!(reading.accepted(), SENT);
    assert!(reading.short() > 0 && reading.stalled() > 0, "the socket was meant to have too little room");
    drop(writer);
    assert!(reader.join().unwrap() == bytes);
}
