//! Random programs over the whole public API, run against a model of what a writer does.
//!
//! A [`Program`] is plain data: how the writer is made, and a list of [`Operation`]s, among them what its stream and its pool
//! will answer. [`run`] carries it out and looks after each step whether the writer keeps to the contract. Two sources of
//! programs use it, `tests/model.rs` (random ones that shrink) and `fuzz/` (ones that reach new code).

mod drive;
mod model;
mod operation;
mod pool;
mod port;
mod produce;
mod run;
mod stream;
mod writer;

use core::fmt;

pub use operation::{
    Answer, Call, End, Hint, Kind, Limit, Operation, Otherwise, PoolAnswer, PoolKind, Reach, Settings, Size, WriterKind,
};
pub use run::run;

/// A writer and all that happens to it.
///
/// Its `Display` is a unit test that runs it, ready to be pasted into `tests/model.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Program {
    /// How the writer is made.
    pub settings: Settings,
    /// What happens, in order.
    pub operations: Vec<Operation>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { writer, pool, segment_size, max_buffered, high_water_mark, leave_open, otherwise, end } =
            self.settings;
        writeln!(f, "#[test]\nfn name_the_rule_here() {{\n    let settings = Settings {{")?;
        writeln!(f, "        writer: WriterKind::{writer:?},")?;
        writeln!(f, "        pool: PoolKind::{pool:?},")?;
        writeln!(f, "        segment_size: {segment_size:?},")?;
        writeln!(f, "        max_buffered: Limit::{max_buffered:?},")?;
        writeln!(f, "        high_water_mark: Limit::{high_water_mark:?},")?;
        writeln!(f, "        leave_open: {leave_open},")?;
        writeln!(f, "        otherwise: Otherwise::{otherwise:?},")?;
        writeln!(f, "        end: End::{end:?},\n    }};")?;
        writeln!(f, "    holds(settings, vec![")?;
        for operation in &self.operations {
            write!(f, "        Operation::")?;
            match operation {
                Operation::Span(hint) => writeln!(f, "Span(Hint::{hint:?}),")?,
                Operation::Advance(reach) => writeln!(f, "Advance(Reach::{reach:?}),")?,
                Operation::Flush(call) => writeln!(f, "Flush(Call::{call:?}),")?,
                Operation::Emit(call) => writeln!(f, "Emit(Call::{call:?}),")?,
                Operation::WriteAndFlush(size, call) => writeln!(f, "WriteAndFlush({size:?}, Call::{call:?}),")?,
                Operation::WriteVectored(sizes) => writeln!(f, "WriteVectored(vec!{sizes:?}),")?,
                Operation::Complete(call) => writeln!(f, "Complete(Call::{call:?}),")?,
                Operation::Abort(call) => writeln!(f, "Abort(Call::{call:?}),")?,
                Operation::AbortWith(call) => writeln!(f, "AbortWith(Call::{call:?}),")?,
                Operation::Stream(Answer::Fail(kind)) => writeln!(f, "Stream(Answer::Fail(Kind::{kind:?})),")?,
                Operation::Stream(answer) => writeln!(f, "Stream(Answer::{answer:?}),")?,
                Operation::Pool(answer) => writeln!(f, "Pool(PoolAnswer::{answer:?}),")?,
                operation => writeln!(f, "{operation:?},")?,
            }
        }
        write!(f, "    ]);\n}}")
    }
}

/// A rule of the contract that a program has found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of the operation, counted from 0; as many as there are for the end of the writer.
    pub operation: usize,
    /// What was broken.
    pub rule: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.operation, self.rule)
    }
}

/// The payload of the panics that a program asks for, to be told from those of the writer.
///
/// They are raised with `resume_unwind`, which runs no panic hook: nothing is printed, and a fuzzer, which takes each hook
/// that runs for a crash, goes on.
struct Scripted;

impl Scripted {
    fn panic() -> ! {
        std::panic::resume_unwind(Box::new(Self))
    }
}

/// Returns from the function with the text if the rule does not hold.
macro_rules! rule {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
use rule;
