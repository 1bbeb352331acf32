//! How the cost of a byte, a segment and a call to the stream grows with their number. It must not.

use std::{
    hint::black_box,
    io::{self, Write},
    pin::Pin,
    task::{Context, Waker},
};

use pipewriter_std::{HeapPool, PipeWriter as AsyncPipeWriter, PipeWriterOptions, SegmentPool, blocking::PipeWriter};

use crate::{
    Sink,
    clock::nanoseconds,
    sink::{Grudging, Takes},
};

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Bytes per flush, through a writer with its default pool.
    Bytes,
    /// The same with a pool whose bound is above the largest flush.
    BytesKept,
    /// The same without a writer: a vector that is there, and one call.
    BytesLimit,
    /// The flush of so many bytes alone, which does not touch them.
    FlushOnly,
    /// The same by the async writer, which lets other tasks have their turn after every 4 MiB.
    FlushAsync,
    /// Segments per flush, each of 64 bytes, on a stream that takes all.
    Segments,
    /// The same on a stream that takes only the first chunk of each call.
    FirstChunk,
    /// Bytes per flush on a stream that takes one byte of each call.
    OneByte,
}

/// One of the lines of the chart, as data.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// How the records call it.
    pub name: &'static str,
    /// What grows.
    pub axis: Axis,
    /// What the time is divided by.
    pub per: &'static str,
    /// How many there are at most.
    pub most: usize,
    /// How many there are least where the bound on flatness begins.
    pub flat_from: usize,
}

/// All of them.
pub static GROWTHS: [Growth; 8] = [
    Growth { name: "bytes per flush", axis: Axis::Bytes, per: "byte", most: 64 << 20, flat_from: 64 << 10 },
    Growth {
        name: "bytes per flush, all kept",
        axis: Axis::BytesKept,
        per: "byte",
        most: 64 << 20,
        flat_from: 64 << 10,
    },
    Growth { name: "bytes per flush, limit", axis: Axis::BytesLimit, per: "byte", most: 64 << 20, flat_from: 64 << 10 },
    Growth { name: "flush alone", axis: Axis::FlushOnly, per: "byte", most: 64 << 20, flat_from: 64 << 10 },
    Growth { name: "flush alone, async", axis: Axis::FlushAsync, per: "byte", most: 64 << 20, flat_from: 64 << 10 },
    Growth { name: "segments", axis: Axis::Segments, per: "segment", most: 100_000, flat_from: 10 },
    Growth { name: "only the first chunk taken", axis: Axis::FirstChunk, per: "call", most: 100_000, flat_from: 10 },
    Growth { name: "1-byte short writes", axis: Axis::OneByte, per: "call", most: 4 << 20, flat_from: 1024 },
];

impl Growth {
    /// The numbers that are measured: 1, 4, 16 and so on, or 1, 10, 100, up to the most.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        let step = if self.most.is_power_of_two() { 4 } else { 10 };
        let mut sizes: Vec<usize> =
            std::iter::successors(Some(1_usize), |n| n.checked_mul(step)).take_while(|n| *n < self.most).collect();
        sizes.push(self.most);
        sizes
    }

    /// Makes what measures this with `size`.
    #[must_use]
    pub fn case(&self, size: usize) -> Box<dyn Case> {
        let at_once = || Grudging::new(Takes::All);
        let large = PipeWriterOptions::new().pool(HeapPool::with_bound(256 << 20));
        let small = |takes| {
            let options = PipeWriterOptions::new().segment_size(SEGMENT).pool(FixedPool::default());
            Piped { writer: PipeWriter::with_options(Grudging::new(takes), options), size: size * SEGMENT }
        };
        match self.axis {
            Axis::Bytes => Box::new(Filled(Piped { writer: PipeWriter::new(at_once()), size })),
            Axis::BytesKept => Box::new(Filled(Piped { writer: PipeWriter::with_options(at_once(), large), size })),
            Axis::BytesLimit => Box::new(Limit { room: Vec::with_capacity(size), size, sink: Sink::default() }),
            Axis::FlushOnly => Box::new(Piped { writer: PipeWriter::with_options(at_once(), large), size }),
            Axis::FlushAsync => {
                Box::new(PipedAsync { writer: AsyncPipeWriter::with_options(Sink::default(), large), size })
            }
            Axis::Segments => Box::new(small(Takes::All)),
            Axis::FirstChunk => Box::new(small(Takes::FirstChunk)),
            Axis::OneByte => {
                Box::new(Piped { writer: PipeWriter::with_options(Grudging::new(Takes::AtMost(1)), large), size })
            }
        }
    }
}

/// Something that can be measured again and again.
pub trait Case {
    /// Nanoseconds that one operation takes, with all of its bytes, segments or calls.
    ///
    /// # Panics
    ///
    /// If not every byte arrives.
    fn once(&mut self) -> f64;
}

/// What `append` is given at a time, as by a program that encodes page by page.
static PAGE: [u8; 4096] = [b'p'; 4096];
/// The length of a segment where segments are counted.
const SEGMENT: usize = 64;

fn pages(size: usize) -> impl Iterator<Item = &'static [u8]> {
    (0..size).step_by(PAGE.len()).map(move |done| &PAGE[..PAGE.len().min(size - done)])
}

/// Fills a writer and measures the flush.
struct Piped<P: SegmentPool> {
    writer: PipeWriter<Grudging, P>,
    size: usize,
}

impl<P: SegmentPool> Piped<P> {
    #[inline(never)]
    fn fill(&mut self) -> io::Result<()> {
        pages(self.size).try_for_each(|page| self.writer.append(black_box(page)))
    }

    fn check(&self, before: u64) {
        assert_eq!(self.writer.get_ref().sink.bytes - before, self.size as u64, "every byte arrives once");
    }
}

impl<P: SegmentPool> Case for Piped<P> {
    fn once(&mut self) -> f64 {
        let before = self.writer.get_ref().sink.bytes;
        self.fill().expect("memory");
        let time = nanoseconds(|| {
            self.writer.flush().expect("a stream that goes on");
        });
        self.check(before);
        time
    }
}

/// Fills an async writer and measures the flush, on an executor that polls again as soon as it is woken.
struct PipedAsync {
    writer: AsyncPipeWriter<Sink>,
    size: usize,
}

impl Case for PipedAsync {
    fn once(&mut self) -> f64 {
        let before = self.writer.get_ref().bytes;
        pages(self.size).try_for_each(|page| self.writer.append(black_box(page))).expect("memory");
        let cx = &mut Context::from_waker(Waker::noop());
        let time = nanoseconds(|| {
            while Pin::new(&mut self.writer)
                .poll_flush(cx)
                .map(|flushed| flushed.expect("a stream that goes on"))
                .is_pending()
            {}
        });
        assert_eq!(self.writer.get_ref().bytes - before, self.size as u64, "every byte arrives once");
        time
    }
}

/// Measures the filling too.
struct Filled<P: SegmentPool>(Piped<P>);

impl<P: SegmentPool> Case for Filled<P> {
    fn once(&mut self) -> f64 {
        let before = self.0.writer.get_ref().sink.bytes;
        let time = nanoseconds(|| {
            self.0.fill().expect("memory");
            self.0.writer.flush().expect("a stream that goes on");
        });
        self.0.check(before);
        time
    }
}

struct Limit {
    room: Vec<u8>,
    size: usize,
    sink: Sink,
}

impl Case for Limit {
    fn once(&mut self) -> f64 {
        let before = self.sink.bytes;
        let time = nanoseconds(|| {
            self.room.clear();
            pages(self.size).for_each(|page| self.room.extend_from_slice(black_box(page)));
            self.sink.write_all(black_box(&self.room)).expect("a stream that takes everything");
        });
        assert_eq!(self.sink.bytes - before, self.size as u64, "every byte arrives once");
        time
    }
}

/// Hands out blocks of what is asked for and keeps them all.
#[derive(Debug, Default)]
struct FixedPool(Vec<Box<[u8]>>);

impl SegmentPool for FixedPool {
    type Segment = Box<[u8]>;

    fn take(&mut self, min_len: usize) -> Option<Box<[u8]>> {
        Some(self.0.pop().unwrap_or_else(|| vec![0; min_len].into()))
    }

    fn give(&mut self, segment: Box<[u8]>) {
        self.0.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_reach_from_one_to_the_most() {
        for growth in GROWTHS {
            let sizes = growth.sizes();
            assert_eq!((sizes[0], sizes[sizes.len() - 1]), (1, growth.most));
            assert!(sizes.contains(&growth.flat_from));
        }
    }

    #[test]
    fn every_case_delivers() {
        for growth in GROWTHS {
            for size in growth.sizes().into_iter().filter(|size| *size <= 1000) {
                growth.case(size).once();
            }
        }
    }
}
