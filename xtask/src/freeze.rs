//! `cargo xtask freeze`: the long form of `crates/raddle/tests/freeze`.

use crate::shell::{self, Failure, Outcome, cargo};

/// What an option sets for the test program.
const OPTIONS: [(&str, &str); 4] = [
    ("--count", "RADDLE_FREEZE_COUNT"),
    ("--millis", "RADDLE_FREEZE_MILLIS"),
    ("--policy", "RADDLE_FREEZE_POLICY"),
    ("--seed", "RADDLE_SEED"),
];

/// Stops a kernel thread of the runtime `--count` times per policy, each time for at least `--millis`.
pub fn run(args: &[String]) -> Outcome {
    let mut test = cargo(&["test", "--release", "-p", "raddle", "--test", "freeze", "--"]);
    test.args(["--exact", "campaign", "--nocapture"]).env("RADDLE_FREEZE_COUNT", "1000");
    for (variable, value) in settings(args)? {
        test.env(variable, value);
    }
    shell::run(&mut test)
}

fn settings(args: &[String]) -> Outcome<Vec<(&'static str, &str)>> {
    let mut found = Vec::new();
    for pair in args.chunks(2) {
        let known = OPTIONS.iter().find(|(option, _)| *option == pair[0]);
        let (option, variable) = known.ok_or_else(|| {
            Failure::usage(format!(
                "`{}` is no option: freeze [--count N] [--millis N] [--policy P] [--seed N]",
                pair[0]
            ))
        })?;
        let value = pair.get(1).ok_or_else(|| Failure::usage(format!("{option} needs a value")))?;
        if *option != "--policy" && value.parse::<u64>().is_err() {
            return Err(Failure::usage(format!("{option} needs a number, found `{value}`")));
        }
        found.push((*variable, value.as_str()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Vec<(&'static str, String)>, u8> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let owned = |found: Vec<(&'static str, &str)>| found.into_iter().map(|(v, t)| (v, t.to_string())).collect();
        settings(&args).map(owned).map_err(|failure| failure.status)
    }

    #[test]
    fn options_become_settings_and_nonsense_is_refused() {
        let expected = vec![("RADDLE_FREEZE_COUNT", "7".to_string()), ("RADDLE_FREEZE_POLICY", "lifo".to_string())];
        assert_eq!(parse(&["--count", "7", "--policy", "lifo"]), Ok(expected));
        assert_eq!(parse(&["--count"]), Err(2));
        assert_eq!(parse(&["--millis", "soon"]), Err(2));
        assert_eq!(parse(&["--frost", "1"]), Err(2));
    }
}
