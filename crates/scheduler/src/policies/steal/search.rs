//! How a processor that has run dry looks at the others: whom it asks first, how much it takes, and when it goes on to
//! the next.
#![forbid(unsafe_code)]

use super::StealLocal;
use crate::expression::Batch;
use crate::policies::AT_ONCE;
use crate::policies::victims::distances;
use crate::ready::Ready;
use crate::tokens::Stolen;
use raddle_machine::Machine;

/// Attempts on one victim that lose against other thieves before the next victim is asked.
const PERSISTENCE: u32 = 3;

impl<M: Machine, const NEWEST: bool> StealLocal<M, NEWEST> {
    /// Looks at the others, neighbours first.
    pub fn search_all(&mut self) -> Option<Ready<M>> {
        if let Some(thread) = self.take() {
            return Some(thread);
        }
        self.hide_nothing();
        let ranges = distances(self.shared.options.victims, self.index, self.shared.parts.len());
        let (least, rounds) = match self.shared.options.batch {
            Batch::Half | Batch::One => (1, 0),
            Batch::Min(k) => (k, 1),
            Batch::MinRarely(k, rounds) => (k, rounds),
        };
        let mut around = |least| ranges.into_iter().flatten().find_map(|(first, last)| self.round(first, last, least));
        // Nobody offers as much as it should be: better little than an idle processor.
        (0..rounds).find_map(|_| around(least.into())).or_else(|| around(1))
    }

    /// Looks at one other, although threads are here.
    pub fn take_from(&mut self, victim: usize) -> Option<Ready<M>> {
        if self.shared.parts[victim].get()?.offers() == 0 {
            // Before what is here lies open: the next push would wake an idle processor for nothing.
            return None;
        }
        self.hide_nothing();
        self.ask(victim, 1)
    }

    /// A thief hides nothing of what it brings home.
    fn hide_nothing(&mut self) {
        self.set_window(false);
        self.direct = false;
        self.fifo.publish();
    }

    /// Asks the processors at the distances `first..=last`, cyclically from a random one.
    fn round(&mut self, first: usize, last: usize, least: u64) -> Option<Ready<M>> {
        let count = last + 1 - first;
        // xorshift64, the owner's own: victims need no better.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let start = (self.random % count as u64) as usize;
        let all = self.shared.parts.len();
        (0..count).find_map(|i| self.ask((self.index + first + (start + i) % count) % all, least))
    }

    /// Asks one processor.
    fn ask(&mut self, victim: usize, least: u64) -> Option<Ready<M>> {
        let Self { shared, fifo, lifo, tried, won, .. } = self;
        if victim == self.index {
            return None;
        }
        let victim = shared.parts[victim].get()?;
        if victim.offers() < least {
            return None;
        }
        let mut max = if shared.options.batch == Batch::One { 1 } else { AT_ONCE };
        for _ in 0..PERSISTENCE {
            *tried += 1;
            let outcome = match fifo.steal_from(&victim.fifo, max) {
                Stolen::Empty => lifo.steal_from(&victim.lifo, max),
                outcome => outcome,
            };
            match outcome {
                Stolen::Taken { first, .. } => {
                    *won += 1;
                    // What was stealable stays stealable: others are probably hungry too.
                    lifo.publish(0);
                    return Some(first);
                }
                Stolen::Empty => return None,
                Stolen::Lost => max = max.div_ceil(8),
            }
        }
        None
    }
}
