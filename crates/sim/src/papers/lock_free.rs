//! The lock-free scheduler's figures 7 to 10 and table 1: claims, and when they hold here. A rule is written before its run is seen.

use super::{Claim, Machine, bounds, list};
use crate::workloads::{Workload, programs};

/// A switch between threads in a kernel, nanoseconds: an estimate, after what a thread of the library costs that yields to the kernel.
const KERNEL_SWITCH: f64 = 1_000.0;
/// Linux's token ring: 15,672 ms for 1,000 threads and 1,000 rounds (table 1).
const LINUX_HOP: f64 = 15_672.0;

/// `raddle sim --machine opteron --cores 64 --policy fifo --workload city`.
const PRIMITIVES: &str = "quicker: a unit takes 1.2 µs, where the paper's system and Linux both take six; which part of theirs is missing here no run \
                          has shown";
/// The same with `--workload news`.
const QUANTUM: &str = "the model has no checks of a quantum, by which the paper explains it; the mutex and the wake-ups alone take nearly as long as \
                       Linux does";
/// The same with `--workload producer`.
const BUFFER: &str =
    "the paper's buffer is a lock and a condition; ours is a channel, whose two sides take 0.4 µs a message";

/// Linux's Mandelbrot for ours: 5,287 ms to 4,066.
const LINUX_MANDELBROT: f64 = 1.3;
/// Linux's Producer with 64 pairs: 105,086 ms for 640,000 messages.
const LINUX_MESSAGE: f64 = 164_000.0;

fn milliseconds(machine: &Machine, workload: &str, arguments: &str) -> Result<f64, String> {
    Ok(machine.run(workload, arguments)?.elapsed as f64 / 1e6)
}

pub(super) const CLAIMS: [Claim; 13] = [
    Claim {
        figure: "7",
        says: "a thread's making and end take as long when there are many",
        rule: "at most 1.5 times as long with a million as with ten thousand",
        judge: |machine, size| {
            let threads = [size.of(10_000, 100), size.of(1_000_000, 1_000)];
            let each = |n| machine.each("packet", &format!("n={n}:copy=0:body=0:bytes=0"));
            let (few, many) = (each(threads[0])?, each(threads[1])?);
            Ok((many <= 1.5 * few, format!("{few:.0} ns of {}, {many:.0} ns of {}", threads[0], threads[1])))
        },
        why: None,
    },
    Claim {
        figure: "8",
        says: "where all cores switch, a switch is much dearer than the kernel's: all fight for one queue",
        rule: "with four threads a core, a core's switch takes longer than 1,000 ns (an estimate of the kernel's)",
        judge: |machine, size| {
            let total = size.of(200_000, 2_000);
            let each = machine.each("yield", &format!("t={}:total={total}", 4 * machine.cores))?;
            let switch = each * machine.cores as f64;
            Ok((switch > KERNEL_SWITCH, format!("{switch:.0} ns on each of {} cores", machine.cores)))
        },
        why: None,
    },
    Claim {
        figure: "8",
        says: "the time of a switch stabilizes quickly, and then remains constant",
        rule: "from one thread a core to 64 a core the slowest takes at most 1.25 times the quickest",
        judge: |machine, size| {
            let mut times = Vec::new();
            for factor in [1, 2, 4, 16, 64] {
                let threads = factor * machine.cores;
                let total = size.of(200_000, 2_000).max(4 * threads as u64);
                times.push(machine.each("yield", &format!("t={threads}:total={total}"))? * machine.cores as f64);
            }
            let (least, most) = bounds(&times);
            Ok((most <= 1.25 * least, format!("{} ns with 1, 2, 4, 16, 64 threads a core", list(&times))))
        },
        why: None,
    },
    Claim {
        figure: "9",
        says: "a lock that all threads take costs the more the more of them there are",
        rule: "with 64 threads at least 1.5 times what it costs with one",
        judge: |machine, size| {
            let total = size.of(100_000, 2_000);
            let each = |threads| machine.each("lock_global", &format!("t={threads}:total={total}"));
            let (one, all) = (each(1)?, each(64)?);
            Ok((all >= 1.5 * one, format!("{one:.0} ns with one thread, {all:.0} ns with 64")))
        },
        why: None,
    },
    Claim {
        figure: "9",
        says: "a lock of a thread's own costs the same however many threads there are",
        rule: "a core's lock with 64 threads takes at most 1.25 times what it takes with one",
        judge: |machine, size| {
            let total = size.of(400_000, 4_000);
            let one = machine.each("lock_local", &format!("t=1:total={total}"))?;
            let all = machine.each("lock_local", &format!("t=64:total={}", 64 * total / 4))? * 64.0;
            Ok((all <= 1.25 * one, format!("{one:.1} ns with one thread, {all:.1} ns with 64")))
        },
        why: None,
    },
    Claim {
        figure: "10 (a)",
        says: "the speed-up is near to linear until all cores are used, drops for slightly more threads, and recovers with many",
        rule: "of 1 s of work in equal threads: 64 give at least 90 % of 64 times, 80 at most 75 % of that, 1,024 at least 90 % again",
        judge: |machine, size| {
            let work = size.of(1_000_000_000, 64_000_000);
            let speed = |threads: u64| {
                let arguments = format!("t={threads}:total={threads}:work={}", work / threads);
                Ok::<f64, String>(work as f64 / machine.run("yield", &arguments)?.elapsed as f64)
            };
            let speeds = [speed(64)?, speed(80)?, speed(1_024)?];
            let [all, more, many] = speeds.map(|speed| speed / 64.0);
            let held = all >= 0.9 && more <= 0.75 * all && many >= 0.9 * all;
            Ok((held, format!("{} with 64, 80 and 1,024 threads", list(&speeds))))
        },
        why: None,
    },
    Claim {
        figure: "Table 1",
        says: "the token ring of 1,000 threads is several times as fast as Linux's (4.5 µs a hop, Linux 15.7)",
        rule: "a hop takes less than half of Linux's 15.7 µs",
        judge: |machine, size| {
            let hop = machine.each("tokenring", &format!("n={}:k={}", size.of(1_000, 64), size.of(20, 2)))?;
            Ok((hop < LINUX_HOP / 2.0, format!("{hop:.0} ns a hop")))
        },
        why: None,
    },
    Claim {
        figure: "Table 1",
        says: "City takes about as long as on Linux (61 ms, Linux 63)",
        rule: "from half to twice Linux's 63 ms",
        judge: |machine, size| {
            let time = milliseconds(machine, "city", &format!("n={}", size.of(1_000, 20)))?;
            Ok(((31.5..=126.0).contains(&time), format!("{time:.1} ms")))
        },
        why: Some(PRIMITIVES),
    },
    Claim {
        figure: "Table 1",
        says: "Eratosthenes is quicker than on Linux (3,629 ms, Linux 4,750)",
        rule: "it takes less than Linux's 4,750 ms",
        judge: |machine, size| {
            let time = milliseconds(machine, "eratosthenes", &format!("n={}", size.of(10_000, 60)))?;
            Ok((time < 4_750.0, format!("{time:.0} ms")))
        },
        why: None,
    },
    Claim {
        figure: "Table 1",
        says: "Mandelbrot is quicker than on Linux (4,066 ms, Linux 5,287)",
        rule: "it takes less than 1.3 times (as Linux does) what the longest row, or all rows on all cores, take at least",
        judge: |machine, size| {
            let arguments = format!("c={}:k={}", size.of(2_000, 20), size.of(5_000, 50));
            let time = milliseconds(machine, "mandelbrot", &arguments)?;
            let least = programs::shortest(&Workload::find("mandelbrot")?.arguments(&arguments)?, machine.cores) / 1e6;
            Ok((time < LINUX_MANDELBROT * least, format!("{time:.1} ms, at least {least:.1}")))
        },
        why: None,
    },
    Claim {
        figure: "Table 1",
        says: "News is slower than on Linux (1,260 ms, Linux 374): its loop is tight, and a quantum is checked in it",
        rule: "it takes longer than Linux's 374 ms",
        judge: |machine, size| {
            let time = milliseconds(machine, "news", &format!("n={}", size.of(1_000, 20)))?;
            Ok((time > 374.0, format!("{time:.0} ms")))
        },
        why: Some(QUANTUM),
    },
    Claim {
        figure: "Table 1",
        says: "Producer with one pair is slower than on Linux (138 µs a message, Linux 27), which sees that only one thread locks",
        rule: "a message takes longer than Linux's 27 µs",
        judge: |machine, size| {
            let each = machine.each("producer", &format!("n=1:k={}", size.of(10_000, 100)))?;
            Ok((each > 26_900.0, format!("{each:.0} ns a message")))
        },
        why: Some(BUFFER),
    },
    Claim {
        figure: "Table 1",
        says: "Producer with 64 pairs takes half as long as on Linux (85 µs a message, Linux 164)",
        rule: "a message takes less than half of Linux's 164 µs",
        judge: |machine, size| {
            let each = machine.each("producer", &format!("n=64:k={}", size.of(10_000, 20)))?;
            Ok((each < LINUX_MESSAGE / 2.0, format!("{each:.0} ns a message")))
        },
        why: None,
    },
];
