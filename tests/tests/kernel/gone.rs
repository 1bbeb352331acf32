//! Readers that go away: they close, reset, or are killed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use pipewriter_tests::both;
use pipewriter_tests::noise::noise;
use pipewriter_tests::subject::{Kind, Subject};
use pipewriter_tests::wait::{self, Watchdog};
use socket2::SockRef;

use super::child::{Part, READS};
use super::support::{Folder, Transport, check, commit, is_gone, read, tcp, writer};

both! {
    a_reader_that_closes_leaves_the_rest_with_the_writer,
    a_reader_that_resets_leaves_the_rest_with_the_writer,
    a_reader_that_is_killed_leaves_the_rest_with_the_writer,
    what_a_gone_reader_left_can_be_sent_to_the_next_one,
}

/// Far more than the buffers of any transport here hold.
const SENT: usize = 16 << 20;
const READ: usize = 1 << 20;

fn a_reader_that_closes_leaves_the_rest_with_the_writer<K: Kind>() {
    for transport in Transport::ALL {
        let _watchdog = Watchdog::new(format!("the error of a {transport:?} whose reader has closed"));
        let (stream, reader) = transport.connect();
        let bytes = noise(1, SENT);
        let (mut writer, reading) = writer::<K>(stream);
        let handle = writer.handle();
        commit(&mut writer, &bytes);
        let reader = thread::spawn(move || read(&mut File::from(reader), READ));
        let error = writer.flush().unwrap_err();
        assert!(is_gone(&error), "{transport:?}: {error}");
        assert!(handle.is_closed());
        let received = reader.join().unwrap();
        assert_eq!(received.len(), READ);
        let accepted = reading.accepted();
        assert!(is_gone(&writer.flush().unwrap_err()), "a reader does not come back");
        assert_eq!((reading.accepted(), writer.unflushed_bytes()), (accepted, SENT - accepted));
        check(&bytes, accepted, &writer.into_parts().1, &received);
    }
}

fn a_reader_that_resets_leaves_the_rest_with_the_writer<K: Kind>() {
    let _watchdog = Watchdog::new("the error of a connection that was reset");
    let (stream, mut reader) = tcp(128 * 1024);
    let bytes = noise(2, SENT);
    let (mut writer, reading) = writer::<K>(stream);
    let handle = writer.handle();
    commit(&mut writer, &bytes);
    let reader = thread::spawn(move || {
        let received = read(&mut reader, READ);
        // With a linger of zero the close is a reset, also where nothing is left unread.
        SockRef::from(&reader).set_linger(Some(Duration::ZERO)).unwrap();
        received
    });
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(handle.is_closed());
    let received = reader.join().unwrap();
    assert_eq!(received.len(), READ);
    check(&bytes, reading.accepted(), &writer.into_parts().1, &received);
}

fn a_reader_that_is_killed_leaves_the_rest_with_the_writer<K: Kind>() {
    const SENT: usize = 64 << 20;
    let bytes = noise(3, SENT);
    for transport in Transport::ALL {
        let _watchdog = Watchdog::new(format!("the error of a {transport:?} whose reader was killed"));
        let folder = Folder::new();
        let path = folder.path().join("received");
        let (stream, reader) = transport.connect();
        let (mut writer, reading) = writer::<K>(stream);
        commit(&mut writer, &bytes);
        let mut child = Part::Read.command(&path).stdin(reader).stdout(Stdio::null()).spawn().unwrap();
        let killer = thread::spawn({
            let path = path.clone();
            move || {
                // Less than the child reads, so it may well be killed within a read or a write.
                wait::until("the child to read 8 MiB", || fs::metadata(&path).is_ok_and(|file| file.len() >= 8 << 20));
                child.kill().unwrap();
                child.wait().unwrap()
            }
        });
        let error = writer.flush().unwrap_err();
        assert!(is_gone(&error), "{transport:?}: {error}");
        let status = killer.join().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "the child ended by itself");
        let received = fs::read(&path).unwrap();
        assert!((8 << 20..=READS).contains(&received.len()));
        check(&bytes, reading.accepted(), &writer.into_parts().1, &received);
    }
}

/// What no kernel buffer swallowed is sent once, whoever gets it: here the transports hold nothing back, as the first
/// reader reads to the end what was accepted for it.
fn what_a_gone_reader_left_can_be_sent_to_the_next_one<K: Kind>() {
    let _watchdog = Watchdog::new("a second reader to get what the first has left");
    let bytes = noise(4, SENT);
    let (stream, mut first) = tcp(128 * 1024);
    let ours: TcpStream = stream.try_clone().unwrap();
    let (mut writer, reading) = writer::<K>(stream);
    commit(&mut writer, &bytes);
    let reader = thread::spawn(move || {
        let mut received = read(&mut first, READ);
        // From here on the writer's own end refuses; what was accepted before still arrives.
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        received.extend(read(&mut first, usize::MAX >> 1));
        received
    });
    assert!(is_gone(&writer.flush().unwrap_err()));
    let received = reader.join().unwrap();
    let (_, held) = writer.into_parts();
    assert_eq!(received.len(), reading.accepted(), "all that was accepted has arrived");
    check(&bytes, reading.accepted(), &held, &received);
    let (stream, mut second) = tcp(128 * 1024);
    let (mut writer, _) = self::writer::<K>(stream);
    let reader = thread::spawn(move || read(&mut second, usize::MAX >> 1));
    writer.write_and_flush(&held).unwrap();
    writer.complete().unwrap();
    drop(writer);
    assert!([received, reader.join().unwrap()].concat() == bytes);
}
