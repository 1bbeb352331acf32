//! Random programs: operations, streams that misbehave and pools that misbehave, against a byte model that is checked
//! after every step, and against what the stream sees.
//!
//! `COUNT`, `FROM` (the first seed), `BIG=1` (large sizes), `STRICT=1` (also between two polls of a flush), `IDLE=1` (no segment
//! held when idle) and `V=1` (print the failing program) set it from outside:
//! `STRICT=1 COUNT=1000000 cargo test --release -p pipewriter-tests --test model`.

#![allow(clippy::forget_non_drop, clippy::redundant_closure, clippy::collapsible_match, dead_code)]

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_io::AsyncWrite;
use pipewriter_std::{
    Canceled, FlushResult, HeapPool, PipeHandle, PipeWriter, PipeWriterOptions, SegmentPool, blocking,
};

#[derive(Clone)]
struct Rng(Rc<RefCell<u64>>);
impl Rng {
    fn next(&self) -> u64 {
        let mut s = self.0.borrow_mut();
        *s ^= *s << 13;
        *s ^= *s >> 7;
        *s ^= *s << 17;
        (*s).wrapping_mul(0x2545F4914F6CDD1D) >> 16
    }
    fn below(&self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn chance(&self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Free,
    Cancelable,
    NotCancelable,
    NoIo,
    CloseOnly,
}

struct St {
    rng: Rng,
    accepted: Vec<u8>,
    due: bool,
    put_off: Option<(Vec<u8>, usize)>,
    close_begun: bool,
    close_done: bool,
    bad: Vec<String>,
    handle: Option<PipeHandle>,
    cancel: bool,
    wild: usize,
    blocking: bool,
    // per op
    mood: Mood,
    calls: usize,
    writes: usize,
    errors: Vec<ErrorKind>,
    zero: bool,
    over: bool,
    last_pending: bool,
    panicked: bool,
    suspect: bool,
    gone: bool,
    canceled_within: bool,
    trace: Vec<String>,
}
type Sh = Rc<RefCell<St>>;

struct Evil(Sh);

enum Act {
    Take(usize),
    Pend,
    Err(ErrorKind),
    Over(usize),
    Panic,
}

const KINDS: [ErrorKind; 8] = [
    ErrorKind::BrokenPipe,
    ErrorKind::TimedOut,
    ErrorKind::WouldBlock,
    ErrorKind::ConnectionReset,
    ErrorKind::Other,
    ErrorKind::WriteZero,
    ErrorKind::Interrupted,
    ErrorKind::Interrupted,
];
fn is_gone(k: ErrorKind) -> bool {
    matches!(
        k,
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::WriteZero
    )
}

impl Evil {
    fn begin(&self, what: &str) {
        let h = {
            let mut s = self.0.borrow_mut();
            s.calls += 1;
            s.last_pending = false;
            if s.calls > 1_000_000 {
                panic!("runaway");
            }
            match s.mood {
                Mood::NoIo => {
                    let m = format!("call {what} where no I/O may be");
                    s.bad.push(m);
                }
                Mood::Cancelable if s.cancel => {
                    let m = format!("call {what} though a cancel waits");
                    s.bad.push(m);
                }
                Mood::CloseOnly if what != "close" => {
                    let m = format!("call {what} where only close may be");
                    s.bad.push(m);
                }
                _ => {}
            }
            if s.close_begun && what != "close" {
                let m = format!("{what} after close begun");
                s.bad.push(m);
            }
            if s.close_done {
                let m = format!("{what} after close done");
                s.bad.push(m);
            }
            if s.rng.chance(40) { s.handle.clone() } else { None }
        };
        if let Some(h) = h {
            h.cancel_pending_flush();
            let mut s = self.0.borrow_mut();
            s.cancel = true;
            s.canceled_within = true;
        }
    }
    fn act(&self, chunks: &[&[u8]]) -> Act {
        let s = self.0.borrow();
        let total: usize = chunks.iter().map(|c| c.len()).sum();
        if s.rng.below(10) >= s.wild {
            return Act::Take(total);
        }
        match s.rng.below(14) {
            0 => Act::Take(0),
            1 => Act::Over(1 + s.rng.below(3)),
            2 => Act::Panic,
            3 | 4 => Act::Err(KINDS[s.rng.below(KINDS.len())]),
            5 | 6 => {
                if s.blocking {
                    Act::Err(ErrorKind::WouldBlock)
                } else {
                    Act::Pend
                }
            }
            7 => Act::Take(1),
            8 => Act::Take(chunks[0].len()),
            9 => Act::Take((chunks[0].len() + 1).min(total)),
            10 => Act::Take(total),
            _ => Act::Take(1 + s.rng.below(total)),
        }
    }
    fn do_write(&self, chunks: &[&[u8]], vectored: bool) -> Poll<io::Result<usize>> {
        self.begin("write");
        let total: usize = chunks.iter().map(|c| c.len()).sum();
        {
            let mut s = self.0.borrow_mut();
            s.writes += 1;
            let t = format!("  write {:?} v={vectored}", chunks.iter().map(|c| c.len()).collect::<Vec<_>>());
            s.trace.push(t);
            if chunks.iter().any(|c| c.is_empty()) {
                s.bad.push("empty chunk".into());
            }
            if vectored && chunks.len() < 2 {
                s.bad.push("vectored of less than 2".into());
            }
            if chunks.len() > 1024 || total > 256 * 1024 {
                s.bad.push("too large offer".into());
            }
            if let Some((bytes, first)) = s.put_off.take() {
                let now: Vec<u8> = chunks.concat();
                if now.len() < bytes.len() && !bytes.starts_with(&now)
                    || now.len() >= bytes.len() && !now.starts_with(&bytes)
                {
                    s.bad.push("other bytes after pending".into());
                }
                if now.len() < bytes.len() {
                    let m = format!("fewer bytes after pending {} {}", now.len(), bytes.len());
                    s.bad.push(m);
                }
                if chunks[0].len() < first {
                    let m = format!("first chunk shorter: {} < {first}", chunks[0].len());
                    s.bad.push(m);
                }
            }
        }
        let a = self.act(chunks);
        let mut s = self.0.borrow_mut();
        match a {
            Act::Take(n) => {
                if n == 0 {
                    s.zero = true;
                    s.gone = true;
                }
                s.trace.push(format!("    took {n}"));
                let mut left = n;
                for c in chunks {
                    let k = left.min(c.len());
                    s.accepted.extend_from_slice(&c[..k]);
                    left -= k;
                }
                if n > 0 {
                    s.due = true;
                }
                Poll::Ready(Ok(n))
            }
            Act::Pend => {
                s.trace.push("    pend".into());
                s.last_pending = true;
                s.put_off = Some((chunks.concat(), chunks[0].len()));
                Poll::Pending
            }
            Act::Err(k) => {
                s.trace.push(format!("    err {k:?}"));
                if k != ErrorKind::Interrupted {
                    s.errors.push(k);
                    if is_gone(k) {
                        s.gone = true;
                    }
                }
                if k == ErrorKind::WouldBlock || k == ErrorKind::Interrupted {
                    s.put_off = Some((chunks.concat(), chunks[0].len()));
                }
                Poll::Ready(Err(k.into()))
            }
            Act::Over(n) => {
                s.trace.push("    over".into());
                s.over = true;
                s.suspect = true;
                Poll::Ready(Ok(total + n))
            }
            Act::Panic => {
                s.trace.push("    panic".into());
                s.panicked = true;
                s.suspect = true;
                drop(s);
                panic!("evil")
            }
        }
    }
    fn other(&self, what: &str) -> Poll<io::Result<()>> {
        self.begin(what);
        let mut s = self.0.borrow_mut();
        if what == "close" {
            s.close_begun = true;
        }
        let r = if s.rng.below(10) >= s.wild { 99 } else { s.rng.below(8) };
        s.trace.push(format!("  {what} {r}"));
        match r {
            0 | 1 if !s.blocking => {
                s.last_pending = true;
                Poll::Pending
            }
            2 => {
                let k = KINDS[s.rng.below(KINDS.len())];
                if k != ErrorKind::Interrupted {
                    s.errors.push(k);
                    if is_gone(k) {
                        s.gone = true;
                    }
                }
                Poll::Ready(Err(k.into()))
            }
            3 => {
                s.panicked = true;
                s.suspect = true;
                drop(s);
                panic!("evil")
            }
            _ => {
                if what == "close" {
                    s.close_done = true
                } else {
                    s.due = false
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}
impl AsyncWrite for Evil {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, b: &[u8]) -> Poll<io::Result<usize>> {
        self.do_write(&[b], false)
    }
    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, b: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let v: Vec<&[u8]> = b.iter().map(|b| &**b).collect();
        self.do_write(&v, true)
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.other("flush")
    }
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.other("close")
    }
}
fn now<T>(p: Poll<T>) -> T {
    match p {
        Poll::Ready(v) => v,
        Poll::Pending => unreachable!(),
    }
}
impl Write for Evil {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        now(self.do_write(&[b], false))
    }
    fn write_vectored(&mut self, b: &[IoSlice<'_>]) -> io::Result<usize> {
        let v: Vec<&[u8]> = b.iter().map(|b| &**b).collect();
        now(self.do_write(&v, true))
    }
    fn flush(&mut self) -> io::Result<()> {
        now(self.other("flush"))
    }
}

// ---- pool ----
#[derive(Default)]
struct Pb {
    out: std::collections::BTreeSet<usize>,
    next: usize,
    bad: Vec<String>,
    armed: bool,
    wild: usize,
    panicked: bool,
    refused: bool,
    lost: usize,
}
struct Seg {
    b: Vec<u8>,
    id: usize,
    back: bool,
    pb: Rc<RefCell<Pb>>,
}
impl AsRef<[u8]> for Seg {
    fn as_ref(&self) -> &[u8] {
        &self.b
    }
}
impl AsMut<[u8]> for Seg {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.b
    }
}
impl Drop for Seg {
    fn drop(&mut self) {
        if !self.back {
            self.pb.borrow_mut().lost += 1;
        }
    }
}
struct EvilPool {
    pb: Rc<RefCell<Pb>>,
    rng: Rng,
    hold: bool,
}
impl SegmentPool for EvilPool {
    type Segment = Seg;
    fn take(&mut self, min: usize) -> Option<Seg> {
        let mut pb = self.pb.borrow_mut();
        if min == 0 {
            pb.bad.push("take(0)".into());
        }
        let wild = self.rng.below(30) < pb.wild;
        let note = |t: &str| {
            SH.with(|c| {
                if let Some(s) = &*c.borrow() {
                    if let Ok(mut s) = s.try_borrow_mut() {
                        s.trace.push(format!("    pool take {min}: {t}"));
                    }
                }
            })
        };
        let r = if wild { self.rng.below(4) } else { 9 };
        if r == 0 && pb.armed && !std::thread::panicking() {
            pb.armed = false;
            pb.panicked = true;
            note("panic");
            drop(pb);
            panic!("pool take")
        }
        if r == 1 {
            pb.refused = true;
            note("refused");
            return None;
        }
        let len = if r == 2 {
            pb.refused = true;
            self.rng.below(min)
        } else {
            min + if self.rng.chance(3) { self.rng.below(50) } else { 0 }
        };
        note(&format!("{len}"));
        let id = pb.next;
        pb.next += 1;
        pb.out.insert(id);
        Some(Seg { b: vec![0xEE; len], id, back: false, pb: Rc::clone(&self.pb) })
    }
    fn give(&mut self, mut s: Seg) {
        let mut pb = self.pb.borrow_mut();
        s.back = true;
        if !pb.out.remove(&s.id) {
            pb.bad.push("given twice".into());
        }
        let p = self.rng.below(60) < pb.wild && pb.armed && !std::thread::panicking();
        if p {
            pb.armed = false;
            pb.panicked = true;
        }
        SH.with(|c| {
            if let Some(sh) = &*c.borrow() {
                if let Ok(mut sh) = sh.try_borrow_mut() {
                    sh.trace.push(format!("    pool give {} panic {p}", s.b.len()));
                }
            }
        });
        drop(pb);
        drop(s);
        if p {
            panic!("pool give")
        }
    }
    fn may_hold(&self, _: &Seg) -> bool {
        self.hold
    }
}

// ---- subject ----
struct Count(AtomicUsize);
impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

trait Subject: Sized {
    fn span(&mut self, h: usize) -> io::Result<&mut [u8]>;
    fn advance(&mut self, n: usize) -> io::Result<()>;
    fn append(&mut self, d: &[u8]) -> io::Result<()>;
    fn unflushed(&self) -> usize;
    fn flush(&mut self, cx: &mut Context<'_>, how: usize) -> Poll<io::Result<FlushResult>>;
    fn emit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<FlushResult>>;
    fn wf(&mut self, cx: &mut Context<'_>, d: &[u8], forget: bool) -> Poll<io::Result<FlushResult>>;
    fn complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn abort(&mut self, cx: &mut Context<'_>, e: Option<io::Error>) -> Poll<io::Result<()>>;
    fn pwrite(&mut self, cx: &mut Context<'_>, d: &[u8]) -> Poll<io::Result<usize>>;
    fn pwritev(&mut self, cx: &mut Context<'_>, d: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    fn pflush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn pclose(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn completed(&self) -> bool;
    fn cancel(&self);
    fn handle(&self) -> PipeHandle;
    fn parts(self) -> Vec<u8>;
}
impl<P: SegmentPool> Subject for PipeWriter<Evil, P> {
    fn span(&mut self, h: usize) -> io::Result<&mut [u8]> {
        self.span_mut(h)
    }
    fn advance(&mut self, n: usize) -> io::Result<()> {
        PipeWriter::advance(self, n)
    }
    fn append(&mut self, d: &[u8]) -> io::Result<()> {
        PipeWriter::append(self, d)
    }
    fn unflushed(&self) -> usize {
        self.unflushed_bytes()
    }
    fn flush(&mut self, cx: &mut Context<'_>, how: usize) -> Poll<io::Result<FlushResult>> {
        if how == 0 {
            Pin::new(self).poll_flush(cx)
        } else {
            let mut f = PipeWriter::flush(self);
            let r = Pin::new(&mut f).poll(cx);
            if how == 2 {
                std::mem::forget(f);
            }
            r
        }
    }
    fn emit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<FlushResult>> {
        Pin::new(self).poll_emit(cx)
    }
    fn wf(&mut self, cx: &mut Context<'_>, d: &[u8], forget: bool) -> Poll<io::Result<FlushResult>> {
        let mut f = self.write_and_flush(d);
        let r = Pin::new(&mut f).poll(cx);
        if forget {
            std::mem::forget(f);
        }
        r
    }
    fn complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_complete(cx)
    }
    fn abort(&mut self, cx: &mut Context<'_>, e: Option<io::Error>) -> Poll<io::Result<()>> {
        match e {
            None => Pin::new(self).poll_abort(cx),
            Some(e) => Pin::new(&mut self.abort_with(e)).poll(cx),
        }
    }
    fn pwrite(&mut self, cx: &mut Context<'_>, d: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write(cx, d)
    }
    fn pwritev(&mut self, cx: &mut Context<'_>, d: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(cx, d)
    }
    fn pflush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        <Self as AsyncWrite>::poll_flush(Pin::new(self), cx)
    }
    fn pclose(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_close(Pin::new(self), cx)
    }
    fn completed(&self) -> bool {
        self.is_completed()
    }
    fn cancel(&self) {
        self.cancel_pending_flush()
    }
    fn handle(&self) -> PipeHandle {
        PipeWriter::handle(self)
    }
    fn parts(self) -> Vec<u8> {
        self.into_parts().1
    }
}
impl<P: SegmentPool> Subject for blocking::PipeWriter<Evil, P> {
    fn span(&mut self, h: usize) -> io::Result<&mut [u8]> {
        self.span_mut(h)
    }
    fn advance(&mut self, n: usize) -> io::Result<()> {
        blocking::PipeWriter::advance(self, n)
    }
    fn append(&mut self, d: &[u8]) -> io::Result<()> {
        blocking::PipeWriter::append(self, d)
    }
    fn unflushed(&self) -> usize {
        self.unflushed_bytes()
    }
    fn flush(&mut self, _: &mut Context<'_>, _: usize) -> Poll<io::Result<FlushResult>> {
        Poll::Ready(blocking::PipeWriter::flush(self))
    }
    fn emit(&mut self, _: &mut Context<'_>) -> Poll<io::Result<FlushResult>> {
        Poll::Ready(blocking::PipeWriter::emit(self))
    }
    fn wf(&mut self, _: &mut Context<'_>, d: &[u8], _: bool) -> Poll<io::Result<FlushResult>> {
        Poll::Ready(self.write_and_flush(d))
    }
    fn complete(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(blocking::PipeWriter::complete(self))
    }
    fn abort(&mut self, _: &mut Context<'_>, e: Option<io::Error>) -> Poll<io::Result<()>> {
        Poll::Ready(match e {
            None => blocking::PipeWriter::abort(self),
            Some(e) => self.abort_with(e),
        })
    }
    fn pwrite(&mut self, _: &mut Context<'_>, d: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Write::write(self, d))
    }
    fn pwritev(&mut self, _: &mut Context<'_>, d: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Poll::Ready(Write::write_vectored(self, d))
    }
    fn pflush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Write::flush(self))
    }
    fn pclose(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(blocking::PipeWriter::complete(self))
    }
    fn completed(&self) -> bool {
        self.is_completed()
    }
    fn cancel(&self) {
        self.cancel_pending_flush()
    }
    fn handle(&self) -> PipeHandle {
        blocking::PipeWriter::handle(self)
    }
    fn parts(self) -> Vec<u8> {
        self.into_parts().1
    }
}

// ---- the program ----
struct Ref {
    committed: Vec<u8>,
    next: usize,
    span: Option<usize>,
    max: usize,
    mark: usize,
    aborted: Option<ErrorKind>,
    leave_open: bool,
}
fn deal(next: usize, n: usize) -> Vec<u8> {
    (next..next + n).map(|i| (i % 251) as u8).collect()
}

struct Fail(String);
macro_rules! ck { ($c:expr, $($a:tt)*) => { if !$c { DISARM.with(|d| if let Some(pb) = &*d.borrow() { if let Ok(mut pb) = pb.try_borrow_mut() { pb.wild = 0; } }); return Err(Fail(format!($($a)*))); } } }

fn run<S: Subject>(
    seed: u64,
    rng: &Rng,
    make: impl FnOnce(Evil, PipeWriterOptions<EvilPool>) -> S,
    blocking: bool,
    trace_out: &mut Vec<String>,
) -> Result<(), Fail> {
    let wild = [0, 1, 3, 6, 9][rng.below(5)];
    let sh: Sh = Rc::new(RefCell::new(St {
        rng: rng.clone(),
        accepted: vec![],
        due: false,
        put_off: None,
        close_begun: false,
        close_done: false,
        bad: vec![],
        handle: None,
        cancel: false,
        wild,
        blocking,
        mood: Mood::Free,
        calls: 0,
        writes: 0,
        errors: vec![],
        zero: false,
        over: false,
        last_pending: false,
        panicked: false,
        suspect: false,
        gone: false,
        canceled_within: false,
        trace: vec![],
    }));
    let pb = Rc::new(RefCell::new(Pb { wild: [0, 0, 2, 8][rng.below(4)], ..Pb::default() }));
    let hold = rng.chance(2);
    let seg = if std::env::var("BIG").is_ok() {
        [100, 300, 4096, 65_536, 300_000][rng.below(5)]
    } else {
        [1, 2, 8, 64, 300][rng.below(5)]
    };
    let max = [1, 2, 20, 100, 1000, 1 << 30, usize::MAX][rng.below(7)];
    let mark = [0, 1, 2, 30, max, 64 * 1024, usize::MAX][rng.below(7)];
    let leave_open = rng.chance(3);
    let o = PipeWriterOptions::new()
        .segment_size(seg)
        .max_buffered(max)
        .high_water_mark(mark)
        .leave_open(leave_open)
        .pool(EvilPool { pb: Rc::clone(&pb), rng: rng.clone(), hold });
    SH.with(|c| *c.borrow_mut() = Some(Rc::clone(&sh)));
    DISARM.with(|c| *c.borrow_mut() = Some(Rc::clone(&pb)));
    if std::env::var("V").is_ok() {
        eprintln!(
            "seg {seg} max {max} mark {mark} leave_open {leave_open} hold {hold} wild {wild} pool {}",
            pb.borrow().wild
        );
    }
    let mut w = make(Evil(Rc::clone(&sh)), o);
    let mut m =
        Ref { committed: vec![], next: 0, span: None, max, mark: mark.clamp(1, max), aborted: None, leave_open };
    let _ = seed;
    let waker_count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = std::task::Waker::from(Arc::clone(&waker_count));
    let mut cx = Context::from_waker(&waker);
    let big = std::env::var("BIG").is_ok();
    let ops = 5 + rng.below(if big { 25 } else { 60 });
    let mut flush_pending = false;
    let mut any_pool_panic_since_flush;
    for _ in 0..ops {
        {
            let mut s = sh.borrow_mut();
            s.mood = Mood::NoIo;
            s.calls = 0;
            s.writes = 0;
            s.errors.clear();
            s.zero = false;
            s.over = false;
            s.last_pending = false;
            s.panicked = false;
            s.canceled_within = false;
            let mut p = pb.borrow_mut();
            p.armed = p.wild > 0;
            p.panicked = false;
            p.refused = false;
        }
        let buffered = m.committed.len() - sh.borrow().accepted.len();
        let closing = sh.borrow().close_begun && !w.completed();
        let ended = w.completed() || closing;
        let op = rng.below(22);
        if std::env::var("STRICT").is_err() && matches!(op, 13 | 14 | 15 | 16 | 20) {
            flush_pending = false;
        }
        if op == 15 || op == 20 || op == 16 {
            flush_pending = false;
        }
        let size = || {
            if big {
                [0, 1, 5, 63, 5000, 20_000, 270_000, 600_000][rng.below(8)]
            } else {
                [0, 1, 2, 5, 17, 63, 200, 1500][rng.below(8)]
            }
        };
        let due0 = sh.borrow().due;
        let cancel0 = sh.borrow().cancel;
        let refused_kind = |k: ErrorKind, m: &Ref| k == m.aborted.unwrap_or(ErrorKind::BrokenPipe);
        macro_rules! log { ($($a:tt)*) => { sh.borrow_mut().trace.push(format!($($a)*)) } }
        let mut skip_idle = false;
        match op {
            0..=3 => {
                let h = if rng.chance(20) {
                    [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1][rng.below(3)]
                } else {
                    size()
                };
                log!("span {h}");
                let huge = h >= isize::MAX as usize;
                if huge && max > 1 << 30 {
                    continue;
                } // the evil pool would really try
                let r = catch_unwind(AssertUnwindSafe(|| {
                    w.span(h).map(|s| {
                        let l = s.len();
                        for (i, b) in s.iter_mut().enumerate() {
                            *b = ((m.next + i) % 251) as u8;
                        }
                        l
                    })
                }));
                match r {
                    Err(_) => {
                        ck!(pb.borrow().panicked, "span panicked by itself");
                        let _ = w.advance(usize::MAX);
                        m.span = None;
                        skip_idle = true;
                    }
                    Ok(Ok(l)) => {
                        ck!(!ended, "span on ended");
                        ck!(l >= h.max(1), "short span {l} for {h}");
                        ck!(h <= max - buffered && max > buffered, "span past the quota");
                        m.span = Some(l);
                    }
                    Ok(Err(e)) => {
                        if ended {
                            ck!(refused_kind(e.kind(), &m), "span ended: {e:?}");
                        } else {
                            match e.kind() {
                                ErrorKind::QuotaExceeded => {
                                    ck!(h.max(1) > max - buffered, "quota for {h} {buffered} {max}")
                                }
                                ErrorKind::OutOfMemory => ck!(pb.borrow().refused, "oom"),
                                ErrorKind::InvalidInput => ck!(huge, "invalid"),
                                _ => ck!(false, "span err {e:?}"),
                            }
                        }
                    }
                }
                // advance
                for _ in 0..rng.below(3) {
                    let left = m.span.unwrap_or(0);
                    let n = match rng.below(6) {
                        0 => 0,
                        1 => left,
                        2 => left + 1,
                        3 => usize::MAX,
                        _ => rng.below(left + 1),
                    };
                    let buffered = m.committed.len() - sh.borrow().accepted.len();
                    log!("advance {n} of {:?}", m.span);
                    match w.advance(n) {
                        Ok(()) => {
                            if n > 0 {
                                ck!(!ended && m.span.is_some() && n <= left, "advance ok {n} left {left}");
                                ck!(n <= max - buffered, "advance past quota");
                                m.committed.extend(deal(m.next, n));
                                m.next += n;
                                m.span = Some(left - n);
                            }
                        }
                        Err(e) => {
                            ck!(n > 0, "advance 0 refused");
                            let want = if ended {
                                m.aborted.unwrap_or(ErrorKind::BrokenPipe)
                            } else if m.span.is_none() || n > left {
                                ErrorKind::InvalidInput
                            } else {
                                ErrorKind::QuotaExceeded
                            };
                            ck!(e.kind() == want, "advance {e:?} want {want:?}");
                            if want == ErrorKind::QuotaExceeded {
                                ck!(n > max - buffered, "advance quota");
                            }
                            m.span = None;
                            skip_idle = true;
                        }
                    }
                }
            }
            4 => {
                let left = m.span.unwrap_or(0);
                let n = rng.below(left + 1);
                log!("late advance {n}");
                match w.advance(n) {
                    Ok(()) => {
                        if n > 0 {
                            ck!(m.span.is_some() && !ended, "late advance");
                            ck!(n <= max - buffered, "late past quota");
                            m.committed.extend(deal(m.next, n));
                            m.next += n;
                            m.span = Some(left - n);
                        }
                    }
                    Err(e) => {
                        ck!(n > 0, "0");
                        ck!(
                            e.kind() == ErrorKind::QuotaExceeded && n > max - buffered,
                            "late advance {n} of {left}: {e:?}"
                        );
                        m.span = None;
                        skip_idle = true;
                    }
                }
            }
            5..=7 => {
                let d = deal(m.next, size());
                log!("append {}", d.len());
                m.span = None;
                match catch_unwind(AssertUnwindSafe(|| w.append(&d))) {
                    Err(_) => {
                        ck!(pb.borrow().panicked, "append panicked");
                        skip_idle = true;
                    }
                    Ok(Ok(())) => {
                        ck!(!ended, "append ended");
                        ck!(d.len() <= max - buffered, "append past quota");
                        m.committed.extend(&d);
                        m.next += d.len();
                    }
                    Ok(Err(e)) => {
                        if ended {
                            ck!(refused_kind(e.kind(), &m), "append {e:?}")
                        } else {
                            match e.kind() {
                                ErrorKind::QuotaExceeded => ck!(d.len() > max - buffered, "quota"),
                                ErrorKind::OutOfMemory => ck!(pb.borrow().refused, "oom"),
                                _ => ck!(false, "append {e:?}"),
                            }
                        }
                        skip_idle = true;
                    }
                }
                ck!(w.advance(1).is_err(), "span survived append");
            }
            8..=12 | 19 => {
                let which = match op {
                    8 | 9 => 0,
                    10 => 1,
                    11 | 12 => 2,
                    _ => 3,
                }; // flush emit wf pflush
                let d = if which == 2 { deal(m.next, size()) } else { vec![] };
                log!(
                    "{} {} (buffered {buffered} due {due0} cancel {cancel0})",
                    ["flush", "emit", "wf", "pflush"][which],
                    d.len()
                );
                let nothing = buffered == 0 && d.is_empty() && (!due0 || which == 1);
                sh.borrow_mut().mood = if ended || nothing || cancel0 { Mood::NoIo } else { Mood::Cancelable };
                m.span = None;
                let how = rng.below(3);
                let r = catch_unwind(AssertUnwindSafe(|| match which {
                    0 => w.flush(&mut cx, how),
                    1 => w.emit(&mut cx),
                    2 => w.wf(&mut cx, &d, how == 2),
                    _ => w.pflush(&mut cx).map(|r| r.map(|()| FlushResultLike::flushed())).map(conv),
                }));
                let s = sh.borrow();
                let mut committed_arg = which == 2;
                let mut oom_abort = false;
                flush_pending = false;
                match r {
                    Err(_) => {
                        ck!(s.panicked || pb.borrow().panicked, "panic by itself");
                        skip_idle = true;
                        if which == 2 && w.completed() && !ended {
                            if std::env::var("STRICT").is_ok() {
                                oom_abort = true;
                            } else {
                                pb.borrow_mut().wild = 0;
                                return Ok(());
                            }
                        }
                    }
                    Ok(Poll::Pending) => {
                        ck!(s.last_pending && !ended, "pending unasked");
                        ck!(!s.cancel, "pending though canceled");
                        flush_pending = true;
                    }
                    Ok(Poll::Ready(Ok(f))) => {
                        if f.is_completed() {
                            ck!(ended && m.aborted.is_none(), "completed but not");
                            committed_arg = false;
                            ck!(d.is_empty(), "wf of some on ended");
                        } else if f.is_canceled() {
                            ck!(s.cancel, "canceled but none");
                            ck!(!ended, "canceled on ended");
                            drop(s);
                            sh.borrow_mut().cancel = false;
                        } else {
                            ck!(!ended || which == 3 && m.aborted.is_none(), "flushed on ended");
                            if !ended {
                                ck!(s.accepted.len() == m.committed.len() + d.len(), "flushed but not all");
                                ck!(which == 1 || !s.due, "flushed but due");
                                ck!(!cancel0, "cancel not seen");
                                if which != 1 {
                                    drop(s);
                                    sh.borrow_mut().suspect = false;
                                }
                            }
                        }
                    }
                    Ok(Poll::Ready(Err(e))) => {
                        let k = e.kind();
                        if which == 3 && e.get_ref().is_some_and(|i| i.is::<Canceled>()) {
                            ck!(s.cancel && !ended, "canceled but none");
                            drop(s);
                            sh.borrow_mut().cancel = false;
                        } else if ended {
                            ck!(
                                refused_kind(k, &m) && (m.aborted.is_some() || which == 2 && !d.is_empty()),
                                "ended: {e:?}"
                            );
                            committed_arg = false;
                        } else if which == 2 && !d.is_empty() && k == ErrorKind::QuotaExceeded {
                            ck!(d.len() > max - buffered, "wf quota");
                            ck!(s.calls == 0, "io before quota");
                            committed_arg = false;
                        } else if which == 2 && k == ErrorKind::OutOfMemory {
                            ck!(pb.borrow().refused, "wf oom");
                            oom_abort = true;
                            ck!(w.completed(), "oom not aborted");
                        } else {
                            ck!(
                                s.errors.last() == Some(&k) && s.errors.len() == 1
                                    || s.zero && k == ErrorKind::WriteZero
                                    || s.over && k == ErrorKind::InvalidData,
                                "err {e:?}, stream said {:?}",
                                s.errors
                            );
                        }
                    }
                }
                if committed_arg && !ended {
                    m.committed.extend(&d);
                    m.next += d.len();
                }
                if oom_abort {
                    let n = sh.borrow().accepted.len();
                    m.committed.truncate(n);
                    m.next = m.committed.len().max(m.next);
                    m.aborted = Some(ErrorKind::OutOfMemory);
                }
            }
            13 | 14 => {
                let v: Vec<Vec<u8>> = {
                    let k = if op == 13 { 1 } else { rng.below(6) };
                    let mut at = m.next;
                    (0..k)
                        .map(|_| {
                            let n = if rng.chance(3) { 0 } else { size() };
                            let d = deal(at, n);
                            at += n;
                            d
                        })
                        .collect()
                };
                let total: usize = v.iter().map(Vec::len).sum();
                log!("pwrite {:?} buffered {buffered} mark {}", v.iter().map(Vec::len).collect::<Vec<_>>(), m.mark);
                let may_io = !ended && total > 0 && buffered >= m.mark;
                sh.borrow_mut().mood = if may_io { Mood::NotCancelable } else { Mood::NoIo };
                m.span = None;
                let slices: Vec<IoSlice<'_>> = v.iter().map(|d| IoSlice::new(d)).collect();
                let r = catch_unwind(AssertUnwindSafe(|| {
                    if op == 13 { w.pwrite(&mut cx, &v[0]) } else { w.pwritev(&mut cx, &slices) }
                }));
                let s = sh.borrow();
                let mut took = 0;
                match r {
                    Err(_) => {
                        ck!(s.panicked || pb.borrow().panicked, "panic by itself");
                        skip_idle = true;
                        if op == 14 {
                            let now = w.unflushed() + s.accepted.len();
                            ck!(now >= m.committed.len(), "less");
                            took = now - m.committed.len();
                        }
                    }
                    Ok(Poll::Pending) => {
                        ck!(s.last_pending, "pending unasked");
                        ck!(m.committed.len() - s.accepted.len() >= m.mark, "pending below the mark");
                    }
                    Ok(Poll::Ready(Ok(n))) => {
                        ck!(!ended, "write on ended");
                        ck!(n <= total && (n > 0 || total == 0), "write said {n} of {total}");
                        took = n;
                        if n > 0 {
                            ck!(m.committed.len() + n - s.accepted.len() <= m.mark, "past the mark");
                            ck!(
                                n == total || m.committed.len() + n - s.accepted.len() == m.mark || pb.borrow().refused,
                                "took less than it could"
                            );
                        }
                    }
                    Ok(Poll::Ready(Err(e))) => {
                        let k = e.kind();
                        if ended {
                            ck!(refused_kind(k, &m), "pwrite {e:?}");
                        } else {
                            ck!(
                                s.errors == [k]
                                    || s.zero && k == ErrorKind::WriteZero
                                    || s.over && k == ErrorKind::InvalidData
                                    || k == ErrorKind::OutOfMemory && pb.borrow().refused,
                                "pwrite err {e:?}"
                            );
                        }
                        skip_idle = true;
                    }
                }
                m.committed.extend(deal(m.next, took));
                m.next += took;
            }
            15 | 20 => {
                log!("complete");
                sh.borrow_mut().mood =
                    if w.completed() && (m.aborted.is_none() || sh.borrow().close_done || leave_open || blocking) {
                        Mood::NotCancelable
                    } else if ended {
                        Mood::CloseOnly
                    } else {
                        Mood::NotCancelable
                    };
                m.span = None;
                let was = w.completed();
                let r =
                    catch_unwind(AssertUnwindSafe(|| if op == 15 { w.complete(&mut cx) } else { w.pclose(&mut cx) }));
                let s = sh.borrow();
                match r {
                    Err(_) => {
                        ck!(s.panicked || pb.borrow().panicked, "panic by itself");
                        skip_idle = true;
                    }
                    Ok(Poll::Pending) => ck!(s.last_pending, "complete pending"),
                    Ok(Poll::Ready(Ok(()))) => {
                        ck!(w.completed(), "not completed");
                        if !was && m.aborted.is_none() {
                            ck!(s.accepted == m.committed && !s.due, "complete but not all");
                        }
                        if !m.leave_open && !blocking {
                            ck!(s.close_done, "not closed");
                        } else {
                            ck!(!s.close_begun, "closed");
                        }
                        ck!(pb.borrow().out.is_empty(), "completed holds")
                    }
                    Ok(Poll::Ready(Err(e))) => {
                        ck!(s.errors == [e.kind()] || s.zero || s.over, "complete err {e:?}");
                    }
                }
                if !s.due && s.accepted == m.committed {
                    drop(s);
                    sh.borrow_mut().suspect = false;
                }
                let s = sh.borrow();
                if w.completed() {
                    let c = s.calls;
                    ck!(c == 0 || !was || s.close_begun, "calls on completed");
                }
            }
            16 if rng.chance(4) => {
                let with = rng.chance(2);
                log!("abort {with}");
                let was = w.completed();
                sh.borrow_mut().mood = Mood::CloseOnly;
                m.span = None;
                let r = catch_unwind(AssertUnwindSafe(|| {
                    w.abort(&mut cx, with.then(|| io::Error::new(ErrorKind::TimedOut, "why")))
                }));
                ck!(w.completed(), "abort without effect");
                if !was {
                    let n = sh.borrow().accepted.len();
                    m.committed.truncate(n);
                    if with {
                        m.aborted = Some(ErrorKind::TimedOut);
                    }
                }
                let s = sh.borrow();
                match r {
                    Err(_) => {
                        ck!(s.panicked || pb.borrow().panicked, "panic by itself");
                        skip_idle = true;
                        if !pb.borrow().panicked {
                            ck!(pb.borrow().out.is_empty(), "aborted holds");
                        }
                    }
                    Ok(p) => {
                        ck!(pb.borrow().out.is_empty(), "aborted holds");
                        if let Poll::Ready(Ok(())) = p {
                            if !leave_open && !blocking {
                                ck!(s.close_done, "abort did not close");
                            }
                        }
                        if leave_open || blocking {
                            ck!(s.calls == 0, "abort did io");
                        }
                    }
                }
            }
            17 => {
                log!("cancel");
                if rng.chance(2) || sh.borrow().handle.is_none() {
                    let before = waker_count.0.load(Ordering::SeqCst);
                    w.cancel();
                    if flush_pending && !cancel0 {
                        ck!(waker_count.0.load(Ordering::SeqCst) > before, "cancel did not wake");
                    }
                } else {
                    let h = sh.borrow().handle.clone().unwrap();
                    let before = waker_count.0.load(Ordering::SeqCst);
                    h.cancel_pending_flush();
                    if flush_pending && !cancel0 {
                        ck!(waker_count.0.load(Ordering::SeqCst) > before, "cancel by handle did not wake");
                    }
                }
                sh.borrow_mut().cancel = true;
                skip_idle = true;
            }
            18 => {
                if sh.borrow().handle.is_none() {
                    log!("handle");
                    let h = w.handle();
                    ck!(h.is_closed() == (sh.borrow().gone || w.completed()), "closed at birth");
                    sh.borrow_mut().handle = Some(h);
                }
            }
            _ => {}
        }
        any_pool_panic_since_flush = pb.borrow().panicked;
        // From then on a drop writes nothing, until a flush has gone well.
        sh.borrow_mut().suspect |= any_pool_panic_since_flush;
        // after every step
        let s = sh.borrow();
        ck!(s.bad.is_empty(), "stream: {:?}", s.bad);
        ck!(
            pb.borrow().bad.is_empty() && pb.borrow().lost == 0,
            "pool: {:?} lost {}",
            pb.borrow().bad,
            pb.borrow().lost
        );
        ck!(m.committed.starts_with(&s.accepted), "order broken");
        ck!(
            w.unflushed() + s.accepted.len() == m.committed.len(),
            "unflushed {} accepted {} committed {}",
            w.unflushed(),
            s.accepted.len(),
            m.committed.len()
        );
        if w.completed() && !any_pool_panic_since_flush {
            ck!(pb.borrow().out.is_empty(), "completed holds {}", pb.borrow().out.len());
        }
        if let Some(h) = &s.handle {
            ck!(
                h.is_closed() == (s.gone || w.completed()),
                "is_closed {} gone {} completed {}",
                h.is_closed(),
                s.gone,
                w.completed()
            );
        }
        if std::env::var("IDLE").is_ok()
            && !hold
            && m.span.is_none()
            && w.unflushed() == 0
            && !skip_idle
            && !any_pool_panic_since_flush
        {
            ck!(pb.borrow().out.is_empty(), "idle holds {}", pb.borrow().out.len());
        }
        let _ = &trace_out;
    }
    // the end
    {
        let mut s = sh.borrow_mut();
        s.mood = Mood::NoIo;
        s.wild = 0;
        s.calls = 0;
        let mut p = pb.borrow_mut();
        p.wild = 0;
        p.armed = false;
        p.panicked = false;
    }
    if rng.chance(2) {
        let rest = w.parts();
        let s = sh.borrow();
        ck!(m.committed[s.accepted.len()..] == rest[..], "into_parts");
    } else {
        let silent = !blocking || w.completed() || sh.borrow().suspect;
        sh.borrow_mut().mood = if silent { Mood::NoIo } else { Mood::NotCancelable };
        drop(w);
        let s = sh.borrow();
        if !silent {
            ck!(s.accepted == m.committed, "drop did not write");
        }
    }
    let s = sh.borrow();
    ck!(s.bad.is_empty(), "stream at the end: {:?}", s.bad);
    if let Some(h) = &s.handle {
        ck!(h.is_closed(), "not closed at the end");
    }
    ck!(
        pb.borrow().out.is_empty() && pb.borrow().lost == 0,
        "at the end {} out, {} lost",
        pb.borrow().out.len(),
        pb.borrow().lost
    );
    Ok(())
}
// plain flush: Ok(()) -> a flushed result, which cannot be made from outside; get one from a writer.
struct FlushResultLike;
impl FlushResultLike {
    fn flushed() -> FlushResult {
        blocking::PipeWriter::new(Vec::new()).flush().unwrap()
    }
}
fn conv(r: io::Result<FlushResult>) -> io::Result<FlushResult> {
    r
}

thread_local! { static DISARM: RefCell<Option<Rc<RefCell<Pb>>>> = const { RefCell::new(None) }; }
thread_local! { static SH: RefCell<Option<Sh>> = const { RefCell::new(None) }; }

#[test]
fn programs() {
    std::panic::set_hook(Box::new(|_| {}));
    let from: u64 = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(20_000);
    let mut fails = std::collections::BTreeMap::<String, (u64, usize)>::new();
    for seed in from..from + count {
        let rng = Rng(Rc::new(RefCell::new(seed.wrapping_mul(0x9E3779B97F4A7C15) | 1)));
        for _ in 0..3 {
            rng.next();
        }
        let mut t = vec![];
        let r = catch_unwind(AssertUnwindSafe(|| {
            if seed % 2 == 0 {
                run(seed, &rng, |e, o| PipeWriter::with_options(e, o), false, &mut t)
            } else {
                run(seed, &rng, |e, o| blocking::PipeWriter::with_options(e, o), true, &mut t)
            }
        }));
        let msg = match r {
            Ok(Ok(())) => continue,
            Ok(Err(Fail(m))) => m,
            Err(p) => format!(
                "PANIC {:?}",
                p.downcast_ref::<String>().map(|s| s.as_str()).or(p.downcast_ref::<&str>().copied())
            ),
        };
        if std::env::var("V").is_ok() {
            SH.with(|c| {
                if let Some(s) = &*c.borrow() {
                    for l in &s.borrow().trace {
                        eprintln!("{l}");
                    }
                }
            });
            eprintln!("seed {seed}: {msg}");
        }
        let key: String = msg.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        let e = fails.entry(key).or_insert((seed, 0));
        e.1 += 1;
    }
    let _ = std::panic::take_hook();
    for (k, (seed, n)) in &fails {
        eprintln!("{n}x first seed {seed}: {k}");
    }
    let _ = HeapPool::new();
    eprintln!("{count} programs");
    assert!(fails.is_empty());
}
