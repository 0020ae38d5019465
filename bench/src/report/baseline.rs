//! An earlier run beside this one: what changed, and whether the rounds bear it out.

use super::{Row, nanoseconds};
use crate::stats::Spread;
use raddle_report::Circumstances;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Medians closer than this are level whatever the rounds say: a choice.
const LEVEL_SHARE: f64 = 0.01;
/// How often chance alone may make a difference that is told.
const BY_CHANCE: f64 = 0.05;
/// More rounds of a side than this change no verdict, and take long to count.
const ROUNDS_COUNTED: usize = 60;

/// What an earlier `raddle bench --format json` wrote.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The file.
    name: String,
    rows: Vec<Value>,
}

/// What came of the comparison of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The median of the earlier run.
    pub before: f64,
    /// How much longer it takes now, as a part of that.
    pub by: f64,
    /// What the rounds say of it.
    pub verdict: Verdict,
    /// Of the run that has fewer.
    pub rounds: usize,
}

/// What the rounds of two runs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Shorter than chance explains.
    Faster,
    /// Longer than chance explains.
    Slower,
    /// Chance may have made the difference, or it is too small to matter.
    Level,
    /// With so few rounds chance may make any difference.
    TooFew,
}

impl Verdict {
    /// In a word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Level => "level",
            Verdict::TooFew => "too few rounds",
        }
    }
}

impl Change {
    /// The difference and the verdict.
    pub fn text(&self) -> String {
        let told = match self.verdict {
            Verdict::Level => format!("neither faster nor slower as far as {} rounds tell", self.rounds),
            Verdict::TooFew => format!("{} rounds are too few to tell", self.rounds),
            Verdict::Faster | Verdict::Slower => self.verdict.word().into(),
        };
        format!("{:+.1} %, {told}", self.by * 100.0)
    }
}

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or holds no figures of `raddle bench`.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("--baseline {name}: {error}; name what `raddle bench --format json --out FILE` has written")
        })?;
        Self::of(&name, &text)
    }

    fn of(name: &str, text: &str) -> Result<Self, String> {
        let rows = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str::<Value>);
        let rows: Vec<Value> = rows
            .collect::<Result<_, _>>()
            .map_err(|error| format!("--baseline {name}: {error}; it takes what `--format json` has written"))?;
        match rows.iter().any(|row| row["ns_rounds"].is_array()) {
            true => Ok(Self { name: name.to_string(), rows }),
            false => Err(format!("--baseline {name}: no figures in it; it takes what `--format json` has written")),
        }
    }

    /// What changed about this row; nothing where the earlier run has none like it, or one of them failed.
    pub fn change(&self, row: &Row) -> Option<Change> {
        let of = |known: &&Value| {
            known["workload"] == row.workload.as_str()
                && known["args"] == row.args.as_str()
                && known["runtime"] == row.runtime.as_str()
                && known["policy"].as_str() == row.policy.as_deref()
                && known["processors"].as_u64() == Some(row.processors as u64)
        };
        let before: Vec<f64> =
            self.rows.iter().find(of)?["ns_rounds"].as_array()?.iter().filter_map(Value::as_f64).collect();
        let (was, now) = (Spread::of(&before)?.median, row.spread?.median);
        let by = if was > 0.0 { now / was - 1.0 } else { return None };
        let verdict = match by_chance(&before, &row.each) {
            Err(TooFew) => Verdict::TooFew,
            Ok(part) if part >= BY_CHANCE || by.abs() < LEVEL_SHARE => Verdict::Level,
            Ok(_) if by < 0.0 => Verdict::Faster,
            Ok(_) => Verdict::Slower,
        };
        let rounds = before.len().min(row.each.len());
        Some(Change { before: was, by, verdict, rounds })
    }

    /// The file, and in what its circumstances differ from these.
    pub fn about(&self, now: &Circumstances) -> String {
        let there = self.rows.iter().find_map(|row| row["where"].as_object());
        let then = |key: &str| there.and_then(|there| there.get(key)?.as_str());
        let mut text = self.name.clone();
        let known: Vec<_> =
            ["date", "raddle"].into_iter().filter_map(|key| Some(format!("{key} {}", then(key)?))).collect();
        if !known.is_empty() {
            let _ = write!(text, " ({})", known.join(", "));
        }
        let differ = |key: &str| then(key).is_some_and(|value| Some(value) != now.get(key));
        for key in ["machine", "kernel"].into_iter().filter(|key| differ(key)) {
            let _ = write!(text, "; ANOTHER {}: {}", key.to_uppercase(), then(key).unwrap_or_default());
        }
        text
    }

    /// All rows that can be compared, for a terminal.
    pub fn table(&self, rows: &[Row], now: &Circumstances) -> String {
        let mut text = format!("against {}:\n", self.about(now));
        let mut none = true;
        for row in rows {
            let (Some(change), Some(spread)) = (self.change(row), row.spread) else { continue };
            none = false;
            let name = format!("{} {}, {}", row.workload, row.args, row.label());
            let (now, was) = (nanoseconds(spread.median), nanoseconds(change.before));
            let _ = writeln!(text, "  {name}\n    {now:>10}, was {was:>10}: {}", change.text());
        }
        if none {
            text.push_str("  nothing in it is like what was run now\n");
        }
        text + "  " + HOW + "\n"
    }
}

/// How a verdict is found.
pub const HOW: &str = "Slower or faster: chance orders the rounds so in fewer than 5 of 100 cases (Mann-Whitney), and \
                       the medians differ by 1 % or more. The machine may have changed, too: measure the earlier \
                       commit again beside this one before you believe it.";

#[derive(Debug, PartialEq)]
struct TooFew;

/// In which part of all orders of the rounds, if chance alone makes them, these are as far apart as here or farther:
/// the exact two-sided test of Mann and Whitney.
fn by_chance(before: &[f64], now: &[f64]) -> Result<f64, TooFew> {
    let (before, now) = (&before[..before.len().min(ROUNDS_COUNTED)], &now[..now.len().min(ROUNDS_COUNTED)]);
    let parts = parts_of_orders(before.len(), now.len());
    if 2.0 * parts[0] >= BY_CHANCE {
        return Err(TooFew);
    }
    // A pair that is equal counts half for each.
    let wins: f64 = before
        .iter()
        .flat_map(|was| now.iter().map(move |is| if is > was { 1.0 } else { f64::from(u8::from(is == was)) / 2.0 }))
        .sum();
    let fewer = wins.min((before.len() * now.len()) as f64 - wins).ceil() as usize;
    Ok((2.0 * parts[..=fewer.min(parts.len() - 1)].iter().sum::<f64>()).min(1.0))
}

/// Of all orders of `n` and `m` rounds, the part in which 0, 1, 2, ... pairs have the second one larger.
fn parts_of_orders(n: usize, m: usize) -> Vec<f64> {
    // The largest of all is of the first side, and larger than all m of the other, or of the second.
    let mut with: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for first in 1..=n {
        let mut next = vec![vec![1.0]];
        for second in 1..=m {
            let mut parts = vec![0.0; first * second + 1];
            let all = (first + second) as f64;
            for (pairs, part) in with[second].iter().enumerate() {
                parts[pairs + second] += part * first as f64 / all;
            }
            for (pairs, part) in next[second - 1].iter().enumerate() {
                parts[pairs] += part * second as f64 / all;
            }
            next.push(parts);
        }
        with = next;
    }
    with.swap_remove(m)
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn row(each: &[f64]) -> Row {
        Row { each: each.to_vec(), spread: Spread::of(each), ..samples::row("raddle", 1.0) }
    }

    fn verdict(before: &[f64], now: &[f64]) -> Option<Verdict> {
        let text = super::super::json_lines(&[row(before)], &super::super::About::default());
        Baseline::of("x", &text).unwrap().change(&row(now)).map(|change| change.verdict)
    }

    #[test]
    fn orders_are_counted_as_in_the_tables() {
        // Mann and Whitney's table: of 5 and 5, two pairs or fewer come in 0.8 % of all orders.
        let parts = parts_of_orders(5, 5);
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-12 && parts.len() == 26);
        assert!((parts[0] - 1.0 / 252.0).abs() < 1e-12);
        assert!((parts[..=2].iter().sum::<f64>() - 4.0 / 252.0).abs() < 1e-12);
        assert_eq!(parts_of_orders(1, 1), [0.5, 0.5]);
    }

    #[test]
    fn a_difference_is_told_when_the_rounds_bear_it_out() {
        let before = [10.0, 10.1, 10.2, 9.9, 10.0];
        assert_eq!(verdict(&before, &[12.0, 12.1, 11.9, 12.3, 12.2]), Some(Verdict::Slower));
        assert_eq!(verdict(&before, &[8.0, 8.1, 7.9, 8.3, 8.2]), Some(Verdict::Faster));
        assert_eq!(verdict(&before, &[10.0, 10.2, 9.8, 10.1, 10.0]), Some(Verdict::Level));
        // Certain, but too small to matter.
        assert_eq!(verdict(&[10.0; 5], &[10.01; 5]), Some(Verdict::Level));
        assert_eq!(verdict(&before[..3], &[20.0, 21.0, 22.0]), Some(Verdict::TooFew));
        assert_eq!(verdict(&[10.0; 200], &[20.0; 200]), Some(Verdict::Slower));
    }

    #[test]
    fn only_what_is_alike_is_compared_and_another_machine_is_named() {
        let text = "{\"workload\":\"create\",\"args\":\"N=1000\",\"runtime\":\"go\",\"policy\":null,\"processors\":2,\
                    \"ns_rounds\":[1.0,2.0],\"where\":{\"date\":\"then\",\"machine\":\"another one\"}}\n";
        let baseline = Baseline::of("old.json", text).unwrap();
        assert!(baseline.change(&row(&[1.0])).is_none());
        let shown = baseline.table(&[row(&[1.0])], &Circumstances::now());
        assert!(shown.contains("nothing in it") && shown.contains("ANOTHER MACHINE: another one"), "{shown}");
        assert!(Baseline::of("x", "not json").unwrap_err().contains("--format json"));
        assert!(Baseline::of("x", "").unwrap_err().contains("no figures"));
    }
}
