//! How long this process's kernel threads have waited for a core that ran others, as Linux counts it (`schedstat`).
//!
//! On a machine with other work, and at the start of a process, whose kernel threads the kernel may have put onto one
//! core, what was asked of two processors is measured on less. This tells such a run from others.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Of a run during which its kernel threads waited longer than this share of its time, it is said that it was
/// disturbed.
pub const DISTURBED: f64 = 0.05;

/// Nanoseconds since the process began, of all its kernel threads that have not ended; 0 where the kernel does not
/// count them. It counts a wait when that is over.
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

/// Runs something, and says whether this process had its cores for itself meanwhile. For what ends when all that it has
/// to do is done.
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

/// Waits, but not for long, until all other kernel threads sleep, as they do when nothing is to be done: one that is
/// still ready then waits for a core, and [`waited`] does not know of it. False if one is.
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
