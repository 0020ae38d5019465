//! Idle and wake-up: which processors search, which sleep, and who wakes whom.
//!
//! Source: PROTOCOLS 2 of the design (model-checked), after the idea of Go's and rayon's counters of searching workers.
//! Differs: only the last searcher of a group pays the heavy fence; a monitor wakes despite the throttle, since a
//! frozen searcher would otherwise suppress every wake-up.
//!
//! Roles: a *pusher* (any kernel thread that made work takeable), a *searcher* (a processor looking for work),
//! a *sleeper*.
//!
//! The sleeper's bit in the word says whether it may sleep; its bell only makes it look at the bit. So a bell may be
//! rung twice, late or by anybody, and a waker that freezes after it took the bit and before it rang has said all that
//! matters: whoever rings next ([`Idle::kick`]) completes the wake-up.
//!
//! Word, one per group of [`GROUP`] processors: `searching:8 | unused:8 | sleeping set:48`.
//!
//! | transition | actor | change |
//! |---|---|---|
//! | busy → searching | [`Idle::begin_search`] | searching + 1 |
//! | searching → busy | [`Idle::found`] | searching − 1; the last one wakes another |
//! | sleeping → busy | the sleeper itself, when its deadline has passed, or in [`Idle::sleep_elsewhere`] | sleeping − me |
//! | searching → sleeping | [`Idle::sleep`] | searching − 1, sleeping + me; the last one looks once more |
//! | sleeping → searching | [`Idle::wake_one`], [`Idle::wake`] (*called*) or the sleeper itself, when it sees work | sleeping − one, searching + 1 |
//!
//! Invariants:
//! - I1: a processor's bit is set only between its own `sleep` transition and the exchange that removes it.
//! - I2: whoever removes a bit counts its processor as searching in the same step. The processor finds that out by
//!   itself before it sleeps, and when its bell rings: it reads the bell, then the bit, and sleeps only while the bell
//!   is as read, and who rings has seen the bit removed. (A bell that is rung 2^32 times between the two reads looks
//!   unrung.)
//! - I3: at rest (no searcher in the group) there is never both takeable work and a sleeper: the pusher stores, passes
//!   a light fence, loads the word; the last searcher changes the word, passes a heavy fence, looks at the queues.
//!   Proof, events P (work stored), L (word loaded), S (word changed), Q (queues looked at): forbidden is L before S
//!   and Q before P. The heavy fence between S and Q is a full barrier on every kernel thread, so either P is before it
//!   (Q sees P), or L is after it (L sees S).
//!
//! Progress: every loop is a compare-and-swap retry; lock-free. A searcher that is frozen, and a processor that was
//! called by a waker that is frozen, count as searching and delay wake-ups until the monitor's next [`Idle::kick`].
//! What a waker was itself about to announce when it froze waits for the next event if everybody slept, the monitor
//! included.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::idle::{Idle, Woken};
//! let idle = Idle::<Real>::new(2);
//! assert!(!idle.hungry());
//! idle.begin_search(0);
//! assert!(idle.hungry());
//! // The last searcher looks once more before it sleeps, and finds what came meanwhile.
//! assert_eq!(idle.sleep(0, None, false, || true), Woken::Work);
//! idle.found(0);
//! // Nobody sleeps who could be called.
//! assert!(!idle.wake_one(false));
//! ```

use crate::policies::Others;
use crate::policy::Notify;
use raddle_machine::{Atomic, Machine, Ordering};

/// Processors per word.
pub const GROUP: usize = 48;
const SEARCHING_SHIFT: u32 = 56;
const SEARCHING_ONE: u64 = 1 << SEARCHING_SHIFT;
const SLEEPING: u64 = (1 << GROUP) - 1;

/// A cache line (two, for the adjacent-line prefetcher) of its own.
#[repr(align(128))]
struct Padded<T>(T);

/// Why a processor stopped sleeping. It counts as searching after the first two, as busy after the others, which were
/// not brought about by a pusher that relies on it: it need not wake anybody in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody called it.
    Called,
    /// It saw work before it slept.
    Work,
    /// The deadline passed.
    Deadline,
    /// What it slept on instead of its bell has something for it.
    Elsewhere,
}

/// What belongs to one processor.
struct Sleeper<M: Machine> {
    /// How often it was rung.
    bell: M::Atomic<u32>,
    /// 1 from before its bit is set until it has come up; written by the processor only.
    asleep: M::Atomic<u8>,
    /// 1 while it sleeps on something else than its bell, which the pool's alarm reaches; written by the processor
    /// only, before it sets its bit.
    elsewhere: M::Atomic<u8>,
}

/// The idle state of a pool.
pub struct Idle<M: Machine> {
    /// The first group's word, alone in most pools, without a detour.
    first: Padded<M::Atomic<u64>>,
    more: Box<[Padded<M::Atomic<u64>>]>,
    sleepers: Box<[Padded<Sleeper<M>>]>,
    alarm: Box<dyn Fn() + Send + Sync>,
}

impl<M: Machine> Idle<M> {
    /// For a pool of `processors`, all of them busy.
    pub fn new(processors: usize) -> Self {
        Self::with_alarm(processors, || ())
    }

    /// As [`Idle::new`]; `alarm` ends the `block` of whoever is in [`Idle::sleep_elsewhere`], now or the next time.
    pub fn with_alarm(processors: usize, alarm: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            first: Padded(M::Atomic::new(0)),
            more: (1..processors.div_ceil(GROUP)).map(|_| Padded(M::Atomic::new(0))).collect(),
            sleepers: (0..processors)
                .map(|_| Sleeper { bell: M::Atomic::new(0), asleep: M::Atomic::new(0), elsewhere: M::Atomic::new(0) })
                .map(Padded)
                .collect(),
            alarm: Box::new(alarm),
        }
    }

    fn word(&self, processor: usize) -> &M::Atomic<u64> {
        match processor / GROUP {
            0 => &self.first.0,
            group => &self.more[group - 1].0,
        }
    }

    /// The words of all groups.
    #[inline(always)]
    fn groups(&self) -> impl Iterator<Item = &M::Atomic<u64>> {
        std::iter::once(&self.first.0).chain(self.more.iter().map(|group| &group.0))
    }

    fn bit(processor: usize) -> u64 {
        1 << (processor % GROUP)
    }

    /// True while some processor sleeps or searches: splitting work is worth it. One load per group.
    #[inline(always)]
    pub fn hungry(&self) -> bool {
        // Relaxed: a hint; a stale answer costs one late or one needless split.
        self.first.0.load(Ordering::Relaxed) != 0
            || !self.more.is_empty() && self.more.iter().any(|group| group.0.load(Ordering::Relaxed) != 0)
    }

    /// How many processors sleep, those included that were called and have not come up yet (racy).
    pub fn sleeping(&self) -> usize {
        // Relaxed: each has a single writer; a moment's view.
        self.sleepers.iter().filter(|sleeper| sleeper.0.asleep.load(Ordering::Relaxed) != 0).count()
    }

    /// True while `processor` sleeps and nobody has called it (racy).
    pub fn is_sleeping(&self, processor: usize) -> bool {
        self.word(processor).load(Ordering::Relaxed) & Self::bit(processor) != 0
    }

    /// Wakes whom a push, or a selection, concerns.
    #[inline(always)]
    pub fn tell(&self, whom: Notify) {
        match whom {
            Notify::Nobody => {}
            Notify::Anyone => self.notify(),
            Notify::Processor(index) => {
                self.wake(index);
            }
        }
    }

    /// The pusher's duty after work became takeable by anyone: wakes a sleeper if nobody searches.
    #[inline(always)]
    pub fn notify(&self) {
        // Ordering[idle.look]: light fence. Pairs with the heavy fence in `sleep` (proof at I3).
        M::light_fence();
        for group in self.groups() {
            let word = group.load(Ordering::Relaxed);
            if word != 0 && word >> SEARCHING_SHIFT == 0 {
                self.notify_slow();
                return;
            }
            if word != 0 {
                return;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn notify_slow(&self) {
        self.wake_one(true);
    }

    /// Wakes one sleeper of a group in which nobody searches (or of any, if not `throttled`). True if one was woken.
    pub fn wake_one(&self, throttled: bool) -> bool {
        match self.call_one(throttled) {
            Some(processor) => {
                self.ring(processor);
                true
            }
            None => false,
        }
    }

    /// The first half of [`Idle::wake_one`]: who it was that is called now, and sleeps until it is rung for. For tests
    /// of a waker that freezes here.
    #[doc(hidden)]
    pub fn call_one(&self, throttled: bool) -> Option<usize> {
        for (index, group) in self.groups().enumerate() {
            let mut word = group.load(Ordering::Relaxed);
            while word & SLEEPING != 0 && !(throttled && word >> SEARCHING_SHIFT != 0) {
                let bit = word & word.wrapping_neg() & SLEEPING;
                let new = (word & !bit) + SEARCHING_ONE;
                // Ordering[idle.state]: AcqRel. Pairs with the exchanges of the word in `sleep` and `found`. Makes
                // visible: the work pushed before, to the woken processor; and here, where that one sleeps (`ring`).
                match group.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return Some(index * GROUP + bit.trailing_zeros() as usize),
                    Err(now) => word = now,
                }
            }
        }
        None
    }

    /// Wakes `processor` if it sleeps, after work became takeable by it. True if this call did.
    pub fn wake(&self, processor: usize) -> bool {
        // Ordering[idle.look]: light fence. Pairs with the heavy fence in `sleep` (proof at I3, `directed`).
        M::light_fence();
        let group = self.word(processor);
        let bit = Self::bit(processor);
        let mut word = group.load(Ordering::Relaxed);
        while word & bit != 0 {
            // Ordering[idle.state]: AcqRel. As in `call_one`.
            match group.compare_exchange_weak(word, (word & !bit) + SEARCHING_ONE, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.ring(processor);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// The monitor's remedy against whoever froze while it counts as searching, or before it rang: rings for all that
    /// were called and have not come up, and wakes a sleeper although somebody seems to search. True if it woke one.
    pub fn kick(&self) -> bool {
        for (processor, sleeper) in self.sleepers.iter().enumerate() {
            // Ordering[idle.state]: Acquire. Pairs with the exchange that took the bit. Makes visible: that its
            // processor was asleep before. Not weakened: what sees too little is repeated at the next look (and the
            // model's monitor looks after a join).
            let called = self.word(processor).load(Ordering::Acquire) & Self::bit(processor) == 0;
            // Relaxed: visible with the taken bit; a processor on its way up is rung for nothing.
            if called && sleeper.0.asleep.load(Ordering::Relaxed) != 0 {
                self.ring(processor);
            }
        }
        self.wake_one(false)
    }

    /// Makes `processor` look at its bit, which the caller has seen removed.
    fn ring(&self, processor: usize) {
        let Sleeper { bell, elsewhere, .. } = &self.sleepers[processor].0;
        // Ordering[idle.bell]: Release. Pairs with the sleeper's load. Makes visible: that its bit is gone.
        bell.fetch_add(1, Ordering::Release);
        // Relaxed: visible with the taken bit, since it is written before the bit is set. A later value says that the
        // processor has come up meanwhile; then either way of ringing is for nothing.
        if elsewhere.load(Ordering::Relaxed) != 0 {
            (self.alarm)();
        } else {
            M::wake(bell, 1);
        }
    }

    /// A busy processor ran out of work and begins to search.
    pub fn begin_search(&self, me: usize) {
        // Ordering[idle.state]: AcqRel. Pairs with the other exchanges of the word.
        // Not weakened: it counts, and carries no data.
        self.word(me).fetch_add(SEARCHING_ONE, Ordering::AcqRel);
    }

    /// A searcher found work. The last one wakes another sleeper: where there was some, there may be more.
    pub fn found(&self, me: usize) {
        // Ordering[idle.state]: AcqRel. Pairs with the other exchanges of the word.
        // Not weakened: it counts, and carries no data.
        let word = self.word(me).fetch_sub(SEARCHING_ONE, Ordering::AcqRel);
        if word >> SEARCHING_SHIFT == 1 && (word & SLEEPING != 0 || !self.more.is_empty()) {
            self.wake_one(true);
        }
    }

    /// A searcher found nothing: sleeps until it is called, sees work itself, or the deadline passes. `look` says
    /// whether there is anything it could take. With `directed`, pushes may concern this processor alone
    /// ([`Idle::wake`]), so it looks even if it was not the last searcher.
    pub fn sleep(&self, me: usize, deadline: Option<u64>, directed: bool, look: impl Fn() -> bool) -> Woken {
        let sleeper = &self.sleepers[me].0;
        // Relaxed: single writer; released by the exchange that sets the bit.
        sleeper.asleep.store(1, Ordering::Relaxed);
        let woken = self.until_woken(me, deadline, directed, look, |bell, rung, deadline| {
            M::wait(bell, rung, deadline);
            false
        });
        sleeper.asleep.store(0, Ordering::Relaxed);
        woken
    }

    /// As [`Idle::sleep`], but sleeps in `block` (until the deadline, or the pool's alarm, or for no reason), which
    /// answers true when it has brought something for this processor to do ([`Woken::Elsewhere`]).
    pub fn sleep_elsewhere(
        &self,
        me: usize,
        deadline: Option<u64>,
        directed: bool,
        look: impl Fn() -> bool,
        mut block: impl FnMut(Option<u64>) -> bool,
    ) -> Woken {
        let sleeper = &self.sleepers[me].0;
        // Relaxed: single writer; released by the exchange that sets the bit.
        sleeper.asleep.store(1, Ordering::Relaxed);
        sleeper.elsewhere.store(1, Ordering::Relaxed);
        let woken = self.until_woken(me, deadline, directed, look, |_, _, deadline| block(deadline));
        sleeper.elsewhere.store(0, Ordering::Relaxed);
        sleeper.asleep.store(0, Ordering::Relaxed);
        woken
    }

    fn until_woken(
        &self,
        me: usize,
        deadline: Option<u64>,
        directed: bool,
        look: impl Fn() -> bool,
        mut block: impl FnMut(&M::Atomic<u32>, u32, Option<u64>) -> bool,
    ) -> Woken {
        let word = self.word(me);
        let bell = &self.sleepers[me].0.bell;
        // One read-modify-write for both changes: removing a searcher and adding a sleeper (the bit is clear: I1).
        let change = Self::bit(me).wrapping_sub(SEARCHING_ONE);
        // Ordering[idle.state]: AcqRel. Pairs with the exchange that takes the bit. Makes visible: where this processor
        // sleeps.
        let before = word.fetch_add(change, Ordering::AcqRel);
        if directed || before >> SEARCHING_SHIFT == 1 {
            // Ordering[idle.look]: heavy fence. Pairs with the light fence in `notify` (proof at I3).
            M::heavy_fence();
            if look() && self.leave_set(me) {
                return Woken::Work;
            }
        }
        loop {
            // Ordering[idle.bell]: Acquire. Pairs with the ring. Makes visible: that the bit is gone.
            let rung = bell.load(Ordering::Acquire);
            // Ordering[idle.state]: Acquire. Pairs with the exchange that took the bit. Makes visible: the work of who
            // took it.
            if word.load(Ordering::Acquire) & Self::bit(me) == 0 {
                return Woken::Called;
            }
            if deadline.is_some_and(|time| M::now() >= time) && self.leave_set_to(me, 0) {
                return Woken::Deadline;
            }
            if block(bell, rung, deadline) {
                return if self.leave_set_to(me, 0) { Woken::Elsewhere } else { Woken::Called };
            }
        }
    }

    /// The sleeper takes its own bit back and searches; false if somebody took it already.
    fn leave_set(&self, me: usize) -> bool {
        self.leave_set_to(me, SEARCHING_ONE)
    }

    /// As [`Idle::leave_set`]; `searching` is what to count it as.
    fn leave_set_to(&self, me: usize, searching: u64) -> bool {
        let word = self.word(me);
        let mut now = word.load(Ordering::Relaxed);
        while now & Self::bit(me) != 0 {
            let new = (now & !Self::bit(me)) + searching;
            // Ordering[idle.state]: AcqRel. Pairs with the other exchanges of the word.
            // Not weakened: it takes back a bit, and carries no data.
            match word.compare_exchange_weak(now, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(changed) => now = changed,
            }
        }
        false
    }
}

/// What a policy is answered by the runtime.
impl<M: Machine> Others for Idle<M> {
    fn hungry(&self) -> bool {
        self.hungry()
    }
    fn asleep(&self, processor: usize) -> bool {
        self.is_sleeping(processor)
    }
    fn wake(&self, whom: Notify) {
        self.tell(whom);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn a_push_wakes_one_sleeper_only_when_nobody_searches() {
        let idle = Idle::<Real>::new(3);
        idle.begin_search(0);
        assert!(idle.hungry());
        // The last searcher sees work and does not sleep.
        assert_eq!(idle.sleep(0, None, false, || true), Woken::Work);
        assert_eq!(idle.sleeping(), 0);
        // A deadline in the past ends the sleep.
        assert_eq!(idle.sleep(0, Some(0), false, || false), Woken::Deadline);
        assert!(!idle.hungry(), "it is busy, and no searcher");
    }

    #[test]
    fn a_call_is_kept_for_a_sleeper_that_does_not_wait_yet() {
        let idle = std::sync::Arc::new(Idle::<Real>::new(2));
        idle.begin_search(1);
        let other = idle.clone();
        let sleeper = std::thread::spawn(move || other.sleep(1, None, false, || false));
        while !idle.wake_one(true) {
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), Woken::Called);
        assert_eq!(idle.sleeping(), 0);
        idle.found(1);
        assert!(!idle.hungry());
    }

    #[test]
    fn a_kick_wakes_past_a_searcher_that_is_frozen() {
        let idle = std::sync::Arc::new(Idle::<Real>::new(2));
        // The first one searches for ever.
        (0..2).for_each(|processor| idle.begin_search(processor));
        let other = idle.clone();
        let sleeper = std::thread::spawn(move || other.sleep(1, None, false, || false));
        while !idle.is_sleeping(1) {
            std::thread::yield_now();
        }
        assert!(!idle.wake_one(true), "somebody searches");
        assert!(idle.kick());
        assert_eq!(sleeper.join().unwrap(), Woken::Called);
    }

    #[test]
    fn a_kick_completes_what_a_frozen_waker_left() {
        let idle = std::sync::Arc::new(Idle::<Real>::new(2));
        idle.begin_search(1);
        let other = idle.clone();
        let sleeper = std::thread::spawn(move || other.sleep(1, None, false, || false));
        while idle.call_one(true).is_none() {
            std::thread::yield_now();
        }
        // It counts as asleep until it has come up, so that the monitor asks for a kick.
        while idle.sleeping() > 0 {
            assert!(!idle.is_sleeping(1));
            assert!(!idle.kick(), "nobody else sleeps");
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), Woken::Called);
    }
}
