//! Everyone who can carry out a workload, behind one small trait.
//!
//! A contender is a writer and four expressions: how it appends, flushes, does both at once, and encodes into a span. The
//! loops around them are made by one macro, each a function of its own that is never inlined: what is compiled for one case
//! does not depend on the others. Async contenders run in a single future that is polled once.

use std::{fmt, hint::black_box, io::Write};

use bytes::BytesMut;
use futures_util::{AsyncWriteExt as FuturesWrite, SinkExt};
use linkedbytes::LinkedBytes;
use pipewriter_std::{PipeWriter, PipeWriterOptions, SharedPool, blocking};
use tokio::io::AsyncWriteExt as TokioWrite;
use tokio_util::codec::{Encoder, FramedWrite};

use crate::{
    Sink, Workload, now,
    workload::{HELLO, LARGE, Len, Shape},
};

/// A writer over a [`Sink`] that can carry out workloads.
pub trait Contender: fmt::Debug {
    /// How records and tables call it.
    fn name(&self) -> &'static str;

    /// Whether it has operations of this shape.
    fn has(&self, shape: Shape) -> bool;

    /// Carries out the operation `ops` times.
    fn run(&mut self, workload: &Workload, ops: u64);

    /// The stream below.
    fn sink(&self) -> &Sink;
}

/// Every contender, ready to run.
#[must_use]
pub fn contenders() -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(Ours::new()),
        Box::new(OursAsync::new()),
        Box::new(OursWrite::new()),
        Box::new(OursAsyncWrite::new()),
        Box::new(OursShared::new()),
        Box::new(OursAsyncShared::new()),
        Box::new(Std::new()),
        Box::new(Futures::new()),
        Box::new(Tokio::new()),
        Box::new(AsyncStd::new()),
        Box::new(Framed::new()),
        Box::new(Linked::new()),
        Box::new(Bare::new()),
        Box::new(Limit::new()),
    ]
}

/// The contender of that name.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn contender(name: &str) -> Box<dyn Contender> {
    contenders().into_iter().find(|contender| contender.name() == name).unwrap_or_else(|| panic!("no contender {name}"))
}

macro_rules! plain {
    ($body:block) => {
        $body
    };
}

macro_rules! future {
    ($body:block) => {
        now(async { $body })
    };
}

/// Defines a contender. `$w` is its writer and `$d` what is to be written, in all of the expressions.
macro_rules! contender {
    (
        $(#[$doc:meta])* $id:ident = $name:literal, $wrap:ident, $writer:ty, $new:expr, |$w:ident, $d:ident|
        append: $append:expr, flush: $flush:expr, sink: $sink:expr $(, whole: $whole:expr)? $(, span: $span:expr)?
    ) => {
        contender!(@all $(#[$doc])* $id, $name, $wrap, $writer, $new, $w, $d, $append, $flush, $sink,
            [$($whole)?] [{ $append; $flush; }], [$($span)?] [$append], [$($span, )? false]);
    };
    (@all $(#[$doc:meta])* $id:ident, $name:literal, $wrap:ident, $writer:ty, $new:expr, $w:ident, $d:ident,
        $append:expr, $flush:expr, $sink:expr,
        [$($whole:expr)?] [$no_whole:expr], [$($span:expr)?] [$no_span:expr], $has_span:tt) => {
        $(#[$doc])*
        struct $id {
            writer: $writer,
        }

        impl $id {
            fn new() -> Self {
                Self { writer: $new }
            }

            #[inline(never)]
            fn appends<const N: usize>($w: &mut $writer, data: &'static [u8; N], writes: u32, ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        for _ in 0..writes {
                            let $d: &'static [u8; N] = black_box(data);
                            $append;
                        }
                        $flush;
                    }
                })
            }

            #[inline(never)]
            fn append_one<const N: usize>($w: &mut $writer, data: &'static [u8; N], ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        let $d: &'static [u8; N] = black_box(data);
                        $append;
                        $flush;
                    }
                })
            }

            #[inline(never)]
            fn append_unknown($w: &mut $writer, data: &'static [u8], writes: u32, ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        for _ in 0..writes {
                            let $d: &'static [u8] = black_box(data);
                            $append;
                        }
                        $flush;
                    }
                })
            }

            #[inline(never)]
            fn append_one_unknown($w: &mut $writer, data: &'static [u8], ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        let $d: &'static [u8] = black_box(data);
                        $append;
                        $flush;
                    }
                })
            }

            #[inline(never)]
            fn span_one<const N: usize>($w: &mut $writer, data: &'static [u8; N], ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        let $d: &'static [u8; N] = black_box(data);
                        contender!(@either [$($span)?] [$no_span]);
                        $flush;
                    }
                })
            }

            #[inline(never)]
            fn whole<const N: usize>($w: &mut $writer, data: &'static [u8; N], ops: u64) {
                $wrap!({
                    for _ in 0..ops {
                        let $d: &'static [u8; N] = black_box(data);
                        contender!(@either [$($whole)?] [$no_whole]);
                    }
                })
            }

            fn run_with<const N: usize>(&mut self, data: &'static [u8; N], workload: &Workload, ops: u64) {
                let (w, writes) = (&mut self.writer, workload.writes);
                match workload.shape {
                    Shape::Append if writes == 1 => Self::append_one(w, data, ops),
                    Shape::Append => Self::appends(w, data, writes, ops),
                    Shape::AppendUnknown if writes == 1 => Self::append_one_unknown(w, data, ops),
                    Shape::AppendUnknown => Self::append_unknown(w, data, writes, ops),
                    Shape::Span => Self::span_one(w, data, ops),
                    Shape::Whole => Self::whole(w, data, ops * u64::from(writes)),
                }
            }
        }

        impl Contender for $id {
            fn name(&self) -> &'static str {
                $name
            }

            fn has(&self, shape: Shape) -> bool {
                shape != Shape::Span || contender!(@has $has_span)
            }

            fn run(&mut self, workload: &Workload, ops: u64) {
                match workload.len {
                    Len::Hello => self.run_with(&HELLO, workload, ops),
                    Len::Large => self.run_with(&LARGE, workload, ops),
                }
            }

            fn sink(&self) -> &Sink {
                let $w = &self.writer;
                $sink
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($name)
            }
        }
    };
    (@either [$first:expr] [$second:expr]) => { $first };
    (@either [] [$second:expr]) => { $second };
    (@has [false]) => { false };
    (@has [$span:expr, false]) => { true };
}

/// Says that a call went well, as the loops of a program would.
macro_rules! ok {
    ($call:expr) => {
        $call.expect("a stream that takes everything")
    };
}

contender! {
    /// The blocking writer.
    Ours = "pipewriter blocking", plain, blocking::PipeWriter<Sink>, blocking::PipeWriter::new(Sink::default()), |w, d|
    append: ok!(w.append(d)), flush: ok!(w.flush()), sink: w.get_ref(),
    whole: ok!(w.write_and_flush(d)),
    span: {
        ok!(w.span_mut(d.len()))[..d.len()].copy_from_slice(d);
        ok!(w.advance(d.len()));
    }
}

contender! {
    /// The async writer.
    OursAsync = "pipewriter async", future, PipeWriter<Sink>, PipeWriter::new(Sink::default()), |w, d|
    append: ok!(w.append(d)), flush: ok!(w.flush().await), sink: w.get_ref(),
    whole: ok!(w.write_and_flush(d).await),
    span: {
        ok!(w.span_mut(d.len()))[..d.len()].copy_from_slice(d);
        ok!(w.advance(d.len()));
    }
}

contender! {
    /// The blocking writer as an `io::Write`.
    OursWrite = "pipewriter io::Write", plain, blocking::PipeWriter<Sink>, blocking::PipeWriter::new(Sink::default()), |w, d|
    append: ok!(Write::write_all(w, d)), flush: ok!(Write::flush(w)), sink: w.get_ref()
}

contender! {
    /// The async writer as an `AsyncWrite`.
    OursAsyncWrite = "pipewriter AsyncWrite", future, PipeWriter<Sink>, PipeWriter::new(Sink::default()), |w, d|
    append: ok!(FuturesWrite::write_all(w, d).await),
    flush: ok!(FuturesWrite::flush(w).await), sink: w.get_ref()
}

/// The options of a writer over a shared pool.
fn shared() -> PipeWriterOptions<SharedPool> {
    PipeWriterOptions::new().pool(SharedPool::new())
}

contender! {
    /// The blocking writer with a pool that others could share.
    OursShared = "pipewriter blocking, shared pool", plain, blocking::PipeWriter<Sink, SharedPool>,
    blocking::PipeWriter::with_options(Sink::default(), shared()), |w, d|
    append: ok!(w.append(d)), flush: ok!(w.flush()), sink: w.get_ref(),
    whole: ok!(w.write_and_flush(d)),
    span: {
        ok!(w.span_mut(d.len()))[..d.len()].copy_from_slice(d);
        ok!(w.advance(d.len()));
    }
}

contender! {
    /// The async writer with a pool that others could share.
    OursAsyncShared = "pipewriter async, shared pool", future, PipeWriter<Sink, SharedPool>,
    PipeWriter::with_options(Sink::default(), shared()), |w, d|
    append: ok!(w.append(d)), flush: ok!(w.flush().await), sink: w.get_ref(),
    whole: ok!(w.write_and_flush(d).await),
    span: {
        ok!(w.span_mut(d.len()))[..d.len()].copy_from_slice(d);
        ok!(w.advance(d.len()));
    }
}

contender! {
    /// `std::io::BufWriter` as it comes.
    Std = "std BufWriter", plain, std::io::BufWriter<Sink>, std::io::BufWriter::new(Sink::default()), |w, d|
    append: ok!(Write::write_all(w, d)), flush: ok!(Write::flush(w)), sink: w.get_ref()
}

contender! {
    /// `futures_util::io::BufWriter` as it comes.
    Futures = "futures BufWriter", future, futures_util::io::BufWriter<Sink>,
    futures_util::io::BufWriter::new(Sink::default()), |w, d|
    append: ok!(FuturesWrite::write_all(w, d).await), flush: ok!(FuturesWrite::flush(w).await), sink: w.get_ref()
}

contender! {
    /// `tokio::io::BufWriter` as it comes.
    Tokio = "tokio BufWriter", future, tokio::io::BufWriter<Sink>, tokio::io::BufWriter::new(Sink::default()), |w, d|
    append: ok!(TokioWrite::write_all(w, d).await), flush: ok!(TokioWrite::flush(w).await), sink: w.get_ref()
}

contender! {
    /// `async_std::io::BufWriter` as it comes.
    AsyncStd = "async-std BufWriter", future, async_std::io::BufWriter<Sink>,
    async_std::io::BufWriter::new(Sink::default()), |w, d|
    append: ok!(FuturesWrite::write_all(w, d).await), flush: ok!(FuturesWrite::flush(w).await), sink: w.get_ref()
}

/// The codec of [`Framed`]: a frame is its bytes.
struct Plain;

impl Encoder<&'static [u8]> for Plain {
    type Error = std::io::Error;

    #[inline]
    fn encode(&mut self, frame: &'static [u8], to: &mut BytesMut) -> std::io::Result<()> {
        to.extend_from_slice(frame);
        Ok(())
    }
}

contender! {
    /// `tokio_util::codec::FramedWrite` with a codec that copies.
    Framed = "tokio-util FramedWrite", future, FramedWrite<Sink, Plain>, FramedWrite::new(Sink::default(), Plain), |w, d|
    append: ok!(SinkExt::<&'static [u8]>::feed(w, d).await), flush: ok!(SinkExt::<&'static [u8]>::flush(w).await), sink: w.get_ref(),
    whole: ok!(SinkExt::<&'static [u8]>::send(w, d).await)
}

contender! {
    /// `linkedbytes`, by its blocking write. It copies: `insert`, which does not, panics together with `reset`.
    Linked = "linkedbytes", plain, (LinkedBytes, Sink), (LinkedBytes::new(), Sink::default()), |w, d|
    append: w.0.bytes_mut().extend_from_slice(d),
    flush: {
        ok!(w.0.sync_write_all_vectored(&mut w.1));
        w.0.reset();
    },
    sink: &w.1
}

contender! {
    /// A vector of the program's own: no limit on what it holds, and what a failing stream took of it is unknown.
    Bare = "Vec + write_all", plain, (Vec<u8>, Sink), (Vec::new(), Sink::default()), |w, d|
    append: w.0.extend_from_slice(d),
    flush: {
        ok!(Write::write_all(&mut w.1, &w.0));
        w.0.clear();
    },
    sink: &w.1
}

contender! {
    /// What nobody can beat: the copy into memory that is there, and one call of the stream.
    Limit = "limit (copy + call)", plain, (Box<[u8; 65_536]>, usize, Sink),
    (Box::new([0; 65_536]), 0, Sink::default()), |w, d|
    append: {
        let end = w.1 + d.len();
        w.0[w.1..end].copy_from_slice(d);
        w.1 = end;
    },
    flush: {
        ok!(Write::write(&mut w.2, &w.0[..w.1]));
        w.1 = 0;
    },
    sink: &w.2,
    whole: ok!(Write::write(&mut w.2, d)),
    span: {
        let end = w.1 + d.len();
        w.0[w.1..end].copy_from_slice(d);
        w.1 = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WORKLOADS;

    #[test]
    fn everyone_delivers_every_byte_of_every_workload() {
        for workload in WORKLOADS {
            for mut contender in contenders() {
                if contender.has(workload.shape) {
                    contender.run(&workload, 3);
                    assert_eq!(contender.sink().bytes, 3 * workload.bytes, "{contender:?}, {}", workload.name);
                }
            }
        }
    }
}
