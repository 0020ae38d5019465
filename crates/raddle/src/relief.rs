//! Who never runs dry looks after processors that stand still.
//!
//! Source: this project's invariant that one frozen kernel thread stops no thread that it does not hold (DESIGN 2).
//!
//! A processor looks elsewhere when it has nothing itself. Threads that yield for ever never let that happen; if another one's kernel thread
//! is then frozen inside the runtime (where the monitor cannot take its processor), all that waits in its queue would
//! wait, although anybody may take it. So once in [`LOOKS`] rounds of housekeeping (of 64 switches each), or yields with nobody to yield to,
//! a processor looks whether one other has switched since its last look, and if not, takes a batch of what that one
//! offers. Each look is at the next processor.
//!
//! A processor that computes for long stands still too: what waits behind it comes to run as well.
#![forbid(unsafe_code)]

use crate::witness::Lent;
use raddle_scheduler::Cause;
use std::sync::atomic::Ordering;

/// Rounds between two looks. An untested guess: a look reads one word of another processor, so that once in a thousand switches
/// it should not be seen.
const LOOKS: u32 = 16;
/// Yields with nobody to yield to between two looks. The same.
const ALONE: u32 = 1024;

/// What a processor remembers of its last look.
#[derive(Default)]
pub(crate) struct Relief {
    rounds: u32,
    alone: u32,
    whom: usize,
    seen: u64,
}

impl Relief {
    /// One more round of housekeeping. True when it is time to look.
    #[inline(always)]
    pub fn round(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.rounds.is_multiple_of(LOOKS)
    }

    /// One more yield with nobody to yield to. True when it is time to look.
    #[inline(always)]
    pub fn alone(&mut self) -> bool {
        self.alone = self.alone.wrapping_add(1);
        self.alone.is_multiple_of(ALONE)
    }
}

/// Looks at the processor whose turn it is, and takes threads of it if it has stood still since the last look.
#[cold]
#[inline(never)]
pub(crate) fn look(mut inside: Lent<'_>) {
    let processor = inside.processor;
    let owned = inside.owned();
    let all = processor.pool.processors();
    // Relaxed: a hint; a late value makes a processor seem to stand still, which costs one steal.
    let switches = |index: usize| all[index].counters.switches.load(Ordering::Relaxed);
    let whom = owned.relief.whom;
    let still = whom != processor.index && whom < all.len() && switches(whom) == owned.relief.seen;
    if still && let Some(ready) = owned.queue.relieve(whom) {
        let notify = owned.queue.push(ready, Cause::Submitted, || processor.pool.idle.hungry());
        processor.pool.notify(notify);
        processor.counters.note_steals(owned.queue.steals());
    }
    let next = (whom + 1) % all.len().max(1);
    let next = if next == processor.index { (next + 1) % all.len().max(1) } else { next };
    owned.relief.whom = next;
    owned.relief.seen = all.get(next).map_or(0, |_| switches(next));
}
