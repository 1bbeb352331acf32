#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
pub mod blocking;
mod error;
mod handle;
mod link;
mod options;
mod state;
mod writer;

pub use pipewriter_core::{FlushResult, HeapPool, SegmentPool};

pub use crate::{
    error::Canceled,
    handle::{Closed, PipeHandle},
    options::PipeWriterOptions,
    writer::{Abort, Complete, Emit, Flush, Pinned, PipeWriter, WriteAndFlush},
};
