//! Many connections at a time over loopback, each with a writer of its own, all writers on one executor thread: messages of
//! random sizes and by all calls, cancels from another thread, readers that stall, futures that are dropped. Every byte must
//! arrive, and afterwards the memory must be where it was.
//!
//! `SOAK_SECONDS` says for how long (5 by default), `SOAK_CONNECTIONS` how many (2,000, or what the limit of open files
//! allows), `SOAK_SEED` which choices. The two minutes that a release gets:
//!
//! ```sh
//! SOAK_SECONDS=120 cargo test --release -p pipewriter-tests --test soak -- --nocapture
//! ```
//!
//! The clock decides how much is sent past the first messages, and nothing else.

#![cfg(target_os = "linux")]

mod canceler;
mod receiver;
mod sender;

use std::env;
use std::net::{TcpListener, TcpStream};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_executor::LocalExecutor;
use async_io::Async;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pipewriter_std::{PipeWriterOptions, SharedPool};
use pipewriter_tests::ledger::{Ledger, live_everywhere};
use pipewriter_tests::model::Random;
use pipewriter_tests::noise::noise;
use pipewriter_tests::wait::{self, Watchdog};
use socket2::SockRef;

use self::canceler::Canceler;
use self::receiver::{Receiver, Stream};
use self::sender::Plan;

#[global_allocator]
static LEDGER: Ledger = Ledger;

/// Messages are cut from this, at random places, so that none is like another and none costs memory.
const NOISE: usize = 1 << 20;
/// How many times all connections are opened anew. What the first needs for itself (the lists of the executor and the
/// reactor, say) may stay; the others may add nothing to it.
const ROUNDS: u32 = 3;
/// What may come and go in the lists of the executor and the reactor between rounds.
const SLACK: isize = 16 * 1024;

/// What happened, for the figures at the end: bytes and messages that were sent, flushes that were canceled or whose
/// future was dropped, writes that the socket did not take at all (`stalled`) or in part (`short`), and writers that were taken
/// apart in the middle of their work.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    bytes: usize,
    messages: usize,
    canceled: usize,
    dropped: usize,
    stalled: usize,
    short: usize,
    taken_apart: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.messages += more.messages;
        self.canceled += more.canceled;
        self.dropped += more.dropped;
        self.stalled += more.stalled;
        self.short += more.short;
        self.taken_apart += more.taken_apart;
    }
}

fn setting(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// So many connections can be open, both ends being here: `wanted`, unless there are too few file descriptors.
fn affordable(wanted: usize) -> usize {
    /// For the rest of the process.
    const OTHERS: u64 = 100;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = 2 * wanted as u64 + OTHERS;
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard).unwrap();
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let can = (soft.saturating_sub(OTHERS) / 2) as usize;
    if can < wanted {
        eprintln!("note: {can} connections in place of {wanted}: the limit of open files is {soft}");
    }
    can.min(wanted)
}

/// The two ends of a connection. The buffers of the kernel are set at random, and small, so that writers meet their ends.
fn connection(listener: &TcpListener, random: &mut Random) -> (Stream, Stream) {
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    SockRef::from(&ours).set_send_buffer_size(*random.pick(&[4096, 16_384, 65_536])).unwrap();
    SockRef::from(&theirs).set_recv_buffer_size(*random.pick(&[16_384, 65_536])).unwrap();
    (Async::new(ours).unwrap(), Async::new(theirs).unwrap())
}

/// Opens all connections, sends until `until`, and checks each.
fn round(plan: Plan, random: &mut Random, connections: usize, pool: &SharedPool, receiver: &Receiver) -> Tally {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let canceler = Canceler::start(random.next_u64());
    let executor = LocalExecutor::new();
    let mut senders = Vec::new();
    for _ in 0..connections {
        let (ours, theirs) = connection(&listener, random);
        let arrival = receiver.take(theirs, random.next_u64());
        let (plan, seed, canceler) = (plan.clone(), random.next_u64(), canceler.to());
        // Half of the writers have a pool of their own.
        let sender = if random.one_in(2) {
            executor.spawn(sender::send(ours, PipeWriterOptions::new(), plan, seed, canceler))
        } else {
            executor.spawn(sender::send(ours, PipeWriterOptions::new().pool(pool.clone()), plan, seed, canceler))
        };
        senders.push((sender, arrival));
    }
    let mut tally = Tally::default();
    async_io::block_on(executor.run(async {
        for (number, (sender, arrival)) in senders.into_iter().enumerate() {
            let (sent, of_sender) = sender.await;
            let received = arrival.await;
            assert_eq!(received, sent, "connection {number}: what arrived is not what was committed");
            tally += of_sender;
        }
    }));
    canceler.end();
    tally
}

#[test]
fn every_byte_of_many_connections_arrives_and_all_memory_is_given_back() {
    let seconds = setting("SOAK_SECONDS", 5);
    let connections = affordable(setting("SOAK_CONNECTIONS", 2000));
    let seed = setting("SOAK_SEED", 1);
    let length = Duration::from_secs(seconds as u64);
    let _watchdog = Watchdog::after(length + 2 * wait::LIMIT, "the soak to end");
    let mut random = Random::new(seed as u64);
    let noise: Arc<[u8]> = noise(seed as u64, NOISE).into();
    let pool = SharedPool::new();
    let receiver = Receiver::start();
    let start = Instant::now();
    let mut sum = Tally::default();
    let mut after_first = 0;
    for number in 1..=ROUNDS {
        let plan = Plan { noise: Arc::clone(&noise), until: Instant::now() + length / ROUNDS };
        let tally = round(plan, &mut random, connections, &pool, &receiver);
        sum += tally;
        assert_eq!(pool.stats().segments_out, 0, "writers that are gone hold segments");
        pool.trim();
        assert_eq!((pool.stats().segments_kept, pool.stats().bytes_out), (0, 0));
        let live = live_everywhere();
        eprintln!("round {number}: {:.1} s, {tally:?}, {live} bytes of heap", start.elapsed().as_secs_f64());
        if number == 1 {
            after_first = live;
        }
        assert!(live <= after_first + SLACK, "the heap grew from {after_first} to {live} bytes");
    }
    let took = start.elapsed().as_secs_f64();
    let rate = sum.bytes as f64 / took / 1e6;
    eprintln!("{connections} connections at a time, {ROUNDS} times, {took:.1} s, {rate:.0} MB/s, seed {seed}: {sum:?}");
    for (what, count) in [("cancels", sum.canceled), ("dropped futures", sum.dropped), ("stalls", sum.stalled)] {
        assert!(count > 0 || connections < 100, "there were no {what}");
    }
}
