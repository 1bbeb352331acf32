/// How a flush ended that did not fail: to the end, canceled, or not at all since the writer was completed.
///
/// Who never cancels, and gives no handle to anybody who might, need not look at it.
///
/// ```
/// use pipewriter_core::FlushResult;
///
/// fn sent(result: FlushResult) -> bool {
///     !result.is_canceled() && !result.is_completed()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlushResult(End);

// One word: a `Result` with it and an error of one word goes back in two registers, where a byte or a pair of bools would go
// through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
enum End {
    Flushed,
    Canceled,
    Completed,
}

impl FlushResult {
    pub(crate) const FLUSHED: Self = Self(End::Flushed);
    pub(crate) const CANCELED: Self = Self(End::Canceled);
    pub(crate) const COMPLETED: Self = Self(End::Completed);

    /// Whether a cancel ended the flush. What was not accepted by then is still buffered; the next flush sends it.
    #[inline]
    #[must_use]
    #[doc(alias = "IsCanceled")]
    pub const fn is_canceled(self) -> bool {
        matches!(self.0, End::Canceled)
    }

    /// Whether the writer had been completed, so that there was nothing left to flush.
    #[inline]
    #[must_use]
    #[doc(alias = "IsCompleted")]
    pub const fn is_completed(self) -> bool {
        matches!(self.0, End::Completed)
    }
}
