//! Many threads that sleep at the same time: what a sleep costs of the processors, and how late it ends.

use super::Api;
use crate::memory::Memory;
use crate::program::Outcome;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The processor time of this process so far.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Counts from before the first thread is made to when all have been joined. The time of an operation is processor
/// time: the whole takes as long as the sleeps.
pub struct Sleepers {
    threads: u64,
    turns: u64,
    before: Duration,
    memory: Memory,
    baseline: Memory,
}

impl Sleepers {
    /// `threads` threads are to sleep `turns` times each; none has been made.
    pub fn begin(threads: u64, turns: u64, baseline: Memory) -> Sleepers {
        Sleepers { threads, turns, before: processor_time(), memory: baseline, baseline }
    }

    /// All have been made, and most of them sleep.
    pub fn all_made(&mut self) {
        self.memory = Memory::now();
    }

    /// All have ended. For each, how late its latest sleep ended, in nanoseconds.
    pub fn end(self, mut late_ns: Vec<u64>) -> Outcome {
        let spent = processor_time().saturating_sub(self.before);
        late_ns.sort_unstable();
        let at = |share: f64| late_ns.get((late_ns.len() as f64 * share) as usize).copied().unwrap_or(0) as f64;
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 * 1024.0 / self.threads.max(1) as f64;
        Outcome::new(self.threads * self.turns, spent, late_ns.len() as u64 * self.turns)
            .with("rss_per_thread", each(self.memory.rss_kib, self.baseline.rss_kib))
            .with("page_tables_per_thread", each(self.memory.page_tables_kib, self.baseline.page_tables_kib))
            .with("late_p50_ns", at(0.5))
            .with("late_p99_ns", at(0.99))
    }
}

/// How much longer than asked for a sleep took that began at `start`, in nanoseconds.
pub fn late_ns(start: Instant, asked: Duration) -> u64 {
    u64::try_from(start.elapsed().saturating_sub(asked).as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn sleepers<A: Api>(threads: u64, ms: u64, turns: u64, baseline: Memory) -> Outcome {
    let asked = Duration::from_millis(ms);
    let mut sleepers = Sleepers::begin(threads, turns, baseline);
    let body = move || {
        let one = || {
            let start = Instant::now();
            A::sleep(asked);
            late_ns(start, asked)
        };
        (0..turns).map(|_| one()).max().unwrap_or(0)
    };
    let handles: Vec<_> = (0..threads).map(|_| A::spawn(body)).collect();
    sleepers.all_made();
    sleepers.end(handles.into_iter().map(A::join).collect())
}
