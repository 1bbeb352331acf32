//! One connection's writer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use std::time::{Duration, Instant};

use async_io::Timer;
use pipewriter_std::{PipeHandle, PipeWriter, PipeWriterOptions, SegmentPool};
use pipewriter_tests::gauge::{Gauge, Reading};
use pipewriter_tests::model::Random;
use sha2::{Digest, Sha256};

use super::Tally;
use super::receiver::{Stream, Sum};

/// What a writer sends, and until when.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) noise: Arc<[u8]>,
    pub(crate) until: Instant,
}

/// A writer does not begin another message while it holds more than this.
const MOST_HELD: usize = 40_000;

/// A writer and the books on it.
struct Connection<P: SegmentPool> {
    writer: PipeWriter<Gauge<Stream>, P>,
    reading: Reading,
    sum: Sha256,
    tally: Tally,
}

/// Sends messages until the time is over, then the rest, and closes. Returns what the receiver must have got.
pub(crate) async fn send<P: SegmentPool + Clone>(
    stream: Stream,
    options: PipeWriterOptions<P>,
    plan: Plan,
    seed: u64,
    canceler: Sender<PipeHandle>,
) -> (Sum, Tally) {
    let mut random = Random::new(seed);
    let gauge = Gauge::new(stream);
    let reading = gauge.reading();
    let writer = PipeWriter::with_options(gauge, options.clone());
    let mut connection = Connection { writer, reading, sum: Sha256::new(), tally: Tally::default() };
    if random.one_in(2) {
        canceler.send(connection.writer.handle()).unwrap();
    }
    drop(canceler);
    // Some also when there was no time for them, so that the clock does not decide whether anything is tried at all.
    while connection.tally.messages < 10 || Instant::now() < plan.until {
        connection.message(&plan.noise, &mut random).await;
        if random.one_in(500) {
            connection = connection.taken_apart(options.clone());
        }
        if random.one_in(20) {
            Timer::after(Duration::from_micros(random.below(20_000) as u64)).await;
        }
    }
    connection.flush().await;
    connection.writer.complete().await.unwrap();
    let Connection { reading, sum, mut tally, .. } = connection;
    assert_eq!(reading.accepted(), tally.bytes, "a writer that is completed has sent all");
    tally.stalled = reading.stalled();
    tally.short = reading.short();
    (Sum { bytes: tally.bytes, digest: sum.finalize().into() }, tally)
}

impl<P: SegmentPool> Connection<P> {
    /// Commits a message by one of the calls, and flushes or not.
    async fn message(&mut self, noise: &[u8], random: &mut Random) {
        // Mostly small ones.
        let most = *random.pick(&[16, 200, 200, 2000, 30_000]);
        let len = random.between(1, most);
        let at = random.below(noise.len() - len);
        let bytes = &noise[at..at + len];
        self.sum.update(bytes);
        self.tally.bytes += len;
        self.tally.messages += 1;
        match random.below(4) {
            0 => {
                self.writer.span_mut(len).unwrap()[..len].copy_from_slice(bytes);
                self.writer.advance(len).unwrap();
            }
            1 => self.writer.append(bytes).unwrap(),
            2 => drop(self.writer.write_and_flush(bytes).await.unwrap()),
            // From the first poll on the argument counts as committed.
            _ => {
                let end = give_up_after(random.between(1, 3), self.writer.write_and_flush(bytes)).await;
                self.tally.dropped += usize::from(end.is_none());
            }
        }
        self.check();
        match random.below(8) {
            0 => self.flush().await,
            1 => self.tally.canceled += usize::from(self.writer.flush().await.unwrap().is_canceled()),
            2 => {
                let end = give_up_after(random.between(1, 3), self.writer.flush()).await;
                self.tally.dropped += usize::from(end.is_none());
            }
            3 => drop(self.writer.emit().await.unwrap()),
            _ if self.writer.unflushed_bytes() > MOST_HELD => self.flush().await,
            _ => {}
        }
        self.check();
    }

    /// Flushes until a flush is not canceled.
    async fn flush(&mut self) {
        while self.writer.flush().await.unwrap().is_canceled() {
            self.tally.canceled += 1;
        }
        assert_eq!(self.writer.unflushed_bytes(), 0);
    }

    #[track_caller]
    fn check(&self) {
        let (accepted, held) = (self.reading.accepted(), self.writer.unflushed_bytes());
        assert_eq!(accepted + held, self.tally.bytes, "accepted and held bytes must add up to the committed ones");
    }

    /// Goes on with a new writer over the same stream, which begins with what the old one held.
    fn taken_apart(self, options: PipeWriterOptions<P>) -> Self {
        let Self { writer, reading, sum, mut tally } = self;
        let (stream, held) = writer.into_parts();
        let mut writer = PipeWriter::with_options(stream, options);
        writer.append(&held).unwrap();
        tally.taken_apart += 1;
        let connection = Self { writer, reading, sum, tally };
        connection.check();
        connection
    }
}

/// Polls `future`, each time that it is woken, `polls` times at most; drops it then.
async fn give_up_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        left -= 1;
        if left == 0 { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}
