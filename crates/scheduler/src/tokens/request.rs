//! A wish that processors write on one another's door.

use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::pad::Padded;

/// Which processor asks this one to come: the last that wrote counts.
pub struct Door<M: Machine>(Padded<M::Atomic<usize>>);

impl<M: Machine> Default for Door<M> {
    fn default() -> Self {
        Self(Padded(M::Atomic::new(0)))
    }
}

impl<M: Machine> Door<M> {
    /// Writes that `processor` asks; what stood there is gone.
    #[inline]
    pub fn write(&self, processor: usize) {
        // Relaxed: a hint where to look; what is found there is found by a steal, which synchronises.
        self.0.store(processor + 1, Ordering::Relaxed);
    }

    /// Who asks; it stays written.
    #[inline]
    pub fn read(&self) -> Option<usize> {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Wipes it off. (A wish that is written at the same moment may be wiped off, too: it was a hint.)
    #[inline]
    pub fn wipe(&self) {
        // Relaxed: as above.
        self.0.store(0, Ordering::Relaxed);
    }
}
