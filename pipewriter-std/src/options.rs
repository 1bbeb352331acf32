use pipewriter_core::{HeapPool, Options};

/// How a writer is set up; a plain builder.
///
/// | setting | default | |
/// |---|---|---|
/// | [`segment_size`](Self::segment_size) | 4,096 bytes | of the first segment of a batch |
/// | [`max_buffered`](Self::max_buffered) | 1 GiB | what may be unflushed at most |
/// | [`high_water_mark`](Self::high_water_mark) | 64 KiB | from where on the plain `write` drives the stream |
/// | [`leave_open`](Self::leave_open) | `false` | whether the stream stays open at the end |
/// | [`pool`](Self::pool) | [`HeapPool`] | where segments come from |
///
/// ```
/// use pipewriter_std::{HeapPool, PipeWriter, PipeWriterOptions};
///
/// let options = PipeWriterOptions::new().segment_size(1024).leave_open(true).pool(HeapPool::with_bound(1 << 20));
/// let writer = PipeWriter::with_options(Vec::<u8>::new(), options);
/// # drop(writer);
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "StreamPipeWriterOptions")]
pub struct PipeWriterOptions<P = HeapPool> {
    pub(crate) pipe: Options,
    pub(crate) pool: P,
}

impl PipeWriterOptions {
    /// The defaults of the table above.
    #[must_use]
    #[doc(alias = "StreamPipeWriterOptions")]
    pub const fn new() -> Self {
        Self { pipe: Options::new(), pool: HeapPool::new() }
    }
}

impl<P> PipeWriterOptions<P> {
    /// Sets the bytes of the first segment of a batch; later ones may be larger. 4,096 by default; `with_options` refuses 0 with a panic.
    #[must_use]
    #[doc(alias = "MinimumBufferSize")]
    #[doc(alias = "with_capacity")]
    pub fn segment_size(mut self, bytes: usize) -> Self {
        self.pipe = self.pipe.segment_size(bytes);
        self
    }

    /// Sets whether the stream is left open when the writer is completed or aborted. `false` by default. Of no matter to
    /// the blocking writer, since an `io::Write` has no close.
    #[must_use]
    #[doc(alias = "LeaveOpen")]
    pub fn leave_open(mut self, leave_open: bool) -> Self {
        self.pipe = self.pipe.leave_open(leave_open);
        self
    }

    /// Sets how many bytes may be unflushed at most, so that a reader who never reads cannot eat the machine. 1 GiB by
    /// default; `with_options` refuses 0 with a panic.
    ///
    /// What would go past it is refused with `QuotaExceeded`.
    #[must_use]
    #[doc(alias = "limit")]
    pub fn max_buffered(mut self, bytes: usize) -> Self {
        self.pipe = self.pipe.max_buffered(bytes);
        self
    }

    /// Sets from how many unflushed bytes on the plain `write` drives the stream before it takes more. 64 KiB by default.
    ///
    /// 0 counts as 1, and more than `max_buffered` as that. It concerns `AsyncWrite` and `io::Write` only: `append` and
    /// spans never do I/O.
    #[must_use]
    #[doc(alias = "PauseWriterThreshold")]
    pub fn high_water_mark(mut self, bytes: usize) -> Self {
        self.pipe = self.pipe.high_water_mark(bytes);
        self
    }

    /// Sets the pool that segments come from. By default a [`HeapPool`] of the writer's own.
    #[must_use]
    #[doc(alias = "MemoryPool")]
    pub fn pool<Q>(self, pool: Q) -> PipeWriterOptions<Q> {
        PipeWriterOptions { pipe: self.pipe, pool }
    }
}

impl Default for PipeWriterOptions {
    fn default() -> Self {
        Self::new()
    }
}
