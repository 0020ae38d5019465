//! Division by the length of a slot, which is pages and no power of two, without a division: a join asks at each thread
//! that it may run in its own place.

/// The logarithm of the smallest page's size.
const PAGE: u32 = 12;

/// Divides offsets by a length of some pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagesInto(u64);

impl PagesInto {
    /// By `length`, a multiple of the page's size and more than one page.
    pub fn new(length: usize) -> Self {
        debug_assert!(length.is_multiple_of(1 << PAGE) && length > 1 << PAGE);
        Self(u64::MAX / (length >> PAGE) as u64 + 1)
    }

    /// `offset / length` for offsets of 48 bits; for larger ones at least that.
    ///
    /// With p pages to a length the factor is (2^64 + e) / p, e < p, so of page n this is n / p + n × e / (p × 2^64),
    /// rounded down: exact while n × e < 2^64. Here n is below 2^36, and p below 2^28: lengths are below 2^40.
    #[inline(always)]
    pub fn quotient(self, offset: usize) -> usize {
        ((u128::from(self.0) * (offset >> PAGE) as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_as_a_division_does() {
        for class in 14..40 {
            for more in [0, 1, 5, 16, 17] {
                let length = (1usize << class) + (more << PAGE);
                let by = PagesInto::new(length);
                let slots = 1usize << (47 - class);
                for number in (0..slots).step_by(slots / 61 + 1) {
                    for at in [0, 1, 4095, 4096, length / 2, length - 4096, length - 1] {
                        assert_eq!(by.quotient(number * length + at), number, "{length} {at}");
                    }
                }
                for beyond in [1 << 48, usize::MAX / 2, usize::MAX - 4096, usize::MAX] {
                    assert!(by.quotient(beyond) >= beyond / length);
                }
            }
        }
    }
}
