//! When a thread that computes is asked for a waiting half of its join, because a processor of its pool sleeps.
//!
//! It is asked once it has run for as many looks as a processor stands still until it is asked about
//! ([`PATIENCE_PERIODS`]), and at each look after one in which it gave a half. One that gives none is asked at every
//! fourth such length: each request costs an interrupt and a look into `/proc`, some 20 us of 8 ms.
//!
//! A look is at most four periods of the monitor after the one before, so the first half is offered within eight of
//! them, and all halves, one a look.

use super::stall::PATIENCE_PERIODS;

/// What the monitor remembers of a thread that runs beside a sleeping processor.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its address.
    thread: usize,
    looks: u32,
    asked: bool,
    computes: bool,
}

impl Asked {
    /// A look at the thread of that address, with a request that waits for it or none: whether it may be asked now, if
    /// it computes.
    pub fn is_due(&mut self, thread: usize, waits: bool) -> bool {
        if self.thread != thread {
            *self = Self { thread, ..Self::default() };
        }
        self.looks += 1;
        self.looks % (4 * PATIENCE_PERIODS) == PATIENCE_PERIODS || self.asked && !waits
    }

    /// Whether it computes, as was found then, and whether it was asked.
    pub fn tell(&mut self, computes: bool, asked: bool) {
        (self.computes, self.asked) = (computes, asked);
    }

    /// It was found computing last.
    pub fn computes(&self) -> bool {
        self.computes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_gives_nothing_is_asked_seldom() {
        let mut asked = Asked::default();
        let due = |_: &u32| {
            let due = asked.is_due(16, true);
            if due {
                asked.tell(true, true);
            }
            due
        };
        assert_eq!((1..=20).filter(due).collect::<Vec<u32>>(), [2, 10, 18]);
        assert!(asked.computes());
    }

    #[test]
    fn one_that_gives_is_asked_at_each_look() {
        let mut asked = Asked::default();
        assert!(!asked.is_due(16, false) && asked.is_due(16, false));
        asked.tell(true, true);
        assert!(asked.is_due(16, false));
        // It has blocked since, and is not asked.
        asked.tell(false, false);
        assert!(!asked.is_due(16, false) && !asked.computes());
    }

    #[test]
    fn another_thread_begins_anew() {
        let mut asked = Asked::default();
        assert!(!asked.is_due(16, false));
        assert!(!asked.is_due(32, false) && asked.is_due(32, false));
    }
}
