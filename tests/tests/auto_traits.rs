//! Section 9 of the contract: what the compiler is told about the types, and what `Debug` tells.

#![allow(clippy::assertions_on_constants, reason = "what is asserted here is what the compiler knows")]

use core::cell::Cell;
use core::error::Error;
use core::fmt;
use core::hash::Hash;
use core::marker::{PhantomData, PhantomPinned};
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::rc::Rc;
use std::sync::MutexGuard;

use futures_io::AsyncWrite;
use pipewriter_std::{
    Canceled, FlushResult, HeapPool, PipeHandle, PipeWriter, PipeWriterOptions, SegmentPool, blocking,
};

/// Whether the type implements the trait. An inherent constant that exists only where it does comes before the one of a
/// trait that every type has.
macro_rules! implements {
    ($type:ty: $($bound:tt)+) => {{
        #[allow(dead_code, reason = "unused where the type implements it")]
        trait Otherwise {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> Otherwise for T {}
        struct Ask<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code, reason = "unused where the type does not implement it")]
        impl<T: ?Sized + $($bound)+> Ask<T> {
            const ANSWER: bool = true;
        }
        <Ask<$type>>::ANSWER
    }};
}

/// As `implements`, for `Send` and a value whose type has no name.
macro_rules! is_send {
    ($value:expr) => {{
        #[allow(dead_code, reason = "unused where the type is `Send`")]
        trait Otherwise {
            fn answer(&self) -> bool {
                false
            }
        }
        impl<T> Otherwise for Ask<'_, T> {}
        struct Ask<'a, T>(PhantomData<&'a T>);
        #[allow(dead_code, reason = "unused where the type is not `Send`")]
        impl<T: Send> Ask<'_, T> {
            fn answer(&self) -> bool {
                true
            }
        }
        fn ask<T>(_: &T) -> Ask<'_, T> {
            Ask(PhantomData)
        }
        ask(&$value).answer()
    }};
}

/// A stream and a pool with the auto traits of `M`, and nothing else: no `Debug`, no `Clone`.
struct With<M>(PhantomData<M>);

/// Neither `Send` nor `Sync`.
type Local = Rc<()>;
/// `Send`, not `Sync`.
type Movable = Cell<()>;
/// `Sync`, not `Send`.
type Shareable = MutexGuard<'static, ()>;
/// Both, and `Unpin`.
type Plain = ();
/// Both, and not `Unpin`.
type Pinned = PhantomPinned;

impl<M> AsyncWrite for With<M> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<M> io::Write for With<M> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<M> SegmentPool for With<M> {
    type Segment = Vec<u8>;

    fn take(&mut self, min_len: usize) -> Option<Vec<u8>> {
        Some(vec![0; min_len])
    }

    fn give(&mut self, _: Vec<u8>) {}
}

type Async<W, P> = PipeWriter<With<W>, With<P>>;
type Blocking<W, P> = blocking::PipeWriter<With<W>, With<P>>;

#[test]
fn a_writer_is_send_exactly_when_its_stream_and_its_pool_are() {
    assert!(implements!(Async<Plain, Plain>: Send) && implements!(Blocking<Plain, Plain>: Send));
    assert!(implements!(Async<Movable, Movable>: Send) && implements!(Blocking<Movable, Movable>: Send));
    assert!(!implements!(Async<Local, Plain>: Send) && !implements!(Blocking<Local, Plain>: Send));
    assert!(!implements!(Async<Plain, Local>: Send) && !implements!(Blocking<Plain, Local>: Send));
    assert!(!implements!(Async<Shareable, Plain>: Send) && !implements!(Blocking<Shareable, Plain>: Send));
    assert!(!implements!(Async<Plain, Shareable>: Send) && !implements!(Blocking<Plain, Shareable>: Send));
}

#[test]
fn a_writer_is_sync_exactly_when_its_stream_and_its_pool_are() {
    assert!(implements!(Async<Plain, Plain>: Sync) && implements!(Blocking<Plain, Plain>: Sync));
    assert!(implements!(Async<Shareable, Shareable>: Sync) && implements!(Blocking<Shareable, Shareable>: Sync));
    assert!(!implements!(Async<Local, Plain>: Sync) && !implements!(Blocking<Local, Plain>: Sync));
    assert!(!implements!(Async<Plain, Local>: Sync) && !implements!(Blocking<Plain, Local>: Sync));
    assert!(!implements!(Async<Movable, Plain>: Sync) && !implements!(Blocking<Movable, Plain>: Sync));
    assert!(!implements!(Async<Plain, Movable>: Sync) && !implements!(Blocking<Plain, Movable>: Sync));
}

#[test]
fn a_writer_is_unpin_exactly_when_its_stream_is_whatever_its_pool() {
    assert!(implements!(Async<Plain, Plain>: Unpin) && implements!(Blocking<Plain, Plain>: Unpin));
    assert!(implements!(Async<Plain, Pinned>: Unpin), "the pool is no matter");
    assert!(implements!(Blocking<Plain, Pinned>: Unpin), "the pool is no matter");
    assert!(!implements!(Async<Pinned, Plain>: Unpin) && !implements!(Blocking<Pinned, Plain>: Unpin));
}

#[test]
fn a_writer_is_unwind_safe_when_its_stream_and_its_pool_are() {
    assert!(implements!(Async<Plain, Plain>: UnwindSafe) && implements!(Blocking<Plain, Plain>: UnwindSafe));
    assert!(implements!(Async<Plain, Plain>: RefUnwindSafe) && implements!(Blocking<Plain, Plain>: RefUnwindSafe));
    assert!(implements!(PipeWriter<Vec<u8>>: UnwindSafe + RefUnwindSafe));
    assert!(implements!(blocking::PipeWriter<Vec<u8>>: UnwindSafe + RefUnwindSafe));
}

#[test]
fn a_default_writer_over_a_send_stream_is_all_that_it_can_be() {
    assert!(implements!(PipeWriter<Vec<u8>>: Send + Sync + Unpin + 'static));
    assert!(implements!(blocking::PipeWriter<Vec<u8>>: Send + Sync + Unpin + 'static));
}

#[test]
fn the_futures_of_a_writer_are_send_when_its_stream_and_its_pool_are() {
    let mut writer = PipeWriter::with_options(With::<Movable>(PhantomData), options::<Movable>());
    assert!(is_send!(writer.flush()));
    assert!(is_send!(writer.write_and_flush(b"")));
    assert!(is_send!(writer.emit()));
    assert!(is_send!(writer.complete()));
    assert!(is_send!(writer.abort()));
    assert!(is_send!(writer.abort_with(io::ErrorKind::Other.into())));
    assert!(is_send!(writer.handle().closed()));
}

#[test]
fn the_futures_of_a_writer_are_not_send_when_its_stream_or_its_pool_is_not() {
    let mut stream = PipeWriter::with_options(With::<Local>(PhantomData), options::<Plain>());
    assert!(!is_send!(stream.flush()));
    assert!(!is_send!(stream.write_and_flush(b"")));
    let mut pool = PipeWriter::with_options(With::<Plain>(PhantomData), options::<Local>());
    assert!(!is_send!(pool.flush()));
    assert!(!is_send!(pool.complete()));
}

fn options<M>() -> PipeWriterOptions<With<M>> {
    PipeWriterOptions::new().pool(With(PhantomData))
}

#[test]
fn a_handle_goes_anywhere_whatever_the_writer_stands_on() {
    assert!(implements!(PipeHandle: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + fmt::Debug + 'static));
    let writer = PipeWriter::with_options(With::<Local>(PhantomData), options::<Local>());
    assert!(is_send!(writer.handle()));
}

#[test]
fn small_types_are_as_handy_as_they_can_be() {
    assert!(implements!(FlushResult: Copy + fmt::Debug + Eq + Hash + Send + Sync + 'static));
    assert!(implements!(Canceled: Error + Copy + Send + Sync + 'static));
    assert!(implements!(PipeWriterOptions: fmt::Debug + Default + Send + Sync + 'static));
    assert!(implements!(HeapPool: fmt::Debug + Default + Send + Sync + UnwindSafe + RefUnwindSafe + 'static));
}

#[test]
fn debug_asks_nothing_of_the_stream_or_the_pool_and_shows_no_payload() {
    let mut async_writer = PipeWriter::with_options(With::<Local>(PhantomData), options::<Local>());
    async_writer.append(b"secret").unwrap();
    let mut blocking_writer = blocking::PipeWriter::with_options(With::<Local>(PhantomData), options::<Local>());
    blocking_writer.append(b"secret").unwrap();
    for shown in [format!("{async_writer:?}"), format!("{blocking_writer:?}")] {
        assert!(shown.contains('6'), "the size is shown: {shown}");
        assert!(!shown.contains("secret") && !shown.contains("115, 101, 99"), "the payload is not: {shown}");
    }
}

#[test]
fn debug_does_not_print_the_stream() {
    let shown = format!("{:?}", PipeWriter::new(vec![171_u8; 3]));
    assert!(!shown.contains("171"), "{shown}");
    let shown = format!("{:?}", blocking::PipeWriter::new(vec![171_u8; 3]));
    assert!(!shown.contains("171"), "{shown}");
}

/// The probes themselves can say no.
#[test]
fn what_is_not_implemented_is_seen() {
    assert!(implements!(u8: Send + Sync) && !implements!(Local: Send) && !implements!(Movable: Sync));
    assert!(!implements!(Shareable: Send) && implements!(Shareable: Sync) && !implements!(Pinned: Unpin));
    assert!(is_send!(0_u8) && !is_send!(Rc::new(())));
}
