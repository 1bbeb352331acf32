// Its examples need these features, and are shown as they are, without hidden lines: readers see the file itself too.
#![cfg_attr(all(feature = "alloc", feature = "atomic-waker", feature = "embedded-io-async"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "alloc", feature = "atomic-waker", feature = "embedded-io-async")),
    doc = "Pooled memory that a producer encodes into, and one flush machine for any byte stream. With all features these pages have the README here."
)]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;

mod adapter;
mod buffer;
mod drive;
#[cfg(feature = "embedded-io")]
mod embedded;
#[cfg(feature = "embedded-io")]
#[cfg_attr(docsrs, doc(cfg(feature = "embedded-io")))]
pub mod embedded_io;
#[cfg(feature = "embedded-io-async")]
#[cfg_attr(docsrs, doc(cfg(feature = "embedded-io-async")))]
pub mod embedded_io_async;
mod error;
mod fixed;
mod options;
mod pipe;
mod pool;
mod queue;
mod result;
mod signal;
mod sync;
mod write;

pub use crate::{
    adapter::Started,
    error::Error,
    fixed::{FixedQueue, SlicePool},
    options::Options,
    pipe::{Cause, Complete, Flush, Pipe},
    pool::SegmentPool,
    queue::{Sealed, SegmentQueue},
    result::FlushResult,
    signal::{Link, Signal, Wakers},
    write::PollWrite,
};
#[cfg(feature = "alloc")]
pub use crate::{pipe::HeapPipe, pool::HeapPool, queue::HeapQueue};
