//! Calls that make communicators, one after the other: in the same order in all ranks.
//!
//! Such a call agrees with its other ranks upon a number for what it makes. Threads of a rank that do so at once stand
//! in each other's way: MPICH lets one of them have the numbers, and all others begin again with their ranks. They turn
//! round on their cores, and let go of its lock without giving way (its `MPID_THREAD_CS_YIELD` calls no `sched_yield`
//! on Linux). Four ranks of four threads on two cores take 60 ms a communicator so, 5 ms in turns.
//!
//! Here a rank makes one such call at a time. That order must not differ between ranks, or two calls would wait for
//! each other. It is Skeen's (Birman, Joseph: Reliable communication in the presence of failures, 1987, section 4):
//! each rank of a call proposes a time, later than any that it knows of, the latest of these is the call's, and a rank
//! makes its calls in the order of their times. It makes one when none is before it, proposals included, which can only
//! become later.
//!
//! Differs from the paper: a call proposes only when all of its ranks have come. A proposal makes others wait, and what
//! it waits for in turn must not be a rank that comes to this call after one of those.
//!
//! A call that came while others were there waits again before it is made until all of its ranks have their turn, so
//! that none turns round in the implementation's call while others wait for theirs.
//!
//! - I1: times differ: each is a count of one rank, with the rank.
//! - I2: an entry's time only grows, and is final once all ranks have proposed. None that comes later is before a final
//!   one.
//! - Progress: of the calls that are to be made the first in time is the first in each of its ranks, once the proposals
//!   before it are final; those depend on threads alone that wait here.

use crate::channel::{Call, Members, greatest};
use crate::uncancelled::Uncancelled;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Bits of a time that say whose it is.
const RANK_BITS: u32 = 24;

/// Steps of a call in which its ranks tell each other something.
pub const COME: u64 = 0;
const TIME: u64 = 1;
const TURN: u64 = 2;

struct Entry {
    time: u64,
    is_final: bool,
}

struct Queue {
    /// The latest count that is known of.
    count: u64,
    entries: Vec<Entry>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { count: 0, entries: Vec::new() });
/// Something has become final, or has left.
static MOVED: Condvar = Condvar::new();

thread_local! {
    /// The calling thread is in the implementation's call.
    static MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is called by such a call, which has its turn.
pub fn is_making() -> bool {
    MAKING.get()
}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Queue {
    /// Enters with a proposal. With the answer comes whether others are there.
    fn propose(&mut self, rank: c_int) -> (u64, bool) {
        self.count += 1;
        let time = self.count << RANK_BITS | rank as u64;
        self.entries.push(Entry { time, is_final: false });
        (time, self.entries.len() > 1)
    }

    fn settle(&mut self, proposed: u64, time: u64) {
        self.count = self.count.max(time >> RANK_BITS);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.time == proposed && !entry.is_final) {
            *entry = Entry { time, is_final: true };
        }
    }

    fn is_first(&self, time: u64) -> bool {
        self.entries.iter().all(|entry| entry.time >= time)
    }

    fn leave(&mut self, time: u64) {
        self.entries.retain(|entry| entry.time != time);
    }
}

/// In the queue, until it is made.
struct Entered(u64);

impl Drop for Entered {
    fn drop(&mut self) {
        queue().leave(self.0);
        MOVED.notify_all();
    }
}

/// Makes a call to which all of its ranks have come, when it is its turn. It is told its time, which no other has.
pub fn take(members: &Members, call: Call, make: impl FnOnce(u64) -> c_int) -> c_int {
    // Others would wait for its end.
    let _whole = Uncancelled::begin();
    let (proposed, others) = queue().propose(members.world[members.me]);
    let mut entered = Entered(proposed);
    let (time, contended) = match greatest(members, call, TIME, [proposed, others.into()]) {
        Ok([time, contended]) => (time, contended != 0),
        Err(code) => return code,
    };
    let mut entries = queue();
    entries.settle(proposed, time);
    entered.0 = time;
    MOVED.notify_all();
    while !entries.is_first(time) {
        entries = MOVED.wait(entries).unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    drop(entries);
    if contended && let Err(code) = greatest(members, call, TURN, [0; 2]) {
        return code;
    }
    MAKING.set(true);
    let code = make(time);
    MAKING.set(false);
    code
}

/// Waits until all ranks of a call have come, and makes it as above.
pub fn come_and_take(members: &Members, call: Call, make: impl FnOnce(u64) -> c_int) -> c_int {
    match greatest(members, call, COME, [0; 2]) {
        Ok(_) => take(members, call, make),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: usize = 4;
    const CALLS: usize = 12;

    /// Where a rank is in a call.
    #[derive(Clone, Copy, PartialEq)]
    enum At {
        Away,
        Come,
        Proposed(u64),
        Settled,
        Making,
        Done,
    }

    /// Numbers at random, the same ones from the same seed (Marsaglia's xorshift).
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % bound
        }
    }

    /// Calls of some of the ranks, whose steps come in any order: a call ends when all of its ranks are in it, a rank
    /// is in one at a time, and there is always one that can go on.
    #[test]
    fn whatever_the_order_of_steps_every_call_is_made() {
        let time = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("RADDLE_SEED").map_or_else(|_| time(), |seed| seed.parse().unwrap());
        println!("turns: RADDLE_SEED={seed}");
        let mut chance = Chance(seed | 1);
        (0..2000).for_each(|_| schedule(&mut chance));
    }

    fn schedule(chance: &mut Chance) {
        let mut queues: Vec<Queue> = (0..RANKS).map(|_| Queue { count: 0, entries: Vec::new() }).collect();
        // Each of at least one rank, mostly of several.
        let calls: Vec<Vec<usize>> = (0..CALLS)
            .map(|_| 1 + chance.below((1 << RANKS) - 1))
            .map(|set| (0..RANKS).filter(|rank| set >> rank & 1 == 1).collect())
            .collect();
        let mut at = [[At::Away; RANKS]; CALLS];
        let mut times = [0; CALLS];
        loop {
            let mut steps = Vec::new();
            for (call, ranks) in calls.iter().enumerate() {
                let all = |is: &dyn Fn(At) -> bool| ranks.iter().all(|&rank| is(at[call][rank]));
                let come = all(&|at| at != At::Away);
                let proposed = all(&|at| !matches!(at, At::Away | At::Come));
                let together = all(&|at| matches!(at, At::Making | At::Done));
                steps.extend(ranks.iter().filter_map(|&rank| {
                    let can = match at[call][rank] {
                        At::Away => true,
                        At::Come => come,
                        At::Proposed(_) => proposed,
                        At::Settled => queues[rank].is_first(times[call]),
                        At::Making => together,
                        At::Done => false,
                    };
                    can.then_some((call, rank))
                }));
            }
            if steps.is_empty() {
                break;
            }
            let (call, rank) = steps[chance.below(steps.len())];
            at[call][rank] = match at[call][rank] {
                At::Away => At::Come,
                At::Come => {
                    let (time, _) = queues[rank].propose(rank as c_int);
                    times[call] = times[call].max(time);
                    At::Proposed(time)
                }
                At::Proposed(time) => {
                    queues[rank].settle(time, times[call]);
                    At::Settled
                }
                At::Settled => {
                    let making = (0..CALLS).filter(|&other| at[other][rank] == At::Making).count();
                    assert_eq!(making, 0, "a rank makes one at a time");
                    At::Making
                }
                At::Making | At::Done => {
                    queues[rank].leave(times[call]);
                    At::Done
                }
            };
        }
        for (call, ranks) in calls.iter().enumerate() {
            assert!(ranks.iter().all(|&rank| at[call][rank] == At::Done), "call {call} of {ranks:?} stands still");
        }
        assert!(queues.iter().all(|queue| queue.entries.is_empty()));
    }
}
