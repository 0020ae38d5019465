//! Stacks that no thread uses give their memory back once they have rested for a while.
//!
//! Not at once: where threads end and others begin between two rests of the processors, each stack would be emptied
//! for the one that has ended, with an interruption of all cores, and be filled anew, by two page faults, for the one
//! that begins. So only what nobody has needed for a whole [`REST_NS`] goes ([`Arena::rested`]), together.
//!
//! Role: the monitor, before it sleeps.

use crate::carry::kept::STACKS_KEPT;
use crate::carry::pool;
use raddle_context::stack::Arena;

/// Nanoseconds for which a stack must have been idle. Where a thousand threads begin and end, and begin again 10, 60,
/// 250 and 900 ms later, 25, 100 and 400 ms here do not change a thread's processor time by more than the rounds do
/// (1.7 to 2.7 µs; 2026-11-28, `bursts` of docs/constants.md): any serves.
const REST_NS: u64 = 100_000_000;

/// When the monitor has looked at them last.
#[derive(Debug, Default)]
pub(crate) struct IdleStacks {
    looked: u64,
}

impl IdleStacks {
    /// Gives back what has rested. When to look again, if some may have by then.
    pub fn look(&mut self, now: u64) -> Option<u64> {
        self.look_at(now, pool::arenas)
    }

    fn look_at<I: Iterator<Item = &'static Arena>>(&mut self, now: u64, arenas: impl Fn() -> I) -> Option<u64> {
        if now.saturating_sub(self.looked) >= REST_NS {
            self.looked = now;
            for arena in arenas() {
                let needed = arena.stats().hot.saturating_sub(arena.rested());
                arena.shrink(needed.max(STACKS_KEPT));
            }
        }
        arenas().any(|arena| arena.stats().hot > STACKS_KEPT).then(|| self.looked + REST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has so many threads begin and end.
    fn use_stacks(arena: &'static Arena, count: usize) {
        let slots: Vec<_> = (0..count)
            .map(|_| {
                arena.reserve().expect("a slot");
                arena.take()
            })
            .collect();
        for slot in slots {
            arena.give(slot);
            arena.unreserve();
        }
    }

    #[test]
    fn what_is_used_again_keeps_its_memory_and_what_rests_loses_it() {
        let arena = Arena::new(64 << 10, 1024).expect("address space");
        let arenas = || std::iter::once(arena);
        let mut stacks = IdleStacks::default();
        let mut now = 10 * REST_NS;
        assert_eq!(stacks.look_at(now, arenas), None, "nothing to look after");
        use_stacks(arena, 500);
        let never_used = arena.stats().cold;
        // Used again and again, however often and however long: all stay.
        for _ in 0..20 {
            use_stacks(arena, 500);
            now += REST_NS / 7;
            assert!(stacks.look_at(now, arenas).is_some_and(|at| at > now && at <= now + REST_NS));
            assert_eq!((arena.stats().hot, arena.stats().cold), (500, never_used));
        }
        // From now on 200 of them suffice: the others go, once it is sure.
        for _ in 0..20 {
            use_stacks(arena, 200);
            now += REST_NS / 7;
            assert!(stacks.look_at(now, arenas).is_some());
        }
        assert_eq!((arena.stats().hot, arena.stats().cold), (200, never_used + 300));
        // Then none is: the monitor is told when to come for them, and has nothing to come for afterwards.
        while let Some(at) = stacks.look_at(now, arenas) {
            now = at;
        }
        assert_eq!(arena.stats().hot, STACKS_KEPT);
        assert!(now <= (10 + 8 + 2) * REST_NS);
    }
}
