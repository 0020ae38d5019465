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

/// Nanoseconds for which a stack must have been idle. Where a hundred thousand threads that sleep for a second end and
/// begin again, this takes 0.3 to 0.5 s, in which some stacks rest: with 100 ms here a thread takes 2.3 to 9.8 µs of
/// processor time, with a second 2.1 to 2.4 (2026-11-28, `sleep` of docs/constants.md). A thousand are as quick with
/// 25, 100 and 400 ms (`bursts`).
const REST_NS: u64 = 1_000_000_000;

/// Threads in use that are walked past for one stack that is emptied, at most; so the idle stacks of a class are at
/// most an eighth of all in use, and [`STACKS_KEPT`]. A million sleeps of 5 s take 10.7 s of processor time with 0.1 s
/// of rest, 9.5 with a second, and 8.9 with walks bounded so, in both of two rounds (2026-11-28,
/// `raddle-bench-raddle sleep N=1000000 ms=5000 turns=1 --processors 2`, two cores of an Intel Xeon).
const WALKED_PER_STACK: usize = 8;

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
        // To empty some, their blocks are taken out of the C library's list of all threads, which is walked whole.
        let worth_a_walk = arenas().map(|arena| arena.stats().reserved).sum::<usize>() / WALKED_PER_STACK;
        if now.saturating_sub(self.looked) >= REST_NS {
            self.looked = now;
            for arena in arenas() {
                let hot = arena.stats().hot;
                let keep = hot.saturating_sub(arena.rested()).max(STACKS_KEPT);
                if hot.saturating_sub(keep) > worth_a_walk {
                    arena.shrink(keep);
                }
            }
        }
        let may_pay = |arena: &Arena| arena.stats().hot.saturating_sub(STACKS_KEPT) > worth_a_walk;
        arenas().any(may_pay).then(|| self.looked + REST_NS)
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

    #[test]
    fn a_few_stay_beside_many_that_are_in_use() {
        let arena = Arena::new(64 << 10, 2048).expect("address space");
        let arenas = || std::iter::once(arena);
        let mut stacks = IdleStacks::default();
        let in_use = WALKED_PER_STACK * 2 * STACKS_KEPT;
        for _ in 0..in_use {
            arena.reserve().expect("a slot");
            let _ = arena.take();
        }
        // Not worth the walk, and the monitor is not told to come again for them.
        let few = 3 * STACKS_KEPT;
        use_stacks(arena, few);
        assert_eq!(stacks.look_at(10 * REST_NS, arenas), None);
        assert_eq!(stacks.look_at(12 * REST_NS, arenas), None);
        assert_eq!(arena.stats().hot, few);
        use_stacks(arena, few + 1);
        while stacks.look_at(20 * REST_NS, arenas).is_some() {
            stacks.looked = 0;
        }
        assert_eq!(arena.stats().hot, STACKS_KEPT);
        arena.unreserve_some(in_use);
    }
}
