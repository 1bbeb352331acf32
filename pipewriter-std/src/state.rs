use std::{fmt, io};

use pipewriter_core::{Cause, Error, HeapPipe, HeapPool, Pipe, SegmentPool};

use crate::{
    PipeHandle, PipeWriterOptions,
    error::{Reason, io_error},
    link::WriterLink,
};

/// All of a writer but its stream: what the async and the blocking one have in common.
pub(crate) struct State<P: SegmentPool> {
    pub(crate) pipe: HeapPipe<P, WriterLink>,
    /// What `abort_with` was given.
    pub(crate) reason: Reason,
}

impl State<HeapPool> {
    pub(crate) fn trim(&mut self) {
        self.pipe.release_idle();
        self.pipe.pool_mut().trim();
    }
}

impl<P: SegmentPool> State<P> {
    pub(crate) fn new(options: PipeWriterOptions<P>) -> Self {
        Self { pipe: Pipe::with_options(options.pool, options.pipe), reason: None }
    }

    #[inline]
    pub(crate) fn span_mut(&mut self, size_hint: usize) -> io::Result<&mut [u8]> {
        let Self { pipe, reason } = self;
        pipe.span_mut(size_hint).map_err(|error| io_error(error, reason))
    }

    #[inline]
    pub(crate) fn advance(&mut self, n: usize) -> io::Result<()> {
        self.pipe.advance(n).map_err(|error| self.error(error))
    }

    #[inline]
    pub(crate) fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.pipe.append(data).map_err(|error| self.error(error))
    }

    #[cold]
    fn error(&self, error: Error) -> io::Error {
        io_error(error, &self.reason)
    }

    pub(crate) fn cancel_pending_flush(&self) {
        self.pipe.cancel_pending_flush();
    }

    pub(crate) fn handle(&self) -> PipeHandle {
        self.pipe.link().handle()
    }

    /// Keeps `reason`, unless the writer has ended already: the first reason stays.
    pub(crate) fn set_reason(&mut self, reason: Reason) -> Cause {
        if reason.is_none() {
            return Cause::Asked;
        }
        if !self.pipe.is_completed() {
            self.reason = reason;
        }
        Cause::Reason
    }

    pub(crate) fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("pipe", &self.pipe)
            .field("reason", &self.reason.as_ref().map(io::Error::kind))
            .finish_non_exhaustive()
    }
}
