//! One call of a fixed program, for tests that run the same program again and again with a fault at another place each time.

use std::io::{self, IoSlice};

use crate::subject::Subject;

/// A call. A number is how many bytes it is to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `append`.
    Append(usize),
    /// `span_mut`, and `advance` over all of that.
    Span(usize),
    /// `write_and_flush`.
    WriteAndFlush(usize),
    /// The plain `write`.
    PlainWrite(usize),
    /// The plain `write_vectored`, of a third and the rest.
    PlainVectored(usize),
    /// `flush`.
    Flush,
    /// `emit`.
    Emit,
    /// `cancel_pending_flush`.
    Cancel,
    /// `complete`.
    Complete,
}

impl Op {
    /// How many bytes it is to commit.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Append(n) | Self::Span(n) | Self::WriteAndFlush(n) | Self::PlainWrite(n) | Self::PlainVectored(n) => {
                n
            }
            Self::Flush | Self::Emit | Self::Cancel | Self::Complete => 0,
        }
    }

    /// Makes the call with `bytes`, the rest of what it is to commit. Returns how many were taken; allocates nothing itself.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub fn call<S: Subject>(self, writer: &mut S, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Append(_) => writer.append(bytes).map(|()| bytes.len()),
            Self::Span(n) => {
                writer.span_mut(n)?[..n].copy_from_slice(bytes);
                writer.advance(n).map(|()| n)
            }
            Self::WriteAndFlush(_) => writer.write_and_flush(bytes).map(|_| bytes.len()),
            Self::PlainWrite(_) => writer.plain_write(bytes),
            Self::PlainVectored(_) => {
                let (one, two) = bytes.split_at(bytes.len() / 3);
                writer.plain_write_vectored(&[IoSlice::new(one), IoSlice::new(two)])
            }
            Self::Flush => writer.flush().map(|_| 0),
            Self::Emit => writer.emit().map(|_| 0),
            Self::Cancel => {
                writer.cancel_pending_flush();
                Ok(0)
            }
            Self::Complete => writer.complete().map(|()| 0),
        }
    }
}
