//! What a writer should be like after each step.

use std::io::ErrorKind;
use std::sync::LazyLock;

use super::operation::{Limit, Settings, Size};

/// How a writer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was completed, is about to be, or was aborted for no reason.
    Completed,
    /// It was aborted for this reason.
    Aborted(ErrorKind),
}

/// The span that was handed out last: what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) address: usize,
    pub(super) len: usize,
}

/// The model. Its bytes are those of [`committed_bytes`], so that it need only count them.
#[derive(Debug)]
pub(super) struct Model {
    /// Bytes committed since the beginning; after an abort, those that the stream has accepted.
    pub(super) committed: usize,
    pub(super) span: Option<Span>,
    pub(super) ended: Option<Ended>,
    pub(super) max_buffered: usize,
    pub(super) mark: usize,
    /// Which task a flush that stayed pending waits for a cancel with.
    pub(super) waiting: Option<usize>,
}

impl Model {
    pub(super) fn new(settings: &Settings) -> Self {
        let max_buffered = bytes(settings.max_buffered, 1 << 30).max(1);
        let mark = bytes(settings.high_water_mark, 64 * 1024).clamp(1, max_buffered);
        Self { committed: 0, span: None, ended: None, max_buffered, mark, waiting: None }
    }

    /// What a call that commits `more` bytes on top of `buffered` ones must fail with, if the pool is not to blame.
    pub(super) fn refusal(&self, more: usize, buffered: usize) -> Option<ErrorKind> {
        if let Some(kind) = self.end_kind() {
            return Some(kind);
        }
        if more > isize::MAX as usize {
            return Some(ErrorKind::InvalidInput);
        }
        (more > self.max_buffered - buffered).then_some(ErrorKind::QuotaExceeded)
    }

    /// What a call that commits fails with once the writer has ended.
    pub(super) fn end_kind(&self) -> Option<ErrorKind> {
        self.ended.map(|ended| match ended {
            Ended::Completed => ErrorKind::BrokenPipe,
            Ended::Aborted(kind) => kind,
        })
    }
}

/// The bytes that a limit says.
pub(super) fn bytes(limit: Limit, default: usize) -> usize {
    match limit {
        Limit::Bytes(size) => size.bytes(),
        Limit::Default => default,
        Limit::None => usize::MAX,
    }
}

/// After so many bytes they begin again: a prime, far from any size of a segment or of an offer.
const PERIOD: usize = 1_000_003;
/// The longest piece that can be had at once: the largest of these is a span, which may be twice as long as was asked for.
const LONGEST: usize = 4 * Size::MAX_BYTES;

/// All bytes that a program may commit, so long that none of its parts is like another one.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = crate::model::Random::new(1);
    let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.next_u64() as u8).collect();
    bytes.extend_from_within(..LONGEST.min(PERIOD));
    bytes.extend_from_within(PERIOD..PERIOD + LONGEST - LONGEST.min(PERIOD));
    bytes
});

/// The bytes that a program commits from the `start`-th on.
pub(super) fn committed_bytes(start: usize, len: usize) -> &'static [u8] {
    &BYTES[start % PERIOD..][..len]
}

/// Whether `bytes` are those that a program commits from the `start`-th on.
pub(super) fn are_committed(start: usize, bytes: &[u8]) -> bool {
    (start..).step_by(LONGEST).zip(bytes.chunks(LONGEST)).all(|(at, part)| part == committed_bytes(at, part.len()))
}
