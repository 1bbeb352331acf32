//! Bytes without a period, for tests where whole blocks may go missing without anyone knowing how many there should be.

use crate::model::Random;

/// The first `len` bytes of the noise that `seed` stands for.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_noise_of_any_length() {
        assert_eq!(noise(1, 100)[..13], noise(1, 13));
        assert_ne!(noise(1, 100), noise(2, 100));
    }
}
