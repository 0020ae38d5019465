//! How long this process's kernel threads have waited for a core that ran others, as Linux counts it (`schedstat`).
//!
//! On a machine with other work, and at the start of a process, whose kernel threads the kernel may have put onto one core, what was asked of two
//! processors is measured on less. This tells such a run from others.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Of a run during which its kernel threads waited longer than this share of its time, it is said that it was disturbed.
pub const DISTURBED: f64 = 0.05;

/// Nanoseconds since the process began, of all its kernel threads that have not ended; 0 where the kernel does not count them. It counts a wait when
/// that is over.
///
/// ```
/// use raddle_bench::waits;
/// let before = waits::waited();
/// std::hint::black_box((0..1_000).sum::<u64>());
/// let _ = waits::settle();
/// assert!(waits::waited() >= before);
/// assert!(waits::undisturbed(4, 100) && !waits::undisturbed(6, 100));
/// ```
pub fn waited() -> u64 {
    // The second number: time spent ready, on a queue.
    let of = |text: String| text.split_whitespace().nth(1)?.parse::<u64>().ok();
    tasks().filter_map(|task| of(std::fs::read_to_string(task.join("schedstat")).ok()?)).sum()
}

/// Whether a run of so many nanoseconds, during which kernel threads waited so many, was undisturbed.
pub fn undisturbed(waited: u64, time: u64) -> bool {
    waited as f64 <= time as f64 * DISTURBED
}

/// What the host has taken of this machine's cores since it started ("steal"), and all time of them. Nothing where the kernel does not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken(Option<[u64; 2]>);

impl Taken {
    /// Until now.
    pub fn now() -> Self {
        Self(std::fs::read_to_string("/proc/stat").ok().and_then(|text| Self::of(&text)))
    }

    fn of(text: &str) -> Option<[u64; 2]> {
        // user nice system idle iowait irq softirq steal; what follows is in user and nice, too.
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        Some([*ticks.get(7)?, ticks.iter().sum()])
    }

    /// The share of the time since `before` that was taken, from 0 to 1.
    ///
    /// ```
    /// use raddle_bench::waits::Taken;
    /// let begin = Taken::now();
    /// assert!(Taken::now().since(begin).is_none_or(|share| (0.0..=1.0).contains(&share)));
    /// ```
    pub fn since(self, before: Self) -> Option<f64> {
        let ([taken, all], [taken_before, all_before]) = (self.0?, before.0?);
        let all = all.checked_sub(all_before).filter(|all| *all > 0)?;
        Some(taken.saturating_sub(taken_before) as f64 / all as f64)
    }
}

/// Runs something, and says whether this process had its cores for itself meanwhile. For what ends when all that it has to do is done.
///
/// ```
/// let mut ran = 0;
/// raddle_bench::waits::watched(&mut || ran += 1);
/// assert_eq!(ran, 1);
/// ```
pub fn watched(run: &mut dyn FnMut()) -> bool {
    let (before, begin) = (waited(), Instant::now());
    run();
    let time = begin.elapsed();
    undisturbed(waited().saturating_sub(before), time.as_nanos() as u64)
}

/// Waits, but not for long, until all other kernel threads sleep, as they do when nothing is to be done: one that is still ready then waits for a
/// core, and [`waited`] does not know of it. False if one is.
pub fn settle() -> bool {
    const LOOKS: u32 = 100;
    const PAUSE: Duration = Duration::from_micros(100);
    let me = std::fs::read_link("/proc/thread-self").ok();
    let me = me.as_ref().and_then(|path| path.file_name());
    // The state follows the name, which is in parentheses and may be anything.
    let ready = |text: String| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'));
    for _ in 0..LOOKS {
        std::thread::sleep(PAUSE);
        let mut others = tasks().filter(|task| task.file_name() != me);
        if !others.any(|task| std::fs::read_to_string(task.join("stat")).is_ok_and(ready)) {
            return true;
        }
    }
    false
}

fn tasks() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(|task| Some(task.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_is_a_share_of_all_time() {
        let at = |line: &str| Taken(Taken::of(line));
        let begin = at("cpu  10 20 30 400 5 0 7 100 3 2\ncpu0 1 2");
        assert_eq!(begin.0, Some([100, 572]));
        assert_eq!(at("cpu  10 20 30 470 5 0 7 130 9 9").since(begin), Some(0.3));
        assert_eq!(begin.since(begin), None, "no time has passed");
        assert_eq!(at("cpu 1 2 3").since(begin), None, "an old kernel");
    }
}
