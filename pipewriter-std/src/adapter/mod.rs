//! Streams of other crates as [`PollWrite`](pipewriter_core::PollWrite): one file an ecosystem, all of one shape.
//!
//! An adapter translates calls, counts and errors. It decides nothing and keeps nothing.

mod futures_io;
mod std_io;

use std::io::{self, IoSlice};

pub(crate) use self::{futures_io::FuturesIo, std_io::StdIo};

/// Slices for most vectored writes; filling in 1,024 of them costs more than the rest of such a call.
const FEW: usize = 16;
/// What the core offers at most.
const MANY: usize = 1024;

/// Calls `write` with `chunks` in the form that the operating system takes.
#[inline]
fn with_slices<'a, R>(chunks: impl ExactSizeIterator<Item = &'a [u8]>, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
    if chunks.len() <= FEW { filled::<FEW, R>(chunks, write) } else { filled::<MANY, R>(chunks, write) }
}

#[inline(never)]
fn filled<'a, const N: usize, R>(chunks: impl Iterator<Item = &'a [u8]>, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
    let mut slices = [IoSlice::new(&[]); N];
    let mut count = 0;
    for (slice, chunk) in slices.iter_mut().zip(chunks) {
        *slice = IoSlice::new(chunk);
        count += 1;
    }
    write(&slices[..count])
}

fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

/// Whether the other side is gone for good.
fn is_disconnected(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::WriteZero
    )
}
