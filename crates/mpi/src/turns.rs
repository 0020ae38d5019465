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
    make(time)
}

/// Waits until all ranks of a call have come, and makes it as above.
pub fn come_and_take(members: &Members, call: Call, make: impl FnOnce(u64) -> c_int) -> c_int {
    match greatest(members, call, COME, [0; 2]) {
        Ok(_) => take(members, call, make),
        Err(code) => code,
    }
}
