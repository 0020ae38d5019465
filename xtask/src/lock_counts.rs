//! `cargo xtask lock-counts`: what a turn of a lock costs, ours beside std's, parking_lot's and crossbeam's: machine
//! instructions on one processor (valgrind's callgrind), and processor time on two.
//!
//! Both are of the workload `locks`, as the difference of a long and a short run, so what starts and ends threads is
//! not in them. Instructions are those of the program alone: what the kernel does for a thread that it puts to sleep is
//! in the processor time. On a busy machine the instructions decide. Locks whose waiters spin are counted where nobody
//! waits: valgrind lets one kernel thread run at a time, so a waiter there spins until its share is over, and what is
//! counted is valgrind's shares.

use crate::shell::{self, Failure, Outcome, cargo, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A lock to measure.
struct Measured {
    name: &'static str,
    program: &'static str,
    by: &'static str,
    /// Which of the others it is judged against: those that do the same for their users.
    against: &'static [&'static str],
}

const fn measured(
    name: &'static str,
    program: &'static str,
    by: &'static str,
    against: &'static [&'static str],
) -> Measured {
    Measured { name, program, by, against }
}

/// Ours first. Judged are those whose waiters sleep as theirs do; those that spin are shown beside. parking_lot's mutex
/// knows no poison and `Barging` neither; `Mutex`, std's and crossbeam's ask at both ends whether their thread panics.
const LOCKS: [Measured; 7] = [
    measured("H2Mcs", "raddle-bench-raddle", "h2", &[]),
    measured("Spin", "raddle-bench-raddle", "spin", &[]),
    measured("Barging", "raddle-bench-raddle", "barging", &["parking_lot"]),
    measured("Mutex", "raddle-bench-raddle", "mutex", &["std", "crossbeam"]),
    measured("std", "raddle-bench-std", "mutex", &[]),
    measured("parking_lot", "raddle-bench-parking-lot", "mutex", &[]),
    measured("crossbeam", "raddle-bench-crossbeam", "mutex", &[]),
];

/// The first whose waiters sleep: see the module, and where threads share two cores those that spin tell how busy the
/// machine is.
const PARKING: usize = 2;

/// How the locks are shared; in the first use nobody waits.
const USES: [(&str, &str, [u64; 2]); 3] = [
    ("of each its own", "locks=1000 hold=0 gap=0", SHORT_TURNS),
    ("one, wanted always", "locks=1 hold=50 gap=50", LONG_TURNS),
    ("one, nothing else", "locks=1 hold=0 gap=0", SHORT_TURNS),
];

const THREADS: [u64; 3] = [2, 64, 1000];

/// Turns of the short and of the long run under callgrind: multiples of all numbers of threads. Two measurements of
/// one lock differed by 150,000 instructions, which is one of a turn's 58 with 128,000 turns; why is not known
/// (perhaps the histogram of waits, which follows the clock). So there are ten times as many.
const SHORT_TURNS: [u64; 2] = [640_000, 1_920_000];
/// The same for turns of 500 instructions and more.
const LONG_TURNS: [u64; 2] = [64_000, 192_000];

/// The same for processor time, which is told in hundredths of a second.
const TIMED: [u64; 2] = [192_000, 3_264_000];

/// Ours may be so much more until it counts as slower: within it counts differ from run to run.
const LEVEL: f64 = 1.01;

struct Options {
    rounds: usize,
    folder: Option<PathBuf>,
}

fn parse(args: &[String]) -> Outcome<Options> {
    let mut options = Options { rounds: 3, folder: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| Failure::usage(format!("`{arg}` needs a value")));
        match arg.as_str() {
            "--rounds" => {
                let text = value()?;
                options.rounds =
                    text.parse().map_err(|_| Failure::usage(format!("`{text}` is no number of rounds")))?;
            }
            "--programs" => options.folder = Some(PathBuf::from(value()?)),
            other => return Err(Failure::usage(format!("`lock-counts` does not know `{other}`"))),
        }
    }
    Ok(options)
}

/// The command: builds the programs, unless they are in a folder already, and prints both tables.
pub fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    if !shell::in_path("valgrind") {
        return Err(Failure::usage("valgrind is needed (Debian's package of that name)"));
    }
    let folder = match options.folder {
        Some(folder) => folder,
        None => {
            shell::run(&mut cargo(&["build", "--release", "-p", "raddle-bench", "-p", "raddle-bench-peers"]))?;
            root().join("target/release")
        }
    };
    println!("instructions of a turn, one processor");
    let slower = table(0, |lock, what, turns| instructions(&folder.join(lock.program), (what, lock.by), turns))?;
    println!("nanoseconds of processor time of a turn, two processors, the middle of {}", options.rounds);
    table(PARKING, |lock, what, _| {
        let once = |_| nanoseconds(&folder.join(lock.program), what, lock.by);
        let mut seen: Vec<f64> = (0..options.rounds.max(1)).map(once).collect::<Outcome<_>>()?;
        seen.sort_by(f64::total_cmp);
        Ok(seen[seen.len() / 2])
    })?;
    match slower.as_slice() {
        [] => Ok(()),
        rows => Err(Failure::failed(format!("more instructions than another's: {}", rows.join("; ")))),
    }
}

/// Prints a table of the locks from `first` on, and tells the rows in which a lock that one of ours is judged against
/// is quicker.
fn table(first: usize, measure: impl Fn(&Measured, &str, [u64; 2]) -> Outcome<f64>) -> Outcome<Vec<String>> {
    let names: String = LOCKS[first..].iter().map(|lock| format!("{:>13}", lock.name)).collect();
    println!("{:<28}{names}", "");
    let mut slower = Vec::new();
    for (number, (name, arguments, turns)) in USES.iter().enumerate() {
        for threads in THREADS {
            let row = format!("{name}, T={threads}");
            let what = format!("T={threads} {arguments}");
            let waited_for = number > 0;
            let locks = &LOCKS[if waited_for { PARKING } else { first }..];
            let seen = locks.iter().map(|lock| measure(lock, &what, *turns)).collect::<Outcome<Vec<f64>>>()?;
            let left_out = LOCKS.len() - first - locks.len();
            let cells = std::iter::repeat_n(format!("{:>13}", "-"), left_out);
            let cells = cells.chain(seen.iter().map(|cost| format!("{cost:>13.1}")));
            println!("{row:<28}{}", cells.collect::<String>());
            slower.extend(quicker(locks, &seen).into_iter().map(|pair| format!("{row}: {pair}")));
        }
    }
    Ok(slower)
}

/// Each lock of ours that costs more than one it is judged against.
fn quicker(locks: &[Measured], seen: &[f64]) -> Vec<String> {
    let cost = |name: &str| locks.iter().position(|lock| lock.name == name).map_or(f64::INFINITY, |at| seen[at]);
    let pairs = locks.iter().flat_map(|ours| ours.against.iter().map(|other| (ours.name, *other)));
    pairs
        .filter(|(ours, other)| cost(ours) > LEVEL * cost(other))
        .map(|(ours, other)| format!("{ours} {:.1}, {other} {:.1}", cost(ours), cost(other)))
        .collect()
}

fn workload(command: &mut Command, (what, by): (&str, &str), total: u64, processors: u32) {
    command.arg("locks").args(what.split_whitespace());
    command.args([format!("total={total}"), "burst=1".into(), format!("by={by}")]);
    command.args(["--repeat", "1", "--processors", &processors.to_string()]);
}

/// Threads that valgrind lets a program have: those of the largest row, and the runtime's.
const VALGRIND_THREADS: &str = "--max-threads=1100";

fn instructions(program: &Path, what: (&str, &str), turns: [u64; 2]) -> Outcome<f64> {
    let count = |total| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", VALGRIND_THREADS]).arg(program);
        workload(&mut command, what, total, 1);
        let shown = shell::show(&command);
        let output = command.output().map_err(|error| Failure::failed(format!("`{shown}`: {error}")))?;
        let told = String::from_utf8_lossy(&output.stderr);
        collected(&told).filter(|_| output.status.success()).ok_or_else(|| {
            let answer = String::from_utf8_lossy(&output.stdout);
            Failure::failed(format!("`{shown}` failed ({}): {}", output.status, answer.trim()))
        })
    };
    let [short, long] = [count(turns[0])?, count(turns[1])?];
    Ok((long - short) / (turns[1] - turns[0]) as f64)
}

/// What callgrind tells at its end.
fn collected(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

fn nanoseconds(program: &Path, what: &str, by: &str) -> Outcome<f64> {
    let time = |total| {
        let before = children()?;
        let mut command = Command::new(program);
        workload(&mut command, (what, by), total, 2);
        shell::output(&mut command)?;
        Ok::<_, Failure>(children()? - before)
    };
    let [short, long] = [time(TIMED[0])?, time(TIMED[1])?];
    Ok((long - short) / (TIMED[1] - TIMED[0]) as f64)
}

/// Nanoseconds of processor time of the children that have ended.
fn children() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")
        .map_err(|error| Failure::failed(format!("/proc/self/stat: {error}")))?;
    of_children(&text).ok_or_else(|| Failure::failed("/proc/self/stat is not as expected"))
}

/// User and system time of children, in hundredths of a second: the fields 16 and 17, the name in brackets is the 2nd.
fn of_children(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [user, system] = [13, 14].map(|field| fields.get(field)?.parse::<f64>().ok());
    Some((user? + system?) * 1e7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_tell_is_read() {
        assert_eq!(collected("==1== Events    : Ir\n==1== Collected : 123456\n==1==\n"), Some(123_456.0));
        assert_eq!(collected("==1== killed\n"), None);
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 11 12 5 2 15";
        assert_eq!(of_children(stat), Some(7e7));
        assert_eq!(of_children("7 (a"), None);
    }

    #[test]
    fn ours_is_judged_against_those_that_do_the_same() {
        // H2Mcs, Spin, Barging, Mutex, std, parking_lot, crossbeam.
        let judged = |seen: [f64; 7]| quicker(&LOCKS, &seen);
        assert!(judged([90.0, 90.0, 55.0, 65.0, 66.0, 54.9, 300.0]).is_empty());
        assert_eq!(judged([50.0, 50.0, 57.0, 65.0, 66.0, 55.0, 300.0]), ["Barging 57.0, parking_lot 55.0"]);
        assert_eq!(judged([50.0, 50.0, 50.0, 65.0, 60.0, 55.0, 64.0]).len(), 2);
        // Those that spin are in no judgement, so a row without them is judged alike.
        assert!(LOCKS[..PARKING].iter().all(|lock| lock.against.is_empty()));
        assert_eq!(quicker(&LOCKS[PARKING..], &[57.0, 65.0, 66.0, 55.0, 300.0]), ["Barging 57.0, parking_lot 55.0"]);
        // A name that is in no table is a lock that nothing is compared with.
        let known = |name: &&str| LOCKS.iter().any(|lock| lock.name == *name);
        assert!(LOCKS.iter().flat_map(|lock| lock.against).all(known));
    }

    #[test]
    fn wrong_arguments_are_told() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>());
        assert_eq!(parsed("--rounds 5 --programs /x").map(|options| options.rounds).ok(), Some(5));
        for line in ["--rounds", "--rounds x", "--what"] {
            assert_eq!(parsed(line).map(|_| ()).unwrap_err().status, 2, "{line}");
        }
        for threads in THREADS {
            assert!(SHORT_TURNS.iter().chain(&LONG_TURNS).chain(&TIMED).all(|total| total % threads == 0));
        }
    }
}
