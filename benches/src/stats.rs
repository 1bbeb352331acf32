//! Medians.

/// The median of `values`, and the least and the greatest of them.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn median(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
    Spread { median, low: sorted[0], high: sorted[sorted.len() - 1] }
}

/// What repeated measurements of one thing came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(super::median(&[3.0, 1.0, 2.0]).median.to_bits(), 2.0_f64.to_bits());
        assert_eq!(super::median(&[4.0, 1.0, 2.0, 3.0]).median.to_bits(), 2.5_f64.to_bits());
    }
}
