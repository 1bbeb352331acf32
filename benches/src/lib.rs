//! Workloads, contenders and streams: what the criterion benchmarks, the report and the instruction counts share.
//!
//! A [`Workload`] is data: what one operation writes, and how many bytes must arrive. A [`Contender`] carries out
//! operations over a [`Sink`], each loop in a function of its own that is never inlined, so that no case is compiled
//! into another.

pub mod clock;
pub mod contender;
pub mod growth;
pub mod idle;
pub mod ledger;
pub mod sink;
pub mod stats;
pub mod streams;
pub mod threads;
pub mod workload;

pub use crate::{contender::Contender, sink::Sink, workload::Workload};

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

/// The result of a future that never has to wait, as all are over a stream that takes everything.
#[inline]
pub fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a stream that takes everything at once was waited for"),
    }
}
