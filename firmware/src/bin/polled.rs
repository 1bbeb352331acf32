//! The least that one does with a pipe: encode, flush, complete, over a `PollWrite`. For its size.

#![no_std]
#![no_main]

use core::{
    hint::black_box,
    task::{Context, Poll, Waker},
};

use cortex_m_rt::entry;
use pipewriter_core::{Error, PollWrite};
use pipewriter_firmware::{Memory, SmallPipe, pipe};

struct Port;

impl PollWrite for Port {
    type Error = Error;

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize, Error>> {
        Poll::Ready(Ok(black_box(buf).len().min(4)))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn fault(&self, fault: Error) -> Error {
        fault
    }
}

fn run(pipe: &mut SmallPipe<'_>) -> Result<(), Error> {
    let cx = &mut Context::from_waker(Waker::noop());
    for message in 0..black_box(3) {
        pipe.span_mut(4)?[..4].copy_from_slice(&u32::to_le_bytes(message));
        pipe.advance(4)?;
        pipe.append(black_box(b"hello, polled port"))?;
        if let Poll::Ready(result) = pipe.poll_flush(cx, &mut Port) {
            result?;
        }
    }
    if let Poll::Ready(result) = pipe.poll_complete(cx, &mut Port) { result } else { Ok(()) }
}

#[entry]
fn main() -> ! {
    // `entry` turns this into a reference that lives for ever.
    static mut MEMORY: Memory = [0; size_of::<Memory>()];
    let result = run(&mut pipe(MEMORY));
    semihosting::process::exit(i32::from(result.is_err()))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    semihosting::process::exit(101)
}
