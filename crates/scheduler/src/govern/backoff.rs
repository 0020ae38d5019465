//! A pause after something that was of no use, twice as long each time.

/// Occasions to let go by, and how many that will be the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    left: u32,
    next: u32,
}

impl Backoff {
    /// No pause yet; the first one is of so many occasions.
    pub const fn new(first: u32) -> Self {
        Self { left: 0, next: first }
    }

    /// The occasion may be used.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// An occasion goes by.
    pub fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// The next pause is of so many occasions.
    pub fn restart(&mut self, first: u32) {
        self.next = first;
    }

    /// A pause begins. The one after it is twice as long, but not of more than `most` occasions.
    pub fn pause(&mut self, most: u32) {
        self.left = self.next;
        self.next = self.next.saturating_mul(2).min(most);
    }

    /// In a word.
    pub fn to_bits(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.left)
    }

    /// Out of a word; 0 is one whose first pause is of one occasion.
    pub fn from_bits(word: u64) -> Self {
        Self { left: word as u32, next: ((word >> 32) as u32).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most_and_begin_anew() {
        let mut backoff = Backoff::new(1);
        assert!(backoff.is_over());
        let mut pause = || {
            backoff.pause(6);
            backoff = Backoff::from_bits(backoff.to_bits());
            let mut passed = 0;
            while !backoff.is_over() {
                backoff.pass();
                passed += 1;
            }
            passed
        };
        assert_eq!([(); 5].map(|()| pause()), [1, 2, 4, 6, 6]);
        assert_eq!(Backoff::from_bits(0), Backoff::new(1));
        backoff.restart(3);
        backoff.pause(100);
        assert_eq!((backoff.left, backoff.next), (3, 6));
    }
}
