//! Programs over the whole public API, made of the fuzzer's bytes, against the model of `pipewriter-tests`.
//!
//! A fault is printed as a unit test, to be pasted into `tests/tests/model.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pipewriter_tests::program::{Program, run};

/// Operations of a program at most: more would make it slow and not new.
const OPERATIONS: usize = 200;

fuzz_target!(|program: Program| {
    let mut program = program;
    program.operations.truncate(OPERATIONS);
    if let Err(fault) = run(&program) {
        panic!("{fault}\n\n{program}\n");
    }
});
