//! The lock-free scheduler's figures 7 to 10 and table 1: claims, and when they hold here. A rule is written before its
//! run is seen.

use super::{Claim, Drawing, Machine, Series, Size, bounds, list};
use crate::cost::Costs;
use crate::workloads::{Workload, programs};

/// A switch between threads in a kernel, nanoseconds: an estimate, after what a thread of the library costs that yields
/// to the kernel.
const KERNEL_SWITCH: f64 = 1_000.0;
/// Linux's token ring: 15,672 ms for 1,000 threads and 1,000 rounds (table 1).
const LINUX_HOP: f64 = 15_672.0;

/// `raddle sim --machine opteron --cores 64 --policy fifo --workload city`.
const PRIMITIVES: &str = "quicker: a unit takes 1.3 µs, where the paper's system and Linux both take six; which part of theirs is missing here no run \
                          has shown";
/// The same with `--workload news:n=1000:look=1000:quantum=1000000`, with `:check=2200` and `:check=6600` (346, 649 and
/// 1,131 ms), and with `look=0`.
const TURNS: &str = "most of the time goes to the mutex and the wake-ups: 307 ms with a count in place of the loop, 346 with the loop alone; with three \
                     checks in each turn it would hold (by the paper's rule a turn that calls a procedure has two)";
/// The same with `--workload producer`.
const BUFFER: &str =
    "the paper's buffer is a lock and a condition; ours is a channel, whose two sides take 0.4 µs a message";

/// Linux's Mandelbrot for ours: 5,287 ms to 4,066.
const LINUX_MANDELBROT: f64 = 1.3;
/// Linux's News.
const LINUX_NEWS_MS: f64 = 374.0;
/// A turn of its loop over all customers: our choice.
const NEWS_LOOK_PS: u64 = 1_000;
/// 2.2 s for 1,000³ of Matrix's innermost turns.
const NEWS_CHECK_PS: u64 = 2_200;
/// Linux's Producer with 64 pairs: 105,086 ms for 640,000 messages.
const LINUX_MESSAGE: f64 = 164_000.0;

fn milliseconds(machine: &Machine, workload: &str, arguments: &str) -> Result<f64, String> {
    Ok(machine.run(workload, arguments)?.elapsed as f64 / 1e6)
}

fn news(machine: &Machine, size: Size, look: u64, check: u64) -> Result<f64, String> {
    let quantum = 1_000_000;
    milliseconds(machine, "news", &format!("n={}:look={look}:check={check}:quantum={quantum}", size.of(1_000, 20)))
}

/// Figure 10 (b) has the times of one thread, 14.7 and 12.5 s, and no size. The size is our choice: 1,000, as in
/// `raddle bench matrix`.
const ROWS: u64 = 1_000;
/// A second one, to see what hangs on it.
const MORE_ROWS: u64 = 1_500;

/// Figure 10 (b), what no run can show.
pub(super) const TIMES: &str = "the times of one thread themselves, 14.7 s and 12.5: with one thread a run takes size³ times what a multiplication takes, and the paper tells \
     neither, so both are put in for the size we choose, not found; that it comes of how memory was initialised: the model has no pages and no \
     kinds of memory, so nothing in it is initialised; Windows";

/// `raddle sim --machine opteron --cores 64 --policy fifo --workload matrix:n=1000:t=64:check=2200` and without
/// `check`, with 1,400 rows (`multiply=4555:check=802`) and 1,500 (`multiply=3704:check=652`), and on
/// `{"base": "opteron", "stream": 5.12}`.
const BANDWIDTH: &str = "64 cores ask for 41 GB/s of the second factor, and four such processors' memory has 100 (its maker's word): with 1,400 rows, \
                         where they ask for 112, the difference is 5 % with 64 threads, and the speed-up of the kernel's threads 55; with 1,500 \
                         it is 0.5 %, and the speed-up 45, which figure 10 (a) would not call near to linear. Of 1,000 rows that all lie with one of \
                         the eight dies (12.5 GB/s) it is 0.3 %, and the speed-up 19";

/// What threads cost that a kernel schedules, as [`KERNEL_SWITCH`] has it; their making is a guess.
fn of_a_kernel(machine: &Machine) -> Result<Costs, String> {
    Ok(Costs { switch: KERNEL_SWITCH, ready: KERNEL_SWITCH, spawn: 10.0 * KERNEL_SWITCH, ..machine.costs()? })
}

/// The matrices' multiplication, milliseconds: with a check of a quantum by the library's threads, or without, by the
/// library's or the kernel's.
struct Matrix<'a> {
    machine: &'a Machine,
    size: Size,
    rows: u64,
}

impl Matrix<'_> {
    /// At any size one thread takes 12.5 s, and 2.2 s more for the checks.
    fn arguments(&self, threads: u64, checks: bool) -> String {
        let rows = self.size.of(self.rows, self.rows / 10);
        let each = |seconds: f64| (seconds * 1e12 / (self.rows as f64).powi(3)).round();
        let check = if checks { each(2.2) } else { 0.0 };
        // Of a die's 8 MiB of cache one MiB is a directory.
        let cache = self.size.of(7_168, 10);
        format!("n={rows}:t={threads}:multiply={}:check={check}:cache={cache}", each(12.5))
    }

    fn native(&self, threads: u64) -> Result<f64, String> {
        Ok(self.machine.run("matrix", &self.arguments(threads, true))?.elapsed as f64 / 1e6)
    }

    fn unchecked(&self, threads: u64) -> Result<f64, String> {
        Ok(self.machine.run("matrix", &self.arguments(threads, false))?.elapsed as f64 / 1e6)
    }

    fn kernel(&self, threads: u64) -> Result<f64, String> {
        let costs = of_a_kernel(self.machine)?;
        Ok(self.machine.run_on(costs, "fifo", "matrix", &self.arguments(threads, false))?.elapsed as f64 / 1e6)
    }

    /// By how much the library's threads with checks take longer than the kernel's without.
    fn gap(&self, threads: u64) -> Result<f64, String> {
        Ok(self.native(threads)? / self.kernel(threads)? - 1.0)
    }
}

/// A line over the number of threads.
fn over_threads(all: &[u64], name: &str, of: &dyn Fn(u64) -> Result<f64, String>) -> Result<Series, String> {
    let point = |&threads: &u64| Ok::<_, String>((threads as f64, of(threads)?));
    Ok(Series::new(name, all.iter().map(point).collect::<Result<_, _>>()?))
}

fn powers(most: u64) -> Vec<u64> {
    (0..=most).map(|power| 1 << power).collect()
}

/// Those of figure 10, some of them just beyond the cores.
fn to_multiply(size: Size) -> Vec<u64> {
    let mut all = [&powers(size.of(10, 7))[..], &[72, 80, 96]].concat();
    all.sort_unstable();
    all
}

pub(super) const DRAWINGS: [Drawing; 5] = [
    Drawing {
        figure: "7",
        title: "a thread's making and end, ns",
        across: "threads",
        upwards: "making and end [ns]",
        draw: |machine, size| {
            let all: Vec<u64> = (0..=size.of(5, 2) as u32).map(|power| 10u64.pow(power)).collect();
            let each = |threads| machine.each("packet", &format!("n={threads}:copy=0:body=0:bytes=0"));
            Ok(vec![over_threads(&all, "fifo", &each)?])
        },
    },
    Drawing {
        figure: "8",
        title: "a core's switch, ns, the kernel's being an estimate",
        across: "threads",
        upwards: "a switch [ns]",
        draw: |machine, size| {
            let switch = |threads: u64| {
                // As in the claims: of shorter runs the cores' waking up counts.
                let total = size.of(200_000, 2_000).max(4 * threads);
                let cores = threads.min(machine.cores as u64) as f64;
                Ok(machine.each("yield", &format!("t={threads}:total={total}"))? * cores)
            };
            let all = powers(size.of(12, 7));
            let kernel = over_threads(&all, "a kernel's", &|_| Ok(KERNEL_SWITCH))?;
            Ok(vec![over_threads(&all, "fifo", &switch)?, kernel])
        },
    },
    Drawing {
        figure: "9",
        title: "a lock and its release, ns, of all threads' lock and, by each core, of a thread's own",
        across: "threads",
        upwards: "lock and release [ns]",
        draw: |machine, size| {
            let total = size.of(100_000, 2_000);
            let lock = |which: &'static str| {
                move |threads: u64| {
                    let cores = threads.min(machine.cores as u64);
                    let (total, times) = if which == "lock_local" { (total * cores, cores) } else { (total, 1) };
                    Ok(machine.each(which, &format!("t={threads}:total={total}"))? * times as f64)
                }
            };
            let all = powers(size.of(8, 4));
            Ok(vec![
                over_threads(&all, "lock_global", &lock("lock_global"))?,
                over_threads(&all, "lock_local", &lock("lock_local"))?,
            ])
        },
    },
    Drawing {
        figure: "10 (a)",
        title: "speed-up of the matrices' multiplication, of 1,000 rows (our choice)",
        across: "threads",
        upwards: "speed-up",
        draw: |machine, size| {
            let (matrix, all) = (Matrix { machine, size, rows: ROWS }, to_multiply(size));
            let (native, kernel) = (matrix.native(1)?, matrix.kernel(1)?);
            Ok(vec![
                over_threads(&all, "fifo, with checks", &|threads| Ok(native / matrix.native(threads)?))?,
                over_threads(&all, "a kernel's threads, without", &|threads| Ok(kernel / matrix.kernel(threads)?))?,
            ])
        },
    },
    Drawing {
        figure: "10 (b)",
        title: "time of the matrices' multiplication, ms; the sizes are our choice",
        across: "threads",
        upwards: "time [ms]",
        draw: |machine, size| {
            let (mut lines, all) = (Vec::new(), to_multiply(size));
            for rows in [ROWS, MORE_ROWS] {
                let matrix = Matrix { machine, size, rows };
                let name = |whose: &str| format!("{whose}, {rows} rows");
                lines.push(over_threads(&all, &name("fifo, with checks"), &|threads| matrix.native(threads))?);
                lines
                    .push(over_threads(&all, &name("a kernel's threads, without"), &|threads| matrix.kernel(threads))?);
            }
            Ok(lines)
        },
    },
];

pub(super) const CLAIMS: [Claim; 17] = [
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
        rule: "from two threads a core (of one a core nobody else is ready, and it goes on) to 64 the slowest takes at most 1.25 times the quickest",
        judge: |machine, size| {
            let mut times = Vec::new();
            for factor in [2, 4, 16, 64] {
                let threads = factor * machine.cores;
                let total = size.of(200_000, 2_000).max(4 * threads as u64);
                times.push(machine.each("yield", &format!("t={threads}:total={total}"))? * machine.cores as f64);
            }
            let (least, most) = bounds(&times);
            Ok((most <= 1.25 * least, format!("{} ns with 2, 4, 16, 64 threads a core", list(&times))))
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
        rule: "of 1 s of work in equal threads, which do not yield: 64 give at least 90 % of 64 times, 80 at most 75 % of that, 1,024 at least 90 % again",
        judge: |machine, size| {
            let work = size.of(1_000_000_000, 64_000_000);
            let speed = |threads: u64| {
                let arguments = format!("n={threads}:copy=0:bytes=0:body={}", work / threads);
                Ok::<f64, String>(work as f64 / machine.run("packet", &arguments)?.elapsed as f64)
            };
            let speeds = [speed(64)?, speed(80)?, speed(1_024)?];
            let [all, more, many] = speeds.map(|speed| speed / 64.0);
            let held = all >= 0.9 && more <= 0.75 * all && many >= 0.9 * all;
            Ok((held, format!("{} with 64, 80 and 1,024 threads", list(&speeds))))
        },
        why: None,
    },
    Claim {
        figure: "10 (a)",
        says: "for slightly more threads than cores it drops because of long scheduling epochs",
        rule: "with 80 threads at most 75 % of the speed-up with 64 without quanta, and at least 90 % with quanta of 1 ms (our choice), of 1,000 rows",
        judge: |machine, size| {
            let matrix = Matrix { machine, size, rows: ROWS };
            let time = |threads: u64, quantum: &str| {
                let arguments = format!("{}{quantum}", matrix.arguments(threads, true));
                Ok::<f64, String>(machine.run("matrix", &arguments)?.elapsed as f64)
            };
            let all = time(64, "")?;
            let (never, short) = (all / time(80, "")?, all / time(80, ":quantum=1M")?);
            let seen = format!("{:.0} % without, {:.0} % with", never * 100.0, short * 100.0);
            Ok((never <= 0.75 && short >= 0.9, seen))
        },
        why: None,
    },
    Claim {
        figure: "10 (b)",
        says: "the systems differ most with one thread (14.7 s to Linux's 12.5), and less with more, since memory is what limits them then",
        rule: "of 1,000 rows (our choice), the library's threads with checks take longer than the kernel's without: with 64 at most half as much \
               longer as with one",
        judge: |machine, size| {
            let gaps = |rows| {
                let matrix = Matrix { machine, size, rows };
                Ok::<_, String>((matrix.gap(1)?, matrix.gap(64)?))
            };
            let ((one, all), (other_one, other_all)) = (gaps(ROWS)?, gaps(MORE_ROWS)?);
            let shrinks = |one: f64, all: f64| one > 0.0 && all <= one / 2.0;
            let text = |one: f64, all: f64| format!("{:.1} % with one, {:.1} % with 64", one * 100.0, all * 100.0);
            let depends = if shrinks(one, all) == shrinks(other_one, other_all) {
                "the size makes no difference"
            } else {
                "the size decides"
            };
            let seen = format!("{}; of {MORE_ROWS} rows {}: {depends}", text(one, all), text(other_one, other_all));
            Ok((shrinks(one, all), seen))
        },
        why: Some(BANDWIDTH),
    },
    Claim {
        figure: "10 (b)",
        says: "what makes the difference to Linux is the check of a quantum, not the scheduler",
        rule: "without checks the library's threads take at most 1 % longer than the kernel's with 1, 64 and 1,024 threads",
        judge: |machine, size| {
            let matrix = Matrix { machine, size, rows: ROWS };
            let mut longer = Vec::new();
            for threads in [1, 64, 1_024] {
                longer.push((matrix.unchecked(threads)? / matrix.kernel(threads)? - 1.0) * 100.0);
            }
            let text: Vec<String> = longer.iter().map(|percent| format!("{percent:+.2}")).collect();
            Ok((longer.iter().all(|&percent| percent <= 1.0), format!("{} %", text.join(", "))))
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
        says: "News is slower than on Linux (1,260 ms, Linux 374)",
        rule: "with a loop over all customers after each reading (our reading of its `tight innermost loop`), whose turn takes 1 ns and 2.2 more for a \
               check (what one costs their Matrix of 1,000 rows), it takes longer than Linux's 374 ms",
        judge: |machine, size| {
            let time = news(machine, size, NEWS_LOOK_PS, NEWS_CHECK_PS)?;
            Ok((
                time > LINUX_NEWS_MS,
                format!("{time:.0} ms; with a count in place of the loop {:.0}", news(machine, size, 0, 0)?),
            ))
        },
        why: None,
    },
    Claim {
        figure: "Table 1",
        says: "that News is slower comes of the check of a quantum in its loop",
        rule: "with that loop and check it takes at least three times as long as with the loop alone (the paper has 3.4 times Linux's time)",
        judge: |machine, size| {
            let (with, without) =
                (news(machine, size, NEWS_LOOK_PS, NEWS_CHECK_PS)?, news(machine, size, NEWS_LOOK_PS, 0)?);
            let three = news(machine, size, NEWS_LOOK_PS, 3 * NEWS_CHECK_PS)?;
            let seen = format!(
                "{with:.0} ms with, {without:.0} without: {:.2} times; {:.2} with three checks in each turn",
                with / without,
                three / without
            );
            Ok((with >= 3.0 * without, seen))
        },
        why: Some(TURNS),
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
