//! Scheduler Activations' tables 1, 4 and 5, figures 2 and 3 and section 5.2: claims, and when they hold here. A rule
//! is written before its run is seen.
//!
//! What is put in and not claimed stands in [`crate::activations`].

use super::{Ablation, Changes, Claim, Drawing, Machine, Series, Size};
use crate::activations::nbody::{Asked, Seen, nbody};
use crate::activations::{NOTICE_NS, PROCESSORS, System, mixed, operations};

/// Nanoseconds of a critical section's flag: three accesses to memory.
const FLAG_NS: u64 = 3_000;
/// A notice as dear as half of a signal and wait of Topaz threads: what the authors expect of a tuned kernel.
const TUNED_NS: u64 = 220_000;

fn run(machine: &Machine, asked: Asked, size: Size) -> Result<Seen, String> {
    let asked = Asked { bodies: size.of(asked.bodies as u64, 128) as usize, ..asked };
    nbody(&(machine.changes.nbody)(asked))
}

fn speed_up(machine: &Machine, system: System, processors: usize, size: Size) -> Result<f64, String> {
    Ok(run(machine, Asked { system, processors, ..Asked::default() }, size)?.speed_up)
}

/// Seconds with so many percent of the memory.
fn seconds(machine: &Machine, system: System, memory: u64, size: Size) -> Result<f64, String> {
    Ok(run(machine, Asked { system, memory, ..Asked::default() }, size)?.seconds)
}

/// Of kernel threads, of threads without cooperation, and on activations.
fn of_all(of: impl Fn(System) -> Result<f64, String>) -> Result<[f64; 3], String> {
    let [kernel, oblivious, activations] = System::ALL;
    Ok([of(kernel)?, of(oblivious)?, of(activations)?])
}

fn twice(machine: &Machine, size: Size) -> Result<[f64; 3], String> {
    of_all(|system| Ok(run(machine, Asked { system, copies: 2, ..Asked::default() }, size)?.speed_up))
}

/// The fewest signals and waits at the user level, for one through the kernel, with which activations take less time
/// than kernel threads.
fn break_even(notice: u64) -> Result<u64, String> {
    const MOST: u64 = 20;
    for user in 0..MOST {
        if mixed(System::Activations, notice, user)? <= mixed(System::Kernel, 0, user)? {
            return Ok(user);
        }
    }
    Ok(MOST)
}

/// The library has no such locks: only the program's own is held.
const LOCKS: &str = "FastThreads' ready lists are locked, and a holder that is off its processor stops all others; the library's are not, so only the \
                     program's own lock can be met so, which a thread holds for a fortieth of its time";

pub(super) const CLAIMS: [Claim; 15] = [
    Claim {
        figure: "Table 1",
        says: "user-level threads are an order of magnitude quicker than kernel threads (34 to 948, 37 to 441 µs)",
        rule: "fitted to these four figures: null-fork at least 20 times, signal-wait at least 10 times as quick",
        judge: |_, _| {
            let (user, kernel) = (operations(System::Oblivious, 0)?, operations(System::Kernel, 0)?);
            let held = kernel.null_fork >= 20.0 * user.null_fork && kernel.signal_wait >= 10.0 * user.signal_wait;
            let seen = format!(
                "{:.1} to {:.0} µs, {:.1} to {:.0} µs",
                user.null_fork, kernel.null_fork, user.signal_wait, kernel.signal_wait
            );
            Ok((held, seen))
        },
        why: None,
    },
    Claim {
        figure: "Table 4",
        says: "with activations both operations take little longer (37 instead of 34, 42 instead of 37 µs)",
        rule: "at most 3 % more",
        judge: |_, _| {
            let (without, with) = (operations(System::Oblivious, 0)?, operations(System::Activations, 0)?);
            let more = [with.null_fork / without.null_fork, with.signal_wait / without.signal_wait];
            Ok((more.iter().all(|more| *more <= 1.03), format!("{:.3} and {:.3} times", more[0], more[1])))
        },
        why: None,
    },
    Claim {
        figure: "5.1",
        says: "with a flag for each critical section null-fork takes 49 µs instead of 37, signal-wait 48 instead of 42",
        rule: "with 3 µs a section: each 5 to 45 % more, null-fork the more of both",
        judge: |_, _| {
            let (plain, flags) = (operations(System::Activations, 0)?, operations(System::Activations, FLAG_NS)?);
            let more = [flags.null_fork - plain.null_fork, flags.signal_wait - plain.signal_wait];
            let share = [more[0] / plain.null_fork, more[1] / plain.signal_wait];
            let held = share.iter().all(|share| (0.05..=0.45).contains(share)) && more[0] > more[1];
            let seen = format!(
                "{:.1} instead of {:.1} µs, {:.1} instead of {:.1} µs",
                flags.null_fork, plain.null_fork, flags.signal_wait, plain.signal_wait
            );
            Ok((held, seen))
        },
        why: None,
    },
    Claim {
        figure: "5.2",
        says: "with the prototype's upcalls (2.4 ms) they pay only where most operations are of the user level",
        rule: "break-even at 3 to 8 of them for each through the kernel",
        judge: |_, _| {
            let user = break_even(NOTICE_NS)?;
            Ok(((3..=8).contains(&user), format!("at {user} for each")))
        },
        why: None,
    },
    Claim {
        figure: "5.2",
        says: "with upcalls as quick as the kernel's own operations activations are practical everywhere",
        rule: "two notices of 0.22 ms: break-even at 1 at most",
        judge: |_, _| {
            let user = break_even(TUNED_NS)?;
            Ok((user <= 1, format!("at {user} for each")))
        },
        why: None,
    },
    Claim {
        figure: "2",
        says: "on one processor all three are slower than the sequential program, kernel threads most",
        rule: "each below 1, kernel threads at least 10 % below both others",
        judge: |machine, size| {
            let [kernel, oblivious, activations] = of_all(|system| speed_up(machine, system, 1, size))?;
            let held = oblivious.max(activations) < 1.0 && kernel <= 0.9 * oblivious.min(activations);
            Ok((held, format!("{kernel:.2}, {oblivious:.2}, {activations:.2}")))
        },
        why: None,
    },
    Claim {
        figure: "2",
        says: "kernel threads gain little beyond three processors",
        rule: "with six at most 1.25 times the speed-up with three, and at most two thirds of that of activations",
        judge: |machine, size| {
            let (three, six) =
                (speed_up(machine, System::Kernel, 3, size)?, speed_up(machine, System::Kernel, 6, size)?);
            let ours = speed_up(machine, System::Activations, 6, size)?;
            Ok((
                six <= 1.25 * three && 3.0 * six <= 2.0 * ours,
                format!("{three:.2} with three, {six:.2} with six, on activations {ours:.2}"),
            ))
        },
        why: None,
    },
    Claim {
        figure: "2",
        says: "both kinds of user-level threads have good speed-up",
        rule: "at least 4.5 with six processors",
        judge: |machine, size| {
            let [_, oblivious, activations] = of_all(|system| speed_up(machine, system, PROCESSORS, size))?;
            Ok((oblivious.min(activations) >= 4.5, format!("{oblivious:.2} and {activations:.2}")))
        },
        why: None,
    },
    Claim {
        figure: "2",
        says: "they diverge slightly with four or five processors, since daemons take idle ones from activations only",
        rule: "activations ahead by 0.5 to 10 % with four and five, and by less than 0.5 % with six",
        judge: |machine, size| {
            let ahead = |processors| {
                let of = |system| speed_up(machine, system, processors, size);
                Ok::<_, String>(of(System::Activations)? / of(System::Oblivious)? - 1.0)
            };
            let [four, five, six] = [ahead(4)?, ahead(5)?, ahead(6)?];
            let held = [four, five].iter().all(|ahead| (0.005..=0.1).contains(ahead)) && six < 0.005;
            Ok((held, format!("{:.1}, {:.1} and {:.1} %", four * 100.0, five * 100.0, six * 100.0)))
        },
        why: None,
    },
    Claim {
        figure: "3",
        says: "with less memory all become slower, threads without cooperation soonest",
        rule: "at 80 and at 50 %: they have lost at least twice the seconds that activations have lost",
        judge: |machine, size| {
            let lost = |system, memory| {
                Ok::<_, String>(seconds(machine, system, memory, size)? - seconds(machine, system, 100, size)?)
            };
            let (mut held, mut told) = (true, Vec::new());
            for memory in [80, 50] {
                let (oblivious, activations) = (lost(System::Oblivious, memory)?, lost(System::Activations, memory)?);
                held &= oblivious >= 2.0 * activations && activations >= 0.0;
                told.push(format!("at {memory} %: {oblivious:.2} s, on activations {activations:.2}"));
            }
            Ok((held, told.join("; ")))
        },
        why: None,
    },
    Claim {
        figure: "3",
        says: "activations overlap input and output with computing as kernel threads do: their curves are parallel",
        rule: "at 50 %: the seconds lost differ by at most a quarter of kernel threads' time with all memory",
        judge: |machine, size| {
            let of = |system, memory| seconds(machine, system, memory, size);
            let (all, half) = (of(System::Kernel, 100)?, of(System::Kernel, 50)?);
            let (ours, ours_half) = (of(System::Activations, 100)?, of(System::Activations, 50)?);
            let (kernel, activations) = (half - all, ours_half - ours);
            Ok((
                (kernel - activations).abs() <= 0.25 * all,
                format!("{activations:.2} s lost, by kernel threads {kernel:.2}"),
            ))
        },
        why: None,
    },
    Claim {
        figure: "3",
        says: "and are ahead of them at each size",
        rule: "100, 80, 60, 50 and 40 %: less time than kernel threads",
        judge: |machine, size| {
            let (mut held, mut told) = (true, Vec::new());
            for memory in [100, 80, 60, 50, 40] {
                let [kernel, _, activations] = of_all(|system| seconds(machine, system, memory, size))?;
                held &= activations < kernel;
                told.push(format!("{memory} %: {activations:.2} to {kernel:.2} s"));
            }
            Ok((held, told.join(", ")))
        },
        why: None,
    },
    Claim {
        figure: "Table 5",
        says: "two copies at once: on activations the speed-up is within 5 % of that with three processors alone (2.45)",
        rule: "within 5 %",
        judge: |machine, size| {
            let [.., two] = twice(machine, size)?;
            let alone = speed_up(machine, System::Activations, PROCESSORS / 2, size)?;
            Ok(((two / alone - 1.0).abs() <= 0.05, format!("{two:.2}, alone with three {alone:.2}")))
        },
        why: None,
    },
    Claim {
        figure: "Table 5",
        says: "kernel threads have about half of that (1.29 to 2.45)",
        rule: "at most two thirds of it",
        judge: |machine, size| {
            let [kernel, _, activations] = twice(machine, size)?;
            Ok((3.0 * kernel <= 2.0 * activations, format!("{kernel:.2} to {activations:.2}")))
        },
        why: None,
    },
    Claim {
        figure: "Table 5",
        says: "so have threads without cooperation (1.26 to 2.45): a lock's holder is off its processor while others spin",
        rule: "at most two thirds of it",
        judge: |machine, size| {
            let [_, oblivious, activations] = twice(machine, size)?;
            Ok((3.0 * oblivious <= 2.0 * activations, format!("{oblivious:.2} to {activations:.2}")))
        },
        why: Some(LOCKS),
    },
];

/// Threads of a fourth of the work.
const FINER: &str = "forces of 5 µs, so that a thread works for 2 ms and not for 8";
const WITH_FINER: Changes = Changes { nbody: |asked| Asked { force: 5_000, ..asked }, ..Changes::NONE };

const fn ablation(claim: &'static str, change: &'static str, changes: Changes) -> Ablation {
    Ablation { claim, change, changes }
}

/// What is changed where a claim does not hold.
pub(super) const ABLATIONS: [Ablation; 3] = [
    ablation("kernel threads gain little beyond three processors", FINER, WITH_FINER),
    ablation("kernel threads have about half of that (1.29 to 2.45)", FINER, WITH_FINER),
    ablation(
        "so have threads without cooperation (1.26 to 2.45): a lock's holder is off its processor while others spin",
        "a lock that each thread holds for 2.4 of its 10 ms",
        Changes { nbody: |asked| Asked { inside: 2_400_000, ..asked }, ..Changes::NONE },
    ),
];

const MEMORY: [u64; 7] = [100, 90, 80, 70, 60, 50, 40];

pub(super) const DRAWINGS: [Drawing; 2] = [
    Drawing {
        figure: "2",
        title: "speed-up of N-body, all memory",
        across: "processors",
        upwards: "speed-up",
        draw: |machine, size| {
            let one = |system: System| {
                let point = |count| Ok::<_, String>((count as f64, speed_up(machine, system, count, size)?));
                Ok(Series::new(system.name(), (1..=PROCESSORS).map(point).collect::<Result<_, String>>()?))
            };
            System::ALL.into_iter().map(one).collect()
        },
    },
    Drawing {
        figure: "3",
        title: "seconds of N-body, six processors",
        across: "percent of the memory",
        upwards: "time [s]",
        draw: |machine, size| {
            let one = |system: System| {
                let point = |memory| Ok::<_, String>((memory as f64, seconds(machine, system, memory, size)?));
                Ok(Series::new(system.name(), MEMORY.into_iter().map(point).collect::<Result<_, String>>()?))
            };
            System::ALL.into_iter().map(one).collect()
        },
    },
];
