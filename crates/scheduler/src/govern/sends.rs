//! Whether threads of a processor send together: a round of the ready threads is short, few wait for what is sent, and
//! leaders do not stay alone.
//!
//! A service of blocking crates with 9,500 connections sent 1.114 ± 0.018 times as much with batches as without, for
//! 0.868 ± 0.012 of the processor time (decision 0021). What each number below keeps away was seen there as well.

use super::backoff::Backoff;

/// Nanoseconds between two looks for events, 64 switches apart at most, up to which rounds count as short. 64 echoes
/// take 350,000; a thread that computes takes longer.
const BRISK_NS: u64 = 1_000_000;

/// Threads that a look found, up to which it is worth while. Many at once mean that whoever gets what is sent has a
/// queue as well: echo with 1,000 connections served 117,700 requests a second with batches and 129,600 without;
/// 158,100 and 149,700 with this limit.
const MOST_THREADS: u32 = 16;

/// Nanoseconds of a round that count as long: some thread computed, or spun for what the leader holds (8 exchanges a
/// second instead of 190,000).
const LONG_NS: u64 = 5_000_000;

/// So many times its length nobody leads after such a round: what it costs is 1 % at most.
const REST_RATIO: u64 = 100;

/// Sends without a batch after leaders that stayed alone, at most: with pauses 176,000 to 184,000 exchanges a second,
/// without them 99,000, where a leader holds a mutex that all others need.
const MOST_SKIPPED_SENDS: u32 = 1024;

/// Whether sends may be put together on a processor that looked for events at `before`, and `now`, when it found so
/// many threads that waited for them; not before `rests_until`.
#[inline]
pub fn are_worth_while(before: u64, now: u64, threads: u32, rests_until: u64) -> bool {
    now.saturating_sub(before) < BRISK_NS && threads <= MOST_THREADS && now >= rests_until
}

/// Until when nobody leads, after a round that took from `began` to `now`.
pub fn rest_after(began: u64, now: u64) -> Option<u64> {
    let took = now.saturating_sub(began);
    (took > LONG_NS).then(|| now + REST_RATIO * took)
}

/// The pause of leaders after one that came back with so many sends.
#[must_use]
pub fn pause_after(mut pause: Backoff, sends: usize) -> Backoff {
    if sends > 1 {
        return Backoff::new(1);
    }
    pause.pause(MOST_SKIPPED_SENDS);
    pause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_rounds_with_few_events_that_do_not_rest_count() {
        assert!(are_worth_while(5, 5 + BRISK_NS - 1, MOST_THREADS, 5));
        assert!(!are_worth_while(5, 5 + BRISK_NS, MOST_THREADS, 5));
        assert!(!are_worth_while(5, 6, MOST_THREADS + 1, 5) && !are_worth_while(5, 6, 1, 7));
    }

    #[test]
    fn a_long_round_is_paid_for_by_a_hundred_times_its_length() {
        assert_eq!(rest_after(10, 10 + LONG_NS), None);
        assert_eq!(rest_after(10, 10 + 2 * LONG_NS), Some(10 + 202 * LONG_NS));
    }

    #[test]
    fn leaders_that_stay_alone_come_more_and_more_seldom_until_one_does_not() {
        let mut pause = Backoff::from_bits(0);
        let skipped: Vec<u32> = (0..12)
            .map(|_| {
                pause = pause_after(pause, 1);
                let skipped = pause.to_bits() as u32;
                (0..skipped).for_each(|_| pause.pass());
                skipped
            })
            .collect();
        assert_eq!((skipped[0], skipped[1], skipped[11]), (1, 2, 1024));
        assert!(pause_after(pause, 2).is_over());
    }
}
