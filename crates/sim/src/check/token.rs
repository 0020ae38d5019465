//! A run as a word that one can pass on.

use super::scenario::{Scenario, scenario};
use super::{MOST_PROCESSORS, MOST_THREADS};
use std::fmt;
use std::str::FromStr;

/// Of what version tokens are. What a token says depends on the scenarios and on who goes on by default: where these
/// change, this does.
const VERSION: u32 = 1;

/// A run: the scenario, its size, the seed of its random numbers, and where it differs from the run in which each
/// processor goes on as long as it can.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Processors.
    pub processors: usize,
    /// Threads.
    pub threads: usize,
    /// What random numbers follow from.
    pub seed: u64,
    /// Before which step who goes on.
    pub(super) deviations: Vec<(u64, usize)>,
}

impl Token {
    pub(super) fn new(
        scenario: &'static Scenario,
        processors: usize,
        threads: usize,
        seed: u64,
        deviations: Vec<(u64, usize)>,
    ) -> Self {
        Self { scenario, processors, threads, seed, deviations }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { scenario, processors, threads, seed, .. } = self;
        write!(f, "{VERSION}.{}.{processors}.{threads}.{seed}", scenario.name)?;
        self.deviations.iter().try_for_each(|(step, core)| write!(f, ".{step}-{core}"))
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('.');
        let version = parts.next().unwrap_or("");
        match version.parse::<u32>() {
            Ok(VERSION) => {}
            Ok(other) => {
                return Err(format!(
                    "`{text}` was made by another version (it says {other}, this one makes {VERSION}): run the check again"
                ));
            }
            Err(_) => {
                return Err(format!(
                    "`{text}` is no token: one begins with `{VERSION}.` and is printed by a check that fails"
                ));
            }
        }
        let name = parts.next().unwrap_or("");
        let scenario = scenario(name).ok_or_else(|| format!("`{text}`: there is no scenario `{name}`"))?;
        let mut number = |what: &str| {
            let part = parts.next().ok_or_else(|| format!("`{text}` ends before its {what}"))?;
            part.parse::<u64>().map_err(|_| format!("`{text}`: `{part}` is no number of {what}"))
        };
        let (processors, threads, seed) = (number("processors")?, number("threads")?, number("seed")?);
        if !(1..=MOST_PROCESSORS as u64).contains(&processors) || !(2..=MOST_THREADS as u64).contains(&threads) {
            return Err(format!("`{text}`: a pool of {processors} processors and {threads} threads cannot be checked"));
        }
        let deviation = |part: &str| {
            let (step, core) = part.split_once('-')?;
            Some((step.parse().ok()?, core.parse().ok()?))
        };
        let deviations =
            parts.map(|part| deviation(part).ok_or_else(|| format!("`{text}`: `{part}` is not `STEP-WHO`")));
        let deviations = deviations.collect::<Result<Vec<(u64, usize)>, _>>()?;
        if !deviations.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("`{text}`: its steps are not in order"));
        }
        Ok(Self { scenario, processors: processors as usize, threads: threads as usize, seed, deviations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_was_made_of() {
        let token = Token::new(scenario("spawn").unwrap(), 2, 4, 7, vec![(17, 1), (203, 0)]);
        assert_eq!(token.to_string(), "1.spawn.2.4.7.17-1.203-0");
        assert_eq!(token.to_string().parse(), Ok(token));
    }

    #[test]
    fn others_are_refused_with_the_reason() {
        for (text, why) in [
            ("2.spawn.2.4.7", "another version"),
            ("spawn", "is no token"),
            ("1.spam.2.4.7", "no scenario `spam`"),
            ("1.spawn.2.4", "ends before its seed"),
            ("1.spawn.2.4.x", "`x` is no number"),
            ("1.spawn.0.4.7", "cannot be checked"),
            ("1.spawn.2.1000.7", "cannot be checked"),
            ("1.spawn.2.4.7.3", "`STEP-WHO`"),
            ("1.spawn.2.4.7.5-1.3-0", "not in order"),
        ] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
