//! The table "Cancel safety" of pipewriter-std's documentation: a test for each row, named after it, that goes through
//! the columns. Where the async writer's future is dropped, the blocking writer's stream says `WouldBlock` instead.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pipewriter_std::{Canceled, FlushResult, PipeWriter, PipeWriterOptions};
use pipewriter_tests::exec::{Wakes, block_on, panicking_waker, poll_once, poll_with};
use pipewriter_tests::pools::{PoolLog, TestPool};
use pipewriter_tests::script::{Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Asynchronous, Blocking, Kind, Subject, assert_refused};

/// Makes each listed function a test over the writers it holds for, and `ROWS` of all their names.
macro_rules! rows {
    (both { $($both:ident,)* } asynchronous { $($asynchronous:ident,)* } blocking { $($blocking:ident,)* }) => {
        mod asynchronous {
            $(#[test] fn $both() { super::$both::<super::Asynchronous>(); })*
            $(#[test] fn $asynchronous() { super::$asynchronous(); })*
        }
        mod blocking {
            $(#[test] fn $both() { super::$both::<super::Blocking>(); })*
            $(#[test] fn $blocking() { super::$blocking(); })*
        }
        const ROWS: &[&str] = &[$(stringify!($both),)* $(stringify!($asynchronous),)* $(stringify!($blocking),)*];
    };
}

rows! {
    both {
        span_mut_advance_append,
        flush_poll_flush_emit_poll_emit,
        write_and_flush_later,
        complete_poll_complete_the_plain_close,
        abort_abort_with_poll_abort,
        the_plain_write_write_vectored,
        the_plain_flush,
        cancel_pending_flush_of_the_writer_or_a_pipe_handle,
        pipe_handle_closed,
        into_parts,
        handle_trim,
    }
    // A call of the blocking writer is made as soon as it is written down.
    asynchronous {
        write_and_flush_before_its_first_poll,
        abort_abort_with_before_the_first_poll,
        the_drop_of_an_async_writer,
    }
    blocking {
        the_drop_of_a_blocking_writer,
    }
}

// ---- the table itself ----

const README: &str = include_str!("../../pipewriter-std/README.md");

/// The first cells of the table's rows.
fn first_cells() -> Vec<&'static str> {
    let section = README.split("\n## ").find(|section| section.starts_with("Cancel safety\n")).expect("the section");
    let mut rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    assert_eq!(
        rows.next(),
        Some("method | its future is dropped | it is canceled | it fails | the stream panics |"),
        "the columns that the tests go through"
    );
    rows.map(|row| {
        assert_eq!(row.matches(" | ").count(), 4, "a cell for each column: {row}");
        row.split(" | ").next().unwrap()
    })
    .collect()
}

/// A cell as the name of a test: its words in small letters.
fn name(cell: &str) -> String {
    let mut name = String::new();
    let mut after_small = false;
    for c in cell.chars() {
        let gap = !c.is_ascii_alphanumeric() && c != '_';
        if (gap || c.is_ascii_uppercase() && after_small) && !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if !gap {
            name.push(c.to_ascii_lowercase());
        }
        after_small = c.is_ascii_lowercase();
    }
    name.trim_end_matches('_').to_owned()
}

#[test]
fn the_table_has_a_row_for_each_test_and_a_test_for_each_row() {
    let mut told: Vec<_> = first_cells().into_iter().map(name).collect();
    let mut tested = ROWS.to_vec();
    told.sort_unstable();
    tested.sort_unstable();
    assert_eq!(told, tested);
}

#[test]
fn the_table_names_every_method_that_can_touch_a_byte() {
    // These make a writer or look at it.
    const HARMLESS: &[&str] = &[
        "new",
        "with_options",
        "unflushed_bytes",
        "is_completed",
        "is_closed",
        "get_ref",
        "get_mut",
        "get_pin_mut",
        "pinned",
    ];
    // The same for a pinned writer as the method that is named.
    const SAME: &[&str] = &["into_span_mut"];
    let cells = first_cells().join(" ");
    for (file, source) in [
        ("writer.rs", include_str!("../../pipewriter-std/src/writer.rs")),
        ("blocking.rs", include_str!("../../pipewriter-std/src/blocking.rs")),
        ("handle.rs", include_str!("../../pipewriter-std/src/handle.rs")),
    ] {
        let after_fn = |line: &'static str| {
            line.trim_start().strip_prefix("pub fn ").or(line.trim_start().strip_prefix("pub const fn "))
        };
        let methods: Vec<_> =
            source.lines().filter_map(after_fn).map(|rest| rest.split(['(', '<']).next().unwrap()).collect();
        assert!(methods.len() >= 3, "{file}: {methods:?}");
        for method in methods {
            let is_named = cells.contains(&format!("`{method}`")) || cells.contains(&format!("::{method}`"));
            assert!(is_named || HARMLESS.contains(&method) || SAME.contains(&method), "{file}: {method} is in no row");
        }
    }
}

#[test]
fn both_writers_link_to_the_table() {
    for source in
        [include_str!("../../pipewriter-std/src/writer.rs"), include_str!("../../pipewriter-std/src/blocking.rs")]
    {
        assert!(source.contains("](crate#cancel-safety)"));
    }
}

// ---- what the rows share ----

type Writer<K> = <K as Kind>::Writer<Script, TestPool>;
/// A call that drives the stream, and its name.
type Call<W, T> = (&'static str, fn(&mut W) -> io::Result<T>);

const BUFFERED: &[u8] = b"0123456789abcdefghij";

/// A writer over segments of 8 bytes with `BUFFERED` in it.
fn filled<K: Kind>(options: PipeWriterOptions) -> (ScriptHandle, PoolLog, Writer<K>) {
    let script = ScriptHandle::new();
    let (pool, log) = TestPool::new();
    let mut writer = K::writer(&script, options.segment_size(8).pool(pool));
    writer.append(BUFFERED).unwrap();
    (script, log, writer)
}

fn options() -> PipeWriterOptions {
    PipeWriterOptions::new()
}

#[track_caller]
fn assert_panics<T>(call: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "no panic");
}

/// The columns of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Dropped,
    Canceled,
    Fails,
    Panics,
}

const COLUMNS: [Column; 4] = [Column::Dropped, Column::Canceled, Column::Fails, Column::Panics];

/// Has the stream take three bytes, and the column's trouble come then.
fn bring<W: Subject>(column: Column, script: &ScriptHandle, writer: &W) {
    let handle = writer.handle();
    let cancel = move || handle.cancel_pending_flush();
    script.on_write(match column {
        Column::Dropped => vec![Step::Take(3), Step::Pend],
        Column::Canceled => vec![Step::run(cancel, Step::Take(3))],
        // The cancel meets the error in one call, so that it is seen to stay.
        Column::Fails => vec![Step::Take(3), Step::run(cancel, Step::Fail(ErrorKind::TimedOut, "late"))],
        Column::Panics => vec![Step::Take(3), Step::Panic],
    });
}

/// Makes a call that the trouble meets, and expects the outcome that the column says.
#[track_caller]
fn meet(column: Column, call: impl FnOnce() -> io::Result<FlushResult>) {
    match column {
        Column::Dropped => assert_refused(call(), ErrorKind::WouldBlock),
        Column::Canceled => assert!(call().unwrap().is_canceled()),
        Column::Fails => assert_refused(call(), ErrorKind::TimedOut),
        Column::Panics => assert_panics(call),
    }
}

/// Flushes to the end, and checks the cancel of a failed flush, and what the stream has then.
#[track_caller]
fn assert_stayed<W: Subject>(column: Column, script: &ScriptHandle, writer: &mut W, all: &[u8]) {
    assert_eq!(script.accepted(), all[..3]);
    assert_eq!(writer.unflushed_bytes(), all.len() - 3, "what was not accepted stays");
    if column == Column::Fails {
        assert!(writer.flush().unwrap().is_canceled(), "an error leaves the cancel");
    }
    writer.flush_well();
    assert_eq!(script.accepted(), all);
    script.assert_played();
}

// ---- the rows ----

fn span_mut_advance_append<K: Kind>() {
    let (script, pool, mut writer) = filled::<K>(options().max_buffered(100));
    // Canceled: they neither see nor use up a cancel.
    writer.cancel_pending_flush();
    writer.put(b"kl");
    writer.append(b"mn").unwrap();
    // Fails.
    for refuse in [
        (|w| w.span_mut(1000).map(drop)) as fn(&mut Writer<K>) -> io::Result<()>,
        |w| w.span_mut(usize::MAX).map(drop),
        |w| w.advance(1000),
        |w| w.append(&[b'x'; 1000]),
    ] {
        assert!(refuse(&mut writer).is_err());
        assert_eq!(writer.unflushed_bytes(), 24);
    }
    // The pool panics, at the second segment of an append too.
    for (nth, call) in
        [(0, (|w| w.span_mut(50).map(drop)) as fn(&mut Writer<K>) -> io::Result<()>), (1, |w| w.append(&[b'x'; 24]))]
    {
        pool.panic_at_take(pool.asked().len() + nth);
        assert_panics(|| call(&mut writer));
        assert_eq!(writer.unflushed_bytes(), 24);
    }
    assert!(script.calls().is_empty(), "no I/O");
    assert!(writer.flush().unwrap().is_canceled());
    writer.flush_well();
    assert_eq!(script.accepted(), b"0123456789abcdefghijklmn");
    drop(writer);
    pool.assert_all_back();
}

fn flush_poll_flush_emit_poll_emit<K: Kind>() {
    let calls: [Call<Writer<K>, FlushResult>; 2] = [("flush", |w| w.flush()), ("emit", |w| w.emit())];
    for (_, call) in calls {
        for column in COLUMNS {
            let (script, _, mut writer) = filled::<K>(options());
            bring(column, &script, &writer);
            meet(column, || call(&mut writer));
            assert_stayed(column, &script, &mut writer, BUFFERED);
        }
    }
    // The flush of the stream, too, stays due.
    for column in COLUMNS {
        let (script, _, mut writer) = filled::<K>(options());
        let handle = writer.handle();
        script.on_flush([match column {
            Column::Dropped => Step::Pend,
            Column::Canceled => {
                Step::run(move || handle.cancel_pending_flush(), Step::Fail(ErrorKind::Interrupted, ""))
            }
            Column::Fails => Step::Fail(ErrorKind::TimedOut, "late"),
            Column::Panics => Step::Panic,
        }]);
        meet(column, || writer.flush());
        let before = script.flushes();
        writer.flush_well();
        assert_eq!((script.flushes() - before, script.accepted().as_slice()), (1, BUFFERED), "{column:?}");
    }
    if !K::BLOCKING {
        poll_flush_and_poll_emit();
    }
}

fn poll_flush_and_poll_emit() {
    type Poller = fn(Pin<&mut Writer<Asynchronous>>, &mut Context<'_>) -> Poll<io::Result<FlushResult>>;
    for poll in [PipeWriter::poll_flush as Poller, PipeWriter::poll_emit] {
        for column in COLUMNS {
            let (script, _, mut writer) = filled::<Asynchronous>(options());
            bring(column, &script, &writer);
            meet(column, || match poll(Pin::new(&mut writer), &mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                // Not polled again.
                Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            });
            assert_stayed(column, &script, &mut writer, BUFFERED);
        }
    }
}

fn write_and_flush_before_its_first_poll() {
    let (script, _, mut writer) = filled::<Asynchronous>(options());
    drop(writer.write_and_flush(b"never sent"));
    assert_eq!(writer.unflushed_bytes(), BUFFERED.len());
    assert!(script.calls().is_empty());
    writer.flush_well();
    assert_eq!(script.accepted(), BUFFERED);
}

fn write_and_flush_later<K: Kind>() {
    // A short argument and one that is not copied where all goes well.
    for len in [6, 100_000] {
        let argument = vec![b'x'; len];
        let all = [BUFFERED, &argument].concat();
        for column in COLUMNS {
            let (script, _, mut writer) = filled::<K>(options());
            bring(column, &script, &writer);
            meet(column, || writer.write_and_flush(&argument));
            assert_stayed(column, &script, &mut writer, &all);
        }
    }
    // Refused whole.
    let (script, _, mut writer) = filled::<K>(options().max_buffered(40));
    assert_refused(writer.write_and_flush(&[b'x'; 21]), ErrorKind::QuotaExceeded);
    assert_eq!((writer.unflushed_bytes(), script.calls().len()), (20, 0));
    writer.complete().unwrap();
    assert_refused(writer.write_and_flush(b"x"), ErrorKind::BrokenPipe);
    assert_eq!(script.accepted(), BUFFERED);
    // Sent in part, and the rest cannot be kept.
    let (script, pool, mut writer) = filled::<K>(options());
    script.on_write([Step::Take(23), Step::Fail(ErrorKind::TimedOut, "late")]);
    pool.refuse_takes_from(pool.asked().len());
    assert_refused(writer.write_and_flush(b"xxxxxxxxxxxxxxxxxxxx"), ErrorKind::OutOfMemory);
    assert!(writer.is_completed());
    assert_eq!((writer.unflushed_bytes(), script.accepted_len()), (0, 23));
    pool.assert_all_back();
}

fn complete_poll_complete_the_plain_close<K: Kind>() {
    let calls: [Call<Writer<K>, ()>; 2] = [("complete", |w| w.complete()), ("close", |w| w.plain_close())];
    for (name, call) in calls {
        for column in [Column::Dropped, Column::Fails, Column::Panics] {
            let (script, pool, mut writer) = filled::<K>(options());
            bring(column, &script, &writer);
            meet(column, || call(&mut writer).map(|()| unreachable!("{name} had trouble")));
            assert!(!writer.is_completed());
            assert_eq!(writer.unflushed_bytes(), BUFFERED.len() - 3);
            call(&mut writer).unwrap();
            assert!(writer.is_completed());
            assert_eq!(script.accepted(), BUFFERED);
            pool.assert_all_back();
        }
        // Not canceled: while it is open, the cancel waits for the next flush.
        let (script, _, mut writer) = filled::<K>(options());
        writer.cancel_pending_flush();
        script.on_flush([Step::Fail(ErrorKind::TimedOut, "late")]);
        assert_refused(call(&mut writer), ErrorKind::TimedOut);
        assert_eq!(script.accepted(), BUFFERED);
        assert!(writer.flush().unwrap().is_canceled());
    }
    if !K::BLOCKING {
        for column in [Column::Dropped, Column::Fails, Column::Panics] {
            let (script, _, mut writer) = filled::<Asynchronous>(options());
            script.on_close([end_with(column)]);
            meet_end(column, || match poll_complete(&mut writer) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(ErrorKind::WouldBlock.into()),
            });
            assert!(!writer.is_completed(), "only once the close succeeds");
            block_on(writer.complete()).unwrap();
            assert!(writer.is_completed() && script.is_closed());
            assert_eq!(script.accepted(), BUFFERED);
        }
    }
}

fn poll_complete(writer: &mut Writer<Asynchronous>) -> Poll<io::Result<()>> {
    Pin::new(writer).poll_complete(&mut Context::from_waker(Waker::noop()))
}

fn end_with(column: Column) -> Step {
    match column {
        Column::Dropped | Column::Canceled => Step::Pend,
        Column::Fails => Step::Fail(ErrorKind::TimedOut, "late"),
        Column::Panics => Step::Panic,
    }
}

#[track_caller]
fn meet_end(column: Column, call: impl FnOnce() -> io::Result<()>) {
    meet(column, || call().map(|()| unreachable!("the close had trouble")));
}

fn abort_abort_with_before_the_first_poll() {
    let (script, pool, mut writer) = filled::<Asynchronous>(options());
    drop(writer.abort());
    drop(writer.abort_with(io::Error::other("never said")));
    assert!(!writer.is_completed());
    writer.flush_well();
    assert_eq!(script.accepted(), BUFFERED);
    drop(writer);
    pool.assert_all_back();
}

fn abort_abort_with_poll_abort<K: Kind>() {
    let aborts: [Call<Writer<K>, ()>; 2] =
        [("abort", |w| w.abort()), ("abort_with", |w| w.abort_with(io::Error::new(ErrorKind::InvalidData, "frame 7")))];
    for (name, abort) in aborts {
        for column in COLUMNS {
            let (script, pool, mut writer) = filled::<K>(options());
            if column == Column::Canceled {
                writer.cancel_pending_flush();
            }
            if K::BLOCKING || column == Column::Canceled {
                // It has no close that could meet trouble, and a cancel is none.
                abort(&mut writer).unwrap();
            } else {
                script.on_close([end_with(column)]);
                meet_end(column, || abort(&mut writer));
            }
            assert!(writer.is_completed());
            assert_eq!((writer.unflushed_bytes(), script.writes()), (0, 0), "discarded");
            pool.assert_all_back();
            let kind = if name == "abort" { ErrorKind::BrokenPipe } else { ErrorKind::InvalidData };
            assert_refused(writer.append(b"x"), kind);
            match writer.flush() {
                Ok(result) => assert!(name == "abort" && result.is_completed() && !result.is_canceled()),
                Err(error) => assert!(name == "abort_with" && error.kind() == kind),
            }
            // The next one makes the close good.
            if column == Column::Fails {
                writer.abort().unwrap()
            } else {
                writer.complete().unwrap()
            }
            assert_eq!(script.is_closed(), !K::BLOCKING);
        }
    }
    if !K::BLOCKING {
        let (script, pool, mut writer) = filled::<Asynchronous>(options());
        script.hold_closes();
        assert!(Pin::new(&mut writer).poll_abort(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(writer.is_completed());
        pool.assert_all_back();
        script.release();
        assert!(Pin::new(&mut writer).poll_abort(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(script.is_closed());
    }
}

fn the_plain_write_write_vectored<K: Kind>() {
    let slices = || [IoSlice::new(b"kl"), IoSlice::new(b"mn")];
    let calls: [Call<Writer<K>, usize>; 2] = [
        ("write", |w| w.plain_write(b"klmn")),
        ("write_vectored", |w| w.plain_write_vectored(&[IoSlice::new(b"kl"), IoSlice::new(b"mn")])),
    ];
    for (name, call) in calls {
        for column in COLUMNS {
            // At the mark, so that the stream is driven first.
            let (script, _, mut writer) = filled::<K>(options().high_water_mark(20));
            let mut steps = vec![Step::Take(20)];
            match column {
                Column::Canceled => writer.cancel_pending_flush(),
                _ => steps = vec![end_with(column)],
            }
            script.on_write(steps);
            if column == Column::Canceled {
                assert_eq!(call(&mut writer).unwrap(), 4);
                assert!(writer.flush().unwrap().is_canceled(), "neither seen nor used up");
            } else {
                meet(column, || call(&mut writer).map(|_| unreachable!("{name} had trouble")));
                assert_eq!(writer.unflushed_bytes(), 20, "{name} took nothing");
                assert_eq!(call(&mut writer).unwrap(), 4);
            }
            writer.flush_well();
            assert_eq!(script.accepted(), [BUFFERED, b"klmn"].concat(), "{name}, {column:?}");
        }
    }
    // The pool panics at the second slice: the first one is taken.
    let (script, pool, mut writer) = filled::<K>(options());
    writer.append(b"....").unwrap();
    pool.panic_at_take(pool.asked().len() + 1);
    let long = [b'k'; 8];
    assert_panics(|| writer.plain_write_vectored(&[IoSlice::new(&long), slices()[1]]));
    assert_eq!(writer.unflushed_bytes(), 32);
    writer.flush_well();
    assert_eq!(script.accepted(), [BUFFERED, b"....", &long].concat());
}

fn the_plain_flush<K: Kind>() {
    for column in COLUMNS {
        let (script, _, mut writer) = filled::<K>(options());
        bring(column, &script, &writer);
        if column == Column::Canceled {
            let error = writer.plain_flush().unwrap_err();
            assert!(error.get_ref().is_some_and(|inner| inner.is::<Canceled>()), "{error}");
        } else {
            meet_end(column, || writer.plain_flush());
        }
        assert_stayed(column, &script, &mut writer, BUFFERED);
    }
}

fn cancel_pending_flush_of_the_writer_or_a_pipe_handle<K: Kind>() {
    let (script, _, mut writer) = filled::<K>(options());
    writer.cancel_pending_flush();
    let handle = writer.handle();
    handle.cancel_pending_flush();
    handle.cancel_pending_flush();
    assert_eq!(writer.unflushed_bytes(), BUFFERED.len());
    assert!(script.calls().is_empty(), "no I/O");
    assert!(writer.flush().unwrap().is_canceled());
    writer.flush_well();
    assert_eq!(script.accepted(), BUFFERED);
    if !K::BLOCKING {
        // A waker panics as it is woken.
        let (script, _, mut writer) = filled::<Asynchronous>(options());
        let handle = writer.handle();
        script.on_write([Step::Take(3), Step::Pend]);
        assert!(poll_with(&panicking_waker(), &mut writer.flush()).is_pending());
        assert_panics(|| handle.cancel_pending_flush());
        assert!(block_on(writer.flush()).unwrap().is_canceled(), "the cancel holds");
        writer.flush_well();
        assert_eq!(script.accepted(), BUFFERED);
    }
}

fn pipe_handle_closed<K: Kind>() {
    let (script, _, mut writer) = filled::<K>(options());
    let wakes = Wakes::new();
    let handle = writer.handle();
    let mut waits = handle.closed();
    assert!(poll_with(&wakes.waker(), &mut waits).is_pending());
    handle.cancel_pending_flush();
    assert!(poll_once(&mut waits).is_pending(), "a cancel does not end it");
    drop(waits);
    assert_eq!(wakes.wakers(), 0, "forgotten");
    assert!(writer.flush().unwrap().is_canceled());
    writer.flush_well();
    assert_eq!(script.accepted(), BUFFERED);
    writer.complete().unwrap();
    assert!(poll_once(&mut handle.closed()).is_ready());
}

fn into_parts<K: Kind>() {
    for column in COLUMNS {
        let (script, _, mut writer) = filled::<K>(options());
        bring(column, &script, &writer);
        meet(column, || writer.write_and_flush(b"klmn"));
        // It sees no cancel: that of a flush that failed is still there.
        let (_stream, rest) = writer.into_parts();
        assert_eq!([script.accepted(), rest].concat(), [BUFFERED, b"klmn"].concat(), "{column:?}");
        assert_eq!(script.accepted_len(), 3, "nothing is written");
    }
}

fn handle_trim<K: Kind>() {
    let script = ScriptHandle::new();
    // Only a writer with the default pool has `trim`, so it is called by name.
    let rest = if K::BLOCKING {
        let mut writer = Blocking::writer(&script, options().segment_size(8));
        writer.append(BUFFERED).unwrap();
        writer.cancel_pending_flush();
        writer.trim();
        let _handle = writer.handle();
        assert!(writer.flush().unwrap().is_canceled());
        writer.into_parts().1
    } else {
        let mut writer = Asynchronous::writer(&script, options().segment_size(8));
        writer.append(BUFFERED).unwrap();
        writer.cancel_pending_flush();
        writer.trim();
        let _handle = writer.handle();
        assert!(block_on(writer.flush()).unwrap().is_canceled());
        writer.into_parts().1
    };
    assert_eq!(rest, BUFFERED);
    assert!(script.calls().is_empty(), "no I/O");
}

fn the_drop_of_an_async_writer() {
    let (script, pool, mut writer) = filled::<Asynchronous>(options());
    script.on_write([Step::Take(3), Step::Pend]);
    assert!(poll_once(&mut writer.flush()).is_pending());
    let handle = writer.handle();
    drop(writer);
    assert_eq!((script.accepted_len(), script.calls().len()), (3, 2), "discarded, with no I/O");
    assert!(handle.is_closed());
    pool.assert_all_back();
}

fn the_drop_of_a_blocking_writer() {
    // A cancel does not keep it from writing, and the stream is not flushed.
    let (script, pool, writer) = filled::<Blocking>(options());
    writer.cancel_pending_flush();
    drop(writer);
    assert_eq!((script.accepted().as_slice(), script.flushes()), (BUFFERED, 0));
    pool.assert_all_back();
    // Fails, or panics.
    for column in [Column::Fails, Column::Panics] {
        let (script, pool, writer) = filled::<Blocking>(options());
        bring(column, &script, &writer);
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(writer)));
        assert_eq!(dropped.is_err(), column == Column::Panics);
        assert_eq!(script.accepted(), BUFFERED[..3], "the rest is lost");
        pool.assert_all_back();
    }
    // After an earlier panic.
    let (script, pool, mut writer) = filled::<Blocking>(options());
    bring(Column::Panics, &script, &writer);
    assert_panics(|| writer.flush());
    drop(writer);
    assert_eq!(script.accepted(), BUFFERED[..3]);
    pool.assert_all_back();
}
