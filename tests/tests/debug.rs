//! Chapter 9, `Debug`: sizes and state, never payload, and nothing of the stream.

use core::fmt::{self, Debug};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_io::AsyncWrite;
use pipewriter_std::{PipeWriter, PipeWriterOptions, SegmentPool};
use pipewriter_tests::exec::{block_on, poll_once};
use pipewriter_tests::script::{ScriptHandle, Step};
use pipewriter_tests::subject::{Kind, Subject};

pipewriter_tests::both!(no_state_of_a_writer_shows_payload, sizes_and_state_are_shown, the_stream_is_not_asked,);

/// What is written everywhere here: as text, and as its bytes in decimal and in hex.
const PAYLOAD: &[u8] = b"SECRET";

#[track_caller]
fn assert_discreet(value: &dyn Debug) -> String {
    let shown = [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}"), format!("{value:X?}")];
    for text in &shown {
        let packed: String = text.split_whitespace().collect();
        for part in ["SECRET", "SEC", "83,69", "53,45", "6768", "534543"] {
            assert!(!packed.contains(part), "{part} of the payload is in {text}");
        }
    }
    let [plain, ..] = shown;
    plain
}

/// A pool that cannot be printed.
struct Mute;

impl SegmentPool for Mute {
    type Segment = Vec<u8>;

    fn take(&mut self, min_len: usize) -> Option<Vec<u8>> {
        Some(PAYLOAD.iter().copied().cycle().take(min_len).collect())
    }

    fn give(&mut self, _: Vec<u8>) {}
}

/// A stream whose `Debug` nobody may call.
struct Shy(pipewriter_tests::script::Script);

impl Debug for Shy {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("the stream is asked")
    }
}

impl io::Write for Shy {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsyncWrite for Shy {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

fn writer<K: Kind>(script: &ScriptHandle) -> K::Writer<Shy, Mute> {
    K::over(Shy(script.stream()), PipeWriterOptions::new().segment_size(8).pool(Mute))
}

fn no_state_of_a_writer_shows_payload<K: Kind>()
where
    K::Writer<Shy, Mute>: Debug,
{
    let script = ScriptHandle::new();
    let mut writer = writer::<K>(&script);
    let handle = writer.handle();
    assert_discreet(&writer);
    writer.span_mut(8).unwrap()[..6].copy_from_slice(PAYLOAD);
    assert_discreet(&writer);
    writer.advance(6).unwrap();
    assert_discreet(&writer);
    for _ in 0..5 {
        writer.append(PAYLOAD).unwrap();
    }
    assert_discreet(&writer);
    script.on_write([Step::Take(9), Step::Fail(ErrorKind::TimedOut, "late"), Step::Take(1), Step::Pend, Step::Panic]);
    assert!(writer.flush().is_err());
    assert_discreet(&writer);
    assert!(writer.write_and_flush(PAYLOAD).is_err());
    assert_discreet(&writer);
    assert!(catch_unwind(AssertUnwindSafe(|| writer.flush())).is_err());
    assert_discreet(&writer);
    handle.cancel_pending_flush();
    assert_discreet(&writer);
    assert!(writer.flush().unwrap().is_canceled());
    writer.flush_well();
    assert_discreet(&writer);
    writer.append(PAYLOAD).unwrap();
    writer.abort_with(io::Error::new(ErrorKind::InvalidData, "SECRET frame")).unwrap();
    assert_discreet(&writer);
    assert_discreet(&handle);
    assert_discreet(&handle.closed());
    script.assert_played();
}

fn sizes_and_state_are_shown<K: Kind>()
where
    K::Writer<Shy, Mute>: Debug,
{
    let script = ScriptHandle::new();
    let mut writer = writer::<K>(&script);
    let fresh = assert_discreet(&writer);
    assert!(fresh.contains("PipeWriter"), "{fresh}");
    writer.append(&[0; 12_345]).unwrap();
    let buffered = assert_discreet(&writer);
    assert!(buffered.contains("12345"), "how many bytes are unflushed: {buffered}");
    writer.flush_well();
    let flushed = assert_discreet(&writer);
    assert!(!flushed.contains("12345"), "{flushed}");
    writer.complete().unwrap();
    let completed = assert_discreet(&writer);
    assert_ne!(flushed, completed, "the state");
    let mut other = self::writer::<K>(&ScriptHandle::new());
    other.abort_with(ErrorKind::TimedOut.into()).unwrap();
    let aborted = assert_discreet(&other);
    assert_ne!(completed, aborted);
}

/// It panics if it is, in `Shy`; and a stream without a `Debug` of its own does as well.
fn the_stream_is_not_asked<K: Kind>()
where
    K::Writer<Vec<u8>, Mute>: Debug,
{
    let mut writer = K::over(Vec::<u8>::new(), PipeWriterOptions::new().pool(Mute));
    writer.append(PAYLOAD).unwrap();
    writer.flush_well();
    assert_eq!(writer.get_ref(), PAYLOAD);
    assert_discreet(&writer);
}

#[test]
fn a_writer_over_anything_at_all_can_be_printed() {
    struct NoStream;
    let writer = PipeWriter::with_options(NoStream, PipeWriterOptions::new().pool(Mute));
    assert_discreet(&writer);
}

#[test]
fn the_futures_show_no_payload() {
    let script = ScriptHandle::new();
    script.hold_writes();
    let mut writer = writer::<pipewriter_tests::subject::Asynchronous>(&script);
    writer.append(PAYLOAD).unwrap();
    assert!(assert_discreet(&writer.flush()).contains("Flush"));
    assert!(assert_discreet(&writer.emit()).contains("Emit"));
    assert!(assert_discreet(&writer.complete()).contains("Complete"));
    assert!(assert_discreet(&writer.abort()).contains("Abort"));
    assert_discreet(&writer.abort_with(io::Error::other("SECRET")));
    let mut call = writer.write_and_flush(PAYLOAD);
    assert!(assert_discreet(&call).contains("WriteAndFlush"));
    assert!(poll_once(&mut call).is_pending());
    assert_discreet(&call);
    let mut pinned = Pin::new(&mut writer).pinned();
    pinned.append(PAYLOAD).unwrap();
    assert_discreet(&pinned);
    script.release();
    block_on(writer.flush()).unwrap();
    assert_eq!(script.accepted(), PAYLOAD.repeat(3));
}

#[test]
fn options_and_pool_show_sizes_and_no_payload() {
    use pipewriter_std::HeapPool;
    let mut pool = HeapPool::with_bound(54_321);
    let mut segment = pool.take(PAYLOAD.len()).unwrap();
    segment[..PAYLOAD.len()].copy_from_slice(PAYLOAD);
    pool.give(segment);
    assert!(assert_discreet(&pool).contains("54321"));
    let options = assert_discreet(&PipeWriterOptions::new().segment_size(12_345).pool(pool));
    assert!(options.contains("12345") && options.contains("54321"), "{options}");
}
