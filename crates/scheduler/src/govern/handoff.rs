//! Whether to tell others of a ready thread while they are idle.
//!
//! Telling an idle processor costs microseconds on both sides and takes the thread to cold caches; not telling it
//! leaves the thread waiting here while a core idles. So a processor weighs the two. It knows its *pace*: how long
//! after such a decision the running thread leaves (yields, blocks or ends), a mean over samples. While others are idle
//! it keeps a thread that was woken or that yields, in silence, as long as
//!
//! ```text
//! (threads that wait here + threads kept since none waited last) × pace < WAKE_UP_NS
//! ```
//!
//! The first term is how long the thread will wait: it is told of when that is more than a wake-up takes. The second
//! one grows while there is always somebody waiting: then the other processor is worth its wake-up however short the
//! turns are. A thread that passes a token, or holds a lock over a yield while all others wait for it, leaves nobody
//! waiting again and again, and so stays on one processor.
//!
//! Bound: the pace is a guess. When the running thread computes on against it, the monitor publishes what is kept,
//! within its own bound, and the processor starts to tell again. A processor whose pace is unknown tells.
//!
//! Differs from Go and tokio, which wake a searcher for each thread but the last woken one (`runnext`, the LIFO slot),
//! which they keep for any time.
//!
//! # Example
//! ```
//! use raddle_scheduler::govern::handoff::Handoff;
//! // Who does not know his pace tells; at what pace the threads leave, he learns from `leaves`.
//! let mut handoff = Handoff::default();
//! assert!(!handoff.bears(1) && !handoff.keeps(0, || 1_000));
//! handoff.leaves(|| 1_200);
//! ```
/// Nanoseconds: what waking an idle processor costs, the cold caches included. An estimate: the futex wake-up of a
/// halted virtual core took 5,000 here. `lock_block` and `eratosthenes` do not tell 5,000, 10,000 and 20,000 apart.
pub const WAKE_UP_NS: u64 = 10_000;
/// One decision in so many is timed, once the pace is known to be quick. A power of two.
const SAMPLE_DECISIONS: u32 = 32;

/// What a processor knows about its own pace.
#[derive(Debug)]
pub struct Handoff {
    /// Nanoseconds from a decision to the running thread's leave; [`WAKE_UP_NS`] while unknown.
    pace: u64,
    /// Threads kept since none waited last.
    kept: u64,
    decisions: u32,
    /// When the decision that is being timed was; 0: none is.
    decided_at: u64,
}

impl Default for Handoff {
    fn default() -> Self {
        Self { pace: WAKE_UP_NS, kept: 0, decisions: 0, decided_at: 0 }
    }
}

impl Handoff {
    /// The running thread leaves its processor.
    #[inline(always)]
    pub fn leaves(&mut self, now: impl FnOnce() -> u64) {
        if self.decided_at != 0 {
            self.measure(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn measure(&mut self, now: impl FnOnce() -> u64) {
        // One thread that was preempted by the kernel must not count like a hundred: cut off.
        let sample = now().saturating_sub(self.decided_at).min(4 * WAKE_UP_NS);
        self.decided_at = 0;
        self.pace = ((3 * self.pace + sample) / 4).max(1);
    }

    /// Nobody waits here, or nobody whom the others cannot take.
    #[inline(always)]
    pub fn alone(&mut self) {
        self.kept = 0;
    }

    /// True while it is no loss that `waiting` threads wait here although others are idle.
    #[inline(always)]
    pub fn bears(&self, waiting: u64) -> bool {
        (waiting + self.kept) * self.pace < WAKE_UP_NS
    }

    /// The processor kept what others wanted.
    pub fn distrust(&mut self) {
        *self = Self::default();
    }

    /// Whether one more thread is kept, beside `waiting` ones.
    #[inline]
    pub fn keeps(&mut self, waiting: u64, now: impl FnOnce() -> u64) -> bool {
        let keeps = self.bears(waiting + 1);
        self.decisions = self.decisions.wrapping_add(1);
        if !keeps || self.decisions.is_multiple_of(SAMPLE_DECISIONS) {
            // A simulated machine begins at 0.
            self.decided_at = now().max(1);
        }
        if keeps {
            self.kept += 1;
        } else {
            self.kept = 0;
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: fn() -> u64 = || 1_000_000_000;

    /// A processor whose turns take `pace`.
    fn paced(pace: u64) -> Handoff {
        Handoff { pace, ..Handoff::default() }
    }

    #[test]
    fn who_does_not_know_his_pace_tells() {
        assert!(!Handoff::default().keeps(0, NOW));
        let mut handoff = paced(1);
        handoff.distrust();
        assert!(!handoff.keeps(0, NOW));
    }

    #[test]
    fn a_thread_is_kept_while_it_waits_for_less_than_a_wake_up() {
        assert!(paced(100).keeps(0, NOW));
        assert!(paced(100).keeps(WAKE_UP_NS / 100 - 2, NOW));
        assert!(!paced(100).keeps(WAKE_UP_NS / 100 - 1, NOW));
        assert!(!paced(WAKE_UP_NS).keeps(0, NOW));
    }

    #[test]
    fn where_somebody_always_waits_the_others_are_told() {
        let mut handoff = paced(100);
        let kept = (0..WAKE_UP_NS).take_while(|_| handoff.keeps(0, NOW)).count() as u64;
        assert_eq!(kept, WAKE_UP_NS / 100 - 1);
        // One that waits alone, again and again, is kept for ever.
        for _ in 0..WAKE_UP_NS {
            assert!(handoff.keeps(0, NOW));
            handoff.alone();
        }
    }

    #[test]
    fn the_pace_is_learnt_and_one_long_turn_is_noticed() {
        let mut handoff = Handoff::default();
        let turn = |handoff: &mut Handoff, ago: u64| {
            handoff.decided_at = NOW() - ago;
            handoff.leaves(NOW);
        };
        // Without a turn of known length there is nothing to measure.
        handoff.leaves(NOW);
        assert_eq!(handoff.pace, WAKE_UP_NS);
        turn(&mut handoff, 1_000 * WAKE_UP_NS);
        assert!(handoff.pace > WAKE_UP_NS && handoff.pace <= 2 * WAKE_UP_NS, "{}", handoff.pace);
        handoff.pace = 100;
        turn(&mut handoff, 1_000 * WAKE_UP_NS);
        assert!(!handoff.keeps(0, NOW), "a quick pace outlives a long turn");
    }
}
