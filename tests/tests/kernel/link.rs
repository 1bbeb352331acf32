//! A network that goes down and comes back, between two hosts that are two threads, each in a network namespace of its own.
//!
//! Both namespaces, and the cable between them, go with the threads. The addresses are of a block that is kept for
//! documentation, so there is no such host elsewhere, and from these namespaces there is no way out anyway.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use async_io::Async;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use pipewriter_std::PipeWriter;
use pipewriter_tests::gauge::Gauge;
use pipewriter_tests::noise::noise;
use pipewriter_tests::subject::Blocking;
use pipewriter_tests::wait::Watchdog;

use super::support::{commit, connect, listen, read, skipped, writer};

const WRITER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const READER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const BUFFER: usize = 128 * 1024;
const SENT: usize = 8 << 20;
/// What the reader reads before the link goes down.
const BEFORE: usize = 1 << 20;

#[test]
fn a_blocking_writer_gets_all_through_a_link_that_goes_down_and_comes_back() {
    run("blocking", |stream, bytes| {
        let (mut writer, reading) = writer::<Blocking>(stream);
        commit(&mut writer, bytes);
        writer.flush().unwrap();
        writer.complete().unwrap();
        assert_eq!(reading.accepted(), SENT);
    });
}

#[test]
fn an_async_writer_gets_all_through_a_link_that_goes_down_and_comes_back() {
    run("async", |stream, bytes| {
        let gauge = Gauge::new(Async::new(stream).unwrap());
        let reading = gauge.reading();
        let mut writer = PipeWriter::new(gauge);
        async_io::block_on(async {
            writer.append(&bytes[..SENT / 2]).unwrap();
            writer.flush().await.unwrap();
            writer.write_and_flush(&bytes[SENT / 2..]).await.unwrap();
            writer.complete().await.unwrap();
        });
        assert_eq!(reading.accepted(), SENT);
        assert!(reading.stalled() > 0, "the writer was meant to wait");
    });
}

/// Sends noise with `send` over a link that is cut on the way.
fn run(kind: &str, send: impl FnOnce(TcpStream, &[u8]) + Send) {
    let _watchdog = Watchdog::new("all bytes to arrive over a link that was cut");
    let bytes = noise(13, SENT);
    let (reader_is, reader_was) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let received = thread::scope(|scope| {
        let reader = scope.spawn(move || read_over_a_cut_link(reader_is, gone));
        let bytes = &bytes;
        let sender = scope.spawn(move || match lay_cable(&reader_was, &go) {
            Ok(reader) => send(connect(&reader, BUFFER), bytes),
            Err(reason) => skipped(&format!("a link that goes down, {kind}"), &reason),
        });
        sender.join().unwrap();
        reader.join().unwrap()
    });
    if let Some(received) = received {
        assert!(received == bytes);
    }
}

/// What the reader's host tells the writer's.
enum News {
    /// It is in a network namespace, as the thread of this number; or why not.
    Namespace(Result<i32, String>),
    /// It listens here.
    Listening(SocketAddr),
}

/// Makes this thread the writer's host, and connects it to the reader's. Returns where that listens.
fn lay_cable(reader: &Receiver<News>, go: &Sender<()>) -> Result<SocketAddr, String> {
    let Ok(News::Namespace(thread)) = reader.recv() else { return Err("the reader has failed".into()) };
    let thread = thread?.to_string();
    enter_namespace()?;
    ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"])?;
    ip(&["link", "set", "far", "netns", &thread])?;
    ip(&["address", "add", &format!("{WRITER}/30"), "dev", "near"])?;
    ip(&["link", "set", "near", "up"])?;
    go.send(()).unwrap();
    match reader.recv() {
        Ok(News::Listening(address)) => Ok(address),
        _ => Err("the reader has failed".into()),
    }
}

/// The reader's host: it reads a part, cuts the link, reads what had arrived by then, mends the link, and reads the rest.
/// `None` if there can be no such host.
fn read_over_a_cut_link(news: Sender<News>, go: Receiver<()>) -> Option<Vec<u8>> {
    let entered = enter_namespace().map(|()| gettid().as_raw());
    news.send(News::Namespace(entered)).unwrap();
    // An error is the writer's host having failed to lay the cable.
    go.recv().ok()?;
    ip(&["address", "add", &format!("{READER}/30"), "dev", "far"]).unwrap();
    ip(&["link", "set", "far", "up"]).unwrap();
    let listener = listen(READER, BUFFER);
    news.send(News::Listening(listener.local_addr().unwrap().as_socket().unwrap())).unwrap();
    let mut stream: TcpStream = listener.accept().unwrap().0.into();
    let mut received = read(&mut stream, BEFORE);
    ip(&["link", "set", "far", "down"]).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = vec![0; 65_536];
    loop {
        match stream.read(&mut buffer) {
            Ok(n) => received.extend_from_slice(&buffer[..n]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                break;
            }
        }
        assert!(received.len() < SENT, "bytes arrived over a link that is down");
    }
    ip(&["link", "set", "far", "up"]).unwrap();
    stream.set_read_timeout(None).unwrap();
    received.extend(read(&mut stream, SENT));
    Some(received)
}

fn enter_namespace() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))
}

/// Runs `ip` in the network namespace of this thread.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let said = |what: &str| format!("ip {}: {what}", arguments.join(" "));
    let output = Command::new("ip").args(arguments).output().map_err(|error| said(&error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(said(String::from_utf8_lossy(&output.stderr).trim())) }
}
