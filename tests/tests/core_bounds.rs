//! What the core itself offers in one call, whatever an adapter may cut off on top of it.

use core::convert::Infallible;
use core::task::{Context, Poll, Waker};

use pipewriter_core::{Error, HeapQueue, Options, Pipe, PollWrite};
use pipewriter_tests::pools::TestPool;

/// Takes all that it is offered, and notes how much that was.
#[derive(Default)]
struct Offers {
    /// Chunks and bytes of each call.
    calls: Vec<(usize, usize)>,
}

impl PollWrite for Offers {
    type Error = Option<Infallible>;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Self::Error>> {
        self.calls.push((1, buf.len()));
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored<'a>(
        &mut self,
        _: &mut Context<'_>,
        chunks: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Poll<Result<usize, Self::Error>> {
        let said = chunks.len();
        let lens: Vec<usize> = chunks.map(<[u8]>::len).collect();
        assert_eq!(lens.len(), said, "the iterator knows its length");
        self.calls.push((lens.len(), lens.iter().sum()));
        Poll::Ready(Ok(lens.iter().sum()))
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
    let mut stream = Offers::default();
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
