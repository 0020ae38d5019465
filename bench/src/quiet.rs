//! Whether the cores are this machine's alone at this moment.
//!
//! On a machine that is a part of another one, a neighbour may compute on the other half of a core, which no counter here tells: what keeps
//! the core's units busy then takes up to twice as long, what waits for one result after the other hardly longer. So one and the same program takes
//! 160 or 270 ns for a thread, for a hundredth of a second or for minutes. (Seen on two virtual cores of an AMD EPYC, 2026-11-23: a loop of additions in
//! registers, each five milliseconds: as fast as it gets in 16 to 33 of 100 looks, 1.2 to 1.9 times as long in nearly all others.)
//!
//! A *look* is a short computation on two kernel threads at once; it is quiet if both take about as long as at best.
//!
//! ```
//! use raddle_bench::quiet::Best;
//! let best: Best = "20000".parse().unwrap();
//! assert_eq!(best.to_string(), "20000");
//! assert!("".parse::<Best>().is_err());
//! ```

use crate::waits;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Steps of the computation in a look: some 15 microseconds.
const STEPS: u64 = 10_000;
/// How many times as long as at best it may take.
const SLOWER: f64 = 1.12;
/// Between two looks while it is not quiet.
const PAUSE: Duration = Duration::from_micros(500);
/// How long the best is looked for where nobody told it.
const SEARCH: Duration = Duration::from_secs(2);
/// The variable by which a process tells those that it starts.
pub const VARIABLE: &str = "RADDLE_BENCH_QUIET";

/// What the computation of a look takes at best, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best(u64);

impl std::fmt::Display for Best {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Best {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("`{text}` is no number of nanoseconds"))
    }
}

impl Best {
    /// The best of so long a time, on the caller's core.
    pub fn of(time: Duration) -> Self {
        let begin = Instant::now();
        let mut best = u64::MAX;
        while best == u64::MAX || begin.elapsed() < time {
            best = best.min(computing());
            std::thread::sleep(PAUSE);
        }
        Self(best)
    }

    /// The one that another process told, or the best of two seconds.
    pub fn here() -> Self {
        static HERE: OnceLock<Best> = OnceLock::new();
        let told = || std::env::var(VARIABLE).ok()?.parse().ok();
        *HERE.get_or_init(|| told().unwrap_or_else(|| Self::of(SEARCH)))
    }

    /// True if two cores are quiet now.
    pub fn is_now(&self) -> bool {
        self.is(look())
    }

    fn is(&self, computing: u64) -> bool {
        computing as f64 <= self.0 as f64 * SLOWER
    }

    /// Waits until two cores are quiet, for so long at most. True if they are.
    pub fn comes(&self, within: Duration) -> bool {
        wait(within, || self.is_now())
    }
}

fn wait(within: Duration, is: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is() {
        if begin.elapsed() >= within {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Runs something for which this core alone counts; says whether the core was quiet and the process had it for itself. Waits for a
/// moment until it is quiet.
pub fn watched_here(run: &mut dyn FnMut()) -> bool {
    let best = Best::here();
    let is = || best.is(computing());
    wait(Duration::from_millis(20), is) & waits::watched(run) & is()
}

/// As [`watched_here`], for what takes two cores. `run` must not leave anything that computes.
pub fn watched_both(run: &mut dyn FnMut()) -> bool {
    let best = Best::here();
    best.comes(Duration::from_millis(100)) & waits::watched(run) & best.is_now()
}

/// Nanoseconds of the slower one of two computations at once.
fn look() -> u64 {
    let come = AtomicU32::new(0);
    let side = || {
        come.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0u32;
        while come.load(Ordering::Acquire) < 2 {
            looks += 1;
            if looks.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
        computing()
    };
    std::thread::scope(|scope| {
        // Without another kernel thread nothing is known, and nothing quiet.
        let Ok(other) = std::thread::Builder::new().spawn_scoped(scope, side) else { return u64::MAX };
        let here = side();
        other.join().map_or(u64::MAX, |there| here.max(there))
    })
}

/// Nanoseconds of a computation that keeps the core's units busy.
fn computing() -> u64 {
    let begin = Instant::now();
    let mut values = black_box([1u64, 2, 3, 4, 5, 6, 7, 8]);
    for step in 0..STEPS {
        values = values.map(|value| (value ^ value >> 7).wrapping_add(step));
    }
    black_box(values);
    begin.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_held_against_the_best() {
        let (any, none) = (Best(u64::MAX / 4), Best(0));
        assert!(any.is_now() && any.comes(Duration::ZERO));
        assert!(!none.is_now() && !none.comes(Duration::from_millis(2)));
        assert!((1..u64::MAX).contains(&look()));
    }

    #[test]
    fn what_one_process_found_is_told_to_another() {
        let best = Best(20_000);
        assert_eq!(best.to_string().parse(), Ok(best));
        for wrong in ["", "1.5", "a", "-1"] {
            assert!(wrong.parse::<Best>().unwrap_err().contains("no number"), "{wrong}");
        }
    }
}
