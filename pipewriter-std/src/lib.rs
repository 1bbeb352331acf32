// Its examples need the feature, and are shown as they are, without hidden lines: readers see the file itself too.
#![cfg_attr(feature = "shared-pool", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "shared-pool"),
    doc = "Writers that encode into pooled memory and flush it to a stream. With all features these pages have the README here."
)]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
pub mod blocking;
mod error;
mod futures;
mod handle;
mod link;
mod options;
#[cfg(feature = "shared-pool")]
mod shared_pool;
mod state;
mod sync;
mod writer;

pub use pipewriter_core::{FlushResult, HeapPool, SegmentPool};

#[cfg(feature = "shared-pool")]
pub use crate::shared_pool::{SharedPool, SharedPoolStats};
pub use crate::{
    error::Canceled,
    futures::{Abort, Complete, Emit, Flush, WriteAndFlush},
    handle::{Closed, PipeHandle},
    options::PipeWriterOptions,
    writer::{Pinned, PipeWriter},
};

// The examples in the README of the project. Published crates do not contain it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeDoctests;
