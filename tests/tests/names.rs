//! Chapter 2: the public names, what they start from, and under what other names they are found.

use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomPinned;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::collections::HashSet;
use std::io::{self, ErrorKind, IoSlice};
use std::panic::catch_unwind;
use std::path::Path;

use futures_io::AsyncWrite;
use pipewriter_std::blocking::PipeWriter as BlockingPipeWriter;
use pipewriter_std::{FlushResult, HeapPool, PipeHandle, PipeWriter, PipeWriterOptions, SegmentPool};
use pipewriter_tests::exec::block_on;
use pipewriter_tests::model::pattern;
use pipewriter_tests::pools::TestPool;
use pipewriter_tests::script::{Call, Script, ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject};

pipewriter_tests::both!(
    segments_have_4096_bytes_by_default,
    the_segment_size_is_a_setting,
    a_gibibyte_may_be_buffered_by_default,
    max_buffered_is_a_setting,
    options_keep_what_was_set_when_the_pool_is_set,
    a_zero_is_refused_with_a_panic_that_says_which,
    a_pool_of_the_users_own_serves,
    a_heap_pool_of_any_bound_serves,
    the_stream_can_be_looked_at_and_written_to_directly,
    into_parts_returns_the_stream_and_what_it_has_not_accepted,
    into_parts_never_flushes,
    into_parts_works_in_the_middle_of_a_batch_that_stalled,
    unflushed_bytes_counts_what_is_committed_and_not_accepted,
    flush_results_are_plain_values,
);

// ---- options ----

fn segments_have_4096_bytes_by_default<K: Kind>() {
    for options in [PipeWriterOptions::new(), PipeWriterOptions::default()] {
        let (pool, log) = TestPool::new();
        let mut writer = K::writer(&ScriptHandle::new(), options.pool(pool));
        assert_eq!(writer.span_mut(0).unwrap().len(), 4096);
        assert_eq!(log.asked(), [4096]);
    }
}

fn the_segment_size_is_a_setting<K: Kind>() {
    for size in [1, 7, 4095, 100_000] {
        let (pool, log) = TestPool::new();
        let mut writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new().segment_size(size).pool(pool));
        writer.append(b"x").unwrap();
        assert_eq!(log.asked(), [size]);
    }
}

fn a_gibibyte_may_be_buffered_by_default<K: Kind>() {
    let (pool, log) = TestPool::new();
    log.refuse_takes_from(0);
    let mut writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new().pool(pool));
    // Just within, it is for the pool to say.
    assert_eq!(writer.span_mut(1 << 30).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(log.asked(), [1 << 30]);
    assert_eq!(writer.span_mut((1 << 30) + 1).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(log.asked().len(), 1);
}

fn max_buffered_is_a_setting<K: Kind>() {
    for max in [1, 5, 10_000] {
        let mut writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new().max_buffered(max));
        assert_eq!(writer.append(&pattern(0, max + 1)).unwrap_err().kind(), ErrorKind::QuotaExceeded);
        writer.append(&pattern(0, max)).unwrap();
        assert_eq!(writer.append(b"x").unwrap_err().kind(), ErrorKind::QuotaExceeded);
    }
}

fn options_keep_what_was_set_when_the_pool_is_set<K: Kind>() {
    let check = |options: PipeWriterOptions<TestPool>, asked: &dyn Fn() -> Vec<usize>| {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, options);
        assert_eq!(writer.append(b"abcde").unwrap_err().kind(), ErrorKind::QuotaExceeded);
        assert_eq!(writer.plain_write(b"abcd").unwrap(), 2);
        assert_eq!(asked(), [3]);
        writer.complete().unwrap();
        assert_eq!(script.closes(), 0);
    };
    let (pool, log) = TestPool::new();
    let before =
        PipeWriterOptions::new().segment_size(3).max_buffered(4).high_water_mark(2).leave_open(true).pool(pool);
    check(before, &|| log.asked());
    let (pool, log) = TestPool::new();
    let after = PipeWriterOptions::new().pool(pool).segment_size(3).max_buffered(4).high_water_mark(2).leave_open(true);
    check(after, &|| log.asked());
    // The last word counts.
    let (pool, log) = TestPool::new();
    let twice = PipeWriterOptions::new().segment_size(9).max_buffered(9).high_water_mark(9).leave_open(false);
    check(twice.segment_size(3).max_buffered(4).high_water_mark(2).leave_open(true).pool(pool), &|| log.asked());
}

fn a_zero_is_refused_with_a_panic_that_says_which<K: Kind>() {
    let refused = |options: fn() -> PipeWriterOptions| {
        let panic = catch_unwind(|| drop(K::writer(&ScriptHandle::new(), options()))).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap()
    };
    let text = refused(|| PipeWriterOptions::new().segment_size(0));
    assert!(text.contains("segment_size"), "{text}");
    let text = refused(|| PipeWriterOptions::new().max_buffered(0));
    assert!(text.contains("max_buffered"), "{text}");
    // A mark of 0 is none of these.
    drop(K::writer(&ScriptHandle::new(), PipeWriterOptions::new().high_water_mark(0)));
}

/// The two methods that must be written, over a segment of fixed size.
struct Blocks {
    free: Vec<[u8; 16]>,
    made: usize,
}

impl SegmentPool for Blocks {
    type Segment = [u8; 16];

    fn take(&mut self, min_len: usize) -> Option<[u8; 16]> {
        if min_len > 16 {
            return None;
        }
        self.free.pop().or_else(|| {
            (self.made < 2).then(|| {
                self.made += 1;
                [0; 16]
            })
        })
    }

    fn give(&mut self, segment: [u8; 16]) {
        self.free.push(segment);
    }
}

fn a_pool_of_the_users_own_serves<K: Kind>() {
    let pool = Blocks { free: Vec::new(), made: 0 };
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(16).pool(pool));
    for _ in 0..3 {
        writer.append(&pattern(0, 32)).unwrap();
        assert_eq!(writer.append(b"x").unwrap_err().kind(), ErrorKind::OutOfMemory);
        writer.flush_well();
    }
    assert_eq!(writer.span_mut(17).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(script.accepted_len(), 96);
}

fn a_heap_pool_of_any_bound_serves<K: Kind>() {
    for bound in [0, 1, 1 << 20] {
        let script = ScriptHandle::new();
        let mut writer = K::writer(&script, PipeWriterOptions::new().pool(HeapPool::with_bound(bound)));
        for _ in 0..3 {
            writer.append(&pattern(0, 10_000)).unwrap();
            writer.flush_well();
        }
        assert_eq!(script.accepted_len(), 30_000);
    }
}

// ---- the stream below ----

fn the_stream_can_be_looked_at_and_written_to_directly<K: Kind>() {
    let mut writer = K::over(Vec::<u8>::new(), PipeWriterOptions::new());
    writer.append(b"later").unwrap();
    assert_eq!(writer.get_ref(), b"");
    writer.get_mut().extend_from_slice(b"first ");
    writer.flush_well();
    assert_eq!(writer.get_ref(), b"first later");
}

fn into_parts_returns_the_stream_and_what_it_has_not_accepted<K: Kind>() {
    let mut writer = K::over(Vec::<u8>::new(), PipeWriterOptions::new());
    writer.append(b"sent").unwrap();
    writer.flush_well();
    writer.append(b"kept, ").unwrap();
    writer.put(b"too");
    writer.span_mut(10).unwrap()[..3].copy_from_slice(b"not");
    let (stream, rest) = writer.into_parts();
    assert_eq!((stream.as_slice(), rest.as_slice()), (&b"sent"[..], &b"kept, too"[..]));
    let (stream, rest) = K::over(Vec::<u8>::new(), PipeWriterOptions::new()).into_parts();
    assert!(stream.is_empty() && rest.is_empty());
}

fn into_parts_never_flushes<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    writer.append(b"abc").unwrap();
    writer.emit().unwrap();
    writer.append(b"def").unwrap();
    let (_stream, rest) = writer.into_parts();
    assert_eq!(rest, b"def");
    assert_eq!(script.calls(), [Call::write(3)]);
}

fn into_parts_works_in_the_middle_of_a_batch_that_stalled<K: Kind>() {
    for accepted in 0..20 {
        let (pool, log) = TestPool::new();
        let script = ScriptHandle::new();
        script.on_write((0..accepted).map(|_| Step::Take(1)));
        script.default_write(Step::Pend);
        let mut writer = K::writer(&script, PipeWriterOptions::new().segment_size(4).pool(pool));
        writer.append(&pattern(0, 15)).unwrap();
        assert_eq!(writer.write_and_flush(&pattern(15, 5)).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (_stream, rest) = writer.into_parts();
        assert_eq!([script.accepted(), rest].concat(), pattern(0, 20));
        assert_eq!(script.accepted_len(), accepted);
        log.assert_all_back();
    }
}

fn unflushed_bytes_counts_what_is_committed_and_not_accepted<K: Kind>() {
    let script = ScriptHandle::new();
    let mut writer = K::writer(&script, PipeWriterOptions::new());
    assert_eq!(writer.unflushed_bytes(), 0);
    let _span = writer.span_mut(100).unwrap();
    assert_eq!(writer.unflushed_bytes(), 0, "a span is not data");
    writer.advance(3).unwrap();
    writer.append(&[7; 5000]).unwrap();
    writer.plain_write(b"xy").unwrap();
    assert_eq!(writer.unflushed_bytes(), 5005);
    script.on_write([Step::Take(5), Step::Pend]);
    assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(writer.unflushed_bytes(), 5000);
    writer.emit().unwrap();
    assert_eq!(writer.unflushed_bytes(), 0, "though the flush of the stream is due");
}

// ---- results and handles ----

fn flush_results_are_plain_values<K: Kind>() {
    fn is_plain<T: Copy + Debug + Eq + Hash + Send + Sync + 'static>(value: T) -> T {
        value
    }
    let mut writer = K::writer(&ScriptHandle::new(), PipeWriterOptions::new());
    let flushed = is_plain(writer.flush().unwrap());
    writer.cancel_pending_flush();
    let canceled = writer.flush().unwrap();
    writer.complete().unwrap();
    let completed = writer.flush().unwrap();
    let flags = [flushed, canceled, completed].map(|result| (result.is_canceled(), result.is_completed()));
    assert_eq!(flags, [(false, false), (true, false), (false, true)]);
    assert_eq!(flushed, flushed.clone());
    assert_eq!(HashSet::from([flushed, canceled, completed, writer.flush().unwrap()]).len(), 3);
    let shown = [flushed, canceled, completed].map(|result| format!("{result:?}"));
    assert_eq!(HashSet::from(shown).len(), 3);
}

/// Who never cancels need not look at it: this compiles.
#[deny(unused_must_use)]
#[test]
fn a_flush_result_need_not_be_looked_at() -> io::Result<()> {
    let mut writer = BlockingPipeWriter::new(Vec::new());
    writer.append(b"abc")?;
    writer.flush()?;
    writer.write_and_flush(b"def")?;
    writer.emit()?;
    let mut writer = PipeWriter::new(Vec::<u8>::new());
    block_on(async {
        writer.flush().await?;
        writer.write_and_flush(b"abc").await?;
        writer.emit().await?;
        Ok(())
    })
}

#[test]
fn nobody_who_takes_the_default_names_the_pool() {
    struct Connection {
        to: PipeWriter<Vec<u8>>,
        log: BlockingPipeWriter<Vec<u8>>,
        options: PipeWriterOptions,
        handle: PipeHandle,
        last: Option<FlushResult>,
    }
    let to = PipeWriter::new(Vec::new());
    let handle = to.handle();
    let log = BlockingPipeWriter::new(Vec::new());
    let mut all = Connection { to, log, options: PipeWriterOptions::new(), handle, last: None };
    all.last = block_on(all.to.flush()).ok();
    assert_eq!(all.last, all.log.flush().ok());
    let again = PipeWriter::with_options(Vec::<u8>::new(), all.options);
    assert!(!again.handle().is_closed() && !all.handle.is_closed());
}

#[test]
fn a_handle_can_go_anywhere() {
    fn is_free<T: Clone + Send + Sync + 'static>() {}
    is_free::<PipeHandle>();
}

// ---- pinned ----

/// A stream that must stay where it is.
struct Rooted {
    script: ScriptHandle,
    _pin: PhantomPinned,
}

impl Rooted {
    fn new(script: &ScriptHandle) -> Self {
        Self { script: script.clone(), _pin: PhantomPinned }
    }

    fn with<R>(self: Pin<&mut Self>, f: impl FnOnce(Pin<&mut Script>) -> R) -> R {
        f(Pin::new(&mut self.script.stream()))
    }
}

impl AsyncWrite for Rooted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|script| script.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|script| script.poll_write_vectored(cx, bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|script| script.poll_flush(cx))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|script| script.poll_close(cx))
    }
}

#[test]
fn a_writer_over_a_pinned_stream_has_poll_methods_and_spans() {
    let script = ScriptHandle::new();
    let mut writer = pin!(PipeWriter::new(Rooted::new(&script)));
    let handle = writer.handle();
    let mut cx = Context::from_waker(Waker::noop());
    let mut pinned = writer.as_mut().pinned();
    pinned.span_mut(3).unwrap()[..3].copy_from_slice(b"abc");
    pinned.advance(3).unwrap();
    pinned.append(b"def").unwrap();
    assert_eq!((writer.unflushed_bytes(), script.accepted_len()), (6, 0));
    assert!(matches!(writer.as_mut().poll_emit(&mut cx), Poll::Ready(Ok(result)) if !result.is_canceled()));
    assert_eq!((script.accepted(), script.flushes()), (b"abcdef".to_vec(), 0));
    assert!(writer.as_mut().poll_flush(&mut cx).is_ready());
    assert_eq!(script.flushes(), 1);
    handle.cancel_pending_flush();
    assert!(matches!(writer.as_mut().poll_flush(&mut cx), Poll::Ready(Ok(result)) if result.is_canceled()));
    assert!(AsyncWrite::poll_write(writer.as_mut(), &mut cx, b"ghi").is_ready());
    let _: Pin<&mut Rooted> = writer.as_mut().get_pin_mut();
    assert!(matches!(writer.as_mut().poll_complete(&mut cx), Poll::Ready(Ok(()))));
    assert!(writer.is_completed() && script.is_closed());
    assert_eq!(script.accepted(), b"abcdefghi");
}

#[test]
fn a_writer_over_a_pinned_stream_can_be_aborted() {
    let script = ScriptHandle::new();
    let mut writer = pin!(PipeWriter::new(Rooted::new(&script)));
    let mut cx = Context::from_waker(Waker::noop());
    writer.as_mut().pinned().append(b"abc").unwrap();
    assert!(matches!(writer.as_mut().poll_abort(&mut cx), Poll::Ready(Ok(()))));
    assert!(writer.is_completed() && script.is_closed());
    assert_eq!(script.accepted_len(), 0);
    assert_eq!(writer.as_mut().pinned().append(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

// ---- other names ----

/// The names that users of .NET, `bytes` and `std` would type, and what they lead to.
const ALIASES: [(&str, &[&str]); 16] = [
    ("new", &["Create"]),
    ("span_mut", &["GetSpan", "GetMemory", "chunk_mut"]),
    ("advance", &["Advance", "advance_mut"]),
    ("append", &["Write", "put_slice"]),
    ("flush", &["FlushAsync"]),
    ("write_and_flush", &["WriteAsync", "write_all"]),
    ("unflushed_bytes", &["UnflushedBytes"]),
    ("cancel_pending_flush", &["CancelPendingFlush"]),
    ("complete", &["CompleteAsync", "close", "shutdown"]),
    ("abort", &["Complete"]),
    ("abort_with", &["Complete"]),
    ("get_ref", &["InnerStream"]),
    ("into_parts", &["into_inner"]),
    ("is_completed", &[]),
    ("handle", &[]),
    ("get_mut", &[]),
];

/// The aliases of `name` in `source`: the attributes that stand in front of it.
fn aliases(source: &str, name: &str) -> Option<HashSet<String>> {
    let mut aliases = HashSet::new();
    for line in source.lines().map(str::trim) {
        if let Some(alias) = line.strip_prefix("#[doc(alias = \"").and_then(|rest| rest.strip_suffix("\")]")) {
            aliases.insert(alias.to_owned());
        } else if line.contains(&format!("fn {name}(")) || line.contains(&format!("fn {name}<")) {
            return Some(aliases);
        } else if !line.starts_with("#[") {
            aliases.clear();
        }
    }
    None
}

#[test]
fn each_method_is_found_under_the_names_that_others_have_for_it() {
    for file in ["writer.rs", "blocking.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipewriter-std/src").join(file);
        let source = std::fs::read_to_string(&path).unwrap();
        for (name, wanted) in ALIASES {
            let has = aliases(&source, name).unwrap_or_else(|| panic!("{file} has no {name}"));
            let missing: Vec<_> = wanted.iter().filter(|&&alias| !has.contains(alias)).collect();
            assert!(missing.is_empty(), "{file}: {name} is not found as {missing:?}");
        }
    }
}
