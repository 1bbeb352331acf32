//! What a program is made of. Everything here is small and plain data, so that a failing program can be shrunk, printed,
//! and pasted into a test as it was printed.

use std::io;

/// One step of a program: a call of the writer, or what the stream or the pool will answer later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Operation {
    /// `span_mut`, and fills all of the span.
    Span(Hint),
    /// `advance`, within the span or past it.
    Advance(Reach),
    /// `append`.
    Append(Size),
    /// `flush`.
    Flush(Call),
    /// `emit`.
    Emit(Call),
    /// `write_and_flush`.
    WriteAndFlush(Size, Call),
    /// `write` of the writer as a plain stream.
    Write(Size),
    /// `write_vectored` of the writer as a plain stream.
    WriteVectored(Vec<Size>),
    /// `write_all` of the blocking writer as a plain stream, which has one of its own.
    WriteAll(Size),
    /// `flush` of the writer as a plain stream.
    PlainFlush,
    /// `close` of the writer as a plain stream; `complete` where there is none.
    PlainClose,
    /// `complete`.
    Complete(Call),
    /// `abort`.
    Abort(Call),
    /// `abort_with`.
    AbortWith(Call),
    /// `cancel_pending_flush` of the writer.
    Cancel,
    /// `cancel_pending_flush` of a handle, which is made where there is none yet.
    CancelByHandle,
    /// Starts to wait for `PipeHandle::closed`; the oldest of several that wait is dropped.
    AwaitClosed,
    /// Wakes the task that the stream put off last.
    Wake,
    /// From here on the writer is polled by the other one of two tasks.
    OtherTask,
    /// `trim`, of the writer or of the shared pool.
    Trim,
    /// Another writer on the same shared pool takes a segment of this size, writes all over it, and gives it back.
    Neighbor(Size),
    /// The next call of the stream that no answer waits for is answered like this.
    Stream(Answer),
    /// The pool will go wrong like this.
    Pool(PoolAnswer),
}

/// How an async method is called. The blocking writer has one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Call {
    /// The `poll_` method, once.
    Poll,
    /// The future, polled once more than said as long as it is pending, and then dropped.
    Dropped(u8),
    /// The future, polled once more than said as long as it is pending, and then forgotten, so that its destructor never runs.
    Forgotten(u8),
}

/// The argument of `span_mut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Hint {
    /// So many bytes.
    Bytes(Size),
    /// `isize::MAX`, more than any machine has.
    Huge,
    /// `isize::MAX + 1`, more than a buffer can have.
    TooLarge,
    /// `usize::MAX`.
    Max,
}

/// How far an `advance` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Reach {
    /// By nothing.
    Nothing,
    /// By so many 255ths of what is left of the span.
    Share(u8),
    /// To the end of the span; by one byte where nothing is left of it or there is none.
    All,
    /// One byte past the span.
    OneMore,
    /// `usize::MAX`.
    Max,
}

/// A number of bytes on a scale that is fine where it is small: up to 127 as it is, then in growing steps to some 300 KB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Size(pub u8);

impl Size {
    /// The most that it can say: more than one call of the stream is ever offered.
    pub const MAX_BYTES: usize = 300_000;

    /// How many bytes it says.
    pub fn bytes(self) -> usize {
        match usize::from(self.0) {
            255 => Self::MAX_BYTES,
            n @ 0..=127 => n,
            n => 127 + 4 * (n - 127) * (n - 127),
        }
    }
}

/// What the stream does with one call. What accepts bytes, or claims to, means success to a flush or a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Answer {
    /// Accepts all.
    All,
    /// Accepts the first chunk only.
    FirstChunk,
    /// Accepts the first chunk and a byte of the next.
    IntoSecondChunk,
    /// Accepts so many bytes, but at least one and at most all.
    Bytes(Size),
    /// Accepts all but so many bytes, but at least one.
    AllBut(Size),
    /// Accepts nothing and says so.
    Zero,
    /// Claims one byte more than so many above what was offered.
    ClaimMore(u8),
    /// Stays pending, and wakes the task when the program says so. `WouldBlock` in a blocking stream.
    Pend,
    /// Wakes the task and stays pending. `WouldBlock` in a blocking stream.
    WakeAndPend,
    /// Fails.
    Fail(Kind),
    /// Panics.
    Panic,
    /// Cancels the flush from within the call, then does what the next answer says.
    Cancel,
}

/// What the pool does. All but `PanicAtGive` is for one `take`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum PoolAnswer {
    /// Hands out a segment, as without an answer.
    Grant,
    /// Asks for so many bytes more than were asked for.
    Longer(u8),
    /// Has none.
    Refuse,
    /// Hands out a segment that is too short.
    TooShort,
    /// Panics.
    PanicAtTake,
    /// Panics when so many more segments were given back and the next one is; that counts as given back.
    PanicAtGive(u8),
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        /// What the stream fails with: every stable `io::ErrorKind`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
        #[expect(missing_docs, reason = "they are those of `io::ErrorKind`")]
        pub enum Kind { $($kind),* }

        impl Kind {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }

        impl From<Kind> for io::ErrorKind {
            fn from(kind: Kind) -> Self {
                match kind { $(Kind::$kind => Self::$kind),* }
            }
        }
    };
}

kinds! {
    BrokenPipe ConnectionReset ConnectionAborted NotConnected WriteZero Interrupted WouldBlock TimedOut
    NotFound PermissionDenied ConnectionRefused HostUnreachable NetworkUnreachable AddrInUse AddrNotAvailable NetworkDown
    AlreadyExists NotADirectory IsADirectory DirectoryNotEmpty ReadOnlyFilesystem StaleNetworkFileHandle InvalidInput
    InvalidData StorageFull NotSeekable QuotaExceeded FileTooLarge ResourceBusy ExecutableFileBusy Deadlock
    CrossesDevices TooManyLinks ArgumentListTooLong Unsupported UnexpectedEof OutOfMemory Other
}

/// How the writer is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Settings {
    /// Which writer.
    pub writer: WriterKind,
    /// Over which pool; `WriterKind::Core` has one of its own.
    pub pool: PoolKind,
    /// `segment_size`; 0 counts as 1.
    pub segment_size: Size,
    /// `max_buffered`; 0 counts as 1.
    pub max_buffered: Limit,
    /// `high_water_mark`.
    pub high_water_mark: Limit,
    /// `leave_open`.
    pub leave_open: bool,
    /// What the stream does where no answer waits.
    pub otherwise: Otherwise,
    /// How the writer ends.
    pub end: End,
}

/// The writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum WriterKind {
    /// `pipewriter_std::PipeWriter`.
    Async,
    /// `pipewriter_std::blocking::PipeWriter`.
    Blocking,
    /// `pipewriter_core::Pipe` over four segments of fixed memory and a queue of two places.
    Core,
}

/// The pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum PoolKind {
    /// Allocates what is asked for, and lets an idle writer hold a segment or not.
    Plain {
        /// Whether it does.
        may_hold: bool,
    },
    /// The default pool with a bound.
    Heap {
        /// The bound.
        bound: Size,
    },
    /// The shared pool.
    Shared {
        /// The bound.
        bound: Size,
        /// Whether it overwrites what comes back.
        clears: bool,
    },
    /// The default pool as it is, for `trim`: nothing of it can be seen or goes wrong.
    Default,
}

/// A bound of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Limit {
    /// So many bytes.
    Bytes(Size),
    /// The one that a writer has by itself.
    Default,
    /// `usize::MAX`.
    None,
}

/// What the stream does with a call that no answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Otherwise {
    /// Accepts all.
    All,
    /// Accepts the first chunk, as a stream without a vectored write of its own does.
    FirstChunk,
    /// Accepts so many bytes, but at least a 64th of all.
    Bytes(Size),
}

/// How the writer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum End {
    /// `into_parts`.
    Parts,
    /// It is dropped.
    Drop,
}
