use std::{error, fmt, io};

use pipewriter_core::Error;

/// What the plain `flush` of a writer returns, inside an [`io::Error`] of kind `Other`, when it was canceled.
///
/// The kind is not `Interrupted`, which many loops answer by trying again at once. Nothing is lost: the next flush goes on.
///
/// ```
/// use std::io::Write;
/// use pipewriter_std::{Canceled, blocking::PipeWriter};
///
/// let mut writer = PipeWriter::new(Vec::new());
/// writer.append(b"hello")?;
/// writer.cancel_pending_flush();
/// let error = Write::flush(&mut writer).unwrap_err();
/// assert!(error.get_ref().is_some_and(|inner| inner.is::<Canceled>()));
/// Write::flush(&mut writer)?;
/// assert_eq!(writer.get_ref(), b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Canceled;

impl fmt::Display for Canceled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the flush was canceled: what is buffered stays, flush again to go on")
    }
}

impl error::Error for Canceled {}

impl From<Canceled> for io::Error {
    fn from(canceled: Canceled) -> Self {
        Self::other(canceled)
    }
}

/// Why a writer was aborted, if its owner said so.
pub(crate) type Reason = Option<io::Error>;

/// `fault` as the error that a user sees; `reason` is what [`Error::Aborted`] stands for.
#[cold]
pub(crate) fn io_error(fault: Error, reason: &Reason) -> io::Error {
    let kind = match fault {
        Error::Aborted => {
            return reason.as_ref().map_or_else(|| told(io::ErrorKind::BrokenPipe, fault), again);
        }
        // Said without allocating: there may be no memory to say it with.
        Error::OutOfMemory => return io::ErrorKind::OutOfMemory.into(),
        Error::SpanOverrun { .. } | Error::TooLarge { .. } => io::ErrorKind::InvalidInput,
        Error::QuotaExceeded { .. } => io::ErrorKind::QuotaExceeded,
        Error::Completed => io::ErrorKind::BrokenPipe,
        Error::WriteZero => io::ErrorKind::WriteZero,
        Error::Overclaimed { .. } => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    told(kind, fault)
}

/// An error of `kind` that says `text`, or of the kind alone where there is no memory for more: an `io::Error` that
/// cannot have its memory ends the process.
fn told(kind: io::ErrorKind, text: impl Into<Box<dyn error::Error + Send + Sync>>) -> io::Error {
    if has_memory() { io::Error::new(kind, text) } else { kind.into() }
}

/// Whether there is memory for an error with a text.
fn has_memory() -> bool {
    let mut room = Vec::<u8>::new();
    let is_there = room.try_reserve_exact(256).is_ok();
    // Else the compiler, which may leave out memory that is not used, takes it for granted.
    std::hint::black_box(&room);
    is_there
}

/// An error of the same kind and text, for `io::Error` can not be cloned.
fn again(error: &io::Error) -> io::Error {
    match (error.raw_os_error(), error.get_ref()) {
        (Some(code), _) => io::Error::from_raw_os_error(code),
        _ if !has_memory() => error.kind().into(),
        (None, None) if error.to_string() == error.kind().to_string() => error.kind().into(),
        (None, _) => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_again_with_its_kind_and_text() {
        for reason in [
            io::Error::from_raw_os_error(28),
            io::ErrorKind::TimedOut.into(),
            io::Error::new(io::ErrorKind::InvalidData, "frame 7 is broken"),
            io::Error::other(Canceled),
        ] {
            let told = io_error(Error::Aborted, &Some(again(&reason)));
            assert_eq!((told.kind(), told.to_string()), (reason.kind(), reason.to_string()));
            assert_eq!(told.raw_os_error(), reason.raw_os_error());
        }
    }
}
