//! What the programs share: memory for a pipe, a clock, an executor that sleeps, and a serial port made of software.

#![no_std]
#![deny(unsafe_code)]

pub mod executor;
pub mod uart;

use core::sync::atomic::{AtomicU32, Ordering};

use atomic_waker::AtomicWaker;
use pipewriter_core::{FixedQueue, Options, Pipe, Signal, SlicePool};

/// How many segments there are, and of how many bytes.
pub const SEGMENTS: usize = 4;
pub const SEGMENT_LEN: usize = 32;

pub type Memory = [u8; SEGMENTS * SEGMENT_LEN];
pub type SmallPipe<'m> = Pipe<SlicePool<'m, SEGMENTS>, &'static Cancel, FixedQueue<&'m mut [u8], SEGMENTS>>;
pub type Cancel = Signal<AtomicWaker>;

/// Ends a flush; raised from the interrupt of the clock.
pub static CANCEL: Cancel = Signal::new(AtomicWaker::new());

/// Makes a pipe on `memory` that [`CANCEL`] cancels.
pub fn pipe(memory: &mut Memory) -> SmallPipe<'_> {
    let options = Options::new().segment_size(SEGMENT_LEN);
    Pipe::with_link(SlicePool::new(memory), options, &CANCEL, FixedQueue::new())
}

// ---- the clock ----

static TICKS: AtomicU32 = AtomicU32::new(0);
/// The tick at which the flush is canceled; 0 for none.
static CANCEL_AT: AtomicU32 = AtomicU32::new(0);

/// How often the clock has ticked.
pub fn ticks() -> u32 {
    TICKS.load(Ordering::Relaxed)
}

/// Has the interrupt of the clock cancel the flush so many ticks from now.
pub fn cancel_in(ticks_from_now: u32) {
    CANCEL_AT.store(ticks() + ticks_from_now, Ordering::Relaxed);
}

/// What the interrupt of the clock does.
pub fn on_tick() {
    // A load and a store: nothing else writes it.
    let now = ticks() + 1;
    TICKS.store(now, Ordering::Relaxed);
    uart::on_tick();
    if CANCEL_AT.load(Ordering::Relaxed) == now {
        CANCEL_AT.store(0, Ordering::Relaxed);
        CANCEL.cancel_pending_flush();
    }
}

/// The byte at each place of the stream of bytes that is sent: one that is lost, repeated or out of place is seen.
pub fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// A seeded source of choices.
#[derive(Debug)]
pub struct Random(pub u32);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) % n
    }
}
