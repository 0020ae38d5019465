//! Which workloads there are, with the arguments they are run with when nobody says otherwise.

mod foretold;
mod schedulers;

use crate::args::Args;
use crate::bodies::shared::{nbody_sequential, xorshift_keys};

/// What one figure of a workload is the time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One operation, named.
    Each(&'static str),
    /// The whole run.
    Run,
}

/// One workload.
#[derive(Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What its figure is the time of.
    pub unit: Unit,
    /// Its keys with their values when not given; a bare value on the command line is one of the first key.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The argument sets it is run with, as changes to the defaults.
    pub cases: &'static [&'static str],
    /// It is also run on one processor.
    pub also_on_one: bool,
    /// The checksum, where a formula gives it.
    pub expected: fn(&Args) -> Option<u64>,
    /// How long one repetition may take on a slow runtime, in seconds.
    pub slow: fn(&Args) -> f64,
}

/// One workload with one set of arguments.
#[derive(Clone, Debug)]
pub struct Case {
    /// The workload.
    pub workload: &'static Workload,
    /// All its arguments.
    pub args: Args,
    /// How many processors it runs on.
    pub processors: usize,
}

impl Case {
    /// The checksum that every runtime must report, where a formula gives it.
    pub fn expected(&self) -> Option<u64> {
        (self.workload.expected)(&self.args)
    }

    /// After how many seconds a process of so many repetitions is given up.
    pub fn limit_seconds(&self, repetitions: u32) -> u64 {
        // Only what hangs is to be ended so: a start may take long on a loaded machine, and a slow runtime be four
        // times slower than foreseen. No figure depends on it.
        30 + (4.0 * (self.workload.slow)(&self.args) * f64::from(repetitions)) as u64
    }
}

/// Finds a workload by its name.
///
/// ```
/// use raddle_bench::catalogue::find;
/// assert_eq!(find("create").unwrap().name, "create");
/// assert!(find("creat").unwrap_err().contains("create"));
/// ```
pub fn find(name: &str) -> Result<&'static Workload, String> {
    all().find(|w| w.name == name).ok_or_else(|| {
        let names: Vec<_> = all().map(|w| w.name).collect();
        // A word for all of them, and the commands beside them, may have been meant.
        let meant: Vec<_> = names.iter().copied().chain(["quick", "report", "blocked", "quantum"]).collect();
        format!("there is no workload `{name}`; {}there are {}", similar(name, &meant), names.join(", "))
    })
}

/// "do you mean …?", if one of `names` differs from `name` in a letter or two.
pub fn similar(name: &str, names: &[&str]) -> String {
    let distance = |other: &str| {
        let (a, b): (Vec<char>, Vec<char>) = (name.chars().collect(), other.chars().collect());
        let mut rows = [(0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1], vec![0; b.len() + 1]];
        for i in 1..=a.len() {
            rows.rotate_right(1);
            let [now, last, before] = &mut rows;
            now[0] = i;
            for j in 1..=b.len() {
                let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
                now[j] = changed.min(last[j] + 1).min(now[j - 1] + 1);
                // Two letters that have changed places.
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    now[j] = now[j].min(before[j - 2] + 1);
                }
            }
        }
        rows[0][b.len()]
    };
    let nearest = names.iter().map(|other| (distance(other), *other)).min();
    let close = nearest.filter(|(distance, _)| *distance <= 2 && *distance < name.chars().count().max(2));
    close.map_or_else(String::new, |(_, other)| format!("do you mean `{other}`? "))
}

/// The cases of a workload: its own, or one for each item of `chosen`: a value of its first key, or `key=value` pairs
/// joined by `:`.
pub fn cases(workload: &'static Workload, chosen: &[String], processors: usize) -> Result<Vec<Case>, String> {
    let items: Vec<&str> = match chosen {
        [] => workload.cases.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let mut cases = Vec::new();
    for item in items {
        let args = arguments(workload, item)?;
        crate::bodies::possible(workload.name, &args)?;
        cases.push(Case { workload, args: args.clone(), processors });
        if workload.also_on_one && processors != 1 {
            cases.push(Case { workload, args, processors: 1 });
        }
    }
    Ok(cases)
}

fn arguments(workload: &'static Workload, item: &str) -> Result<Args, String> {
    let mut args = Args::default();
    for (key, value) in workload.defaults {
        args.set(key, value);
    }
    let keys: Vec<_> = workload.defaults.iter().map(|(key, _)| *key).collect();
    for part in item.split(':').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((keys[0], part));
        if !keys.contains(&key) {
            let known = keys.join(", ");
            return Err(format!("`{}` has no argument `{key}`; it has {known}", workload.name));
        }
        args.set(key, value);
        if key != "by" {
            args.number(key)?;
        } else if !ways(workload).contains(&value) {
            return Err(format!("by={value}: pass by={}", ways(workload).join(" or by=")));
        }
    }
    Ok(args)
}

/// The locks that `locks` knows: the runtime's own mutex, and those of ours beside it.
pub const LOCKS: &[&str] =
    &["mutex", "barging", "fair", "spin", "mcs", "h1", "h2", "hemlock", "cna", "reciprocating", "try"];

/// How `faults` keeps its elements: by one lock over all, by one in each, by a reservation, by one in each cluster.
pub const KEPT: &[&str] = &["coarse", "elements", "hybrid", "clustered"];

/// What `by` may be.
fn ways(workload: &Workload) -> &'static [&'static str] {
    match workload.name {
        "mixer" | "mixer-load" => &["promise", "yield"],
        "options" => &["spawn", "sequential"],
        "staged" => &["pool", "bounded", "stages"],
        "locks" => LOCKS,
        "faults" => KEPT,
        _ => &["spawn", "join", "scope"],
    }
}

/// The ways of `by` that are contestants of their own where nobody names one: ours, beside the others' first.
pub fn each_way(workload: &Workload) -> Option<&'static [&'static str]> {
    matches!(workload.name, "locks" | "faults").then(|| ways(workload))
}

/// The product of some arguments, in wrapping arithmetic.
fn product(args: &Args, keys: &[&str]) -> Option<u64> {
    keys.iter().map(|key| args.number(key).ok()).try_fold(1u64, |product, n| Some(product.wrapping_mul(n?)))
}

/// So many nanoseconds for each unit of the product of some arguments, in seconds.
fn nanos(args: &Args, keys: &[&str], each: f64) -> f64 {
    keys.iter().filter_map(|key| args.number(key).ok()).fold(each * 1e-9, |product, n| product * n as f64)
}

fn below(n: u64) -> u64 {
    (u128::from(n) * u128::from(n.saturating_sub(1)) / 2) as u64
}

fn fibonacci(n: u64) -> u64 {
    (0..n).fold((0u64, 1u64), |(a, b), _| (b, a.wrapping_add(b))).0
}

fn primes_up_to(limit: u64) -> Option<u64> {
    // Beyond this no one runs it, and the sieve's memory would.
    let limit = usize::try_from(limit).ok().filter(|&limit| limit <= 100_000_000)?;
    let mut composite = vec![false; limit + 1];
    let mut sum = 0;
    for n in 2..=limit {
        if !composite[n] {
            sum += n as u64;
            (n * n..=limit).step_by(n).for_each(|multiple| composite[multiple] = true);
        }
    }
    Some(sum)
}

/// The sum of a product's entries is, over the inner index, column sum times row sum.
fn matrix_sum(n: u64) -> Option<u64> {
    let n = u64::from(u16::try_from(n).ok()?);
    let column = |k: u64| (0..n).map(|i| (i + k) % 7).sum::<u64>();
    let row = |k: u64| (0..n).map(|j| (k * j) % 5).sum::<u64>();
    Some((0..n).map(|k| column(k) * row(k)).sum())
}

/// Sorts the keys by std.
fn sorted_sum(n: u64) -> Option<u64> {
    // Beyond this the harness would need gigabytes; the runtimes' sums are then held against each other.
    let n = usize::try_from(n).ok().filter(|&n| n <= 1 << 26)?;
    let mut keys: Vec<u32> = xorshift_keys().take(n).collect();
    keys.sort_unstable();
    Some(keys.iter().fold(0u32, |sum, &key| sum.wrapping_mul(31).wrapping_add(key)).into())
}

fn solutions(n: u64) -> Option<u64> {
    const KNOWN: [u64; 17] =
        [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200, 73_712, 365_596, 2_279_184, 14_772_512];
    KNOWN.get(usize::try_from(n).ok()?).copied()
}

/// All workloads: those of threads, then the loads on servers.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    of_threads().chain(crate::load::catalogue::LOADS)
}

/// The workloads of threads.
pub fn of_threads() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().chain(schedulers::WORKLOADS)
}

/// The workloads of threads but those of the schedulers report, in the order of ours.
static WORKLOADS: &[Workload] = &[
    Workload {
        name: "create",
        about: "one thread spawns N empty threads without throttling, then waits for all",
        unit: Unit::Each("thread"),
        defaults: &[("N", "1M")],
        cases: &["1", "1k", "100k", "1M", "10M"],
        also_on_one: false,
        expected: |a| product(a, &["N"]),
        slow: |a| nanos(a, &["N"], 5e3),
    },
    Workload {
        name: "park",
        about: "N threads block on one closed gate; memory per blocked thread; then all go",
        unit: Unit::Each("thread"),
        defaults: &[("N", "100k")],
        cases: &["10k", "100k", "1M"],
        also_on_one: false,
        expected: |a| product(a, &["N"]),
        slow: |a| nanos(a, &["N"], 2e4),
    },
    Workload {
        name: "sleep",
        about: "N threads sleep ms milliseconds at the same time, turns times each: processor time, and how late they wake",
        unit: Unit::Each("sleep, in processor time"),
        defaults: &[("N", "10k"), ("ms", "1000"), ("turns", "1")],
        cases: &["10k", "100k"],
        also_on_one: false,
        expected: |a| product(a, &["N", "turns"]),
        slow: |a| nanos(a, &["N", "turns"], 1e5) + nanos(a, &["ms", "turns"], 1e6),
    },
    Workload {
        name: "yield",
        about: "T threads yield total times in all",
        unit: Unit::Each("yield"),
        defaults: &[("T", "64"), ("total", "2M")],
        cases: &["2", "64", "10k"],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| nanos(a, &["total"], 3e3),
    },
    Workload {
        name: "pp_chan",
        about: "two threads, two channels of one slot, n round trips",
        unit: Unit::Each("round trip"),
        defaults: &[("n", "200k")],
        cases: &["200k"],
        also_on_one: true,
        expected: |a| Some(below(a.number("n").ok()? + 1)),
        slow: |a| nanos(a, &["n"], 3e4),
    },
    Workload {
        name: "pp_cond",
        about: "two threads alternate n times on one mutex with a condition variable each",
        unit: Unit::Each("round trip"),
        defaults: &[("n", "200k")],
        cases: &["200k"],
        also_on_one: true,
        expected: |a| Some(2 * a.number("n").ok()?),
        slow: |a| nanos(a, &["n"], 3e4),
    },
    Workload {
        name: "null_fork",
        about: "a thread that does nothing is made, runs and is joined, n times one after the other",
        unit: Unit::Each("thread"),
        defaults: &[("n", "100k")],
        cases: &["100k"],
        also_on_one: true,
        expected: |a| a.number("n").ok(),
        slow: |a| nanos(a, &["n"], 1e5),
    },
    Workload {
        name: "signal_wait",
        about: "two threads signal each other and wait, n times each, on two semaphores",
        unit: Unit::Each("signal and wait"),
        defaults: &[("n", "100k")],
        cases: &["100k"],
        also_on_one: true,
        expected: |a| Some(2 * a.number("n").ok()?),
        slow: |a| nanos(a, &["n"], 6e4),
    },
    Workload {
        name: "lock_local",
        about: "T threads, each with a mutex of its own: lock, count, unlock",
        unit: Unit::Each("lock"),
        defaults: &[("T", "64"), ("total", "10M")],
        cases: &["2", "64", "1000"],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| nanos(a, &["total"], 100.0),
    },
    Workload {
        name: "lock_global",
        about: "T threads, one mutex: lock, count, unlock",
        unit: Unit::Each("lock"),
        defaults: &[("T", "64"), ("total", "2M")],
        cases: &["2", "64", "1000"],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| nanos(a, &["total"], 1e3),
    },
    Workload {
        name: "lock_block",
        about: "as lock_global, with a yield while the mutex is held",
        unit: Unit::Each("lock"),
        defaults: &[("T", "64"), ("total", "200k")],
        cases: &["2", "64", "1000"],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| nanos(a, &["total"], 2e4),
    },
    Workload {
        name: "locks",
        about: "T threads share so many locks: lock, hold ns, unlock, pause gap ns, or so many turns in a burst; ms at most",
        unit: Unit::Each("turn"),
        defaults: &[
            ("T", "64"),
            ("total", "64k"),
            ("locks", "1"),
            ("hold", "0"),
            ("gap", "0"),
            ("burst", "1"),
            ("ms", "150"),
            ("by", "mutex"),
        ],
        cases: &[
            // Of each its own; shared and seldom wanted, evenly and in bursts; wanted all the time; and nothing else.
            "2:locks=1000",
            "64:locks=1000",
            "1000:locks=1000",
            "2:gap=2000:hold=50",
            "64:gap=2000:hold=50",
            "1000:gap=2000:hold=50",
            "2:gap=2000:hold=50:burst=32",
            "64:gap=2000:hold=50:burst=32",
            "1000:gap=2000:hold=50:burst=32",
            "2:gap=50:hold=50",
            "64:gap=50:hold=50",
            "1000:gap=50:hold=50",
            "2",
            "64",
            "1000",
        ],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| {
            let turns =
                nanos(a, &["total"], 3e4) + nanos(a, &["total", "gap"], 1.0) + nanos(a, &["total", "hold"], 1.0);
            match a.number("ms") {
                Ok(ms) if ms > 0 => turns.min(ms as f64 * 1e-3),
                _ => turns,
            }
        },
    },
    Workload {
        name: "faults",
        about: "T processes write to shared pages and copy them (load=1), or programs that have one parent end (load=2)",
        unit: Unit::Each("turn"),
        defaults: &[
            ("T", "64"),
            ("total", "64k"),
            ("elements", "64"),
            ("hold", "2000"),
            ("load", "1"),
            ("by", "elements"),
        ],
        cases: &["2", "64", "64:elements=1", "2:load=2", "64:load=2", "64:load=2:elements=1"],
        also_on_one: false,
        expected: |a| product(a, &["total"]),
        slow: |a| nanos(a, &["total"], 3e4) + nanos(a, &["total", "hold"], 1.0),
    },
    Workload {
        name: "wake_remote",
        about: "a thread wakes one that is parked on another, idle processor",
        unit: Unit::Each("wake-up"),
        defaults: &[("n", "100k"), ("gap_us", "20")],
        cases: &["100k"],
        also_on_one: false,
        expected: |a| product(a, &["n"]),
        slow: |a| nanos(a, &["n"], 2e5) + nanos(a, &["n", "gap_us"], 1e3),
    },
    Workload {
        name: "city",
        about: "N houses use K units of power and of water each; the plant stores C and makes each from water",
        unit: Unit::Run,
        defaults: &[("N", "1000"), ("K", "10"), ("C", "100")],
        cases: &[""],
        also_on_one: false,
        expected: |a| product(a, &["N", "K"]),
        slow: |a| nanos(a, &["N", "K"], 1e5),
    },
    Workload {
        name: "eratosthenes",
        about: "a pipeline of one thread per prime up to N, channels of 16",
        unit: Unit::Run,
        defaults: &[("N", "10000")],
        cases: &[""],
        also_on_one: false,
        expected: |a| primes_up_to(a.number("N").ok()?),
        slow: |a| nanos(a, &["N"], 5e5),
    },
    Workload {
        name: "mandelbrot",
        about: "N rows of C points, at most K iterations each, a thread per row",
        unit: Unit::Run,
        defaults: &[("N", "100"), ("C", "2000"), ("K", "5000")],
        cases: &[""],
        also_on_one: false,
        expected: |a| (a.to_string() == "N=100 C=2000 K=5000").then_some(244_127_483),
        slow: |a| nanos(a, &["N", "C", "K"], 10.0),
    },
    Workload {
        name: "matrix",
        about: "naive product of two n by n matrices, rows dealt to M threads",
        unit: Unit::Run,
        defaults: &[("M", "2"), ("n", "1000")],
        cases: &["1", "2", "4", "8"],
        also_on_one: false,
        expected: |a| matrix_sum(a.number("n").ok()?),
        slow: |a| nanos(a, &["n", "n", "n"], 20.0),
    },
    Workload {
        name: "nbody",
        about: "steps of Barnes-Hut on N bodies, `chunk` to a thread; `memory` percent of their blocks fit, and a miss blocks in the kernel",
        unit: Unit::Run,
        defaults: &[
            ("N", "16384"),
            ("steps", "4"),
            ("chunk", "64"),
            ("block", "64"),
            ("memory", "100"),
            ("miss_us", "50k"),
            ("again", "0"),
        ],
        cases: &["16384"],
        also_on_one: true,
        expected: |a| nbody_sequential(a.number("N").ok()?, a.number("steps").ok()?),
        // A miss for each chunk and block at worst, and none beside another.
        slow: |a| {
            let of = |key: &str| a.number(key).unwrap_or(1).max(1) as f64;
            let (parts, blocks) = (of("N") / of("chunk"), of("N") / of("block"));
            let misses = if of("memory") < 100.0 { parts * blocks.min(40.0) } else { 0.0 };
            of("steps") * (of("N") * of("again") * 5e-5 + misses * of("miss_us") * 1e-6)
        },
    },
    Workload {
        name: "news",
        about: "M reporters publish K items each on one board; N customers read every item",
        unit: Unit::Run,
        defaults: &[("N", "1000"), ("M", "10"), ("K", "10")],
        cases: &[""],
        also_on_one: false,
        expected: |a| Some(a.number("N").ok()? * below(product(a, &["M", "K"])?)),
        slow: |a| nanos(a, &["N", "M", "K"], 5e4),
    },
    Workload {
        name: "producer",
        about: "N pairs share one buffer of C; K integers per pair",
        unit: Unit::Each("message"),
        defaults: &[("N", "1"), ("C", "10"), ("K", "10000")],
        cases: &["1", "64"],
        also_on_one: false,
        expected: |a| Some(a.number("N").ok()? * below(a.number("K").ok()?)),
        slow: |a| nanos(a, &["N", "K"], 1e4),
    },
    Workload {
        name: "tokenring",
        about: "a token passes K rounds through a ring of N threads with a slot each",
        unit: Unit::Each("hop"),
        defaults: &[("N", "1000"), ("K", "1000")],
        cases: &[""],
        also_on_one: false,
        expected: |a| product(a, &["N", "K"]),
        slow: |a| nanos(a, &["N", "K"], 3e4),
    },
    Workload {
        name: "skynet",
        about: "a tree of ten children per node, N leaves, summed",
        unit: Unit::Run,
        defaults: &[("N", "1M"), ("by", "spawn")],
        cases: &["by=join", "by=scope", "by=spawn"],
        also_on_one: false,
        expected: |a| Some(below(a.number("N").ok()?)),
        slow: |a| nanos(a, &["N"], 1e4),
    },
    Workload {
        name: "fib",
        about: "fib(n): fork fib(n-1), compute fib(n-2) in place, join",
        unit: Unit::Run,
        defaults: &[("n", "30"), ("by", "spawn")],
        cases: &["35:by=join", "35:by=scope", "30:by=spawn"],
        also_on_one: false,
        expected: |a| Some(fibonacci(a.number("n").ok()?)),
        slow: |a| fibonacci(a.number("n").unwrap_or(0)) as f64 * 2e-6,
    },
    Workload {
        name: "nqueens",
        about: "a fork per safe placement of a queen on a board of n by n",
        unit: Unit::Run,
        defaults: &[("n", "12"), ("by", "spawn")],
        cases: &["by=join", "by=scope", "by=spawn"],
        also_on_one: false,
        expected: |a| solutions(a.number("n").ok()?),
        slow: |a| 5e-4 * solutions(a.number("n").unwrap_or(0)).unwrap_or(1 << 24) as f64,
    },
    Workload {
        name: "radix",
        about: "radix sort of N keys by T threads, r bits a pass, threads made anew for each half of a pass",
        unit: Unit::Run,
        defaults: &[("r", "8"), ("N", "4194304"), ("T", "256")],
        cases: &["1", "4", "8"],
        also_on_one: false,
        expected: |a| sorted_sum(a.number("N").ok()?),
        slow: |a| nanos(a, &["N"], 2e3) / a.number("r").unwrap_or(1).max(1) as f64 * 8.0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, item: &str) -> Case {
        cases(find(name).unwrap(), &[item.into()], 2).unwrap().remove(0)
    }

    #[test]
    fn a_name_that_is_nearly_right_is_offered() {
        let names = ["create", "yield", "pp_chan"];
        assert_eq!(similar("yeild", &names), "do you mean `yield`? ");
        assert_eq!(similar("creat", &names), "do you mean `create`? ");
        assert_eq!((similar("knit", &names), similar("x", &names)), (String::new(), String::new()));
    }

    #[test]
    fn every_built_in_case_reads() {
        for workload in all() {
            for case in cases(workload, &[], 2).unwrap() {
                assert!(case.limit_seconds(2) >= 30, "{}", workload.name);
                assert_eq!(case.args.iter().count(), workload.defaults.len(), "{}", workload.name);
            }
        }
    }

    #[test]
    fn the_published_checksums() {
        assert_eq!(case("eratosthenes", "").expected(), Some(5_736_396));
        assert_eq!(case("mandelbrot", "").expected(), Some(244_127_483));
        assert_eq!(case("nqueens", "12").expected(), Some(14_200));
        assert_eq!(xorshift_keys().next(), Some(723_471_715));
        assert_eq!(case("fib", "35").expected(), Some(9_227_465));
        assert_eq!(case("skynet", "1M").expected(), Some(499_999_500_000));
    }

    #[test]
    fn arguments_may_be_bare_or_named() {
        assert_eq!(case("yield", "10k").args.to_string(), "T=10000 total=2000000");
        assert_eq!(case("yield", "T=2:total=4").args.to_string(), "T=2 total=4");
        let wrong = |item: &str| cases(find("fib").unwrap(), &[item.into()], 2).err().unwrap();
        assert!(wrong("x=1").contains("it has n, by"));
        assert!(wrong("by=magic").contains("by=spawn"));
        assert!(wrong("many").contains("n=many"));
    }

    #[test]
    fn one_processor_is_added_only_to_more() {
        let both = cases(find("pp_chan").unwrap(), &[], 2).unwrap();
        assert_eq!(both.iter().map(|case| case.processors).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(cases(find("pp_chan").unwrap(), &[], 1).unwrap().len(), 1);
    }
}
