//! The two writers seen as one, so that a test body that holds for both is written once.
//!
//! A test is a function generic over [`Kind`], listed in [`both!`](crate::both), which makes it the two tests
//! `asynchronous::name` and `blocking::name`.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use std::io::{self, IoSlice};

use futures_io::AsyncWrite;
use pipewriter_std::{FlushResult, PipeHandle, PipeWriter, PipeWriterOptions, SegmentPool, blocking};

use crate::exec::drive;
use crate::script::{Script, ScriptHandle};

/// A stream that either writer can stand on.
pub trait Stream: AsyncWrite + io::Write + Unpin {}

impl<S: AsyncWrite + io::Write + Unpin> Stream for S {}

/// Which of the two writers a test runs over.
pub trait Kind {
    /// The writer over stream `S` with pool `P`.
    type Writer<S: Stream, P: SegmentPool>: Subject<Stream = S>;

    /// Whether this is the blocking writer.
    const BLOCKING: bool;

    /// A writer over any stream.
    fn over<S: Stream, P: SegmentPool>(stream: S, options: PipeWriterOptions<P>) -> Self::Writer<S, P>;

    /// A writer over the scripted stream.
    fn writer<P: SegmentPool>(script: &ScriptHandle, options: PipeWriterOptions<P>) -> Self::Writer<Script, P> {
        Self::over(script.stream(), options)
    }
}

/// The async writer.
#[derive(Clone, Copy, Debug)]
pub struct Asynchronous;

/// The blocking writer.
#[derive(Clone, Copy, Debug)]
pub struct Blocking;

impl Kind for Asynchronous {
    type Writer<S: Stream, P: SegmentPool> = PipeWriter<S, P>;

    const BLOCKING: bool = false;

    fn over<S: Stream, P: SegmentPool>(stream: S, options: PipeWriterOptions<P>) -> PipeWriter<S, P> {
        PipeWriter::with_options(stream, options)
    }
}

impl Kind for Blocking {
    type Writer<S: Stream, P: SegmentPool> = blocking::PipeWriter<S, P>;

    const BLOCKING: bool = true;

    fn over<S: Stream, P: SegmentPool>(stream: S, options: PipeWriterOptions<P>) -> blocking::PipeWriter<S, P> {
        blocking::PipeWriter::with_options(stream, options)
    }
}

/// What both writers can do, in the blocking form.
///
/// The async writer is driven as long as it is woken. Where it stays pending with nobody to wake it the future is
/// dropped and the call is an error of kind `WouldBlock`, just what the blocking writer returns when its stream would
/// block. So one test says both "a dropped future loses nothing" and "`WouldBlock` loses nothing".
pub trait Subject: Sized {
    /// The stream below.
    type Stream;

    /// `span_mut`.
    fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]>;
    /// `advance`.
    fn advance(&mut self, n: usize) -> io::Result<()>;
    /// `append`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// `flush`.
    fn flush(&mut self) -> io::Result<FlushResult>;
    /// `write_and_flush`.
    fn write_and_flush(&mut self, bytes: &[u8]) -> io::Result<FlushResult>;
    /// `emit`.
    fn emit(&mut self) -> io::Result<FlushResult>;
    /// `unflushed_bytes`.
    fn unflushed_bytes(&self) -> usize;
    /// `cancel_pending_flush`.
    fn cancel_pending_flush(&self);
    /// `handle`.
    fn handle(&self) -> PipeHandle;
    /// `complete`.
    fn complete(&mut self) -> io::Result<()>;
    /// `is_completed`.
    fn is_completed(&self) -> bool;
    /// `abort`.
    fn abort(&mut self) -> io::Result<()>;
    /// `abort_with`.
    fn abort_with(&mut self, reason: io::Error) -> io::Result<()>;
    /// `get_ref`.
    fn get_ref(&self) -> &Self::Stream;
    /// `get_mut`.
    fn get_mut(&mut self) -> &mut Self::Stream;
    /// `into_parts`.
    fn into_parts(self) -> (Self::Stream, Vec<u8>);

    /// The write of the writer as a plain stream.
    fn plain_write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// The vectored write of the writer as a plain stream.
    fn plain_write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    /// The flush of the writer as a plain stream.
    fn plain_flush(&mut self) -> io::Result<()>;
    /// The close of the writer as a plain stream; the blocking one has none, and there it is `complete`.
    fn plain_close(&mut self) -> io::Result<()>;

    /// Fills a span with all of `bytes` and commits them.
    ///
    /// # Panics
    ///
    /// If the writer refuses, or if the span is shorter than asked for.
    #[track_caller]
    fn put(&mut self, bytes: &[u8]) {
        let span = self.span_mut(bytes.len()).expect("a span");
        span[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len()).expect("the bytes of the span");
    }

    /// Flushes, and expects that all went well and nothing was canceled.
    #[track_caller]
    fn flush_well(&mut self) {
        let result = self.flush().expect("a flush that goes well");
        assert!(!result.is_canceled() && !result.is_completed(), "{result:?}");
    }
}

impl<S: Stream, P: SegmentPool> Subject for PipeWriter<S, P> {
    type Stream = S;

    fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]> {
        self.span_mut(size_hint)
    }

    fn advance(&mut self, n: usize) -> io::Result<()> {
        self.advance(n)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append(bytes)
    }

    fn flush(&mut self) -> io::Result<FlushResult> {
        run(self.flush())
    }

    fn write_and_flush(&mut self, bytes: &[u8]) -> io::Result<FlushResult> {
        run(self.write_and_flush(bytes))
    }

    fn emit(&mut self) -> io::Result<FlushResult> {
        run(self.emit())
    }

    fn unflushed_bytes(&self) -> usize {
        self.unflushed_bytes()
    }

    fn cancel_pending_flush(&self) {
        self.cancel_pending_flush();
    }

    fn handle(&self) -> PipeHandle {
        self.handle()
    }

    fn complete(&mut self) -> io::Result<()> {
        run(self.complete())
    }

    fn is_completed(&self) -> bool {
        self.is_completed()
    }

    fn abort(&mut self) -> io::Result<()> {
        run(self.abort())
    }

    fn abort_with(&mut self, reason: io::Error) -> io::Result<()> {
        run(self.abort_with(reason))
    }

    fn get_ref(&self) -> &S {
        self.get_ref()
    }

    fn get_mut(&mut self) -> &mut S {
        self.get_mut()
    }

    fn into_parts(self) -> (S, Vec<u8>) {
        self.into_parts()
    }

    fn plain_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        run(poll_fn(|cx| Pin::new(&mut *self).poll_write(cx, bytes)))
    }

    fn plain_write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        run(poll_fn(|cx| Pin::new(&mut *self).poll_write_vectored(cx, bufs)))
    }

    fn plain_flush(&mut self) -> io::Result<()> {
        run(poll_fn(|cx| AsyncWrite::poll_flush(Pin::new(&mut *self), cx)))
    }

    fn plain_close(&mut self) -> io::Result<()> {
        run(poll_fn(|cx| Pin::new(&mut *self).poll_close(cx)))
    }
}

impl<S: Stream, P: SegmentPool> Subject for blocking::PipeWriter<S, P> {
    type Stream = S;

    fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]> {
        self.span_mut(size_hint)
    }

    fn advance(&mut self, n: usize) -> io::Result<()> {
        self.advance(n)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append(bytes)
    }

    fn flush(&mut self) -> io::Result<FlushResult> {
        self.flush()
    }

    fn write_and_flush(&mut self, bytes: &[u8]) -> io::Result<FlushResult> {
        self.write_and_flush(bytes)
    }

    fn emit(&mut self) -> io::Result<FlushResult> {
        self.emit()
    }

    fn unflushed_bytes(&self) -> usize {
        self.unflushed_bytes()
    }

    fn cancel_pending_flush(&self) {
        self.cancel_pending_flush();
    }

    fn handle(&self) -> PipeHandle {
        self.handle()
    }

    fn complete(&mut self) -> io::Result<()> {
        self.complete()
    }

    fn is_completed(&self) -> bool {
        self.is_completed()
    }

    fn abort(&mut self) -> io::Result<()> {
        self.abort()
    }

    fn abort_with(&mut self, reason: io::Error) -> io::Result<()> {
        self.abort_with(reason)
    }

    fn get_ref(&self) -> &S {
        self.get_ref()
    }

    fn get_mut(&mut self) -> &mut S {
        self.get_mut()
    }

    fn into_parts(self) -> (S, Vec<u8>) {
        self.into_parts()
    }

    fn plain_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(self, bytes)
    }

    fn plain_write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        io::Write::write_vectored(self, bufs)
    }

    fn plain_flush(&mut self) -> io::Result<()> {
        io::Write::flush(self)
    }

    fn plain_close(&mut self) -> io::Result<()> {
        self.complete()
    }
}

/// Drives an async call; one that nobody wakes is dropped and counts as `WouldBlock`.
fn run<T>(call: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    // An error without a text, since that allocates nothing.
    drive(call).unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
}

/// Something that a test does to a writer over the scripted stream, and its name.
pub type Act<S> = (&'static str, fn(&mut S, &ScriptHandle));

/// Where a span of this hint begins, and how long it is.
///
/// # Panics
///
/// If there is no such span.
#[track_caller]
pub fn place<S: Subject>(writer: &mut S, hint: usize) -> (usize, usize) {
    let span = writer.span_mut(hint).expect("a span");
    (span.as_ptr().addr(), span.len())
}

/// Expects an error of this kind.
///
/// # Panics
///
/// If there was another, or none.
#[track_caller]
pub fn assert_refused<T>(result: io::Result<T>, kind: io::ErrorKind) {
    match result {
        Ok(_) => panic!("expected {kind:?}, and it went well"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

/// Makes each listed function, generic over [`Kind`](crate::subject::Kind), a test over either writer:
/// `asynchronous::name` and `blocking::name`. One list a module; a function left out of it is a warning (dead code).
#[macro_export]
macro_rules! both {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        mod asynchronous {
            $($(#[$attribute])* #[test] fn $name() { super::$name::<$crate::subject::Asynchronous>(); })*
        }
        mod blocking {
            $($(#[$attribute])* #[test] fn $name() { super::$name::<$crate::subject::Blocking>(); })*
        }
    };
}
