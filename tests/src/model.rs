//! What the bytes should be: a pattern whose every byte tells its place, a model of what was committed, and a seeded
//! source of choices.

/// The bytes from `start` on of the endless pattern whose byte `i` is `i mod 251`.
///
/// 251 is a prime, so a byte that is lost, repeated or put elsewhere by any power of two is seen.
pub fn pattern(start: usize, len: usize) -> Vec<u8> {
    // Doubled from one period, which is much faster than byte by byte.
    let mut bytes: Vec<u8> = (start..start + len.min(PERIOD)).map(byte_at).collect();
    while bytes.len() < len {
        let more = bytes.len().min(len - bytes.len());
        bytes.extend_from_within(..more);
    }
    bytes
}

const PERIOD: usize = 251;

fn byte_at(i: usize) -> u8 {
    (i % PERIOD) as u8
}

/// Everything that a test has committed to a writer, in order: the oracle for what the stream must end up with.
///
/// The bytes that it deals out go on along the [`pattern`], so two batches are never alike.
#[derive(Clone, Debug, Default)]
pub struct Model {
    committed: Vec<u8>,
    dealt: usize,
}

impl Model {
    /// Nothing committed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deals out the next `len` bytes of the pattern. They count only once they are given to [`commit`](Self::commit).
    pub fn deal(&mut self, len: usize) -> Vec<u8> {
        let bytes = pattern(self.dealt, len);
        self.dealt += len;
        bytes
    }

    /// Notes that the writer took `bytes` into its keeping.
    pub fn commit(&mut self, bytes: &[u8]) {
        self.committed.extend_from_slice(bytes);
    }

    /// All that was committed.
    pub fn committed(&self) -> &[u8] {
        &self.committed
    }

    /// Checks `accepted`, the bytes that the stream has taken, and the writer's own count of what it still holds.
    #[track_caller]
    pub fn check(&self, accepted: &[u8], unflushed: usize) {
        let total = self.committed.len();
        assert!(accepted.len() <= total, "the stream has {} bytes, only {total} were committed", accepted.len());
        if let Some(at) = first_difference(accepted, &self.committed) {
            panic!("the stream's byte {at} of {} is not the one that was committed", accepted.len());
        }
        assert_eq!(accepted.len() + unflushed, total, "accepted and unflushed bytes must add up to the committed ones");
    }
}

/// The first place where `a` and the same length of `b`, which is no shorter, differ.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == &b[..a.len()] {
        return None;
    }
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// A small source of choices (SplitMix64): the same seed makes the same choices everywhere and for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Whether a thing that happens once in `n` times happens.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_goes_on_where_it_was_left() {
        let mut model = Model::new();
        let first = model.deal(200);
        let second = model.deal(200);
        assert_eq!([first, second].concat(), pattern(0, 400));
        assert_eq!(pattern(250, 2), [250, 0]);
        assert!(pattern(7, 100_000).iter().enumerate().all(|(i, byte)| *byte == byte_at(7 + i)));
    }

    #[test]
    #[should_panic(expected = "byte 1 of 2 is not")]
    fn a_byte_out_of_place_is_seen() {
        let mut model = Model::new();
        model.commit(b"abc");
        model.check(b"ac", 1);
    }

    #[test]
    #[should_panic(expected = "must add up")]
    fn a_wrong_count_is_seen() {
        let mut model = Model::new();
        model.commit(b"abc");
        model.check(b"ab", 2);
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.between(3, 9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|n| (3..=9).contains(n)));
    }
}
