//! Carries out a program, and looks after each operation whether the writer is as it should be.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::{cell::RefCell, io};

use pipewriter_core::{Options, SlicePool};
use pipewriter_std::{Closed, HeapPool, PipeWriter, PipeWriterOptions, SegmentPool, SharedPool, blocking};

use super::drive::Which;
use super::model::{Model, are_committed, bytes};
use super::operation::{Answer, End, Limit, Operation, PoolAnswer, PoolKind, Settings, Size, WriterKind};
use super::pool::{Book, Inner, Plain, SharedBook, Tracked};
use super::port::{PLACES, Port, SEGMENTS};
use super::stream::{ModelStream, Permit, Seen, SharedSeen};
use super::writer::{Handle, Trim, Turn, Writer};
use super::{Fault, Program, Scripted, rule};
use crate::exec::Wakes;

/// Runs `program` and says which rule of the contract it has found broken, if any.
///
/// # Errors
///
/// The first fault.
pub fn run(program: &Program) -> Result<(), Fault> {
    let mut memory = vec![0xEE; SEGMENTS * program.settings.segment_size.bytes().max(1)];
    let mut run = Run::new(program.settings, &mut memory);
    for (operation, step) in program.operations.iter().enumerate() {
        if let Err(rule) = run.step(step) {
            run.abandon();
            return Err(Fault { operation, rule });
        }
    }
    run.end().map_err(|rule| Fault { operation: program.operations.len(), rule })
}

/// A program under way.
pub(super) struct Run<'m> {
    pub(super) settings: Settings,
    pub(super) writer: Box<dyn Writer + 'm>,
    pub(super) model: Model,
    pub(super) seen: SharedSeen,
    pub(super) book: SharedBook,
    /// Another handle to the shared pool, if it is one.
    neighbor: Option<SharedPool>,
    tasks: [(Wakes, Waker); 2],
    task: usize,
    closed: Vec<(Closed, Wakes)>,
}

impl<'m> Run<'m> {
    fn new(settings: Settings, memory: &'m mut [u8]) -> Self {
        let book = Rc::new(RefCell::new(Book::default()));
        let seen = Rc::new(RefCell::new(Seen::new(settings.otherwise, Rc::clone(&book))));
        let mut neighbor = None;
        let writer = match (settings.writer, settings.pool) {
            (WriterKind::Core, _) => {
                let pool = Tracked::new(SlicePool::new(memory), &book, usize::MAX);
                Box::new(Port::new(ModelStream(Rc::clone(&seen)), pool, core_options(&settings)))
                    as Box<dyn Writer + 'm>
            }
            (_, PoolKind::Plain { may_hold }) => tracked(&settings, &seen, &book, Plain { may_hold }, usize::MAX),
            (_, PoolKind::Heap { bound }) => {
                tracked(&settings, &seen, &book, HeapPool::with_bound(bound.bytes()), bound.bytes())
            }
            (_, PoolKind::Shared { bound, clears }) => {
                let make = if clears { SharedPool::clearing } else { SharedPool::with_bound };
                let pool = make(bound.bytes());
                neighbor = Some(pool.clone());
                tracked(&settings, &seen, &book, pool, bound.bytes())
            }
            (_, PoolKind::Default) => over(&settings, &seen, HeapPool::new()),
        };
        let tasks = [Wakes::new(), Wakes::new()].map(|wakes| (wakes.clone(), wakes.waker()));
        let model = Model::new(&settings);
        Self { settings, writer, model, seen, book, neighbor, tasks, task: 0, closed: Vec::new() }
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        self.book.borrow_mut().begin_operation();
        self.seen.borrow_mut().begin_operation(self.model.committed);
        self.seen.borrow_mut().task = Some(self.waker().clone());
        match *operation {
            Operation::Span(hint) => self.span(hint)?,
            Operation::Advance(reach) => self.advance(reach)?,
            Operation::Append(size) => self.append(self.len(size))?,
            Operation::Flush(call) => self.flush(Which::Flush, call)?,
            Operation::Emit(call) => self.flush(Which::Emit, call)?,
            Operation::WriteAndFlush(size, call) => self.flush(Which::WriteAndFlush(size.bytes()), call)?,
            Operation::PlainFlush => self.flush(Which::Plain, super::Call::Poll)?,
            Operation::Write(size) => self.plain_write(&[self.len(size)], false)?,
            Operation::WriteVectored(ref sizes) => {
                let lens: Vec<usize> = sizes.iter().take(5).map(|size| self.len(*size)).collect();
                self.plain_write(&lens, true)?;
            }
            Operation::WriteAll(size) => self.write_all(self.len(size))?,
            Operation::PlainClose => self.complete(true, super::Call::Poll)?,
            Operation::Complete(call) => self.complete(false, call)?,
            Operation::Abort(call) => self.abort(None, call)?,
            Operation::AbortWith(call) => {
                self.abort(Some(io::Error::new(io::ErrorKind::TimedOut, super::produce::REASON)), call)?;
            }
            Operation::Cancel => self.cancel(|writer| writer.cancel())?,
            Operation::CancelByHandle => {
                let handle = self.handle();
                self.cancel(move |_| handle.cancel())?;
            }
            Operation::AwaitClosed => self.await_closed()?,
            Operation::Wake => {
                let waker = self.seen.borrow_mut().waker.take();
                waker.into_iter().for_each(Waker::wake);
            }
            Operation::OtherTask => self.task = 1 - self.task,
            Operation::Trim => self.trim()?,
            Operation::Neighbor(size) => self.neighbor(size)?,
            Operation::Stream(answer) => {
                if answer == Answer::Cancel {
                    self.handle();
                }
                self.seen.borrow_mut().answers.push_back(answer);
            }
            Operation::Pool(PoolAnswer::PanicAtGive(after)) => self.book.borrow_mut().panics_at_give = Some(after),
            Operation::Pool(answer) => self.book.borrow_mut().answers.push_back(answer),
        }
        // From then on a drop writes nothing, until a flush has gone well.
        let panicked = self.book.borrow().panicked;
        self.seen.borrow_mut().suspect |= panicked;
        self.check()
    }

    /// What must hold between any two operations.
    fn check(&mut self) -> Result<(), String> {
        self.check_violations()?;
        let (seen, book) = (self.seen.borrow(), self.book.borrow());
        let (accepted, committed, unflushed) = (seen.accepted, self.model.committed, self.writer.unflushed_bytes());
        rule!(
            accepted + unflushed == committed,
            "{accepted} bytes accepted and {unflushed} unflushed are not the {committed} committed"
        );
        let completed = self.writer.is_completed();
        rule!(!completed || self.model.ended.is_some(), "the writer is completed by itself");
        if completed && !book.panicked {
            rule!(book.out.is_empty(), "a completed writer holds {} segments", book.out.len());
            let keeps = matches!(self.settings.pool, PoolKind::Heap { .. }) && book.kept_bytes > 0;
            let told = book.detached && !keeps || book.has_panicked || self.settings.pool == PoolKind::Default;
            rule!(told, "the pool was not told of the end: it keeps {} bytes", book.kept_bytes);
        }
        if let Some(handle) = &seen.handle {
            let (closed, gone) = (handle.is_closed(), seen.gone);
            rule!(closed == (gone || completed), "is_closed: {closed}, gone: {gone}, completed: {completed}");
        }
        if let Some(pool) = &self.neighbor {
            let stats = pool.stats();
            rule!(
                (stats.segments_out, stats.bytes_out) == (book.out.len(), book.out_bytes),
                "the shared pool says {stats:?}, {} segments of {} bytes are out",
                book.out.len(),
                book.out_bytes
            );
        }
        drop((seen, book));
        self.check_closed()
    }

    fn check_violations(&self) -> Result<(), String> {
        let mut found = self.seen.borrow_mut().violation.take();
        found = found.or_else(|| self.book.borrow_mut().violation.take());
        found.map_or(Ok(()), Err)
    }

    /// Whoever waits for the end is woken and told.
    fn check_closed(&mut self) -> Result<(), String> {
        let closed = self.seen.borrow().handle.as_ref().is_some_and(Handle::is_closed);
        if !closed {
            return Ok(());
        }
        for (mut future, wakes) in self.closed.drain(..) {
            rule!(wakes.count() > 0, "who waits for the end is not woken");
            let poll = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            rule!(poll.is_ready(), "who waits for the end is not told");
        }
        Ok(())
    }

    /// The end of the writer.
    fn end(self) -> Result<(), String> {
        let Self { settings, writer, model, seen, book, mut closed, neighbor, .. } = self;
        book.borrow_mut().begin_operation();
        seen.borrow_mut().begin_operation(model.committed);
        let caught = match settings.end {
            End::Parts => catch_unwind(AssertUnwindSafe(move || Some(writer.into_rest()))),
            End::Drop => {
                let writes = settings.writer == WriterKind::Blocking && model.ended.is_none() && !seen.borrow().suspect;
                seen.borrow_mut().permit = if writes { Permit::WritesOnly } else { Permit::Nothing };
                catch_unwind(AssertUnwindSafe(move || {
                    drop(writer);
                    None
                }))
            }
        };
        rule!(Rc::strong_count(&seen) == 1, "the stream outlives its writer");
        let mut seen = seen.borrow_mut();
        let mut book = book.borrow_mut();
        rule!(seen.violation.is_none(), "at the end: {}", seen.violation.take().unwrap_or_default());
        rule!(book.violation.is_none(), "at the end: {}", book.violation.take().unwrap_or_default());
        match caught {
            Ok(Some(rest)) => rule!(
                rest.len() == model.committed - seen.accepted && are_committed(seen.accepted, &rest),
                "into_parts returns {} bytes of {}, or others",
                rest.len(),
                model.committed - seen.accepted
            ),
            Ok(None) => {
                let trouble = seen.error.is_some() || seen.zero || seen.claimed;
                let writes = seen.permit == Permit::WritesOnly && !trouble;
                rule!(!writes || seen.accepted == model.committed, "the drop does not write all");
            }
            Err(payload) => rule!(payload.is::<Scripted>(), "the end panics"),
        }
        rule!(book.out.is_empty(), "{} segments are never given back", book.out.len());
        let is_closed = seen.handle.as_ref().is_none_or(Handle::is_closed);
        rule!(is_closed, "the handle does not know of the end");
        rule!(closed.drain(..).all(|(_, wakes)| wakes.count() > 0), "who waits for the end is not woken by it");
        let stats = neighbor.map(|pool| pool.stats()).unwrap_or_default();
        rule!(stats.segments_out == 0, "at the end the shared pool says {stats:?}");
        Ok(())
    }

    /// Drops a writer that has broken a rule: what it does then is of no interest, so long as it ends.
    fn abandon(self) {
        self.book.borrow_mut().disarm();
        self.seen.borrow_mut().answers.clear();
        let _ = catch_unwind(AssertUnwindSafe(move || drop(self)));
    }

    // ---- what the operations need ----

    /// 0 where the stream has got too much, which is noticed after the operation.
    pub(super) fn buffered(&self) -> usize {
        self.model.committed.saturating_sub(self.seen.borrow().accepted)
    }

    /// The length of something to copy in: not so long that it takes thousands of segments, which is slow and not new.
    fn len(&self, size: Size) -> usize {
        size.bytes().min(2048 * self.settings.segment_size.bytes().max(1))
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.tasks[self.task].1
    }

    pub(super) fn current_task(&self) -> usize {
        self.task
    }

    pub(super) fn wakes(&self, task: usize) -> usize {
        self.tasks[task].0.count()
    }

    /// Calls the writer. `None` if the stream or the pool panicked as it was told.
    pub(super) fn call<T>(
        &mut self,
        call: super::Call,
        f: impl FnOnce(&mut dyn Writer, &Turn<'_>) -> T,
    ) -> Result<Option<T>, String> {
        let turn = Turn { waker: &self.tasks[self.task].1, call };
        let writer = &mut *self.writer;
        match catch_unwind(AssertUnwindSafe(|| f(writer, &turn))) {
            Ok(value) => Ok(Some(value)),
            Err(payload) if payload.is::<Scripted>() => Ok(None),
            Err(payload) => {
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
                Err(format!("the writer panics: {text}"))
            }
        }
    }

    /// Whether this operation may fail for want of memory.
    pub(super) fn may_lack_memory(&self) -> bool {
        let book = self.book.borrow();
        book.refused || self.settings.writer == WriterKind::Core && book.most_out > PLACES
    }

    fn handle(&self) -> Handle {
        let handle = self.seen.borrow().handle.clone();
        handle.unwrap_or_else(|| {
            let handle = self.writer.handle();
            self.seen.borrow_mut().handle = Some(handle.clone());
            handle
        })
    }

    fn cancel(&mut self, cancel: impl FnOnce(&dyn Writer)) -> Result<(), String> {
        let waits = self.model.waiting.filter(|_| !self.seen.borrow().cancel);
        let before = waits.map(|task| self.wakes(task));
        cancel(&*self.writer);
        let woken = waits.map(|task| self.wakes(task)) > before;
        rule!(waits.is_none() || woken, "a cancel does not wake the flush that is pending");
        self.seen.borrow_mut().cancel = true;
        Ok(())
    }

    fn await_closed(&mut self) -> Result<(), String> {
        let Handle::Std(handle) = self.handle() else { return Ok(()) };
        let (mut future, wakes) = (handle.closed(), Wakes::new());
        // The second poll is by another task, which is then the one to be woken.
        let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        let poll = Pin::new(&mut future).poll(&mut Context::from_waker(&wakes.waker()));
        rule!(poll.is_ready() == handle.is_closed(), "closed() is {poll:?}, is_closed: {}", handle.is_closed());
        if poll == Poll::Pending {
            self.closed.push((future, wakes));
            if self.closed.len() > 3 {
                drop(self.closed.remove(0));
            }
        }
        Ok(())
    }

    fn trim(&mut self) -> Result<(), String> {
        if let Some(pool) = &self.neighbor {
            pool.trim();
            let stats = pool.stats();
            rule!(stats.bytes_kept == 0, "a pool that was trimmed keeps {} bytes", stats.bytes_kept);
            // With nothing kept there is room for short segments up to the bound: else it has lost count.
            let room = self.book.borrow().bound / 1024;
            // A handle each, or they would grow as one batch.
            let mut handles = vec![pool.clone(); room];
            let segments: Vec<_> = handles.iter_mut().filter_map(|pool| pool.take(1)).collect();
            handles.iter_mut().zip(segments).for_each(|(pool, segment)| pool.give(segment));
            let kept = pool.stats().bytes_kept;
            rule!(kept == room * 1024, "a pool that was trimmed keeps {kept} bytes of {room} KiB from then on");
            pool.trim();
        } else if self.call(super::Call::Poll, |writer, _| writer.trim())?.unwrap_or(true) {
            self.model.span = None;
        }
        Ok(())
    }

    fn neighbor(&mut self, size: Size) -> Result<(), String> {
        let Some(mut pool) = self.neighbor.clone() else { return Ok(()) };
        let len = size.bytes().max(1);
        let Some(mut segment) = pool.take(len) else { return Err("the shared pool refuses".into()) };
        rule!(segment.len() >= len, "the shared pool hands out {} bytes for {len}", segment.len());
        if matches!(self.settings.pool, PoolKind::Shared { clears: true, .. }) {
            rule!(segment.iter().all(|byte| *byte == 0), "a pool that clears shows what was written");
        }
        segment.fill(0xDD);
        pool.give(segment);
        Ok(())
    }
}

fn core_options(settings: &Settings) -> Options {
    let mut options = Options::new().segment_size(settings.segment_size.bytes().max(1)).leave_open(settings.leave_open);
    if settings.max_buffered != Limit::Default {
        options = options.max_buffered(bytes(settings.max_buffered, 0).max(1));
    }
    if settings.high_water_mark != Limit::Default {
        options = options.high_water_mark(bytes(settings.high_water_mark, 0));
    }
    options
}

fn std_options(settings: &Settings) -> PipeWriterOptions {
    let mut options =
        PipeWriterOptions::new().segment_size(settings.segment_size.bytes().max(1)).leave_open(settings.leave_open);
    if settings.max_buffered != Limit::Default {
        options = options.max_buffered(bytes(settings.max_buffered, 0).max(1));
    }
    if settings.high_water_mark != Limit::Default {
        options = options.high_water_mark(bytes(settings.high_water_mark, 0));
    }
    options
}

fn tracked<P: Inner + 'static>(
    settings: &Settings,
    seen: &SharedSeen,
    book: &SharedBook,
    pool: P,
    bound: usize,
) -> Box<dyn Writer> {
    over(settings, seen, Tracked::new(pool, book, bound))
}

fn over<P: Trim + 'static>(settings: &Settings, seen: &SharedSeen, pool: P) -> Box<dyn Writer> {
    let (stream, options) = (ModelStream(Rc::clone(seen)), std_options(settings).pool(pool));
    match settings.writer {
        WriterKind::Blocking => Box::new(blocking::PipeWriter::with_options(stream, options)),
        _ => Box::new(PipeWriter::with_options(stream, options)),
    }
}
