//! Two more papers on simulated machines: the lock-free scheduler's figures 7 to 10 and table 1, and Lesser Bear's tables 2 and 3 and figure 7.
//!
//! Sources: F. Negele, F. Friedrich, S. Oh and B. Egger, *On the Design and Implementation of an Efficient Lock-Free Scheduler*, section 6 (64
//! cores, one ready queue for all: our `fifo`); H. Oguma and Y. Nakayama, *A Scheduling Mechanism for Lock-free Operation of a Lightweight
//! Process Library for SMP Computers*, section 4 (8 cores, the rotator, whose predecessor is our `waiver`). As in [`crate::claims`], each
//! verdict follows from a rule. What needs a kernel's own threads, or a program that has no simulated workload, is named as left out.
//!
//! # Example
//! ```
//! use raddle_sim::papers::{self, PAPERS, Size};
//! let bear = PAPERS.iter().find(|paper| paper.name == "lesser-bear").unwrap();
//! let verdicts = papers::verdicts(bear, Size::Small, &mut |_, _, _| ()).unwrap();
//! assert_eq!(verdicts.len(), bear.claims.len());
//! assert!(papers::table(bear, &verdicts).contains("left out"));
//! ```
#![forbid(unsafe_code)]

mod lock_free;

use crate::cost::Costs;
use crate::report::escape;
use crate::simulate::{Figures, Plan, simulate};
use crate::workloads::Workload;
use serde_json::json;
use std::fmt::Write as _;

/// How large the runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As large as the paper's, where that takes minutes at most.
    Full,
    /// To see that they run.
    Small,
}

impl Size {
    fn of(self, full: u64, small: u64) -> u64 {
        if self == Size::Full { full } else { small }
    }
}

/// Whether a claim held, and what was seen; or the run that failed.
type Judged = Result<(bool, String), String>;

/// A claim of a paper.
pub struct Claim {
    /// Its figure, table or paragraph.
    pub figure: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// When it holds here.
    pub rule: &'static str,
    judge: fn(&Machine, Size) -> Judged,
    /// Why it does not hold at full size, where a run has shown it.
    pub why: Option<&'static str>,
}

/// A paper: its claims, and what of its evaluation is left out.
pub struct Paper {
    /// How it is asked for.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    machine: Machine,
    /// The claims, in the order of the figures.
    pub claims: &'static [Claim],
    /// Figure or table, and why it is not simulated.
    pub left_out: &'static [(&'static str, &'static str)],
}

struct Machine {
    preset: &'static str,
    cores: usize,
    policy: &'static str,
}

impl Machine {
    fn run_under(&self, policy: &str, workload: &str, arguments: &str) -> Result<Figures, String> {
        let workload = Workload::find(workload)?;
        simulate(&Plan {
            policy: policy.parse().map_err(|why| format!("{why}"))?,
            cores: self.cores,
            workload,
            arguments: workload.arguments(arguments)?,
            costs: Costs::preset(self.preset).ok_or("the preset is gone")?,
            seed: 1,
            steps: 20_000_000_000,
        })
    }

    fn run(&self, workload: &str, arguments: &str) -> Result<Figures, String> {
        self.run_under(self.policy, workload, arguments)
    }

    /// Nanoseconds of all for each operation.
    fn each(&self, workload: &str, arguments: &str) -> Result<f64, String> {
        let figures = self.run(workload, arguments)?;
        Ok(figures.elapsed as f64 / figures.operations as f64)
    }
}

/// The papers.
pub const PAPERS: [Paper; 2] = [
    Paper {
        name: "lock-free",
        title: "the lock-free scheduler's figures 7 to 10 and table 1",
        machine: Machine { preset: "opteron", cores: 64, policy: "fifo" },
        claims: &lock_free::CLAIMS,
        left_out: &[
            ("7, 8, 9", "Linux and Windows themselves: a kernel's scheduler is not simulated"),
            (
                "10 (b)",
                "run times of 12 to 15 s: the matrix's size is not told; they differ by how memory was initialised and by a quantum's checks, \
                 which a compiler inserts, and come together by the memory's bandwidth: the model has none of the three",
            ),
            ("Table 1", "Linux and Windows themselves; what an iteration or a division takes is an estimate"),
        ],
    },
    Paper {
        name: "lesser-bear",
        title: "Lesser Bear's tables 2 and 3 and figure 7",
        machine: Machine { preset: "supersparc", cores: 8, policy: "rotator" },
        claims: &LESSER_BEAR,
        left_out: &[("8, 9", "Solaris threads and LinuxThreads: a kernel's own threads are not simulated")],
    },
];

/// The radix sort of section 4.1: 2^22 keys, 2^8 threads in each parallel part.
fn radix(bits: u64, size: Size) -> String {
    format!("bits={bits}:keys={}:t={}", size.of(1 << 22, 1 << 12), size.of(1 << 8, 1 << 4))
}

/// `raddle sim --cores 8 --workload packet:n=256:copy=0:body=10M:bytes=0` with both policies, on `{"base": "supersparc", "exchange": 20000}`.
const SEMAPHORES: &str = "the paper's queues are locked by system calls (semop), ours by one read-modify-write: with read-modify-writes of \
                          20 µs it is 23.0 ms to 34.2 ms";
/// The same with `radix:bits=1:keys=4194304:t=256`.
const ONE_WAY: &str = "under the rotator, where threads come from one neighbour only, the cores work 93 % of the time, under `waiver` 96 %; with \
                       read-modify-writes of 20 µs it still takes 27.2 s to 26.5 s, so system calls for locks are not all of it; the rest is \
                       not explained";

const LESSER_BEAR: [Claim; 4] = [
    Claim {
        figure: "Table 2",
        says: "threads that one processor makes are distributed to all at lower cost without locks",
        rule: "what 256 threads of 10 ms take beyond an eighth of their work is less under the rotator than under `waiver`",
        judge: |machine, size| {
            let (threads, work) = (size.of(256, 32), 10_000_000);
            let beyond = |policy| {
                let arguments = format!("n={threads}:copy=0:body={work}:bytes=0");
                let elapsed = machine.run_under(policy, "packet", &arguments)?.elapsed;
                Ok::<f64, String>((elapsed as f64 - (threads * work) as f64 / machine.cores as f64) / 1e6)
            };
            let (now, before) = (beyond("rotator")?, beyond("waiver")?);
            Ok((now < before, format!("{now:.2} ms, with `waiver` {before:.2} ms")))
        },
        why: Some(SEMAPHORES),
    },
    Claim {
        figure: "7",
        says: "at radix 2^1 the sort takes 14 % less time than with the locked queues",
        rule: "at least 7 % less under the rotator than under `waiver`",
        judge: |machine, size| {
            let saved = saved(machine, 1, size)?;
            Ok((saved >= 0.07, format!("{:.1} % less", saved * 100.0)))
        },
        why: Some(ONE_WAY),
    },
    Claim {
        figure: "7",
        says: "the smaller the radix, the more the rotator gains",
        rule: "it gains at radix 2^1, and more than at 2^8",
        judge: |machine, size| {
            let (small, large) = (saved(machine, 1, size)?, saved(machine, 8, size)?);
            Ok((
                small > large.max(0.0),
                format!("{:.1} % less at 2^1, {:.1} % less at 2^8", small * 100.0, large * 100.0),
            ))
        },
        why: Some(ONE_WAY),
    },
    Claim {
        figure: "Table 3",
        says: "but for the time in which one makes the keys, no processor is idle for long",
        rule: "at radix 2^4 each processor works for at least 90 % of the time without that part",
        judge: |machine, size| {
            let without = machine.run("radix", &radix(4, size))?;
            let least = without.utilisation.iter().fold(1.0, |least: f64, &share| least.min(share));
            Ok((least >= 0.9, format!("the one that works least does for {:.0} %", least * 100.0)))
        },
        why: None,
    },
];

/// The part of the time that the rotator saves.
fn saved(machine: &Machine, bits: u64, size: Size) -> Result<f64, String> {
    let elapsed = |policy| Ok::<f64, String>(machine.run_under(policy, "radix", &radix(bits, size))?.elapsed as f64);
    Ok(1.0 - elapsed("rotator")? / elapsed("waiver")?)
}

fn bounds(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| (least.min(value), most.max(value)))
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>().join(", ")
}

/// Whether a claim held, and what was seen.
pub type Verdict = (&'static Claim, bool, String);

/// Simulates all that a paper's claims need. `progress` is told the number of each claim, how many there are, and its figure.
///
/// # Errors
/// The first run that failed, by name.
pub fn verdicts(
    paper: &'static Paper,
    size: Size,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Verdict>, String> {
    let all = paper.claims.len();
    let judge = |(number, claim): (usize, &'static Claim)| {
        progress(number + 1, all, claim.figure);
        let (held, seen) = (claim.judge)(&paper.machine, size)?;
        Ok::<Verdict, String>((claim, held, seen))
    };
    paper.claims.iter().enumerate().map(judge).collect()
}

/// The claims beside what was seen.
pub fn table(paper: &Paper, verdicts: &[Verdict]) -> String {
    let Paper { title, machine, left_out, .. } = paper;
    let mut text =
        format!("{title}: {} cores of {} (simulated), `{}`\n", machine.cores, machine.preset, machine.policy);
    for (claim, held, seen) in verdicts {
        let _ = writeln!(text, "\n{:<8} {:<8} {}", claim.figure, if *held { "held" } else { "NOT HELD" }, claim.says);
        let _ = writeln!(text, "         rule: {}\n         seen: {seen}", claim.rule);
        if let Some(why) = claim.why.filter(|_| !held) {
            let _ = writeln!(text, "         why:  {why}");
        }
    }
    for (figure, why) in *left_out {
        let _ = write!(text, "\n{figure:<8} left out {why}");
    }
    text + "\n"
}

/// A line of JSON for each claim, and for each figure that is left out.
pub fn json_lines(paper: &Paper, verdicts: &[Verdict]) -> String {
    let one = |(claim, held, seen): &Verdict| {
        let Claim { figure, says, rule, why, .. } = claim;
        let why = why.filter(|_| !held);
        json!({ "paper": paper.name, "figure": figure, "claim": says, "rule": rule, "ours": seen, "held": held, "why": why })
    };
    let left_out =
        |(figure, why): &(&str, &str)| json!({ "paper": paper.name, "figure": figure, "held": null, "why": why });
    let lines = verdicts.iter().map(one).chain(paper.left_out.iter().map(left_out));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A page with a table of the claims; `command` is shown as what made it.
pub fn html(paper: &Paper, verdicts: &[Verdict], command: &str) -> String {
    let Paper { title, machine, left_out, .. } = paper;
    let mut rows = String::new();
    let mut row = |figure: &str, class: &str, verdict: &str, cells: [&str; 4]| {
        let cells: String = cells.iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
        let _ = writeln!(rows, "<tr><td>{}</td><td class=\"{class}\">{verdict}</td>{cells}</tr>", escape(figure));
    };
    for (claim, held, seen) in verdicts {
        let (class, verdict) = if *held { ("held", "held") } else { ("not", "NOT HELD") };
        let why = claim.why.filter(|_| !held).unwrap_or_default();
        row(claim.figure, class, verdict, [claim.says, claim.rule, seen, why]);
    }
    for (figure, why) in *left_out {
        row(figure, "out", "left out", ["", "", "", why]);
    }
    let machine = format!("{} cores of {} (simulated), {}", machine.cores, machine.preset, machine.policy);
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>raddle sim report</title>\n<style>body{{font:14px sans-serif;\
         margin:2em}}table{{border-collapse:collapse}}th,td{{text-align:left;vertical-align:top;padding:.3em .8em;border-bottom:1px solid \
         #8884}}td.not{{color:#b03030}}td.held{{color:#2a7a3a}}</style>\n<h1>Claims</h1>\n<p>{}: {}</p>\n<p><code>{}</code></p>\n<table>\n\
         <tr><th>figure</th><th></th><th>claim</th><th>held if</th><th>seen</th><th>why not</th></tr>\n{rows}</table>\n</html>\n",
        escape(title),
        escape(&machine),
        escape(command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_judged_and_the_same_seed_gives_the_same_bytes() {
        for paper in &PAPERS {
            let all = || {
                let verdicts = verdicts(paper, Size::Small, &mut |_, _, _| ()).unwrap();
                (table(paper, &verdicts), json_lines(paper, &verdicts), html(paper, &verdicts, "raddle <x>"))
            };
            let (text, json, page) = all();
            assert_eq!((text.clone(), json.clone(), page.clone()), all());
            assert_eq!(page.matches("<tr>").count(), 1 + paper.claims.len() + paper.left_out.len());
            assert!(page.contains("raddle &lt;x&gt;") && page.ends_with("</html>\n"), "{page}");
            assert_eq!(json.lines().count(), paper.claims.len() + paper.left_out.len());
            for claim in paper.claims {
                assert!(text.contains(claim.says) && json.contains(claim.rule), "{}", claim.says);
            }
        }
    }
}
