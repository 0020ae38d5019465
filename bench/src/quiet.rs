//! Whether the cores are this machine's alone at this moment.
//!
//! On a machine that is a part of another one, a neighbour may compute on the other half of a core, which no counter
//! here tells: what keeps the core's units busy then takes up to twice as long, what waits for one result after the
//! other hardly longer. So one and the same program takes 160 or 270 ns for a thread, for a hundredth of a second or
//! for minutes. (Seen on two virtual cores of an AMD EPYC, 2026-11-23: a loop of additions in registers, each five
//! milliseconds: as fast as it gets in 16 to 33 of 100 looks, 1.2 to 1.9 times as long in nearly all others.)
//!
//! Where the two cores lie changes likewise, for some hundredths of a second or for minutes: on one core of the host (a
//! word goes there and back in 65 ns, but computing takes 1.8 times as long), near each other (80 to 120 ns), or far
//! (400 to 500 ns). (The same machine, the same day.)
//!
//! A *look* is a short computation on two kernel threads at once, and some round trips of a word between them. It is
//! quiet if both take about as long as at best, and near if the round trips do.
//!
//! ```
//! use raddle_bench::quiet::Best;
//! let best: Best = "16000/85".parse().unwrap();
//! assert_eq!(best.to_string(), "16000/85");
//! assert!("16000".parse::<Best>().is_err());
//! ```

use crate::waits;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::black_box;
use std::io::Write as _;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Steps of the computation in a look: some 15 microseconds.
const STEPS: u64 = 10_000;
/// How many times as long as at best it may take.
const SLOWER: f64 = 1.12;
/// Round trips in a look.
const ROUND_TRIPS: u32 = 100;
/// How many times as long as at best those may take of cores that are near each other.
const FARTHER: f64 = 2.5;
/// A look that takes longer shows a busy machine.
const LATE: Duration = Duration::from_millis(5);
/// Between two looks while it is not quiet.
const PAUSE: Duration = Duration::from_micros(500);
/// How long the best is looked for where nobody told it; and how often again while the cores are farther than [`FAR`],
/// as they may be for minutes.
const SEARCH: Duration = Duration::from_secs(2);
const SEARCHES: u32 = 20;
/// Nanoseconds of a round trip between cores that are hardly near: 60 to 120 were, on what was seen.
const FAR: u64 = 200;
/// The variable by which a process tells those that it starts.
pub const VARIABLE: &str = "RADDLE_BENCH_QUIET";

/// What a look shows, in nanoseconds: the slower one of two computations, and a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    computing: u64,
    round_trip: u64,
}

const UNKNOWN: Look = Look { computing: u64::MAX, round_trip: u64::MAX };

/// What a look shows at best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best(Look);

impl std::fmt::Display for Best {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0.computing, self.0.round_trip)
    }
}

impl FromStr for Best {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of = |text: &str| text.parse().ok();
        let look =
            text.split_once('/').and_then(|(a, b)| Some(Look { computing: of(a)?, round_trip: of(b)? })).map(Self);
        look.ok_or_else(|| format!("`{text}` is not COMPUTING/ROUND_TRIP, two whole numbers of nanoseconds"))
    }
}

impl Best {
    /// The best of so long a time; and of so many such times at most, while the cores are far from each other.
    fn search(time: Duration, most: u32) -> Self {
        let mut looks = Vec::new();
        let mut best = Self(UNKNOWN);
        for again in 0..most {
            if again == 1 {
                let round_trip = best.0.round_trip;
                // That nobody can read it is no reason to end.
                let _ = writeln!(
                    std::io::stderr(),
                    "raddle: two cores lie far from each other, {round_trip} ns there and back; looks for nearer ones, for a moment or a minute"
                );
            }
            let begin = Instant::now();
            while looks.is_empty() || begin.elapsed() < time {
                looks.push(sample());
                std::thread::sleep(PAUSE);
            }
            best = Self::among(&looks);
            // All of them unknown: there are no two cores.
            if best.0.round_trip <= FAR || best.0 == UNKNOWN {
                break;
            }
        }
        best
    }

    /// Nanoseconds of a round trip between two cores, as they are near each other.
    pub fn round_trip(&self) -> u64 {
        self.0.round_trip
    }

    /// The quickest computation, and a quick round trip of the looks that were quiet: two halves of one core are
    /// nearer, and not quiet. (Not the quickest: there are looks during which the cores change.)
    fn among(looks: &[Look]) -> Self {
        const QUICK: usize = 30;
        let computing = looks.iter().map(|look| look.computing).min().unwrap_or(u64::MAX);
        let best = Self(Look { computing, round_trip: u64::MAX });
        let quiet = looks.iter().filter(|look| best.has_quiet(look.computing));
        let mut round_trips: Vec<u64> = quiet.map(|look| look.round_trip).collect();
        round_trips.sort_unstable();
        Self(Look { computing, round_trip: round_trips.get(round_trips.len() / QUICK).copied().unwrap_or(u64::MAX) })
    }

    /// The one that another process told, or the best of two seconds (more, where the two cores are far from each
    /// other).
    pub fn here() -> Self {
        static HERE: OnceLock<Best> = OnceLock::new();
        let told = || std::env::var(VARIABLE).ok()?.parse().ok();
        *HERE.get_or_init(|| told().unwrap_or_else(|| Self::search(SEARCH, SEARCHES)))
    }

    /// True if two cores are quiet now; and near each other, if so many processors are more than one.
    pub fn is_now(&self, processors: usize) -> bool {
        let look = sample();
        self.has_quiet(look.computing) && (processors < 2 || self.has_near(look.round_trip))
    }

    fn has_quiet(&self, computing: u64) -> bool {
        computing as f64 <= self.0.computing as f64 * SLOWER
    }

    fn has_near(&self, round_trip: u64) -> bool {
        round_trip as f64 <= self.0.round_trip as f64 * FARTHER
    }

    /// Waits until [`Best::is_now`], for so long at most. True if it is.
    pub fn comes(&self, processors: usize, within: Duration) -> bool {
        wait(within, || self.is_now(processors))
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

/// What the host has taken of this machine's cores since it started ("steal"), and all time of them. Nothing where the
/// kernel does not tell.
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
    /// use raddle_bench::quiet::Taken;
    /// let begin = Taken::now();
    /// assert!(Taken::now().since(begin).is_none_or(|share| (0.0..=1.0).contains(&share)));
    /// ```
    pub fn since(self, before: Self) -> Option<f64> {
        let ([taken, all], [taken_before, all_before]) = (self.0?, before.0?);
        let all = all.checked_sub(all_before).filter(|all| *all > 0)?;
        Some(taken.saturating_sub(taken_before) as f64 / all as f64)
    }
}

/// Runs something for which this core alone counts; says whether the core was quiet and the process had it for itself.
/// Waits for a moment until it is quiet.
pub fn watched_here(run: &mut dyn FnMut()) -> bool {
    let best = Best::here();
    let is = || best.has_quiet(computing());
    wait(Duration::from_millis(20), is) & waits::watched(run) & is()
}

/// As [`watched_here`], for what takes two cores, which have to be near each other, too. `run` must not leave anything
/// that computes. It runs on one core; its other side goes to another one by [`elsewhere`].
pub fn watched_both(run: &mut dyn FnMut()) -> bool {
    let best = Best::here();
    let before = best.comes(2, Duration::from_millis(100));
    let alone = match Cores::get() {
        Some(cores) => cores.here(|| waits::watched(run)).unwrap_or(false),
        None => waits::watched(run),
    };
    before & alone & best.is_now(2)
}

/// The cores that this process may use, and two of them; always the same ones.
struct Cores {
    allowed: CpuSet,
    here: CpuSet,
    there: CpuSet,
}

impl Cores {
    /// None without two, or where the kernel does not tell.
    fn get() -> Option<&'static Self> {
        static CORES: OnceLock<Option<Cores>> = OnceLock::new();
        let cores = || {
            let allowed = sched_getaffinity(None).ok()?;
            let mut two = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).map(|core| {
                let mut only = CpuSet::new();
                only.set(core);
                only
            });
            let (here, there) = (two.next()?, two.next()?);
            Some(Cores { allowed, here, there })
        };
        CORES.get_or_init(cores).as_ref()
    }

    /// Runs something on the one core: the kernel is free to put two kernel threads onto one, where each would seem to
    /// have it for itself.
    fn here<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        sched_setaffinity(None, &self.here).ok()?;
        let result = run();
        // They were allowed before.
        let _ = sched_setaffinity(None, &self.allowed);
        Some(result)
    }
}

/// Moves the calling kernel thread to another core than that of [`watched_both`]: for the other side of what that runs.
pub fn elsewhere() {
    if let Some(cores) = Cores::get() {
        // If it is refused they may share a core, which `watched_both` finds out.
        let _ = sched_setaffinity(None, &cores.there);
    }
}

/// A computation on two cores at once, and what goes to and fro between them. Without two cores, or another kernel
/// thread, nothing is known: not quiet, unless the search for the best has found out nothing either; then all counts.
fn sample() -> Look {
    let Some(cores) = Cores::get() else { return UNKNOWN };
    cores.here(|| sample_with(&cores.there)).unwrap_or(UNKNOWN)
}

fn sample_with(there: &CpuSet) -> Look {
    let begin = Instant::now();
    let word = AtomicU32::new(0);
    let late = AtomicBool::new(false);
    // Waits for its turns, of which each leads to the next number; both sides have had theirs at the end, unless it is
    // late.
    let turns = |numbers: std::ops::Range<u32>, side: u32| {
        for number in numbers.filter(|number| number % 2 == side) {
            let mut looks = 0u32;
            while word.load(Ordering::Acquire) != number {
                looks += 1;
                if looks.is_multiple_of(4096) {
                    if late.load(Ordering::Relaxed) || begin.elapsed() > LATE {
                        late.store(true, Ordering::Relaxed);
                        return;
                    }
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
            word.store(number + 1, Ordering::Release);
        }
    };
    // To meet, before the computation and after it.
    const MEET: u32 = 4;
    let pinned = AtomicBool::new(true);
    let there = || {
        pinned.store(sched_setaffinity(None, there).is_ok(), Ordering::Relaxed);
        turns(0..MEET, 1);
        let computing = computing();
        turns(MEET..2 * MEET + 2 * ROUND_TRIPS, 1);
        computing
    };
    std::thread::scope(|scope| {
        let Ok(other) = std::thread::Builder::new().spawn_scoped(scope, there) else { return UNKNOWN };
        turns(0..MEET, 0);
        let here = computing();
        turns(MEET..2 * MEET, 0);
        let begin = Instant::now();
        turns(2 * MEET..2 * MEET + 2 * ROUND_TRIPS, 0);
        let round_trip = begin.elapsed().as_nanos() as u64 / u64::from(ROUND_TRIPS);
        match other.join() {
            Ok(there) if pinned.load(Ordering::Relaxed) && !late.load(Ordering::Relaxed) => {
                Look { computing: here.max(there), round_trip }
            }
            _ => UNKNOWN,
        }
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

    fn best(computing: u64, round_trip: u64) -> Best {
        Best(Look { computing, round_trip })
    }

    #[test]
    fn a_look_is_held_against_the_best() {
        let best = best(100, 90);
        assert!(best.has_quiet(111) && !best.has_quiet(113));
        assert!(best.has_near(220) && !best.has_near(230));
        // Whatever this machine does.
        let (look, none) = (sample(), Best(Look { computing: 0, round_trip: 0 }));
        assert!(look.computing > 0 && look.round_trip > 0);
        assert!(!none.is_now(1) && !none.comes(2, Duration::from_millis(2)));
    }

    #[test]
    fn the_search_ends() {
        assert!(Best::search(Duration::ZERO, 3).round_trip() > 0);
        assert_eq!(Best::search(Duration::ZERO, 0), Best(UNKNOWN));
    }

    #[test]
    fn two_halves_of_a_core_are_not_the_best() {
        let look = |(computing, round_trip)| Look { computing, round_trip };
        let looks = [(280, 65), (160, 480), (170, 90), (190, 85)].map(look);
        assert_eq!(Best::among(&looks), best(160, 90));
        assert_eq!(Best::among(&[]), best(u64::MAX, u64::MAX));
        assert!(best(160, 90).has_near(128) && !best(160, 90).has_near(400));
    }

    #[test]
    fn what_one_process_found_is_told_to_another() {
        let best = best(20_000, 90);
        assert_eq!(best.to_string().parse(), Ok(best));
        for wrong in ["", "1.5", "a/3", "-1/2", "20000", "3/"] {
            assert!(wrong.parse::<Best>().unwrap_err().contains("two whole numbers"), "{wrong}");
        }
    }

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
