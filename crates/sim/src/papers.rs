//! Four more papers on simulated machines: the lock-free scheduler's figures 7 to 10 and table 1, Lesser Bear's tables
//! 2 and 3 and figures 7 to 9, Hurricane's figures 5 and 7 ([`crate::hurricane`]), and Scheduler Activations' figures 2
//! and 3 and tables 1, 4 and 5 ([`crate::activations`]).
//!
//! Sources: F. Negele, F. Friedrich, S. Oh and B. Egger, *On the Design and Implementation of an Efficient Lock-Free
//! Scheduler*, section 6 (64 cores, one ready queue for all: our `fifo`); H. Oguma and Y. Nakayama, *A Scheduling
//! Mechanism for Lock-free Operation of a Lightweight Process Library for SMP Computers*, section 4 (8 cores, the
//! rotator, whose predecessor is our `waiver`). As in [`crate::claims`], each verdict follows from a rule, and figures
//! are drawn again. What the model does not hold is named as left out.
//!
//! # Example
//! ```
//! use raddle_sim::papers::{self, PAPERS, Size};
//! let bear = PAPERS.iter().find(|paper| paper.name == "lesser-bear").unwrap();
//! let verdicts = papers::verdicts(bear, Size::Small, &mut |_, _, _| ()).unwrap();
//! let drawn = papers::draw(bear, Size::Small, &mut |_, _, _| ()).unwrap();
//! assert_eq!((verdicts.len(), drawn.len()), (bear.claims.len(), bear.drawings.len()));
//! assert!(papers::table(bear, &verdicts, &drawn).contains("left out"));
//! ```
#![forbid(unsafe_code)]

mod activations;
mod hurricane;
mod lesser_bear;
mod lock_free;

use crate::activations::nbody;
use crate::claims::CLAIM_HEADS;
use crate::cost::Costs;
use crate::hurricane::faults::Faults;
use crate::hurricane::locks::Contention;
use crate::simulate::{Figures, Plan, simulate};
use crate::workloads::Workload;
use raddle_report::{Axis, Circumstances, Page, Series, Unit, lines};
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

/// A figure of a paper, drawn again.
pub struct Drawing {
    /// Its number.
    pub figure: &'static str,
    /// What is drawn.
    pub title: &'static str,
    /// Over what.
    pub across: &'static str,
    /// What its heights are, and in which unit.
    pub upwards: &'static str,
    draw: fn(&Machine, Size) -> Result<Vec<Series>, String>,
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
    /// The figures that are drawn again.
    pub drawings: &'static [Drawing],
    /// Figure or table, and why it is not simulated.
    pub left_out: &'static [(&'static str, &'static str)],
    /// What is tried where a claim does not hold.
    pub ablations: &'static [Ablation],
}

#[derive(Clone, Copy)]
struct Machine {
    preset: &'static str,
    cores: usize,
    policy: &'static str,
    changes: Changes,
}

/// What an ablation changes about the machine and the loads of the experiments, each from what it is.
#[derive(Clone, Copy)]
struct Changes {
    costs: fn(Costs) -> Costs,
    contention: fn(Contention) -> Contention,
    faults: fn(Faults) -> Faults,
    nbody: fn(nbody::Asked) -> nbody::Asked,
}

impl Changes {
    const NONE: Self =
        Self { costs: |costs| costs, contention: |asked| asked, faults: |asked| asked, nbody: |asked| asked };
}

/// A claim that does not hold, judged again by its rule with something changed: what is to blame if it holds then.
pub struct Ablation {
    /// What the claim says.
    claim: &'static str,
    /// What is changed, in a few words.
    pub change: &'static str,
    changes: Changes,
}

impl Machine {
    fn costs(&self) -> Result<Costs, String> {
        Ok((self.changes.costs)(Costs::preset(self.preset).ok_or("the preset is gone")?))
    }

    fn run_on(&self, costs: Costs, policy: &str, workload: &str, arguments: &str) -> Result<Figures, String> {
        let workload = Workload::find(workload)?;
        simulate(&Plan {
            policy: policy.parse().map_err(|why| format!("{why}"))?,
            cores: self.cores,
            workload,
            arguments: workload.arguments(arguments)?,
            costs,
            seed: 1,
            steps: 20_000_000_000,
        })
    }

    fn run_under(&self, policy: &str, workload: &str, arguments: &str) -> Result<Figures, String> {
        self.run_on(self.costs()?, policy, workload, arguments)
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
pub const PAPERS: [Paper; 4] = [
    Paper {
        name: "lock-free",
        title: "the lock-free scheduler's figures 7 to 10 and table 1",
        machine: Machine { preset: "opteron", cores: 64, policy: "fifo", changes: Changes::NONE },
        claims: &lock_free::CLAIMS,
        drawings: &lock_free::DRAWINGS,
        left_out: &[
            (
                "7, 8, 9",
                "Linux and Windows themselves: what their threads cost is not told, and a kernel's queue is not simulated",
            ),
            ("10 (b)", lock_free::TIMES),
            ("Table 1", "Linux and Windows themselves; what an iteration or a division takes is an estimate"),
            (
                "code size",
                "the paper says \"many thousand lines\" of Linux and gives no number of its own: `cargo xtask size --linux FOLDER` counts both by one \
                 rule, and ARCHITECTURE.md says what came of it",
            ),
        ],
        ablations: &[],
    },
    Paper {
        name: "lesser-bear",
        title: "Lesser Bear's tables 2 and 3 and figures 7 to 9",
        machine: Machine { preset: "supersparc", cores: 8, policy: "rotator", changes: Changes::NONE },
        claims: &lesser_bear::CLAIMS,
        drawings: &lesser_bear::DRAWINGS,
        left_out: &[(
            "8, 9",
            "the seconds themselves: what a key takes on these machines, and whether making the keys counts, is not told; a kernel's time \
             slices, its priorities and the lock of its queue",
        )],
        ablations: &[],
    },
    Paper {
        name: "hurricane",
        title: "Hurricane's locks and page faults, figures 5 and 7",
        machine: Machine {
            preset: "hector",
            cores: 16,
            policy: "a processor each, no threads",
            changes: Changes::NONE,
        },
        claims: &hurricane::CLAIMS,
        drawings: &hurricane::DRAWINGS,
        left_out: &[(
            "4",
            "instructions by kind: counted in our assembly, by the test `lock_instructions` of crates/raddle",
        )],
        ablations: &hurricane::ABLATIONS,
    },
    Paper {
        name: "activations",
        title: "Scheduler Activations' figures 2 and 3, tables 1, 4 and 5, and section 5.2",
        machine: Machine { preset: "firefly", cores: 6, policy: "steal(lifo)", changes: Changes::NONE },
        claims: &activations::CLAIMS,
        drawings: &activations::DRAWINGS,
        left_out: &[
            ("Table 1", "Ultrix processes: what they cost is a kernel's, and nothing of it is simulated"),
            ("Figure 1", "no figures: what it shows is the test `turns` of crates/raddle"),
            (
                "code size",
                "1,200 lines in Topaz and a few hundred in FastThreads: `cargo xtask size` counts ours, in ARCHITECTURE.md",
            ),
        ],
        ablations: &activations::ABLATIONS,
    },
];

fn bounds(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| (least.min(value), most.max(value)))
}

/// A part of a time that is saved, or lost.
fn less(share: f64) -> String {
    let percent = share.abs() * 100.0;
    if share < 0.0 { format!("{percent:.1} % more") } else { format!("{percent:.1} % less") }
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>().join(", ")
}

/// What came of a claim.
#[derive(Clone)]
pub struct Verdict {
    /// Which.
    pub claim: &'static Claim,
    /// Whether it held.
    pub held: bool,
    /// What was seen.
    pub seen: String,
    /// Where it did not hold: what was changed, whether it held then, and what was seen.
    pub ablations: Vec<(&'static str, bool, String)>,
}

impl Verdict {
    fn why(&self) -> Option<&'static str> {
        self.claim.why.filter(|_| !self.held)
    }
}

fn ablate(paper: &'static Paper, claim: &Claim, size: Size) -> Result<Vec<(&'static str, bool, String)>, String> {
    let one = |ablation: &'static Ablation| {
        let (held, seen) = (claim.judge)(&Machine { changes: ablation.changes, ..paper.machine }, size)?;
        Ok((ablation.change, held, seen))
    };
    paper.ablations.iter().filter(|ablation| ablation.claim == claim.says).map(one).collect()
}

/// Simulates all that a paper's claims need. `progress` is told the number of each claim, how many there are, and its
/// figure.
///
/// # Errors
/// The first run that failed, by name.
pub fn verdicts(
    paper: &'static Paper,
    size: Size,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Verdict>, String> {
    verdicts_kept(paper, size, progress, &mut |_| ())
}

/// As [`verdicts`]; `keep` is given what there is after each claim.
///
/// # Errors
/// As [`verdicts`].
pub fn verdicts_kept(
    paper: &'static Paper,
    size: Size,
    progress: &mut dyn FnMut(usize, usize, &str),
    keep: &mut dyn FnMut(&[Verdict]),
) -> Result<Vec<Verdict>, String> {
    let mut all = Vec::new();
    for (number, claim) in paper.claims.iter().enumerate() {
        progress(number + 1, paper.claims.len(), claim.figure);
        let (held, seen) = (claim.judge)(&paper.machine, size)?;
        let ablations = if held { Vec::new() } else { ablate(paper, claim, size)? };
        all.push(Verdict { claim, held, seen, ablations });
        keep(&all);
    }
    Ok(all)
}

/// A figure, and the lines of its plot.
pub type Drawn = (&'static Drawing, Vec<Series>);

/// Simulates all that a paper's figures need; told as for [`verdicts`].
///
/// # Errors
/// The first run that failed, by name.
pub fn draw(
    paper: &'static Paper,
    size: Size,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Drawn>, String> {
    let all = paper.drawings.len();
    let draw = |(number, drawing): (usize, &'static Drawing)| {
        progress(number + 1, all, drawing.figure);
        Ok::<Drawn, String>((drawing, (drawing.draw)(&paper.machine, size)?))
    };
    paper.drawings.iter().enumerate().map(draw).collect()
}

/// The points of a figure, a line for each series.
fn points((drawing, series): &Drawn) -> String {
    let Drawing { figure, title, across, .. } = drawing;
    let mut text = format!("\nfigure {figure}: {title}\n{across:>44}");
    let places = series.first().map(|first| first.points.as_slice()).unwrap_or_default();
    places.iter().for_each(|(place, _)| text += &format!("{:>9}", (place * 100.0).round() / 100.0));
    for Series { name, points, .. } in series {
        let _ = write!(text, "\n{name:>44}");
        points.iter().for_each(|(_, value)| text += &format!("{value:>9.1}"));
    }
    text + "\n"
}

/// The claims beside what was seen, and the figures' points.
pub fn table(paper: &Paper, verdicts: &[Verdict], drawn: &[Drawn]) -> String {
    let Paper { title, machine, left_out, .. } = paper;
    let mut text =
        format!("{title}: {} cores of {} (simulated), `{}`\n", machine.cores, machine.preset, machine.policy);
    let told = |held: bool| if held { "held" } else { "NOT HELD" };
    for verdict in verdicts {
        let Verdict { claim, held, seen, ablations } = verdict;
        let _ = writeln!(text, "\n{:<8} {:<8} {}", claim.figure, told(*held), claim.says);
        let _ = writeln!(text, "         rule: {}\n         seen: {seen}", claim.rule);
        if let Some(why) = verdict.why() {
            let _ = writeln!(text, "         why:  {why}");
        }
        for (change, held, seen) in ablations {
            let _ = writeln!(text, "         with {change}: {}: {seen}", told(*held));
        }
    }
    for (figure, why) in *left_out {
        let _ = write!(text, "\n{figure:<8} left out {why}");
    }
    text + "\n" + &drawn.iter().map(points).collect::<String>()
}

/// A line of JSON for each claim, for each figure that is left out, and for each line of a plot.
pub fn json_lines(paper: &Paper, verdicts: &[Verdict], drawn: &[Drawn]) -> String {
    let one = |verdict: &Verdict| {
        let Verdict { claim: Claim { figure, says, rule, .. }, held, seen, ablations } = verdict;
        let tried = |(change, held, seen): &(&str, bool, String)| json!({ "with": change, "held": held, "ours": seen });
        let ablations: Vec<_> = ablations.iter().map(tried).collect();
        json!({
            "paper": paper.name, "figure": figure, "claim": says, "rule": rule, "ours": seen, "held": held, "why": verdict.why(),
            "ablations": ablations,
        })
    };
    let left_out =
        |(figure, why): &(&str, &str)| json!({ "paper": paper.name, "figure": figure, "held": null, "why": why });
    let line = |(drawing, series): &Drawn| {
        let Drawing { figure, title, across, .. } = drawing;
        let of = |Series { name, points, .. }: &Series| json!({ "paper": paper.name, "figure": figure, "title": title, "across": across, "series": name, "points": points });
        series.iter().map(of).collect::<Vec<_>>()
    };
    let lines = verdicts.iter().map(one).chain(paper.left_out.iter().map(left_out)).chain(drawn.iter().flat_map(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A page with a table of the claims, and plots; `command` is shown as what made it.
pub fn html(
    paper: &Paper,
    verdicts: &[Verdict],
    drawn: &[Drawn],
    command: &str,
    circumstances: &Circumstances,
) -> String {
    let Paper { title, machine, left_out, .. } = paper;
    let row = |figure: &str, class: &'static str, told: &str, cells: [&str; 4]| {
        let rest = cells.iter().map(|text| ("text", text.to_string()));
        [("text", figure.to_string()), (class, told.to_string())].into_iter().chain(rest).collect::<Vec<_>>()
    };
    let judged = verdicts.iter().map(|verdict| {
        let Verdict { claim, held, seen, ablations } = verdict;
        let (class, told) = if *held { ("text held", "held") } else { ("text not", "NOT HELD") };
        let mut why = verdict.why().unwrap_or_default().to_string();
        for (change, held, seen) in ablations {
            let _ = write!(why, " [with {change}: {}: {seen}]", if *held { "held" } else { "not held" });
        }
        row(claim.figure, class, told, [claim.says, claim.rule, seen, &why])
    });
    let rest = left_out.iter().map(|(figure, why)| row(figure, "text", "left out", ["", "", "", why]));
    let mut page = Page::new(&format!("raddle sim report: {title}"), command);
    page.circumstances(circumstances);
    page.paragraph(&format!("{} cores of {} (simulated), {}.", machine.cores, machine.preset, machine.policy));
    page.section("Claims", &raddle_report::table(&CLAIM_HEADS, judged.chain(rest)));
    for (drawing, series) in drawn {
        let Drawing { figure, title, across, upwards, .. } = drawing;
        let (across, upwards) = (Axis::of(across, Unit::Number), Axis::of(upwards, Unit::Number));
        page.section(&format!("Figure {figure}: {title}"), &lines(title, &across, &upwards, series));
    }
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_judged_every_figure_drawn_and_the_same_seed_gives_the_same_bytes() {
        for paper in &PAPERS {
            let all = || {
                let verdicts = verdicts(paper, Size::Small, &mut |_, _, _| ()).unwrap();
                let drawn = draw(paper, Size::Small, &mut |_, _, _| ()).unwrap();
                let page = html(paper, &verdicts, &drawn, "raddle <x>", &Circumstances::none());
                (table(paper, &verdicts, &drawn), json_lines(paper, &verdicts, &drawn), page, drawn)
            };
            let (text, json, page, drawn) = all();
            let again = all();
            assert_eq!((&text, &json, &page), (&again.0, &again.1, &again.2));
            assert_eq!(page.matches("<tr>").count(), 1 + paper.claims.len() + paper.left_out.len());
            assert!(page.contains("raddle &lt;x&gt;") && page.ends_with("</html>\n"), "{page}");
            let lines: usize = drawn.iter().map(|(_, series)| series.len()).sum();
            assert_eq!(json.lines().count(), paper.claims.len() + paper.left_out.len() + lines);
            assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (drawn.len(), lines));
            for ablation in paper.ablations {
                assert!(paper.claims.iter().any(|claim| claim.says == ablation.claim), "{}", ablation.claim);
            }
            for claim in paper.claims {
                assert!(text.contains(claim.says) && json.contains(claim.rule), "{}", claim.says);
            }
            for (drawing, series) in &drawn {
                assert!(text.contains(&format!("figure {}: {}", drawing.figure, drawing.title)), "{text}");
                for Series { name, points, .. } in series {
                    assert!(points.iter().all(|(_, value)| *value > 0.0), "{name}: {points:?}");
                    assert_eq!(points.len(), series[0].points.len(), "{name}");
                }
            }
        }
    }

    #[test]
    fn no_figure_and_no_table_of_a_paper_is_passed_over() {
        let all: [(&str, &[&str]); 4] = [
            ("lock-free", &["7", "8", "9", "10 (a)", "10 (b)", "Table 1"]),
            ("lesser-bear", &["7", "8", "9", "Table 2", "Table 3"]),
            ("hurricane", &["5 (a)", "5 (b)", "7 (a)", "7 (b)", "7 (c)", "7 (d)"]),
            ("activations", &["2", "3", "Table 1", "Table 4", "Table 5"]),
        ];
        for (paper, (name, figures)) in PAPERS.iter().zip(all) {
            assert_eq!(paper.name, name);
            for figure in figures {
                assert!(paper.claims.iter().any(|claim| claim.figure == *figure), "{name}: {figure} has no claim");
            }
            let drawn: Vec<&str> = paper.drawings.iter().map(|drawing| drawing.figure).collect();
            let figures: Vec<&str> = figures.iter().copied().filter(|figure| !figure.starts_with("Table")).collect();
            assert_eq!(drawn, figures, "{name}");
        }
    }
}
