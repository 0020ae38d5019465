//! Threads that are event loops: they wait for many descriptors again and again, under the drop-in library.
//!
//! | such a thread is | when | and then |
//! |---|---|---|
//! | among the others | at first | it waits in the reactor |
//! | *apart* | it has waited often, under a policy without priorities that is no ring | it keeps a kernel thread to itself, and waits in the kernel as natively ([`go_apart`]) |
//! | *gathered* | others use the cores, too, and the pool was seen to do as much on fewer processors ([`crate::govern::crowd`]) | it shares the processors with the other loops, and before it waits it looks again in turn with them ([`Gathered`]) |
//!
//! Why gathered: four loops on two cores that their clients use as well are woken, and wake, for a few events each, and
//! go from core to core. One processor that goes from loop to loop finds more events at each look, hardly ever sleeps,
//! and stays where it is. memcached -t 4 with 50 connections, its clients on the same two cores of a virtual machine:
//! 133,000 requests a second gathered on one processor, 99,000 on kernel threads, 138,000 with `-t 1` (medians of five
//! rounds in turns, 2026-11-24).
//!
//! Why it looks again: a wait in the reactor costs the kernel a way through two epoll sets for each event, and us a
//! switch and a second look. While others find something, its own events are likely to be on their way.

use crate::carry::switching::{activation_of, current, enter};
use std::sync::atomic::{AtomicU64, Ordering};

/// Looks of a gathered loop in a row that find nothing, until it waits: an event loop whose clients have all gone
/// should not be asked for each batch of the others. memcached -t 4 beside its clients takes as much processor time
/// for a request with 2, 8 and 32 (5.4 to 5.8 µs; 2026-11-28, `serve` of docs/constants.md).
const LOOKS: u32 = 8;

/// Threads that went apart ([`go_apart`]), since the process began.
static WENT_APART: AtomicU64 = AtomicU64::new(0);
/// How often a gathered loop has found something. Counter only.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// Hands the calling lightweight thread's processor to a spare activation; the thread goes on, alone with its kernel
/// thread, and may block in the kernel as it likes. False where its pool has a policy with priorities or a ring, which
/// then decides who runs; where no kernel thread can be had; and where about twice as many threads as processors are
/// apart already.
pub fn go_apart() -> bool {
    let Some(me) = current().filter(|_| crate::carry::caller::is_lightweight()) else { return false };
    // The processor that it has by now.
    let inside = enter(me);
    let processor = inside.processor();
    inside.leave();
    let pool = processor.pool;
    if !pool.lets_go()
        || crate::carry::activations::all().filter(|a| a.apart.load(Ordering::Relaxed)).count() >= 2 * pool.active()
    {
        return false;
    }
    // Outside the mark: it may have to start a kernel thread.
    let Some(spare) = pool.spare() else { return false };
    if !crate::carry::caller::hand_over(me, processor, spare, true) {
        return false;
    }
    WENT_APART.fetch_add(1, Ordering::Relaxed);
    // Asleep, it has not counted on a loop that may be crowded.
    crate::carry::pool::hint();
    true
}

/// Runs `f`, in which the caller waits in the kernel, without a deadline, until another thread of this process changes
/// the word at `address`. For threads that are apart, so that a dead-lock in which they take part is known for one.
pub fn wait_apart<T>(address: usize, f: impl FnOnce() -> T) -> T {
    let Some(activation) = current().map(activation_of) else { return f() };
    // SeqCst, as the look at the others: of several that begin to wait together the last one sees all.
    activation.waits_for.store(address, Ordering::SeqCst);
    let last = crate::carry::activations::all()
        .all(|a| !a.apart.load(Ordering::Relaxed) || a.waits_for.load(Ordering::SeqCst) != 0);
    if last {
        // The monitor, asleep, may rely on this thread to wake somebody.
        crate::carry::pool::hint();
    }
    let result = f();
    activation.waits_for.store(0, Ordering::Relaxed);
    result
}

/// How often threads went apart.
pub fn went_apart() -> u64 {
    WENT_APART.load(Ordering::Relaxed)
}

/// Gives others a turn, those included whose events nobody has fetched yet: before a thread asks for many descriptors
/// at once, and may find something each time, so that it would never wait. The calling thread then looks whether it was
/// interrupted.
#[inline]
pub fn take_turns() {
    if let Some(me) = current()
        && crate::carry::switching::take_turns(me)
    {
        note_turns(1);
        crate::carry::above::poll_interruption();
    }
}

/// The caller has found so many events by a wait for many descriptors. Not to be called by one who is apart and will
/// never be gathered.
#[inline]
pub fn note_events(events: u64) {
    if let Some(me) = current() {
        add(&activation_of(me).found, events);
    }
}

/// As [`note_events`], by one who is apart.
#[inline]
pub fn note_events_apart(events: u64) {
    if let Some(me) = current()
        && activation_of(me).processor().pool.loops.wish != crate::carry::loops::Wish::Apart
    {
        add(&activation_of(me).found, events);
    }
}

/// The caller has left its processor so many times for the sake of events that it counts itself, or in order to give
/// others a turn: such switches tell nothing of what gets done.
#[inline]
pub fn note_turns(turns: u64) {
    if let Some(me) = current() {
        add(&activation_of(me).turns, turns);
    }
}

/// Single writer: the kernel thread that runs this.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// A wait of a gathered thread.
#[derive(Debug)]
pub struct Gathered {
    /// How often anybody had found something at its last look.
    found: u64,
    left: u32,
}

/// A new wait of the caller, an event loop. `None` while loops are not gathered.
#[inline]
pub fn gather() -> Option<Gathered> {
    let pool = activation_of(current()?).processor().pool;
    pool.loops.are_gathered().then_some(Gathered { found: u64::MAX, left: LOOKS })
}

impl Gathered {
    /// After a look that found nothing. True if the caller is to look again at once: others have had a turn. False if
    /// it is to wait, since nobody has found anything since its look before, or it has looked often enough.
    pub fn looks_again(&mut self) -> bool {
        let found = FOUND.load(Ordering::Relaxed);
        if self.left == 0 || found == self.found {
            return false;
        }
        (self.found, self.left) = (found, self.left - 1);
        take_turns();
        true
    }

    /// The wait has ended with events.
    pub fn found(self) {
        FOUND.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that waits for something else afterwards counts as one that may wake others.
    #[test]
    fn a_thread_waits_for_a_word_as_long_as_it_does() {
        let waits_for = || activation_of(current().unwrap()).waits_for.load(Ordering::Relaxed);
        let pool = crate::Builder::new().processors(1).build().unwrap();
        if pool.processors() > 0 {
            assert_eq!(pool.run(|| (waits_for(), wait_apart(64, waits_for), waits_for())), (0, 64, 0));
        }
        assert_eq!(wait_apart(64, || 7), 7);
    }
}
