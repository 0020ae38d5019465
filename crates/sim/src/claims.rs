//! The schedulers report's figures 7.1 to 7.7 on the simulated machine: what it claims, what comes out here, and
//! whether that holds.
//!
//! Source: the report's section 7.1.1 (packets from one spawner, local queues of 128 where a full one makes the spawner
//! try again, 2 x EPYC 7702). A verdict follows from the simulated figures by the rule that the claim is given here,
//! written before they were seen.
//!
//! # Example
//! ```
//! use raddle_sim::claims::{self, CLAIMS, Scale};
//! let scale = Scale { packets: 300, many: 600, cores: vec![5, 20, 80, 120], ..Scale::default() };
//! let runs = claims::run(&scale, &mut |_, _, _| ()).unwrap();
//! let verdicts = claims::verdicts(&runs);
//! assert_eq!(verdicts.len(), CLAIMS.len());
//! assert!(claims::table(&scale, &runs, &verdicts).contains("7.7"));
//! ```
#![forbid(unsafe_code)]

use crate::cost::Costs;
use crate::report::{self, Row};
use crate::simulate::{Expression, Figures, Plan, simulate};
use crate::workloads::Workload;
use raddle_report::{Circumstances, Page};
use serde_json::json;
use std::fmt::Write as _;

/// How large the runs are.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Packets of most runs: the report's 50,000.
    pub packets: u64,
    /// Packets where the report has ten million.
    pub many: u64,
    /// Numbers of cores, growing.
    pub cores: Vec<usize>,
    /// The machine.
    pub costs: Costs,
    /// What is random follows from it.
    pub seed: u64,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            packets: 50_000,
            many: 500_000,
            cores: vec![5, 10, 20, 30, 45, 60, 80, 100, 120],
            costs: Costs::preset("epyc").unwrap_or_else(|| unreachable!("a preset")),
            seed: 1,
        }
    }
}

const FIFO: &str = "local(overflow=retry)";
const LIFO: &str = "local(lifo, overflow=retry)";
const NEAR: &str = "local(overflow=retry, victims=neighbours(15))";
const LEAST: &str = "local(overflow=retry, batch=min(10))";
const NAIVE: &str = "request(naive, overflow=retry)";

/// What is run over all numbers of cores: policy, work, spawners, and whether it is the long run.
const SERIES: [(&str, &str, bool); 9] = [
    (FIFO, "", false),
    (LIFO, "", false),
    (NEAR, "", false),
    (LEAST, "", false),
    (NAIVE, "", false),
    (FIFO, "work=500", false),
    (NEAR, "work=500", false),
    (FIFO, "spawners=4", false),
    (FIFO, "", true),
];

/// All runs, one row for each series and number of cores.
#[derive(Clone, Debug)]
pub struct Runs {
    rows: Vec<(usize, Row)>,
    /// Whether they are those that the explanations were written for.
    explained: bool,
}

impl Runs {
    /// Why a claim was not held, where that is known of these runs.
    fn why(&self, claim: &Claim, held: bool) -> Option<&'static str> {
        claim.why.filter(|_| self.explained && !held)
    }

    fn of(&self, policy: &str, arguments: &str, long: bool) -> Over<'_> {
        let series = SERIES.iter().position(|&series| series == (policy, arguments, long));
        let mine = self.rows.iter().filter(move |(index, _)| Some(*index) == series);
        Over(mine.filter_map(|(_, (plan, result))| Some((plan.cores, result.as_ref().ok()?))).collect())
    }

    /// As `raddle sim` shows them.
    pub fn rows(self) -> Vec<Row> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// A series over the numbers of cores.
struct Over<'a>(Vec<(usize, &'a Figures)>);

impl Over<'_> {
    /// The figure at the number of cores nearest to this one.
    fn at(&self, cores: usize, figure: impl Fn(&Figures) -> f64) -> f64 {
        self.0.iter().min_by_key(|(known, _)| known.abs_diff(cores)).map_or(0.0, |(_, figures)| figure(figures))
    }

    fn speed(&self, cores: usize) -> f64 {
        self.at(cores, Figures::throughput)
    }

    fn peak(&self) -> (usize, f64) {
        let of = self.0.iter().map(|(cores, figures)| (*cores, figures.throughput()));
        of.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    }

    /// The slowest as a share of the fastest, between these numbers of cores.
    fn level(&self, from: usize, to: usize) -> f64 {
        let within = || self.0.iter().filter(|(cores, _)| (from..=to).contains(cores));
        let speeds = || within().map(|(_, figures)| figures.throughput());
        speeds().fold(f64::MAX, f64::min) / speeds().fold(f64::MIN_POSITIVE, f64::max)
    }
}

/// A claim of the report.
pub struct Claim {
    /// Its figure, or paragraph.
    pub figure: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// When it holds here.
    pub rule: &'static str,
    judge: fn(&Runs) -> (bool, String),
    /// Why it does not hold in a run of [`Scale::default`], where one has shown it.
    pub why: Option<&'static str>,
}

/// `raddle sim --policy 'local(overflow=retry)' --workload packet:body=8k --cores 5,10,20,45,80,120`.
const LIGHT: &str = "a packet takes its thread 0.4 µs here, so few cores keep up with one spawner; with 8 µs (packet:body=8k) the peak is at 10 \
                     cores, and the spawner retries with 5 and 10 cores, no more from 20 on";
/// The same with `packet` and `packet:work=500` on a machine with the levels of `epyc` but the last.
const SOCKETS: &str = "beyond 64 cores lines come from the other socket, too: if that cost as much as within one, 120 cores would have 69 % of \
                       the peak of 50,000 packets instead of 47 %, and with 500 ns more 68 % instead of 49 %; the rest is not explained";

/// `packet` on the machine of [`SOCKETS`].
const STEP: &str = "2.5 is passed between 80 and 100 cores, where two fifths of the throughput are lost, too; from there on both are level. Without the \
                    second socket there would be 2.3 at 120 cores";

/// The command of [`LIGHT`] with the four policies.
const ONE_BY_ONE: &str = "from 20 cores on most of the 50,000 packets are taken by a steal of their own (46,053 at 20, 49,397 with 8 µs: \
                          packet:body=8k), so one lies in the queue at a time, and more cores only look in vain more often: in which order the \
                          queue is, whom a thief asks first, and how, makes no difference (within 2 % at 80 and at 120)";

/// The claims, in the order of the figures.
pub const CLAIMS: [Claim; 13] = [
    Claim {
        figure: "7.1",
        says: "LIFO is fastest at 20 domains, and slower with more",
        rule: "the peak lies from 10 to 30, and 120 has less than 90 % of it",
        judge: |runs| peak(&runs.of(LIFO, "", false), 10, 30),
        why: Some(LIGHT),
    },
    Claim {
        figure: "7.1",
        says: "FIFO is fastest at 80 domains, and falls off afterwards",
        rule: "the peak lies from 60 to 100, and 120 has less than 90 % of it",
        judge: |runs| peak(&runs.of(FIFO, "", false), 60, 100),
        why: Some(LIGHT),
    },
    Claim {
        figure: "7.1",
        says: "FIFO is about level from 20 to 80",
        rule: "the slowest there has at least 75 % of the fastest",
        judge: |runs| level(&runs.of(FIFO, "", false), 20, 80),
        why: None,
    },
    Claim {
        figure: "7.1",
        says: "the spawner's retries cease beyond 45 cores",
        rule: "some at 5, and beyond 45 fewer than one packet in a thousand",
        judge: |runs| {
            let over = runs.of(FIFO, "", false);
            let share = |figures: &Figures| figures.retries as f64 / figures.operations as f64;
            let late = over.0.iter().filter(|(cores, _)| *cores > 45).map(|&(_, figures)| share(figures));
            let (early, late) = (over.at(5, share), late.fold(0.0, f64::max));
            (
                early > 0.0 && late < 0.001,
                format!("{:.2} % of the packets at 5, at most {:.2} % beyond 45", early * 1e2, late * 1e2),
            )
        },
        why: Some(LIGHT),
    },
    Claim {
        figure: "7.2",
        says: "LIFO's steal attempts grow no more beyond 80 domains",
        rule: "120 has at most 1.1 times the attempts of 80",
        judge: |runs| {
            let over = runs.of(LIFO, "", false);
            let tried = |cores| over.at(cores, |figures| figures.steals.0 as f64);
            (
                tried(120) <= 1.1 * tried(80),
                format!("{:.0} at 20, {:.0} at 80, {:.0} at 120", tried(20), tried(80), tried(120)),
            )
        },
        why: Some(ONE_BY_ONE),
    },
    Claim {
        figure: "7.3",
        says: "FIFO reaches over 2.5 stalls per instruction beyond 80 domains, and more with more",
        rule: "over 2.5 at 100, and more at 120",
        judge: |runs| {
            let over = runs.of(FIFO, "", false);
            let stalls = |cores| over.at(cores, Figures::stalls);
            let [few, some, many, most] = [20, 80, 100, 120].map(stalls);
            let seen = format!("{few:.2} at 20, {some:.2} at 80, {many:.2} at 100, {most:.2} at 120");
            (many > 2.5 && most > many, seen)
        },
        why: Some(STEP),
    },
    Claim {
        figure: "7.3",
        says: "LIFO stalls less than FIFO",
        rule: "fewer stalls per instruction at 100",
        judge: |runs| {
            let stalls = |policy| runs.of(policy, "", false).at(100, Figures::stalls);
            (stalls(LIFO) < stalls(FIFO), format!("LIFO {:.2}, FIFO {:.2}", stalls(LIFO), stalls(FIFO)))
        },
        why: Some(ONE_BY_ONE),
    },
    Claim {
        figure: "7.4",
        says: "with ten million packets it is stable beyond 30 cores",
        rule: "the slowest beyond 30 has at least 90 % of the fastest",
        judge: |runs| level_by(&runs.of(FIFO, "", true), 30, usize::MAX, 0.9),
        why: Some(SOCKETS),
    },
    Claim {
        figure: "7.5",
        says: "with 500 ns more work a packet it is stable beyond 100 domains",
        rule: "120 has at least 90 % of the peak",
        judge: |runs| {
            let over = runs.of(FIFO, "work=500", false);
            let (cores, peak) = over.peak();
            (
                over.speed(120) >= 0.9 * peak,
                format!("peak {} at {cores}, {} at 120", million(peak), million(over.speed(120))),
            )
        },
        why: Some(SOCKETS),
    },
    Claim {
        figure: "7.6",
        says: "more spawners help",
        rule: "four are faster than one at 80 and at 120",
        judge: |runs| {
            let (one, four) = (runs.of(FIFO, "", false), runs.of(FIFO, "spawners=4", false));
            versus(("one", &one), ("four", &four), |one, four| four > one)
        },
        why: None,
    },
    Claim {
        figure: "7.7",
        says: "to steal from the 15 nearest only is better at many cores",
        rule: "with 500 ns more, faster at 80 and at 120",
        judge: |runs| {
            let (all, near) = (runs.of(FIFO, "work=500", false), runs.of(NEAR, "work=500", false));
            versus(("all", &all), ("nearest", &near), |all, near| near > all)
        },
        why: Some(ONE_BY_ONE),
    },
    Claim {
        figure: "7.1.1",
        says: "to steal at least 10 is no better",
        rule: "not more than 5 % faster at 80 and at 120",
        judge: |runs| {
            let (any, ten) = (runs.of(FIFO, "", false), runs.of(LEAST, "", false));
            versus(("any", &any), ("at least 10", &ten), |any, ten| ten <= 1.05 * any)
        },
        why: None,
    },
    Claim {
        figure: "7.1.1",
        says: "naive requests for steals are much worse",
        rule: "slower than 80 % at 80 and at 120",
        judge: |runs| {
            let (steal, request) = (runs.of(FIFO, "", false), runs.of(NAIVE, "", false));
            versus(("stealing", &steal), ("requests", &request), |steal, request| request < 0.8 * steal)
        },
        why: Some(ONE_BY_ONE),
    },
];

fn million(speed: f64) -> String {
    format!("{:.2} M/s", speed / 1e6)
}

fn peak(over: &Over, from: usize, to: usize) -> (bool, String) {
    let ((cores, peak), last) = (over.peak(), over.speed(120));
    let held = (from..=to).contains(&cores) && last < 0.9 * peak;
    (held, format!("{} at 20, peak {} at {cores}, {} at 120", million(over.speed(20)), million(peak), million(last)))
}

fn level(over: &Over, from: usize, to: usize) -> (bool, String) {
    level_by(over, from, to, 0.75)
}

fn level_by(over: &Over, from: usize, to: usize, share: f64) -> (bool, String) {
    let level = over.level(from, to);
    (level >= share, format!("the slowest has {:.0} % of the fastest", level * 100.0))
}

fn versus(a: (&str, &Over), b: (&str, &Over), holds: fn(f64, f64) -> bool) -> (bool, String) {
    let pair = |cores| (a.1.speed(cores), b.1.speed(cores));
    let ((a80, b80), (a120, b120)) = (pair(80), pair(120));
    let text = |cores, x, y| format!("at {cores} {} {}, {} {}", a.0, million(x), b.0, million(y));
    (holds(a80, b80) && holds(a120, b120), format!("{}; {}", text(80, a80, b80), text(120, a120, b120)))
}

/// Simulates all. `progress` is told the number of each run, how many there are, and what it is.
///
/// # Errors
/// The first run that failed, by name.
pub fn run(scale: &Scale, progress: &mut dyn FnMut(usize, usize, &str)) -> Result<Runs, String> {
    run_kept(scale, progress, &mut |_| ())
}

/// As [`run`]; `keep` is told after each run of all that there are so far.
///
/// # Errors
/// As [`run`].
pub fn run_kept(
    scale: &Scale,
    progress: &mut dyn FnMut(usize, usize, &str),
    keep: &mut dyn FnMut(&Runs),
) -> Result<Runs, String> {
    let workload = Workload::find("packet")?;
    let all = SERIES.len() * scale.cores.len();
    let mut runs = Runs { rows: Vec::new(), explained: *scale == Scale::default() };
    for (index, &(policy, arguments, long)) in SERIES.iter().enumerate() {
        for &cores in &scale.cores {
            let count = if long { scale.many } else { scale.packets };
            // Two spawners where there are five domains, as in the report.
            let arguments = if cores <= 5 && arguments == "spawners=4" { "spawners=2" } else { arguments };
            let plan = Plan {
                policy: policy.parse::<Expression>().map_err(|why| why.to_string())?,
                cores,
                workload,
                arguments: workload.arguments(&format!("n={count}:{arguments}"))?,
                costs: scale.costs.clone(),
                seed: scale.seed,
                steps: 20_000_000_000,
            };
            progress(runs.rows.len() + 1, all, &format!("{policy} {arguments} on {cores} cores"));
            let figures = simulate(&plan)?;
            runs.rows.push((index, (plan, Ok(figures))));
            keep(&runs);
        }
    }
    Ok(runs)
}

/// Whether a claim held, and what was seen.
pub type Verdict = (&'static Claim, bool, String);

/// The verdicts, in the order of [`CLAIMS`].
pub fn verdicts(runs: &Runs) -> Vec<Verdict> {
    let judge = |claim: &'static Claim| {
        let (held, seen) = (claim.judge)(runs);
        (claim, held, seen)
    };
    CLAIMS.iter().map(judge).collect()
}

/// The claims beside what was seen, and the throughput of each series.
pub fn table(scale: &Scale, runs: &Runs, verdicts: &[Verdict]) -> String {
    let mut text = format!(
        "The schedulers report's figures on {} (simulated, seed {}), {} packets, {} where it has ten million\n",
        scale.costs.name, scale.seed, scale.packets, scale.many
    );
    for (claim, held, seen) in verdicts {
        let _ = writeln!(text, "\n{:<6} {:<8} {}", claim.figure, if *held { "held" } else { "NOT HELD" }, claim.says);
        let _ = writeln!(text, "       rule: {}\n       seen: {seen}", claim.rule);
        if let Some(why) = runs.why(claim, *held) {
            let _ = writeln!(text, "       why:  {why}");
        }
    }
    if !runs.explained && verdicts.iter().any(|(_, held, _)| !held) {
        text += "\nwhy: known only of the run with the default machine, sizes and seed, which shows it\n";
    }
    let _ = write!(text, "\nmillion packets a second, by cores\n{:<52}", "");
    scale.cores.iter().for_each(|cores| text += &format!("{cores:>7}"));
    for (index, (policy, arguments, long)) in SERIES.iter().enumerate() {
        let name = format!("{policy} {arguments}{}", if *long { "many" } else { "" });
        let _ = write!(text, "\n{name:<52}");
        for (_, (_, result)) in runs.rows.iter().filter(|(mine, _)| *mine == index) {
            let _ = write!(text, "{:>7.2}", result.as_ref().map_or(0.0, |figures| figures.throughput() / 1e6));
        }
    }
    text + "\n"
}

/// A line of JSON for each claim, then one for each run.
pub fn json_lines(runs: Runs, verdicts: &[Verdict]) -> String {
    let one = |(claim, held, seen): &Verdict| {
        let Claim { figure, says, rule, .. } = claim;
        let why = runs.why(claim, *held);
        format!(
            "{}\n",
            json!({ "figure": figure, "claim": says, "rule": rule, "ours": seen, "held": held, "why": why })
        )
    };
    verdicts.iter().map(one).collect::<String>() + &report::json_lines(&runs.rows())
}

/// A page: the claims, then the plots and the table of all runs.
pub fn html(runs: Runs, verdicts: &[Verdict], command: &str, circumstances: &Circumstances) -> String {
    let row = |(claim, held, seen): &Verdict| {
        let (class, told) = if *held { ("text held", "held") } else { ("text not", "NOT HELD") };
        let cells = [claim.says, claim.rule, seen, runs.why(claim, *held).unwrap_or_default()];
        let rest = cells.into_iter().map(|text| ("text", text.to_string()));
        [("text", claim.figure.to_string()), (class, told.to_string())].into_iter().chain(rest).collect()
    };
    let mut page = Page::new("The schedulers report, simulated", command);
    page.circumstances(circumstances);
    page.section("Claims", &raddle_report::table(&CLAIM_HEADS, verdicts.iter().map(row)));
    report::sections(&mut page, &runs.rows());
    page.finish()
}

/// The heads of a page's table of claims.
pub(crate) const CLAIM_HEADS: [(&str, &str); 6] =
    [("text", "figure"), ("text", ""), ("text", "claim"), ("text", "held if"), ("text", "seen"), ("text", "why not")];

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Scale {
        Scale { packets: 400, many: 800, cores: vec![2, 20, 80], ..Scale::default() }
    }

    #[test]
    fn every_claim_is_judged_from_runs_that_were_made_and_the_same_seed_gives_the_same_bytes() {
        let all = || {
            let scale = small();
            let runs = run(&scale, &mut |_, _, _| ()).unwrap();
            let verdicts = verdicts(&runs);
            (table(&scale, &runs, &verdicts), json_lines(runs, &verdicts))
        };
        let (text, json) = all();
        assert_eq!((text.clone(), json.clone()), all());
        assert_eq!(json.lines().count(), CLAIMS.len() + SERIES.len() * 3);
        for claim in &CLAIMS {
            assert!(text.contains(claim.says) && json.contains(claim.rule), "{}", claim.says);
        }
    }

    #[test]
    fn explanations_are_of_the_run_that_they_were_written_for() {
        let verdicts: Vec<Verdict> = CLAIMS.iter().map(|claim| (claim, false, String::new())).collect();
        let shown = |scale: &Scale| {
            let runs = || Runs { rows: Vec::new(), explained: *scale == Scale::default() };
            let text = table(scale, &runs(), &verdicts);
            (
                text.matches("why:  ").count(),
                text.contains("why: known only"),
                json_lines(runs(), &verdicts).matches("\"why\":null").count(),
            )
        };
        let known = CLAIMS.iter().filter(|claim| claim.why.is_some()).count();
        assert_eq!(shown(&Scale::default()), (known, false, CLAIMS.len() - known));
        let others = [
            Scale { packets: 100, ..Scale::default() },
            Scale { seed: 5, ..Scale::default() },
            Scale { costs: Costs::preset("opteron").unwrap(), ..Scale::default() },
        ];
        for other in others {
            assert_eq!(shown(&other), (0, true, CLAIMS.len()));
            assert!(
                !run(&Scale { packets: 10, many: 10, cores: vec![2], ..other }, &mut |_, _, _| ()).unwrap().explained
            );
        }
    }

    #[test]
    fn a_peak_is_where_it_is() {
        let scale = small();
        let runs = run(&scale, &mut |_, _, _| ()).unwrap();
        let over = runs.of(FIFO, "", false);
        let (cores, speed) = over.peak();
        assert_eq!(over.0.len(), 3);
        assert!(over.0.iter().all(|(_, figures)| figures.throughput() <= speed) && over.speed(cores) == speed);
        assert!(over.level(2, 80) <= 1.0 && over.level(20, 20) == 1.0);
    }
}
