//! The least that one does with a writer over an async driver: encode, flush, complete. For its size.

#![no_std]
#![no_main]

use core::{
    convert::Infallible,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
};

use cortex_m_rt::entry;
use embedded_io_async::Write;
use pipewriter_core::embedded_io_async::{PipeWriter, WriteError};
use pipewriter_firmware::{Memory, SmallPipe, pipe};

struct Port;

impl embedded_io::ErrorType for Port {
    type Error = Infallible;
}

impl Write for Port {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, Infallible> {
        Ok(black_box(buf).len().min(4))
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

async fn run(pipe: SmallPipe<'_>) -> Result<(), WriteError<Infallible>> {
    let mut writer = PipeWriter::new(Port, pipe);
    for message in 0..black_box(3) {
        writer.span_mut(4)?[..4].copy_from_slice(&u32::to_le_bytes(message));
        writer.advance(4)?;
        writer.append(black_box(b"hello, async port"))?;
        writer.flush().await?;
    }
    writer.complete().await
}

#[entry]
fn main() -> ! {
    // `entry` turns this into a reference that lives for ever.
    static mut MEMORY: Memory = [0; size_of::<Memory>()];
    let poll = pin!(run(pipe(MEMORY))).poll(&mut Context::from_waker(Waker::noop()));
    semihosting::process::exit(i32::from(!matches!(poll, Poll::Ready(Ok(())))))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    semihosting::process::exit(101)
}
