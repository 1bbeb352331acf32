#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
pub mod blocking;
mod error;
mod handle;
mod link;
mod options;
#[cfg(feature = "shared-pool")]
mod shared_pool;
mod state;
mod writer;

pub use pipewriter_core::{FlushResult, HeapPool, SegmentPool};

#[cfg(feature = "shared-pool")]
pub use crate::shared_pool::{SharedPool, SharedPoolStats};
pub use crate::{
    error::Canceled,
    handle::{Closed, PipeHandle},
    options::PipeWriterOptions,
    writer::{Abort, Complete, Emit, Flush, Pinned, PipeWriter, WriteAndFlush},
};

// The examples in the README of the project. Published crates do not contain it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeDoctests;
