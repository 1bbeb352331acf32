//! Checks the core on a small machine: sends random messages through a pipe of four segments of 32 bytes to a serial
//! port that takes one to four bytes at a time, cancels and drops flushes under way, runs out of memory again and again,
//! and looks at every byte.

#![no_std]
#![no_main]

use core::{fmt, future::poll_fn, panic::PanicInfo};

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::{entry, exception};
use pipewriter_core::{
    Error, FixedQueue, FlushResult, Options, Pipe, SlicePool, embedded_io as blocking, embedded_io::WriteError,
    embedded_io_async as waiting,
};
use pipewriter_firmware::{
    CANCEL, Cancel, Memory, Random, SEGMENT_LEN, SEGMENTS, SmallPipe, byte_at, cancel_in,
    executor::{Stuck, block_on, poll_and_drop},
    pipe, ticks,
    uart::{Uart, UartError},
};
use semihosting::{println, process::exit};

const MESSAGES: u32 = 1500;

// ---- three ways to use the core ----

/// A pipe with its serial port.
trait Subject {
    const NAME: &'static str;
    /// Whether a flush can wait.
    const WAITS: bool = true;

    fn uart(&mut self) -> &mut Uart;
    fn unflushed_bytes(&self) -> usize;
    fn free_segments(&self) -> usize;
    fn span_mut(&mut self, hint: usize) -> Result<&mut [u8], Error>;
    fn advance(&mut self, n: usize) -> Result<(), Error>;
    fn append(&mut self, data: &[u8]) -> Result<(), Error>;
    /// The plain `write`, which may take less than all.
    async fn write(&mut self, data: &[u8]) -> Result<usize, UartError>;
    async fn flush(&mut self) -> Result<FlushResult, UartError>;
    async fn complete(&mut self) -> Result<(), UartError>;
}

/// The core by itself, over `PollWrite`.
struct Polled<'m> {
    pipe: SmallPipe<'m>,
    uart: Uart,
}

impl Subject for Polled<'_> {
    const NAME: &'static str = "Pipe over PollWrite";

    fn uart(&mut self) -> &mut Uart {
        &mut self.uart
    }
    fn unflushed_bytes(&self) -> usize {
        self.pipe.unflushed_bytes()
    }
    fn free_segments(&self) -> usize {
        self.pipe.pool().free_segments()
    }
    fn span_mut(&mut self, hint: usize) -> Result<&mut [u8], Error> {
        self.pipe.span_mut(hint)
    }
    fn advance(&mut self, n: usize) -> Result<(), Error> {
        self.pipe.advance(n)
    }
    fn append(&mut self, data: &[u8]) -> Result<(), Error> {
        self.pipe.append(data)
    }
    async fn write(&mut self, data: &[u8]) -> Result<usize, UartError> {
        poll_fn(|cx| self.pipe.poll_write(cx, &mut self.uart, data)).await
    }
    async fn flush(&mut self) -> Result<FlushResult, UartError> {
        self.pipe.flush(&mut self.uart).await
    }
    async fn complete(&mut self) -> Result<(), UartError> {
        self.pipe.complete(&mut self.uart).await
    }
}

type Queue<'m> = FixedQueue<&'m mut [u8], SEGMENTS>;
type Async<'m> = waiting::PipeWriter<Uart, SlicePool<'m, SEGMENTS>, &'static Cancel, Queue<'m>>;
type Blocking<'m> = blocking::PipeWriter<Uart, SlicePool<'m, SEGMENTS>, &'static Cancel, Queue<'m>>;

fn uart_error(error: WriteError<UartError>) -> UartError {
    match error {
        WriteError::Stream(error) => error,
        WriteError::Pipe(error) => UartError::Pipe(error),
        _ => UartError::TimedOut,
    }
}

/// What is the same over an async and over a blocking driver.
macro_rules! without_io {
    () => {
        fn uart(&mut self) -> &mut Uart {
            self.get_mut()
        }
        fn unflushed_bytes(&self) -> usize {
            self.unflushed_bytes()
        }
        fn free_segments(&self) -> usize {
            self.pipe().pool().free_segments()
        }
        fn span_mut(&mut self, hint: usize) -> Result<&mut [u8], Error> {
            self.span_mut(hint)
        }
        fn advance(&mut self, n: usize) -> Result<(), Error> {
            self.advance(n)
        }
        fn append(&mut self, data: &[u8]) -> Result<(), Error> {
            self.append(data)
        }
    };
}

impl Subject for Async<'_> {
    const NAME: &'static str = "PipeWriter over embedded_io_async";

    without_io!();

    async fn write(&mut self, data: &[u8]) -> Result<usize, UartError> {
        embedded_io_async::Write::write(self, data).await.map_err(uart_error)
    }
    async fn flush(&mut self) -> Result<FlushResult, UartError> {
        self.flush().await.map_err(uart_error)
    }
    async fn complete(&mut self) -> Result<(), UartError> {
        self.complete().await.map_err(uart_error)
    }
}

impl Subject for Blocking<'_> {
    const NAME: &'static str = "PipeWriter over embedded_io";
    const WAITS: bool = false;

    without_io!();

    async fn write(&mut self, data: &[u8]) -> Result<usize, UartError> {
        embedded_io::Write::write(self, data).map_err(uart_error)
    }
    async fn flush(&mut self) -> Result<FlushResult, UartError> {
        self.flush().map_err(uart_error)
    }
    async fn complete(&mut self) -> Result<(), UartError> {
        self.complete().map_err(uart_error)
    }
}

// ---- the check ----

enum Failure {
    /// Something that must hold does not.
    Broken(&'static str),
    /// The byte at this place was not the right one.
    Wrong(u64),
    Pipe(Error),
    Uart(UartError),
    /// A task was not woken.
    Stuck,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(what) => f.write_str(what),
            Self::Wrong(place) => write!(f, "byte {place} is not the right one"),
            Self::Pipe(error) => error.fmt(f),
            Self::Uart(error) => error.fmt(f),
            Self::Stuck => f.write_str("a task does not end: nobody wakes it, or to no purpose"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Pipe(error)
    }
}

impl From<UartError> for Failure {
    fn from(error: UartError) -> Self {
        Self::Uart(error)
    }
}

impl From<Stuck> for Failure {
    fn from(_: Stuck) -> Self {
        Self::Stuck
    }
}

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::Broken(otherwise)) }
}

/// How often what the check is about has happened: never is a failure too.
#[derive(Default)]
struct Counts {
    refused: u32,
    canceled: u32,
    dropped: u32,
    flushed: u32,
}

fn check<S: Subject>(mut subject: S, seed: u32) -> Result<(), Failure> {
    let mut random = Random(seed);
    let mut counts = Counts::default();
    let mut committed = 0_u64;
    for _ in 0..MESSAGES {
        let mut message = [0; 48];
        let message = &mut message[..1 + random.below(48) as usize];
        message.iter_mut().zip(committed..).for_each(|(byte, place)| *byte = byte_at(place));
        match take(&mut subject, message, &mut random)? {
            0 => {
                counts.refused += 1;
                flush(&mut subject, &mut random, &mut counts)?;
            }
            taken => committed += taken as u64,
        }
        if random.below(8) == 0 {
            flush(&mut subject, &mut random, &mut counts)?;
        }
        balance(&mut subject, committed)?;
    }
    ensure(!CANCEL.is_cancel_requested(), "a cancel is left over")?;
    block_on(subject.complete())??;
    balance(&mut subject, committed)?;
    ensure(subject.unflushed_bytes() == 0, "a completed pipe holds bytes")?;
    ensure(subject.free_segments() == SEGMENTS, "a completed pipe holds segments")?;

    let Counts { refused, canceled, dropped, flushed } = counts;
    let &mut Uart { sent, short, waits, flushes, .. } = subject.uart();
    ensure(sent == committed, "not every byte arrived")?;
    let happened = [refused, canceled, flushed, short, flushes].iter().all(|&count| count > 0);
    ensure(happened && (!S::WAITS || dropped > 0 && waits > 0), "something that was to be checked never happened")?;
    println!(
        "{}: {sent} bytes, each right and once; {short} short writes, {waits} waits, memory full {refused} times, \
         flushes: {flushed} to the end, {canceled} canceled, {dropped} dropped",
        S::NAME
    );
    Ok(())
}

/// Commits `message` in one of three ways, and says how many bytes of it were: 0 if memory is full.
fn take<S: Subject>(subject: &mut S, message: &[u8], random: &mut Random) -> Result<usize, Failure> {
    let before = subject.unflushed_bytes();
    let result = match random.below(3) {
        0 => {
            let part = &message[..message.len().min(SEGMENT_LEN)];
            match subject.span_mut(part.len()) {
                Ok(span) => {
                    span[..part.len()].copy_from_slice(part);
                    subject.advance(part.len()).map(|()| part.len())
                }
                Err(error) => Err(error),
            }
        }
        1 => subject.append(message).map(|()| message.len()),
        _ => match block_on(subject.write(message))? {
            Ok(taken) => {
                ensure(taken > 0, "a plain write took nothing")?;
                return Ok(taken);
            }
            Err(UartError::Pipe(error)) => Err(error),
            Err(error) => return Err(error.into()),
        },
    };
    match result {
        Ok(taken) => {
            ensure(subject.unflushed_bytes() == before + taken, "a commit is not counted")?;
            Ok(taken)
        }
        Err(Error::OutOfMemory) => {
            ensure(before > 0, "an empty pipe has no memory")?;
            ensure(subject.unflushed_bytes() == before, "a refused call committed something")?;
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Flushes to the end, or drops the flush under way, or cancels it from the interrupt while the other side has stopped.
fn flush<S: Subject>(subject: &mut S, random: &mut Random, counts: &mut Counts) -> Result<(), Failure> {
    match random.below(3) {
        0 if subject.unflushed_bytes() > 0 && S::WAITS => {
            subject.uart().stopped = true;
            cancel_in(1 + random.below(2));
            let result = block_on(subject.flush())??;
            ensure(result.is_canceled(), "a flush ended though the other side had stopped")?;
            ensure(!CANCEL.is_cancel_requested(), "a cancel was not used up")?;
            subject.uart().stopped = false;
            counts.canceled += 1;
        }
        0 => {
            CANCEL.cancel_pending_flush();
            let before = subject.unflushed_bytes();
            ensure(block_on(subject.flush())??.is_canceled(), "a cancel was not seen")?;
            ensure(subject.unflushed_bytes() == before, "a flush that began canceled has sent something")?;
            counts.canceled += 1;
        }
        1 => match poll_and_drop(1 + random.below(3), subject.flush()) {
            None => counts.dropped += 1,
            Some(result) => ensure(!result?.is_canceled(), "a flush was canceled by nobody")?,
        },
        _ => {
            ensure(!block_on(subject.flush())??.is_canceled(), "a flush was canceled by nobody")?;
            ensure(subject.unflushed_bytes() == 0, "a flush left something behind")?;
            counts.flushed += 1;
        }
    }
    Ok(())
}

/// What was committed was sent or is still buffered, and what was sent was right.
fn balance<S: Subject>(subject: &mut S, committed: u64) -> Result<(), Failure> {
    let unflushed = subject.unflushed_bytes() as u64;
    let uart = subject.uart();
    uart.wrong.map_or(Ok(()), |place| Err(Failure::Wrong(place)))?;
    ensure(uart.sent + unflushed == committed, "bytes were lost or repeated")
}

/// Sizes at the end of a 32-bit address space are refused, and nothing else happens.
fn check_sizes(memory: &mut Memory) -> Result<(), Failure> {
    const HALF: usize = isize::MAX as usize;
    let options = Options::new().segment_size(SEGMENT_LEN).max_buffered(usize::MAX).high_water_mark(usize::MAX);
    let pool = SlicePool::<SEGMENTS>::new(memory);
    let mut pipe: Pipe<_, (), FixedQueue<_, SEGMENTS>> = Pipe::with_options(pool, options);
    pipe.append(b"some")?;
    for asked in [HALF + 1, usize::MAX - 4, usize::MAX - 3, usize::MAX] {
        ensure(pipe.span_mut(asked).err() == Some(Error::TooLarge { asked }), "a size past all memory is not refused")?;
    }
    for asked in [SEGMENT_LEN + 1, HALF - 4, HALF] {
        ensure(pipe.span_mut(asked).err() == Some(Error::OutOfMemory), "a size past the pool is not refused")?;
    }
    let overrun = Error::SpanOverrun { asked: usize::MAX, left: 0 };
    ensure(pipe.advance(usize::MAX) == Err(overrun), "an advance past all memory is not refused")?;
    let left = pipe.span_mut(1)?.len();
    let overrun = Error::SpanOverrun { asked: usize::MAX, left };
    ensure(pipe.advance(usize::MAX) == Err(overrun), "an advance past the span is not refused")?;
    ensure(pipe.unflushed_bytes() == 4, "a refused size changed what is buffered")?;
    println!("sizes up to {} are refused without harm", usize::MAX);
    Ok(())
}

fn run(memory: &mut Memory) -> Result<(), Failure> {
    check(Polled { pipe: pipe(memory), uart: Uart::new(1) }, 11)?;
    check(Async::new(Uart::new(2), pipe(memory)), 12)?;
    check(Blocking::new(Uart::new(3), pipe(memory)), 13)?;
    check_sizes(memory)?;
    let mut writer = Async::new(Uart::new(4), pipe(memory));
    let future = size_of_val(&writer.flush());
    println!(
        "a pipe is {} bytes beside its {} of memory, an async flush {future}",
        size_of::<SmallPipe<'_>>(),
        size_of::<Memory>()
    );
    Ok(())
}

#[entry]
fn main() -> ! {
    // `entry` turns this into a reference that lives for ever.
    static mut MEMORY: Memory = [0; size_of::<Memory>()];
    // Nothing has taken the peripherals before.
    if let Some(peripherals) = cortex_m::Peripherals::take() {
        let mut clock = peripherals.SYST;
        clock.set_clock_source(SystClkSource::Core);
        clock.set_reload(5_000 - 1); // 0.2 ms
        clock.clear_current();
        clock.enable_interrupt();
        clock.enable_counter();
    }
    match run(MEMORY) {
        Ok(()) => {
            println!("PASSED after {} ticks", ticks());
            exit(0)
        }
        Err(failure) => failed(&failure),
    }
}

#[exception]
fn SysTick() {
    pipewriter_firmware::on_tick();
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    failed(info)
}

fn failed(what: &dyn fmt::Display) -> ! {
    println!("FAILED: {what}");
    exit(1)
}
