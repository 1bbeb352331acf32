//! Random programs over the whole public API against a model: see `pipewriter_tests::program`.
//!
//! `PROGRAMS` in the environment says how many, `SEED` which: another seed, other programs.
//! `PROGRAMS=1000000 SEED=2 cargo test --release -p pipewriter-tests --test model`
//!
//! A program that fails is shrunk and printed as a unit test, to be pasted in at the end of this file.

use std::cell::Cell;

use pipewriter_tests::program::{
    Answer, Call, End, Hint, Kind, Limit, Operation, Otherwise, PoolAnswer, PoolKind, Program, Reach, Settings, Size,
    WriterKind, run,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// How many programs there are if `PROGRAMS` does not say.
const DEFAULT_PROGRAMS: u32 = 9_000;

#[test]
fn the_async_writer_does_what_the_model_does() {
    programs_hold(WriterKind::Async);
}

#[test]
fn the_blocking_writer_does_what_the_model_does() {
    programs_hold(WriterKind::Blocking);
}

#[test]
fn a_pipe_on_fixed_memory_does_what_the_model_does() {
    programs_hold(WriterKind::Core);
}

/// Runs a third of the programs, over this writer.
fn programs_hold(writer: WriterKind) {
    let config = Config {
        cases: variable("PROGRAMS", DEFAULT_PROGRAMS).div_ceil(3),
        rng_seed: RngSeed::Fixed(variable("SEED", 1)),
        // What fails becomes a unit test here and not a file of seeds.
        failure_persistence: None,
        max_shrink_iters: 100_000,
        ..Config::default()
    };
    // Up to the first that fails: those after it are shorter ones of its kind.
    let (count, failed) = (Cell::new(0_u32), Cell::new(false));
    let result = TestRunner::new(config).run(&programs(writer), |program| {
        count.set(count.get() + u32::from(!failed.get()));
        run(&program).map_err(|fault| {
            failed.set(true);
            TestCaseError::fail(fault.to_string())
        })
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, program)) => {
            panic!("program {} breaks a rule: {reason}\n\n{program}\n", count.get())
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

fn programs(writer: WriterKind) -> impl Strategy<Value = Program> {
    // How much goes wrong: nothing, now and then, or all the time.
    let operations = prop_oneof![
        1 => vec(operation(1, 1), 1..60),
        3 => vec(operation(800, 1), 1..60),
        3 => vec(operation(1200, 300), 1..60),
        2 => vec(operation(4000, 800), 1..90),
    ];
    (settings(writer), operations).prop_map(|(settings, operations)| Program { settings, operations })
}

fn settings(writer: WriterKind) -> impl Strategy<Value = Settings> {
    let pool = prop_oneof![
        3 => any::<bool>().prop_map(|may_hold| PoolKind::Plain { may_hold }),
        2 => bound().prop_map(|bound| PoolKind::Heap { bound }),
        2 => (bound(), any::<bool>()).prop_map(|(bound, clears)| PoolKind::Shared { bound, clears }),
        1 => Just(PoolKind::Default),
    ];
    let limit = || prop_oneof![2 => Just(Limit::Default), 1 => Just(Limit::None), 3 => size().prop_map(Limit::Bytes)];
    let otherwise = prop_oneof![
        4 => Just(Otherwise::All),
        1 => Just(Otherwise::FirstChunk),
        2 => size().prop_map(Otherwise::Bytes),
    ];
    (
        pool,
        prop_oneof![3 => (1..16_u8).prop_map(Size), 2 => size()],
        prop_oneof![3 => Just(Limit::Default), 1 => limit()],
        limit(),
        any::<bool>(),
        otherwise,
        select(&[End::Drop, End::Parts][..]),
    )
        .prop_map(move |(pool, segment_size, max_buffered, high_water_mark, leave_open, otherwise, end)| {
            Settings { writer, pool, segment_size, max_buffered, high_water_mark, leave_open, otherwise, end }
        })
}

/// One operation. To 9,100 calls of the writer there are so many answers of the stream and of the pool.
fn operation(stream: u32, pool: u32) -> impl Strategy<Value = Operation> {
    prop_oneof![
        1200 => hint().prop_map(Operation::Span),
        1600 => reach().prop_map(Operation::Advance),
        1400 => size().prop_map(Operation::Append),
        1400 => call().prop_map(Operation::Flush),
        400 => call().prop_map(Operation::Emit),
        1000 => (size(), call()).prop_map(|(size, call)| Operation::WriteAndFlush(size, call)),
        800 => plain_write(),
        900 => rare(),
        400 => ending(),
        stream => answer().prop_map(Operation::Stream),
        pool => pool_answer().prop_map(Operation::Pool),
    ]
}

fn plain_write() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => size().prop_map(Operation::Write),
        2 => vec(size(), 0..5).prop_map(Operation::WriteVectored),
        1 => size().prop_map(Operation::WriteAll),
        1 => Just(Operation::PlainFlush),
    ]
}

fn rare() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => select(&[Operation::Cancel, Operation::CancelByHandle, Operation::Wake, Operation::OtherTask][..]),
        1 => select(&[Operation::AwaitClosed, Operation::Trim][..]),
        1 => size().prop_map(Operation::Neighbor),
    ]
}

fn ending() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => select(&[Operation::Wake, Operation::OtherTask, Operation::CancelByHandle][..]),
        2 => call().prop_map(Operation::Complete),
        1 => Just(Operation::PlainClose),
        1 => call().prop_map(Operation::Abort),
        1 => call().prop_map(Operation::AbortWith),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => size().prop_map(Answer::Bytes),
        2 => size().prop_map(Answer::AllBut),
        3 => select(&[Answer::All, Answer::FirstChunk, Answer::IntoSecondChunk][..]),
        5 => select(&[Answer::Pend, Answer::WakeAndPend][..]),
        1 => select(Kind::ALL).prop_map(Answer::Fail),
        2 => select(&[Kind::Interrupted, Kind::WouldBlock, Kind::BrokenPipe, Kind::TimedOut][..]).prop_map(Answer::Fail),
        2 => select(&[Answer::Zero, Answer::Panic][..]),
        1 => any::<u8>().prop_map(Answer::ClaimMore),
        2 => Just(Answer::Cancel),
    ]
}

fn pool_answer() -> impl Strategy<Value = PoolAnswer> {
    prop_oneof![
        2 => any::<u8>().prop_map(PoolAnswer::Longer),
        2 => select(&[PoolAnswer::Refuse, PoolAnswer::TooShort, PoolAnswer::PanicAtTake, PoolAnswer::Grant][..]),
        1 => (0..4_u8).prop_map(PoolAnswer::PanicAtGive),
    ]
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![6 => 0..=20_u8, 3 => 0..=140_u8, 1 => 128..=200_u8, 1 => any::<u8>()].prop_map(Size)
}

/// Half of them enough for a pool to keep something.
fn bound() -> impl Strategy<Value = Size> {
    prop_oneof![size(), (143..=255_u8).prop_map(Size)]
}

fn hint() -> impl Strategy<Value = Hint> {
    prop_oneof![30 => size().prop_map(Hint::Bytes), 1 => select(&[Hint::Huge, Hint::TooLarge, Hint::Max][..])]
}

fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![
        6 => any::<u8>().prop_map(Reach::Share),
        4 => Just(Reach::All),
        1 => select(&[Reach::Nothing, Reach::OneMore, Reach::Max][..]),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => Just(Call::Poll),
        2 => (0..3_u8).prop_map(Call::Dropped),
        1 => (0..3_u8).prop_map(Call::Forgotten),
    ]
}

// ---- programs that have failed once, or taught the model something ----

/// What most of them have in common.
const USUAL: Settings = Settings {
    writer: WriterKind::Async,
    pool: PoolKind::Plain { may_hold: false },
    segment_size: Size(98),
    max_buffered: Limit::Default,
    high_water_mark: Limit::Default,
    leave_open: false,
    otherwise: Otherwise::All,
    end: End::Drop,
};

#[track_caller]
fn holds(settings: Settings, operations: Vec<Operation>) {
    let program = Program { settings, operations };
    if let Err(fault) = run(&program) {
        panic!("{fault}\n\n{program}\n");
    }
}

#[test]
fn an_append_that_fails_while_the_pool_panics_leaves_what_was_committed() {
    let settings = Settings { writer: WriterKind::Core, segment_size: Size(2), ..USUAL };
    holds(
        settings,
        vec![
            Operation::Pool(PoolAnswer::PanicAtGive(0)),
            Operation::Span(Hint::Bytes(Size(0))),
            Operation::Advance(Reach::All),
            Operation::Append(Size(5)),
            Operation::Write(Size(3)),
            Operation::Flush(Call::Poll),
        ],
    );
}

#[test]
fn an_abort_that_a_panic_of_the_pool_cuts_short_has_its_effect() {
    let settings = Settings { segment_size: Size(6), ..USUAL };
    holds(
        settings,
        vec![
            Operation::Pool(PoolAnswer::PanicAtGive(0)),
            Operation::Append(Size(1)),
            Operation::Abort(Call::Poll),
            Operation::Span(Hint::Bytes(Size(0))),
        ],
    );
}

#[test]
fn a_flush_that_lets_others_have_their_turn_has_woken_its_task_and_needs_no_cancel_to_do_it() {
    let settings = Settings { pool: PoolKind::Default, segment_size: Size(255), ..USUAL };
    let mut operations = vec![Operation::Append(Size(255)); 15];
    operations.extend([Operation::PlainFlush, Operation::CancelByHandle, Operation::PlainFlush]);
    holds(settings, operations);
}

#[test]
fn a_write_all_of_nothing_is_no_write_and_leaves_the_span() {
    let settings = Settings { writer: WriterKind::Blocking, segment_size: Size(1), ..USUAL };
    holds(
        settings,
        vec![Operation::Span(Hint::Bytes(Size(0))), Operation::WriteAll(Size(0)), Operation::Advance(Reach::All)],
    );
}

#[test]
fn a_pool_that_panics_as_the_blocking_writer_is_taken_apart_does_not_leak_the_stream() {
    let settings = Settings { writer: WriterKind::Blocking, segment_size: Size(98), end: End::Parts, ..USUAL };
    holds(settings, vec![Operation::Append(Size(9)), Operation::Pool(PoolAnswer::PanicAtGive(0))]);
}

#[test]
fn a_pool_that_panics_as_the_async_writer_is_taken_apart_does_not_leak_the_stream() {
    let settings = Settings { segment_size: Size(98), end: End::Parts, ..USUAL };
    holds(settings, vec![Operation::Append(Size(9)), Operation::Pool(PoolAnswer::PanicAtGive(0))]);
}
