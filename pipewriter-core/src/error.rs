use core::fmt;

/// What the core itself refuses or finds wrong, apart from the stream's own errors.
///
/// A stream turns it into its own error type with [`PollWrite::fault`](crate::PollWrite::fault). No variant carries
/// payload bytes, only sizes.
///
/// ```
/// use pipewriter_core::Error;
///
/// let error = Error::SpanOverrun { asked: 9, left: 4 };
/// assert!(error.to_string().contains("4 bytes"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// `advance` went past the span; nothing was committed. Ask for a span of the size that is needed first.
    SpanOverrun {
        /// How far `advance` was to go, in bytes.
        asked: usize,
        /// How many bytes of the span were left: 0 without a span.
        left: usize,
    },
    /// The call would have taken the buffered bytes past `max_buffered`; nothing was committed. Flush, then try again.
    QuotaExceeded {
        /// How many bytes the call wanted to add.
        asked: usize,
        /// How many were buffered already.
        buffered: usize,
        /// The bound.
        max: usize,
    },
    /// The size asked for can never be had, since no buffer may be so large; nothing was committed.
    TooLarge {
        /// The size asked for, in bytes.
        asked: usize,
    },
    /// The pool, or the allocator behind it, had no segment to give; nothing was committed. Flushing gives some back.
    OutOfMemory,
    /// The writer was completed or aborted: it takes no more bytes.
    Completed,
    /// The writer was aborted for a reason that its owner keeps.
    Aborted,
    /// The stream took 0 bytes of a chunk that was not empty: it will take no more. What it had not accepted stays buffered.
    WriteZero,
    /// The stream said that it took more bytes than it was offered. None of them count as accepted, so that none is
    /// skipped; it may get some of them again.
    Overclaimed {
        /// How many bytes the stream said that it took.
        claimed: usize,
        /// How many it was offered.
        offered: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SpanOverrun { asked, left: 0 } => write!(
                f,
                "cannot advance by {asked}: no byte of a span is left, call span_mut first (a span ends with the next append, write or flush)"
            ),
            Self::SpanOverrun { asked, left } => write!(
                f,
                "cannot advance by {asked}: {left} bytes of the span are left, ask span_mut for at least {asked}"
            ),
            Self::QuotaExceeded { asked, max, .. } if asked > max => {
                write!(f, "cannot take {asked} bytes at once: max_buffered is {max}, raise it or send them in parts")
            }
            Self::QuotaExceeded { asked, buffered, max } => write!(
                f,
                "cannot take {asked} bytes more: {buffered} are unflushed and max_buffered is {max}, flush first"
            ),
            Self::TooLarge { asked } => {
                write!(f, "cannot buffer {asked} bytes: no buffer can be so large, ask for less at a time")
            }
            Self::OutOfMemory => f.write_str("no memory for another segment: flush to get some back, and try again; where nothing is unflushed ask for less, bring more, or set segment_size to what the pool's segments have"),
            Self::Completed => f.write_str("the writer was completed: it takes no more bytes"),
            Self::Aborted => f.write_str("the writer was aborted: it takes no more bytes"),
            Self::WriteZero => {
                f.write_str("the stream took 0 bytes of a write: it takes no more, what is left stays buffered")
            }
            Self::Overclaimed { claimed, offered } => write!(
                f,
                "the stream claims to have taken {claimed} of {offered} bytes: it is broken, none were counted, and it may get some twice"
            ),
        }
    }
}

impl core::error::Error for Error {}
