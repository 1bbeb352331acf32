/// How a pipe is set up; a plain builder.
///
/// ```
/// use pipewriter_core::{HeapPipe, HeapPool, Options, Pipe};
///
/// let options = Options::new().segment_size(1024).max_buffered(1 << 20);
/// let pipe: HeapPipe = Pipe::with_options(HeapPool::new(), options);
/// assert_eq!(pipe.unflushed_bytes(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) segment_size: usize,
    pub(crate) max_buffered: usize,
    pub(crate) high_water_mark: usize,
    pub(crate) leave_open: bool,
}

impl Options {
    /// Segments of 4,096 bytes, 1 GiB buffered at most, a high-water mark of 64 KiB, and the stream closed at the end.
    #[must_use]
    pub const fn new() -> Self {
        Self { segment_size: 4096, max_buffered: 1 << 30, high_water_mark: 64 * 1024, leave_open: false }
    }

    /// Sets the bytes of a first segment; 4,096 by default. Later ones of a batch may be larger. A pipe refuses 0 with a panic.
    #[must_use]
    pub const fn segment_size(mut self, bytes: usize) -> Self {
        self.segment_size = bytes;
        self
    }

    /// Sets how many bytes may be buffered at most; 1 GiB by default. A pipe refuses 0 with a panic.
    #[must_use]
    pub const fn max_buffered(mut self, bytes: usize) -> Self {
        self.max_buffered = bytes;
        self
    }

    /// Sets from how many buffered bytes on the plain `write` drives the stream first; 64 KiB by default.
    ///
    /// 0 counts as 1, and more than `max_buffered` as that.
    #[must_use]
    pub const fn high_water_mark(mut self, bytes: usize) -> Self {
        self.high_water_mark = bytes;
        self
    }

    /// Sets whether the stream is left open when the pipe is completed or aborted; by default it is closed.
    #[must_use]
    pub const fn leave_open(mut self, leave_open: bool) -> Self {
        self.leave_open = leave_open;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
