//! What the kernel needs to switch from a kernel thread that blocks to another one on the same core: the yardstick of
//! this machine.

use crate::load::latency::Latencies;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::io::{Error, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Two kernel threads on one core, `n` times: one reads from an empty pipe, and the other, which can run, sees how long
/// ago that was.
///
/// # Errors
/// The kernel's: no pipe, no kernel thread, or no core of one's own choice.
///
/// ```
/// let seen = raddle_bench::native_switch::measure(200).unwrap();
/// assert!(seen.total() > 0 && seen.quantile(0.5) > 0);
/// ```
pub fn measure(n: u64) -> Result<Latencies, Error> {
    let core = sched_getcpu();
    let (mut wait, mut wake) = std::io::pipe()?;
    let (mut others_wait, mut others_wake) = std::io::pipe()?;
    let start = Instant::now();
    // When it was about to block; 0: it is not.
    let blocks_at = AtomicU64::new(0);
    let stay = || {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).map_err(Error::from)
    };
    std::thread::scope(|scope| {
        let blocks_at = &blocks_at;
        let other = std::thread::Builder::new().spawn_scoped(scope, move || {
            stay()?;
            let mut seen = Latencies::new();
            let mut byte = [0];
            // Ends when the writer is gone.
            while others_wait.read(&mut byte)? == 1 {
                let now = start.elapsed().as_nanos() as u64;
                // Woken so that it ran at once, it is not the one that goes on after a block.
                match blocks_at.swap(0, Ordering::Acquire) {
                    0 => {}
                    at => seen.note(now.saturating_sub(at)),
                }
                wake.write_all(&byte)?;
            }
            Ok(seen)
        })?;
        let blocker = std::thread::Builder::new().spawn_scoped(scope, move || -> Result<(), Error> {
            stay()?;
            let mut byte = [0];
            for _ in 0..n {
                others_wake.write_all(&byte)?;
                blocks_at.store((start.elapsed().as_nanos() as u64).max(1), Ordering::Release);
                wait.read_exact(&mut byte)?;
            }
            Ok(())
        })?;
        blocker.join().unwrap_or_else(|_| Err(Error::other("it panicked")))?;
        other.join().unwrap_or_else(|_| Err(Error::other("it panicked")))
    })
}
