//! Signals that interrupt a write.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::libc::c_int;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use pipewriter_tests::both;
use pipewriter_tests::noise::noise;
use pipewriter_tests::subject::{Kind, Subject};
use pipewriter_tests::wait::{self, Watchdog};

use super::support::{Transport, check, commit, read, writer};

both! {
    a_signal_that_interrupts_a_write_loses_nothing_and_reaches_no_user,
}

const SENT: usize = 4 << 20;
/// Interruptions that the reader waits for.
const TIMES: usize = 5;

extern "C" fn nothing(_: c_int) {}

/// Has calls of the system end with `EINTR` at the signal: there is a handler, and it is without `SA_RESTART`.
#[allow(unsafe_code, reason = "a handler cannot be set without it; this one does nothing, so it is safe at any time")]
fn let_signals_interrupt() {
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing at all.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
}

/// The reader waits until a write that could write nothing was interrupted some times: a vectored one, and a plain one. The
/// signals go on while it reads, and cut writes short.
fn a_signal_that_interrupts_a_write_loses_nothing_and_reaches_no_user<K: Kind>() {
    let_signals_interrupt();
    for transport in Transport::ALL {
        let _watchdog = Watchdog::new(format!("an interrupted {transport:?} to get all"));
        let (stream, reader) = transport.connect();
        let bytes = noise(9, SENT);
        let (mut writer, reading) = writer::<K>(stream);
        let target = pthread_self();
        let sent = AtomicBool::new(false);
        // The signals end before the thread that they are for, which is this one.
        thread::scope(|scope| {
            let signals = scope.spawn(|| {
                while !sent.load(Ordering::SeqCst) {
                    pthread_kill(target, Signal::SIGUSR1).unwrap();
                    thread::sleep(Duration::from_micros(200));
                }
            });
            let reader = scope.spawn(|| {
                let mut reader = File::from(reader);
                let mut received = Vec::new();
                for _ in 0..2 {
                    let before = reading.interrupted();
                    wait::until("a write to be interrupted", || {
                        reading.interrupted() >= before + TIMES || sent.load(Ordering::SeqCst)
                    });
                    received.extend(read(&mut reader, SENT / 2));
                }
                received
            });
            commit(&mut writer, &bytes[..SENT / 2]);
            let first = writer.flush();
            let second = writer.write_and_flush(&bytes[SENT / 2..]);
            sent.store(true, Ordering::SeqCst);
            signals.join().unwrap();
            let (stream, held) = writer.into_parts();
            drop(stream);
            let received = reader.join().unwrap();
            assert!(first.is_ok() && second.is_ok(), "{transport:?}: {first:?}, {second:?}");
            assert!(reading.interrupted() >= 2 * TIMES, "{transport:?}: no write was interrupted");
            check(&bytes, reading.accepted(), &held, &received);
            assert_eq!(received.len(), SENT);
        });
    }
}
