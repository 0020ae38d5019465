//! Checks a policy: its queues, and the protocol by which processors sleep and are woken, in many interleavings.
//!
//! A [`Subject`] is a policy and what it promises. For each [`Scenario`] a small pool of it is run again and again on
//! the controlled machine, each time with other decisions: first *systematically*, all runs with at most 0, then 1,
//! then 2 … preemptions (so the first failure found is among those with the fewest), then *by seeds*, half of them by
//! chance, half by random priorities of the processors that change at a few random steps. Every run must keep the
//! invariants: no thread lost, none run twice or by two processors, everything that a pusher did before its push
//! ordered before the thread's run, nobody asleep for ever beside a ready thread, loops of yields end, no endless loop,
//! no panic, and the order that the policy promises. And each outcome that a scenario lists must have been reached by
//! some run, or the check has not checked.
//!
//! What is not seen: values that only a weak memory would show (a load never returns an old value here; what is seen of
//! weak orderings is that happens-before is missing), so a fence that orders a store before a load is not missed. The
//! tests of `crates/queues` and `crates/scheduler` under loom are for these.
//!
//! Systematically, a processor is preempted only before a step at a location that two processors were seen to use, one
//! of them writing (elsewhere it makes no difference); a processor that spins goes behind the others; nobody is woken
//! for no reason, which seeds do. Reading order: this file, `trial` (a scenario's runs), `scenario`, `pool` (what a
//! processor does), `owners` (who carries it), `guide` (who goes on), `promise`.
//!
//! # Example
//! ```
//! use raddle_sim::check::{self, Plan, Subject};
//! let subject = Subject::of(&"fifo".parse().unwrap());
//! let plan = Plan { systematic: 50, seeds: 20, ..Plan::default() };
//! let report = check::check(&subject, &plan, &mut |_| ());
//! assert!(report.failure.is_none(), "{:?}", report.failure);
//! ```

mod guide;
mod owners;
mod pool;
mod promise;
mod scenario;
mod token;
mod trial;

use crate::execution::{Options, Outcome, Run, run};
use crate::machine::Controlled;
use crate::world::Step;
use guide::Guide;
use pool::Pool;
pub use promise::{Own, Promises};
use raddle_scheduler::Policy;
use raddle_scheduler::expression::Expression;
use raddle_scheduler::policies::{self, Others};
pub use scenario::{SCENARIOS, Scenario, scenario};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use token::Token;
use trial::Trial;

/// Steps after which a run is endless: those of the longest scenario that ends are a tenth of it.
const STEPS: u64 = 40_000;
/// Seeds of each scenario before anything is explored at length, however late it is. Fewer runs than these need not
/// reach anything.
const FIRST_SEEDS: u64 = 100;
/// So many seeds of a scenario reach, of a policy that is right, all that is listed; 200 do not always.
pub const DEMANDING_SEEDS: u64 = 1000;
/// Lines of the end of a failing run that are told.
const LINES: usize = 40;
/// The most processors that can be checked: with more, an interleaving says nothing that it would not say with fewer.
pub const MOST_PROCESSORS: usize = 8;
/// The most threads.
pub const MOST_THREADS: usize = 64;

type Build = dyn Fn(usize, Arc<dyn Others>) -> Result<Box<dyn Policy<Controlled>>, String>;

/// A policy that is to be checked.
pub struct Subject {
    /// Its expression, or what else it is called.
    pub name: String,
    /// What order it promises.
    pub promises: Promises,
    build: Box<Build>,
}

impl Subject {
    /// One of ours, with what its documentation promises.
    pub fn of(expression: &Expression) -> Self {
        let (name, promises) = (expression.to_string(), Promises::of(expression));
        let expression = expression.clone();
        let build = move |processors, others| match policies::build::<Controlled>(&expression, processors, others) {
            Ok(policy) => Ok(Box::new(policy) as Box<dyn Policy<Controlled>>),
            Err(error) => Err(error.to_string()),
        };
        Self { name, promises, build: Box::new(build) }
    }

    /// Any other: `build` makes it for so many processors. It is held to `promises` besides the invariants.
    pub fn new(
        name: impl Into<String>,
        promises: Promises,
        build: impl Fn(usize, Arc<dyn Others>) -> Box<dyn Policy<Controlled>> + 'static,
    ) -> Self {
        let build = move |processors, others| Ok(build(processors, others));
        Self { name: name.into(), promises, build: Box::new(build) }
    }
}

impl std::str::FromStr for Subject {
    type Err = String;

    /// One of ours, by its expression.
    fn from_str(text: &str) -> Result<Self, String> {
        let expression: Expression =
            text.parse().map_err(|error: raddle_scheduler::expression::ExpressionError| error.to_string())?;
        Ok(Self::of(&expression))
    }
}

/// How much to check.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Processors of the pool.
    pub processors: usize,
    /// Threads.
    pub threads: usize,
    /// What to try.
    pub scenarios: Vec<&'static Scenario>,
    /// Up to how many preemptions to explore systematically.
    pub preemptions: u32,
    /// At most so many systematic runs of each scenario.
    pub systematic: u64,
    /// The first seed.
    pub seed: u64,
    /// So many seeds of each scenario.
    pub seeds: u64,
    /// And no longer than this in all; a scenario gets its part, and spends at most half of it systematically if it has
    /// seeds. The first hundred of them are run however late it is, unless they alone take more than a minute.
    pub time: Option<Duration>,
}

impl Plan {
    /// True if the listed outcomes must be reached. A few runs by seeds, such as one that is made again, need not reach
    /// them.
    pub fn demands(&self) -> bool {
        self.systematic > 0 || self.seeds >= DEMANDING_SEEDS
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            processors: 2,
            threads: 4,
            scenarios: SCENARIOS.iter().collect(),
            preemptions: 2,
            systematic: u64::MAX,
            seed: 0,
            seeds: 1000,
            time: None,
        }
    }
}

/// Where a check is: told before each run.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Of which scenario.
    pub scenario: &'static str,
    /// Which kind of run: `2 preemptions`, or `seed 7`.
    pub phase: String,
    /// The number of this run in its scenario.
    pub runs: u64,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`, {}, run {}", self.scenario, self.phase, self.runs)
    }
}

/// What became of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// Its name.
    pub name: &'static str,
    /// Why it was not run: the policy promises nothing of the kind.
    pub skipped: Option<&'static str>,
    /// All runs with at most so many preemptions were made.
    pub complete: Option<u32>,
    /// With so many preemptions only that many runs were made: there are more of them than the time allows.
    pub broken_off: Option<(u32, u64)>,
    /// The time was over before all runs of the plan were made: what was not reached might have been.
    pub out_of_time: bool,
    /// Systematic runs.
    pub systematic: u64,
    /// Runs by seeds.
    pub seeds: u64,
    /// Steps of all runs.
    pub steps: u64,
    /// The listed outcomes, and in how many runs each was reached.
    pub reached: Vec<(&'static str, u64)>,
}

impl Tried {
    /// The listed outcomes that no run reached.
    pub fn missed(&self) -> impl Iterator<Item = &'static str> {
        self.reached.iter().filter(|(_, runs)| *runs == 0).map(|(name, _)| *name)
    }
}

/// A run that broke something.
#[derive(Clone, Debug)]
pub struct Failure {
    /// In which scenario.
    pub scenario: &'static str,
    /// What broke.
    pub what: String,
    /// The seed, if it was a run by a seed.
    pub seed: Option<u64>,
    /// The run.
    pub token: Token,
    /// How many steps it had.
    pub steps: u64,
    /// The last of them, and what the processors meant by them.
    pub last: Vec<String>,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each scenario, as far as it came.
    pub tried: Vec<Tried>,
    /// The first run that broke something.
    pub failure: Option<Failure>,
    /// Whether each listed outcome must be reached ([`Plan::demands`]).
    pub demanding: bool,
}

impl Report {
    /// True if nothing broke and each listed outcome was reached that must be.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.missed().next().is_none()
    }

    /// What had to be reached and was not, and where. Where the time was over ([`Tried::out_of_time`]), that says
    /// nothing of the policy.
    pub fn missed(&self) -> impl Iterator<Item = (&Tried, &'static str)> {
        let demanding = self.tried.iter().filter(|_| self.demanding);
        demanding.flat_map(|tried| tried.missed().map(move |missed| (tried, missed)))
    }
}

/// Checks: first a few runs of each scenario, which is where most faults show, then each as far as the plan says.
pub fn check(subject: &Subject, plan: &Plan, progress: &mut dyn FnMut(&Progress)) -> Report {
    let end = plan.time.map(|time| Instant::now() + time);
    let trial = |&scenario| Trial::new(subject, plan, scenario, end);
    let mut trials: Vec<Trial> = plan.scenarios.iter().map(trial).collect();
    let mut failure = trials.iter_mut().find_map(Trial::prepare);
    for step in [Trial::begin, Trial::go_on] {
        for done in 0..trials.len() {
            if failure.is_some() {
                break;
            }
            let left = trials[done..].iter().filter(|trial| trial.tried.skipped.is_none()).count() as u32;
            failure = step(&mut trials[done], left, progress);
        }
    }
    Report { tried: trials.into_iter().map(|trial| trial.tried).collect(), failure, demanding: plan.demands() }
}

/// Runs what a token says, once. Answers with what broke (nothing, if nothing did) and how the run ended.
///
/// # Errors
/// The token does not fit the policy.
pub fn replay(subject: &Subject, token: &Token) -> Result<(Option<Failure>, Vec<String>), String> {
    let Token { processors, threads, seed, .. } = *token;
    let pool = (processors, threads);
    let made = one(subject, token.scenario, pool, seed, Guide::replay(token), true)?;
    if let Some(step) = made.run.driver.misfit() {
        return Err(format!(
            "this run does not go so far: what the token says of step {step} cannot be done; was it made with another version of this policy?"
        ));
    }
    let last = made.last_lines();
    Ok((made.failure(token.scenario, pool, None, seed), last))
}

/// A run, and the pool that it ran.
struct Made {
    run: Run<Guide, Rc<Pool>>,
}

/// Runs a scenario once.
fn one(
    subject: &Subject,
    scenario: &'static Scenario,
    (processors, threads): (usize, usize),
    seed: u64,
    guide: Guide,
    told: bool,
) -> Result<Made, String> {
    let options = Options { seed, steps: STEPS, clocks: true, trace: told, ..Options::default() };
    let clock = guide.clock();
    let mut refused = None;
    // Many runs are too short to be told by their steps.
    crate::watch::tell();
    let run = run(&options, guide, || {
        let built = Pool::new(subject, scenario, processors, threads, clock, told);
        built.map_err(|why| refused = Some(why)).ok()
    });
    let Run { outcome, steps, trace, digest, driver, value } = run;
    match (value, refused) {
        (Some(value), _) => Ok(Made { run: Run { outcome, steps, trace, digest, driver, value } }),
        (None, why) => Err(why.unwrap_or_default()),
    }
}

impl Made {
    /// What broke.
    fn what(&self) -> Option<String> {
        let pool = &self.run.value;
        match &self.run.outcome {
            Outcome::Done => pool.broken(),
            Outcome::Stopped => None,
            Outcome::Panicked { name, message } => Some(format!("{name} panicked: {message}")),
            Outcome::Endless { .. } => Some(format!("an endless loop: {}", self.run.outcome)),
            Outcome::Asleep(names) => Some(pool.asleep(names)),
        }
    }

    fn token(&self, scenario: &'static Scenario, (processors, threads): (usize, usize), seed: u64) -> Token {
        Token::new(scenario, processors, threads, seed, self.run.driver.deviations().to_vec())
    }

    fn failure(
        &self,
        scenario: &'static Scenario,
        pool: (usize, usize),
        by: Option<u64>,
        seed: u64,
    ) -> Option<Failure> {
        let token = self.token(scenario, pool, seed);
        let (steps, last) = (self.run.steps, self.last_lines());
        self.what().map(|what| Failure { scenario: scenario.name, what, seed: by, token, steps, last })
    }

    /// The last steps, with what the processors meant by them.
    fn last_lines(&self) -> Vec<String> {
        let events = self.run.value.events();
        let mut lines = Vec::new();
        let mut event = events.iter().rev().peekable();
        for (index, step) in self.run.trace.iter().enumerate().rev() {
            while let Some((_, who, what)) = event.next_if(|(at, ..)| *at > index as u64) {
                lines.push(format!("        {who}: {what}"));
            }
            lines.push(format!("{index:>6}  {}", line(step, &self.run.value)));
            if lines.len() >= LINES {
                break;
            }
        }
        lines.truncate(LINES);
        lines.reverse();
        lines
    }
}

fn line(step: &Step, pool: &Pool) -> String {
    let text = step.to_string();
    let what = text.split_once(' ').map_or("", |(_, what)| what);
    format!("{:<12} {what}", pool.name(step.core))
}
