//! The other ends of all connections, on a thread of their own.

use std::future::pending;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_executor::{Executor, Task};
use async_io::{Async, Timer};
use futures_lite::AsyncReadExt;
use pipewriter_tests::model::Random;
use sha2::{Digest, Sha256};

pub(crate) type Stream = Async<TcpStream>;

/// What came to one end, or went out at the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub(crate) bytes: usize,
    pub(crate) digest: [u8; 32],
}

/// The thread that reads. It ends with the process.
pub(crate) struct Receiver {
    executor: Arc<Executor<'static>>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let executor = Arc::new(Executor::new());
        let runs = Arc::clone(&executor);
        thread::spawn(move || async_io::block_on(runs.run(pending::<()>())));
        Self { executor }
    }

    /// Reads `stream` to its end, now and then slowly, and says what it read.
    pub(crate) fn take(&self, stream: Stream, seed: u64) -> Task<Sum> {
        self.executor.spawn(receive(stream, seed))
    }
}

async fn receive(mut stream: Stream, seed: u64) -> Sum {
    let mut random = Random::new(seed);
    let mut buffer = vec![0; 8192];
    let (mut bytes, mut sum) = (0, Sha256::new());
    loop {
        let piece = random.between(1, buffer.len());
        match stream.read(&mut buffer[..piece]).await.unwrap() {
            0 => return Sum { bytes, digest: sum.finalize().into() },
            n => {
                sum.update(&buffer[..n]);
                bytes += n;
            }
        }
        if random.one_in(30) {
            Timer::after(Duration::from_micros(random.below(30_000) as u64)).await;
        }
    }
}
