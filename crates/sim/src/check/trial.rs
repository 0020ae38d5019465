//! One scenario of a check: its runs one after the other, and by seeds, for as long as it has time.

use super::guide::{Guide, Shared};
use super::scenario::{Reach, Scenario};
use super::token::Token;
use super::{FIRST_SEEDS, Failure, Made, Plan, Progress, Subject, Tried, one};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The first seeds of a scenario are run when its time is over, too, unless they alone take so long.
const FIRST_SEEDS_FOR: Duration = Duration::from_secs(60);

/// Where the systematic runs with so many preemptions are.
struct Exploration {
    bound: u32,
    /// The next run.
    guide: Guide,
    /// The shared locations, as they were known before this round.
    shared: Rc<Shared>,
    /// And with those that it found.
    found: Shared,
    runs: u64,
}

impl Exploration {
    fn new(bound: u32) -> Self {
        let shared = Rc::new(Shared::default());
        let (guide, found) = (Guide::systematic(bound, shared.clone()), (*shared).clone());
        Self { bound, guide, shared, found, runs: 0 }
    }
}

/// One scenario of a check.
pub(super) struct Trial<'a> {
    subject: &'a Subject,
    plan: &'a Plan,
    scenario: &'static Scenario,
    /// When systematic runs, and when all runs have to be over.
    systematic_until: Option<Instant>,
    until: Option<Instant>,
    /// What the time broke off.
    exploring: Option<Exploration>,
    /// What its runs must show.
    listed: Vec<Reach>,
    pub tried: Tried,
}

impl<'a> Trial<'a> {
    pub fn new(subject: &'a Subject, plan: &'a Plan, scenario: &'static Scenario, until: Option<Instant>) -> Self {
        let tried = Tried { name: scenario.name, ..Tried::default() };
        Self { subject, plan, scenario, systematic_until: until, until, exploring: None, listed: Vec::new(), tried }
    }

    /// The time that each of so many scenarios has, of what is left.
    fn share(&self, left: u32) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()) / left.max(1))
    }

    fn pool(&self) -> (usize, usize) {
        (self.scenario.processors(self.plan.processors), self.plan.threads)
    }

    /// Whether there is anything to try, and what its runs have to reach.
    pub fn prepare(&mut self) -> Option<Failure> {
        match self.scenario.fits(self.subject, self.pool()) {
            Ok(Some(why)) => {
                self.tried.skipped = Some(why);
                return None;
            }
            Ok(None) => {}
            Err(what) => return Some(self.not_built(what)),
        }
        self.listed = self.scenario.outcomes(self.subject, self.pool().0);
        self.tried.reached = self.listed.iter().map(|outcome| (outcome.text(), 0)).collect();
        None
    }

    /// The runs without preemptions, in half of the share that one of `left` scenarios has, and some seeds.
    pub fn begin(&mut self, left: u32, progress: &mut dyn FnMut(&Progress)) -> Option<Failure> {
        if self.tried.skipped.is_some() {
            return None;
        }
        self.systematic_until = self.share(left).map(|share| Instant::now() + share / 2);
        let failure = self.up_to(0, progress);
        failure.or_else(|| self.seeds(self.plan.seeds.min(FIRST_SEEDS), progress))
    }

    /// All others; so many scenarios share the time that is left.
    pub fn go_on(&mut self, left: u32, progress: &mut dyn FnMut(&Progress)) -> Option<Failure> {
        if self.tried.skipped.is_some() {
            return None;
        }
        let now = Instant::now();
        let share = self.share(left);
        self.until = share.map(|share| now + share);
        self.systematic_until = share.map(|share| now + if self.plan.seeds > 0 { share / 2 } else { share });
        let failure = self.up_to(self.plan.preemptions, progress);
        failure.or_else(|| self.seeds(self.plan.seeds, progress))
    }

    /// Systematic runs with at most so many preemptions, those that have not been made yet.
    fn up_to(&mut self, last: u32, progress: &mut dyn FnMut(&Progress)) -> Option<Failure> {
        let first = self.tried.complete.map_or(0, |complete| complete + 1);
        for bound in first..=last {
            match self.systematic(bound, progress) {
                Ok(true) => (self.tried.complete, self.tried.broken_off) = (Some(bound), None),
                Ok(false) => break,
                Err(failure) => return Some(*failure),
            }
        }
        None
    }

    fn not_built(&self, what: String) -> Failure {
        let (processors, threads) = self.pool();
        let token = Token::new(self.scenario, processors, threads, 0, Vec::new());
        Failure { scenario: self.scenario.name, what, seed: None, token, steps: 0, last: Vec::new() }
    }

    /// All runs with so many preemptions, from where the time broke them off; true if they were all made.
    fn systematic(&mut self, bound: u32, progress: &mut dyn FnMut(&Progress)) -> Result<bool, Box<Failure>> {
        let left = self.exploring.take().filter(|exploring| exploring.bound == bound);
        let Exploration { mut guide, mut shared, mut found, mut runs, .. } =
            left.unwrap_or_else(|| Exploration::new(bound));
        // Again, as long as locations turn out to be shared that were not known to be.
        loop {
            loop {
                let late = is_past(self.systematic_until);
                if late || self.tried.systematic >= self.plan.systematic {
                    self.tried.out_of_time |= late;
                    self.tried.broken_off = Some((bound, runs));
                    self.exploring = Some(Exploration { bound, guide, shared, found, runs });
                    return Ok(false);
                }
                runs += 1;
                self.tried.systematic += 1;
                self.tell(progress, format!("{bound} preemptions"));
                let made = self.one(self.plan.seed, guide, false)?;
                guide = made.run.driver;
                found.learn(&guide);
                if !guide.advance() {
                    break;
                }
            }
            if found == *shared {
                return Ok(true);
            }
            shared = Rc::new(found.clone());
            guide = Guide::systematic(bound, shared.clone());
        }
    }

    /// Runs by seeds, until there are so many of them.
    fn seeds(&mut self, count: u64, progress: &mut dyn FnMut(&Progress)) -> Option<Failure> {
        let late = Instant::now() + FIRST_SEEDS_FOR;
        while self.tried.seeds < count {
            // The first ones however late it is, and one at least: a seed that was asked for is run.
            let must = self.tried.seeds == 0 || self.tried.seeds < FIRST_SEEDS && Instant::now() < late;
            if !must && is_past(self.until) {
                self.tried.out_of_time = true;
                break;
            }
            let seed = self.plan.seed.wrapping_add(self.tried.seeds);
            self.tried.seeds += 1;
            self.tell(progress, format!("seed {seed}"));
            if let Err(failure) = self.one(seed, Guide::seeded(seed), true) {
                return Some(*failure);
            }
        }
        None
    }

    fn tell(&self, progress: &mut dyn FnMut(&Progress), phase: String) {
        let runs = self.tried.systematic + self.tried.seeds;
        progress(&Progress { scenario: self.scenario.name, phase, runs });
    }

    fn one(&mut self, seed: u64, guide: Guide, seeded: bool) -> Result<Made, Box<Failure>> {
        let pool = self.pool();
        let made = match one(self.subject, self.scenario, pool, seed, guide, false) {
            Ok(made) => made,
            Err(what) => return Err(Box::new(self.not_built(what))),
        };
        self.tried.steps += made.run.steps;
        let reached = made.run.value.reached();
        for (outcome, (_, runs)) in self.listed.iter().zip(&mut self.tried.reached) {
            *runs += u64::from(reached & outcome.bit() != 0);
        }
        if made.what().is_none() {
            return Ok(made);
        }
        // Once more, with everything written down.
        let token = made.token(self.scenario, pool, seed);
        let guide = if seeded { Guide::seeded(seed) } else { Guide::replay(&token) };
        let told = one(self.subject, self.scenario, pool, seed, guide, true);
        let told = told.map_err(|what| Box::new(self.not_built(what)))?;
        let first = made.failure(self.scenario, pool, seeded.then_some(seed), seed);
        let again = told.failure(self.scenario, pool, seeded.then_some(seed), seed);
        match (first, again) {
            (Some(first), None) => {
                let what =
                    format!("{} (the same decisions again break nothing: the policy is not deterministic)", first.what);
                Err(Box::new(Failure { what, ..first }))
            }
            (_, Some(again)) => Err(Box::new(again)),
            (None, None) => Ok(made),
        }
    }
}

fn is_past(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() >= time)
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;

    fn trial<'a>(subject: &'a Subject, plan: &'a Plan, until: Option<Instant>) -> Trial<'a> {
        let mut trial = Trial::new(subject, plan, scenario("submit").unwrap(), until);
        assert!(trial.prepare().is_none());
        trial
    }

    #[test]
    fn a_scenario_begins_with_its_share_of_the_time_only() {
        let subject = "fifo".parse().unwrap();
        let plan = Plan { systematic: 0, seeds: 0, ..Plan::default() };
        let hour = Duration::from_secs(3600);
        let mut trial = trial(&subject, &plan, Some(Instant::now() + hour));
        assert!(trial.begin(10, &mut |_| ()).is_none());
        assert!(trial.systematic_until.unwrap() <= Instant::now() + hour / 20);
        assert!(trial.go_on(4, &mut |_| ()).is_none());
        assert!(trial.until.unwrap() <= Instant::now() + hour / 4);
    }

    #[test]
    fn exploring_goes_on_where_it_was_broken_off() {
        let subject = "rotator".parse().unwrap();
        let all = Plan { preemptions: 1, seeds: 0, ..Plan::default() };
        let mut whole = trial(&subject, &all, None);
        assert!(whole.up_to(0, &mut |_| ()).is_none());
        let few = Plan { systematic: 3, ..all.clone() };
        let mut parts = trial(&subject, &few, None);
        assert!(parts.up_to(0, &mut |_| ()).is_none());
        assert_eq!((parts.tried.complete, parts.tried.broken_off), (None, Some((0, 3))));
        parts.plan = &all;
        assert!(parts.up_to(0, &mut |_| ()).is_none());
        assert_eq!((parts.tried.complete, parts.tried.broken_off), (Some(0), None));
        assert_eq!(parts.tried.systematic, whole.tried.systematic, "no run is made twice");
    }
}
