//! `raddle bench report`: what the schedulers report claims of figures 7.1 to 7.7, measured here, as far as this
//! machine has the cores.
//!
//! `raddle sim report` has the same claims on simulated machines of the report's size. A verdict follows from the
//! middle of the rounds by the rule that the claim is given here.

use super::{Format, Meter, Options, contestants};
use crate::output::Output;
use raddle_bench::catalogue;
use raddle_bench::harness::{self, Plan, Results};
use raddle_bench::report::{self, Row};
use raddle_bench::runtimes;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The name by which the command line asks for it.
pub const NAME: &str = "report";
/// What `--paper` calls it.
pub const PAPER: &str = "schedulers";

const FIFO: &str = "local(overflow=retry)";
const LIFO: &str = "local(lifo, overflow=retry)";
const LEAST: &str = "local(batch=min(10), overflow=retry)";
const NAIVE: &str = "request(naive, overflow=retry)";

const ONE: &str = "N=50k";
const MANY: &str = "N=10M";
const FOUR: &str = "N=50k:spawners=4";

/// Runs on one machine do not show the cause; those of `raddle sim report` can be changed until they do.
const WHY: &str = "why some are not held is not known: these runs do not show it; `raddle sim report` tells what was found on a simulated machine\n";

/// What is run: arguments of `packet`, and the policies that are interleaved.
const RUNS: [(&str, &[&str]); 3] = [(ONE, &[FIFO, LIFO, LEAST, NAIVE]), (FOUR, &[FIFO]), (MANY, &[FIFO])];

/// What was seen.
struct Seen<'a>(Vec<(&'static str, &'a Row)>);

impl Seen<'_> {
    fn row(&self, arguments: &str, policy: &str) -> Option<&Row> {
        let mut rows = self.0.iter().filter(|(known, _)| *known == arguments).map(|(_, row)| *row);
        rows.find(|row| row.policy.as_deref() == Some(policy))
    }

    /// Nanoseconds a packet.
    fn time(&self, arguments: &str, policy: &str) -> Option<f64> {
        Some(self.row(arguments, policy)?.spread.as_ref()?.median)
    }

    fn extra(&self, arguments: &str, policy: &str, key: &str) -> Option<f64> {
        self.row(arguments, policy)?.extra.get(key)?.as_f64()
    }
}

/// Whether it held, and what came out; nothing where a run is missing.
type Judged = Option<(bool, String)>;

/// A claim of the report.
struct Claim {
    figure: &'static str,
    says: &'static str,
    /// When it holds here, or why that cannot be seen here.
    rule: &'static str,
    judge: Option<fn(&Seen) -> Judged>,
}

const FAR: &str = "needs more cores than two; see `raddle sim report`";

const CLAIMS: [Claim; 13] = [
    Claim { figure: "7.1", says: "LIFO is fastest at 20 domains, and slower with more", rule: FAR, judge: None },
    Claim { figure: "7.1", says: "FIFO is fastest at 80 domains, and falls off afterwards", rule: FAR, judge: None },
    Claim {
        figure: "7.1",
        says: "FIFO and LIFO perform alike",
        rule: "neither takes more than 1.25 times the other's time",
        judge: Some(|seen| {
            let (fifo, lifo) = (seen.time(ONE, FIFO)?, seen.time(ONE, LIFO)?);
            Some((fifo.max(lifo) <= 1.25 * fifo.min(lifo), format!("FIFO {fifo:.0} ns, LIFO {lifo:.0} ns a packet")))
        }),
    },
    Claim {
        figure: "7.1",
        says: "with few cores the spawner retries often",
        rule: "at least once in a thousand packets",
        judge: Some(|seen| {
            let retries = seen.extra(ONE, FIFO, "spawn_retries")?;
            Some((retries >= 50.0, format!("{retries:.0} of 50,000")))
        }),
    },
    Claim { figure: "7.2", says: "LIFO's steal attempts grow no more beyond 80 domains", rule: FAR, judge: None },
    Claim { figure: "7.3", says: "FIFO's stalls keep growing beyond 80 domains", rule: FAR, judge: None },
    Claim {
        figure: "7.4",
        says: "ten million packets are processed more slowly than 50,000",
        rule: "at least 5 % more time a packet",
        judge: Some(|seen| {
            let (few, many) = (seen.time(ONE, FIFO)?, seen.time(MANY, FIFO)?);
            Some((many >= 1.05 * few, format!("{many:.0} ns a packet, {few:.0} with 50,000")))
        }),
    },
    Claim { figure: "7.4", says: "with ten million packets it is stable beyond 30 cores", rule: FAR, judge: None },
    Claim {
        figure: "7.5",
        says: "with 500 ns more work a packet it is stable beyond 100 domains",
        rule: FAR,
        judge: None,
    },
    Claim {
        figure: "7.6",
        says: "more spawners help",
        rule: "four take at most 95 % of the time",
        judge: Some(|seen| {
            let (one, four) = (seen.time(ONE, FIFO)?, seen.time(FOUR, FIFO)?);
            Some((four <= 0.95 * one, format!("four {four:.0} ns a packet, one {one:.0}")))
        }),
    },
    Claim { figure: "7.7", says: "to steal from the 15 nearest only is better at many cores", rule: FAR, judge: None },
    Claim {
        figure: "7.1.1",
        says: "to steal at least 10 is no better",
        rule: "not more than 5 % less time",
        judge: Some(|seen| {
            let (any, ten) = (seen.time(ONE, FIFO)?, seen.time(ONE, LEAST)?);
            Some((ten >= 0.95 * any, format!("at least 10: {ten:.0} ns a packet, any: {any:.0}")))
        }),
    },
    Claim {
        figure: "7.1.1",
        says: "naive requests for steals are much worse",
        rule: "more than 1.25 times the time",
        judge: Some(|seen| {
            let (steal, request) = (seen.time(ONE, FIFO)?, seen.time(ONE, NAIVE)?);
            Some((request > 1.25 * steal, format!("requests {request:.0} ns a packet, stealing {steal:.0}")))
        }),
    },
];

/// Measures all and judges. A claim that does not hold is a result, not a failure.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    refuse(options)?;
    let about = super::about(options)?;
    let output = Output::claim(options.out.as_deref())?;
    let mut meter = Meter::new();
    let mut results = Results { rows: Vec::new(), missing: Vec::new(), settings: Vec::new(), failed: false };
    let mut arguments = Vec::new();
    for (words, policies) in RUNS {
        // Ten million warm up by themselves.
        let repeat = if words == MANY { 1 } else { options.repeat };
        let cases = catalogue::cases(catalogue::find("packet")?, &[words.into()], options.processors.into())?;
        let policies = policies.iter().map(|policy| policy.to_string()).collect();
        let own = Options { policy: policies, ..options.clone() };
        let contestants = contestants(&own, &[runtimes::find("raddle")?], &mut meter)?;
        let plan = Plan { cases, contestants, rounds: options.rounds, repeat, until: None };
        results.extend(harness::run(&plan, &mut |event| meter.show(&event)));
        arguments.resize(results.rows.len(), words);
        meter.clear();
    }
    let verdicts = verdicts(&Seen(arguments.into_iter().zip(&results.rows).collect()));
    let text = match options.format() {
        Format::Table => format!("{}\n{}", report::table(&results), table(&verdicts)),
        Format::Json => {
            let claims = verdicts.iter().map(|verdict| format!("{}\n", verdict.json()));
            claims.collect::<String>() + &report::json_lines(&results.rows, &about)
        }
        Format::Html => page(&report::html(&results, &about), &verdicts),
    };
    output.write(&text)?;
    super::tell(options, &results);
    Ok(if results.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) fn refuse(options: &Options) -> Result<(), String> {
    let Options { workloads, args, runtimes, policy, .. } = options;
    if workloads.len() > 1 {
        return Err("`report` is a list of runs of its own; ask for the other workloads by another command".into());
    }
    let given = [("--args", args), ("--runtimes", runtimes), ("--policy", policy)];
    match given.iter().find(|(_, given)| !given.is_empty()) {
        Some((name, _)) => Err(format!("`report` has its own runs, so {name} is not for it; leave it out")),
        None => Ok(()),
    }
}

struct Verdict {
    claim: &'static Claim,
    judged: Judged,
}

impl Verdict {
    fn word(&self) -> &'static str {
        match (&self.claim.judge, &self.judged) {
            (None, _) => "not seen here",
            (Some(_), None) => "not measured",
            (Some(_), Some((true, _))) => "held",
            (Some(_), Some((false, _))) => "not held",
        }
    }

    fn json(&self) -> serde_json::Value {
        let Claim { figure, says, rule, .. } = self.claim;
        let ours = self.judged.as_ref().map(|(_, ours)| ours);
        json!({"figure": figure, "claim": says, "rule": rule, "ours": ours, "verdict": self.word()})
    }
}

fn verdicts(seen: &Seen) -> Vec<Verdict> {
    CLAIMS.iter().map(|claim| Verdict { claim, judged: claim.judge.and_then(|judge| judge(seen)) }).collect()
}

/// The page of the runs, with the claims at its end.
fn page(page: &str, verdicts: &[Verdict]) -> String {
    let claims = table(verdicts).replace('&', "&amp;").replace('<', "&lt;");
    page.replacen("</body>", &format!("<pre>\n{claims}</pre>\n</body>"), 1)
}

fn table(verdicts: &[Verdict]) -> String {
    let mut text = String::from("what the schedulers report claims, by the middle of the rounds:\n");
    for verdict in verdicts {
        let Claim { figure, says, rule, .. } = verdict.claim;
        let ours = verdict.judged.as_ref().map_or_else(String::new, |(_, ours)| format!("{ours}; "));
        let _ = writeln!(text, "{figure:<6} {:<13} {says}\n{:20} {ours}{rule}", verdict.word(), "");
    }
    if verdicts.iter().any(|verdict| verdict.word() == "not held") {
        text += WHY;
    }
    let count = |word| verdicts.iter().filter(|verdict| verdict.word() == word).count();
    let _ = writeln!(
        text,
        "{} held, {} did not, {} need more cores",
        count("held"),
        count("not held"),
        count("not seen here")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_bench::catalogue::Unit;
    use raddle_bench::stats::Spread;

    fn row(policy: &str, median: f64) -> Row {
        let spread = Spread { min: median, q1: median, median, q3: median, max: median };
        Row {
            latencies: None,
            workload: "packet".into(),
            args: String::new(),
            runtime: "raddle".into(),
            policy: Some(policy.into()),
            processors: 2,
            rounds: 1,
            ops: None,
            spread: Some(spread),
            each: Vec::new(),
            rss_kib: None,
            checksum: None,
            ratio: None,
            error: None,
            disagrees: false,
            unit: Unit::Each("packet"),
            extra: [("spawn_retries".to_string(), 700.into())].into_iter().collect(),
        }
    }

    #[test]
    fn a_verdict_follows_from_the_figures() {
        let rows = [row(FIFO, 1000.0), row(LIFO, 1300.0), row(LEAST, 940.0), row(NAIVE, 1260.0)];
        let seen = Seen(rows.iter().map(|row| (ONE, row)).collect());
        let words: Vec<_> = verdicts(&seen).iter().filter(|v| v.claim.judge.is_some()).map(Verdict::word).collect();
        // FIFO and LIFO, retries; ten million and four spawners were not run; at least 10, naive.
        let missing = "not measured";
        assert_eq!(words, ["not held", "held", missing, missing, "not held", "held"]);
        let text = table(&verdicts(&seen));
        assert!(text.contains("FIFO 1000 ns, LIFO 1300 ns a packet; neither takes"), "{text}");
        assert!(text.contains(WHY) && text.ends_with("2 held, 2 did not, 7 need more cores\n"), "{text}");
        let held = table(&verdicts(&Seen(vec![(ONE, &rows[0])])));
        assert!(!held.contains("why"), "{held}");
        assert_eq!(page("<body></body>", &verdicts(&seen)), format!("<body><pre>\n{text}</pre>\n</body>"));
    }

    #[test]
    fn what_is_judged_is_run() {
        for (arguments, policies) in RUNS {
            assert_eq!(catalogue::cases(catalogue::find("packet").unwrap(), &[arguments.into()], 2).unwrap().len(), 1);
            for policy in policies {
                let read: raddle_sim::simulate::Expression = policy.parse().unwrap();
                assert_eq!(read.to_string(), *policy, "rows are found by the expression as written");
            }
        }
        let rows: Vec<_> =
            RUNS.iter().flat_map(|(arguments, policies)| policies.iter().map(|p| (*arguments, row(p, 1.0)))).collect();
        let seen = Seen(rows.iter().map(|(arguments, row)| (*arguments, row)).collect());
        assert!(verdicts(&seen).iter().all(|verdict| verdict.word() != "not measured"));
    }
}
