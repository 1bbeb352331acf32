//! What the core itself offers in one call, whatever an adapter may cut off on top of it, and how long it goes on in one poll.

use core::convert::Infallible;
use core::task::{Context, Poll, Waker};

use pipewriter_core::{Error, HeapPool, HeapQueue, Options, Pipe, PollWrite};
use pipewriter_tests::exec::Wakes;
use pipewriter_tests::pools::TestPool;

/// Takes what it is offered, up to `most` bytes a call, and notes how much it was offered.
struct Offers {
    most: usize,
    /// Chunks and bytes of each call.
    calls: Vec<(usize, usize)>,
    accepted: usize,
}

impl Offers {
    fn new(most: usize) -> Self {
        Self { most, calls: Vec::new(), accepted: 0 }
    }

    fn take(&mut self, chunks: usize, bytes: usize) -> Poll<Result<usize, Option<Infallible>>> {
        self.calls.push((chunks, bytes));
        let taken = bytes.min(self.most);
        self.accepted += taken;
        Poll::Ready(Ok(taken))
    }
}

impl PollWrite for Offers {
    type Error = Option<Infallible>;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        self.take(1, buf.len())
    }

    fn poll_write_vectored<'a>(
        &mut self,
        _: &mut Context<'_>,
        chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<Result<usize, Self::Error>> {
        let said = chunks.len();
        let lens: Vec<usize> = chunks.map(<[u8]>::len).collect();
        assert_eq!(lens.len(), said, "the iterator knows its length");
        self.take(lens.len(), lens.iter().sum())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn fault(&self, _: Error) -> Self::Error {
        None
    }
}

fn flush(segment_size: usize, bytes: usize) -> Vec<(usize, usize)> {
    let (pool, _) = TestPool::new();
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(pool, Options::new().segment_size(segment_size));
    pipe.append(&vec![7; bytes]).unwrap();
    let mut stream = Offers::new(usize::MAX);
    while pipe.poll_flush(&mut Context::from_waker(Waker::noop()), &mut stream).map(Result::unwrap).is_pending() {}
    stream.calls
}

#[test]
fn the_core_offers_1024_chunks_in_a_call_and_no_more() {
    let calls = flush(1, 5000);
    assert_eq!(calls.iter().map(|(chunks, _)| *chunks).max(), Some(1024), "{calls:?}");
    assert_eq!(calls.iter().map(|(_, bytes)| *bytes).sum::<usize>(), 5000);
}

#[test]
fn the_core_offers_256_kib_in_a_call_and_no_more() {
    for segment_size in [4096, 100_000, 5 << 20] {
        let calls = flush(segment_size, 5 << 20);
        assert_eq!(calls.iter().map(|(_, bytes)| *bytes).max(), Some(256 * 1024), "{calls:?}");
        assert_eq!(calls.len(), 20);
    }
}

#[test]
fn a_small_batch_that_is_taken_whole_does_not_narrow_the_offer_of_a_large_one() {
    let (pool, _) = TestPool::new();
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(pool, Options::new().segment_size(1));
    let mut stream = Offers::new(usize::MAX);
    for bytes in [2, 1000] {
        pipe.append(&vec![7; bytes]).unwrap();
        assert!(pipe.poll_flush(&mut Context::from_waker(Waker::noop()), &mut stream).is_ready());
    }
    assert_eq!(stream.calls, [(2, 2), (1000, 1000)]);
}

#[test]
fn each_call_of_a_stream_that_takes_all_offers_as_much_as_may_be() {
    // Segments of many lengths: the bound on the bytes falls into one of them, now here and now there.
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(HeapPool::with_bound(2 << 20), Options::new());
    for _ in 0..8 {
        for _ in 0..10_485 {
            pipe.append(&[7; 100]).unwrap();
        }
        let mut stream = Offers::new(usize::MAX);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pipe.poll_write_and_flush(&mut cx, &mut stream, &[7; 100]).is_ready());
        let (last, others) = stream.calls.split_last().unwrap();
        assert!(others.iter().all(|(_, bytes)| *bytes == 256 * 1024) && last.1 <= 256 * 1024, "{:?}", stream.calls);
    }
}

/// The calls and the bytes of each poll until a flush of `bytes` is done.
fn polls(bytes: usize, most: usize) -> Vec<(usize, usize)> {
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(HeapPool::new(), Options::new());
    pipe.append(&vec![7; bytes]).unwrap();
    let mut stream = Offers::new(most);
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut polls = Vec::new();
    loop {
        stream.calls.clear();
        let (accepted, woken) = (stream.accepted, wakes.count());
        let poll = pipe.poll_flush(&mut Context::from_waker(&waker), &mut stream);
        polls.push((stream.calls.len(), stream.accepted - accepted));
        match poll {
            Poll::Ready(flushed) => {
                assert!(!flushed.unwrap().is_canceled());
                assert_eq!((stream.accepted, pipe.unflushed_bytes()), (bytes, 0));
                return polls;
            }
            Poll::Pending => assert_eq!(wakes.count(), woken + 1, "it wants to be polled again at once"),
        }
    }
}

#[test]
fn a_flush_that_is_served_at_once_lets_others_have_a_turn_after_4_mib() {
    assert_eq!(polls(20 << 20, usize::MAX), [(16, 4 << 20); 5]);
    assert_eq!(polls(4 << 20, usize::MAX).len(), 1);
}

#[test]
fn a_flush_that_is_served_at_once_lets_others_have_a_turn_after_262144_calls() {
    assert_eq!(polls(600_000, 1), [(1 << 18, 1 << 18), (1 << 18, 1 << 18), (600_000 - (2 << 18), 600_000 - (2 << 18))]);
}

#[test]
fn the_blocking_writer_does_all_of_a_flush_in_one_call() {
    let mut writer = pipewriter_std::blocking::PipeWriter::new(std::io::sink());
    writer.append(&vec![7; 20 << 20]).unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.unflushed_bytes(), 0);
}

#[test]
fn the_argument_of_a_write_and_flush_goes_out_in_one_poll() {
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(HeapPool::new(), Options::new());
    let mut stream = Offers::new(usize::MAX);
    let data = vec![7; 10 << 20];
    pipe.append(&data).unwrap();
    let poll = pipe.poll_write_and_flush(&mut Context::from_waker(Waker::noop()), &mut stream, &data);
    assert!(poll.is_ready(), "else the rest of it would have to be copied");
    assert_eq!(stream.accepted, 2 * data.len());
}

/// Has no vectored write of its own; claims `more` than it was handed, and is interrupted at each close.
struct Plain {
    more: usize,
    sent: Vec<u8>,
    closes: u32,
}

impl PollWrite for Plain {
    type Error = Option<Error>;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        self.sent.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len() + self.more))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.closes += 1;
        Poll::Ready(Err(None))
    }

    fn fault(&self, fault: Error) -> Self::Error {
        Some(fault)
    }

    fn is_interrupted(&self, error: &Self::Error) -> bool {
        error.is_none()
    }
}

#[test]
fn a_claim_beyond_the_first_chunk_by_a_stream_that_is_handed_no_other_is_refused() {
    for more in [1, 3, 4, 8, 9, usize::MAX - 4] {
        let (pool, _) = TestPool::new();
        let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::with_options(pool, Options::new().segment_size(4));
        pipe.append(b"abcdefghijkl").unwrap();
        let mut stream = Plain { more, sent: Vec::new(), closes: 0 };
        let poll = pipe.poll_flush(&mut Context::from_waker(Waker::noop()), &mut stream);
        let Poll::Ready(Err(Some(Error::Overclaimed { claimed, offered }))) = poll else { panic!("{more}: {poll:?}") };
        assert!(claimed > offered, "{claimed} of {offered}");
        assert_eq!(pipe.unflushed_bytes(), 12, "none of that call's bytes count, {more}");
        stream.more = 0;
        stream.sent.clear();
        assert!(pipe.poll_flush(&mut Context::from_waker(Waker::noop()), &mut stream).is_ready());
        assert_eq!(stream.sent, b"abcdefghijkl");
    }
}

#[test]
fn a_close_that_is_interrupted_for_ever_lets_other_tasks_have_a_turn() {
    let mut pipe: Pipe<_, (), HeapQueue<_>> = Pipe::new(HeapPool::new());
    let mut stream = Plain { more: 0, sent: Vec::new(), closes: 0 };
    let wakes = Wakes::new();
    for turn in 1..4 {
        let poll = pipe.poll_complete(&mut Context::from_waker(&wakes.waker()), &mut stream);
        assert!(poll.is_pending());
        assert_eq!(wakes.count(), turn, "it has woken its own task");
        assert!(stream.closes <= 300_000 * u32::try_from(turn).unwrap());
    }
}
