//! How long a processor rests when the thread that it runs blocks in the kernel where nothing tells the runtime:
//! `raddle bench blocked`.
//!
//! One processor, two threads. One reads from an empty pipe by a system call that nothing marks; the other is ready,
//! and sees how long ago that was when it gets to run. Beside it, in the same process and in turns, what the kernel
//! needs for the same with two kernel threads on one core ([`native_switch`]). Further: what the runtime's kernel
//! threads cost while a thread computes that never blocks, and how often they wake up while nothing runs at all.

use crate::load::latency::Latencies;
use crate::native_switch;
use serde_json::{Value, json};
use std::io::{Error, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Blocks that are not counted: the runtime begins to listen with the first one.
const WARM_UP: u64 = 50;
/// So often the two measurements take turns.
const TURNS: u64 = 4;

/// The program: `n` blocks by the way that `RADDLE_EVENTS` names. Prints one object of JSON.
pub fn main_of(words: &[String]) -> ExitCode {
    let n = match words.first().map(|word| word.parse::<u64>()) {
        Some(Ok(n)) => n,
        _ => {
            eprintln!("raddle: the number of blocks is missing");
            return ExitCode::from(2);
        }
    };
    match measure(n) {
        Ok(figures) => println!("{figures}"),
        Err(error) => println!("{}", json!({"error": error})),
    }
    ExitCode::SUCCESS
}

fn measure(n: u64) -> Result<Value, String> {
    let pool = raddle::Builder::new().processors(1).build().map_err(|error| error.to_string())?;
    let (mut native, mut ours) = (Latencies::new(), Latencies::new());
    pool.run(|| blocks(WARM_UP, &mut Latencies::new())).map_err(|error| error.to_string())?;
    let before = raddle::info::stats();
    for _ in 0..TURNS {
        native.add(&native_switch::measure(n.div_ceil(TURNS)).map_err(|error| error.to_string())?);
        pool.run(|| blocks(n.div_ceil(TURNS), &mut ours)).map_err(|error| error.to_string())?;
    }
    let after = raddle::info::stats();
    let busy = pool.run(|| Quiet::of(|| compute(Duration::from_millis(1000))));
    let idle = Quiet::of(|| std::thread::sleep(Duration::from_millis(1000)));
    Ok(json!({
        "native_p50_ns": native.quantile(0.5),
        "native_p99_ns": native.quantile(0.99),
        "p50_ns": ours.quantile(0.5),
        "p99_ns": ours.quantile(0.99),
        "blocks": ours.total(),
        "taken": after.takeovers - before.takeovers,
        "taken_by_standby": after.takeovers_by_standby - before.takeovers_by_standby,
        "cost_of_a_core": busy.of_a_core,
        "wake_ups_when_idle": idle.wake_ups,
    }))
}

/// A thread blocks `n` times, and each time another one is ready.
fn blocks(n: u64, seen: &mut Latencies) -> Result<(), Error> {
    let (mut wait, wake) = std::io::pipe()?;
    let wake = Arc::new(wake);
    let start = Instant::now();
    let blocks_at = Arc::new(AtomicU64::new(0));
    for _ in 0..n {
        let (wake, other) = (wake.clone(), blocks_at.clone());
        let ready = raddle::spawn(move || {
            let now = start.elapsed().as_nanos() as u64;
            let lasted = now.saturating_sub(other.swap(0, Ordering::Relaxed));
            (&*wake).write_all(&[0]).map(|()| lasted)
        });
        blocks_at.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        wait.read_exact(&mut [0])?;
        seen.note(ready.join().map_err(|_| Error::other("a thread panicked"))??);
    }
    Ok(())
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What the process's other kernel threads did while something went on.
struct Quiet {
    of_a_core: f64,
    wake_ups: u64,
}

impl Quiet {
    /// The calling kernel thread is not counted.
    fn of(what: impl FnOnce()) -> Quiet {
        // What went on before may have an end to come to.
        raddle::sleep(Duration::from_millis(100));
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let (start, before) = (Instant::now(), others(own));
        what();
        let (time, after) = (start.elapsed(), others(own));
        let on_core = after.0.saturating_sub(before.0);
        Quiet { of_a_core: on_core as f64 / time.as_nanos() as f64, wake_ups: after.1.saturating_sub(before.1) }
    }
}

/// Of all kernel threads of the process but `own`: nanoseconds on cores, and how often they gave a core up to sleep.
fn others(own: i32) -> (u64, u64) {
    let mut sum = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        if task.file_name().to_string_lossy() == own.to_string() {
            continue;
        }
        let text = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let first = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        sum.0 += first(&text("schedstat"));
        let status = text("status");
        sum.1 += status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).map_or(0, first);
    }
    sum
}
