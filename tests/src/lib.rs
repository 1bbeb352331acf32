//! What the suite is built from: scripted streams, pools that misbehave, a byte model, an executor that never waits, and
//! an allocator that keeps books. The tests themselves are in `tests/`, a file per chapter of the contract.

#![deny(unsafe_code)]

pub mod conformance;
pub mod exec;
pub mod gauge;
#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
pub mod ledger;
pub mod model;
pub mod noise;
pub mod pools;
pub mod program;
pub mod script;
pub mod sink;
pub mod step;
pub mod subject;
pub mod wait;
