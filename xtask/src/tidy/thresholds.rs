//! What the governor compares with: few numbers, each with its unit and a figure behind it.

use super::{Tree, Violation};

/// Where they are.
const GOVERNOR: &str = "crates/scheduler/src/govern/";
/// How many there are, at most. They may become fewer; the aim is 20.
const MOST: usize = 25;
/// How many of them have no figure behind them. They may become fewer.
const WITHOUT_FIGURE: usize = 5;
/// The last word of a threshold's name.
const UNITS: [&str; 12] = [
    "CORES",
    "DECISIONS",
    "LOOKS",
    "NS",
    "PAIRS",
    "PERIODS",
    "RATIO",
    "SENDS",
    "SHARE",
    "SPARES",
    "THREADS",
    "WINDOWS",
];

/// A threshold of the governor has its unit in its name, and a figure in its comment.
pub fn of_the_governor(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut count, mut bare) = (0, Vec::new());
    for file in tree.rust_below(GOVERNOR) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in file.production() {
            let Some((name, kind)) = constant(line) else { continue };
            if !["f64", "u32", "u64", "usize"].contains(&kind) {
                continue;
            }
            count += 1;
            if !UNITS.contains(&name.rsplit('_').next().unwrap_or(name)) {
                found.push(Violation::new(&file.path, index, format!("`{name}` does not end with its unit")));
            }
            let comment = lines[..index].iter().rev().take_while(|line| line.trim_start().starts_with("//"));
            let mut header = lines.iter().take_while(|line| line.starts_with("//!"));
            let figure = |line: &&str| line.contains(|c: char| c.is_ascii_digit());
            if !comment.clone().any(&figure) && !header.any(figure) {
                bare.push(Violation::new(&file.path, index, format!("`{name}` has no figure behind it")));
            }
            if count > MOST {
                found.push(Violation::new(&file.path, index, format!("more than {MOST} thresholds")));
            }
        }
    }
    if bare.len() > WITHOUT_FIGURE {
        found.append(&mut bare);
    }
    found
}

/// No number is a guess that nobody has tested.
pub fn guesses(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.path.ends_with("tidy/thresholds.rs")) {
        let text = file.comments.to_lowercase().replace(['\n', '/', '!'], " ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let guesses = words.windows(2).filter(|pair| pair[0] == "untested" && pair[1].starts_with("guess"));
        found.extend(guesses.map(|_| Violation::new(&file.path, 0, "an untested guess: measure it, or do without")));
    }
    found
}

/// The name and the type of the constant that a line begins.
fn constant(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start();
    let visible = ["pub ", "pub(super) ", "pub(crate) "];
    let rest = visible.iter().find_map(|visible| rest.strip_prefix(visible)).unwrap_or(rest).strip_prefix("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    Some((name, rest.split_once(" =")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> usize {
        of_the_governor(&Tree::of(&[("crates/scheduler/src/govern/a.rs", text)])).len()
    }

    #[test]
    fn a_threshold_without_a_unit_or_a_figure_is_caught() {
        assert_eq!(of("/// 40 ns each.\nconst REST_NS: u64 = 1;\n"), 0);
        assert_eq!(of("//! 40 ns each.\n/// Rest.\nconst REST_NS: u64 = 1;\n"), 0);
        assert_eq!(of("/// 40 ns each.\nconst REST: u64 = 1;\n"), 1);
        assert_eq!(of("/// 40 ns each.\npub(super) const REST: u64 = 1;\n"), 1);
        let bare =
            |many: usize| (0..many).map(|n| format!("/// Long.\npub const A{n}_NS: u64 = 1;\n")).collect::<String>();
        assert_eq!((of(&bare(WITHOUT_FIGURE)), of(&bare(WITHOUT_FIGURE + 1))), (0, WITHOUT_FIGURE + 1));
        assert_eq!(of("/// Long.\nconst NAME: &str = \"a\";\n"), 0);
        let many: String = (0..=MOST).map(|n| format!("/// 1.\nconst A{n}_NS: u64 = 1;\n")).collect();
        assert_eq!(of(&many), 1);
    }

    #[test]
    fn a_guess_is_caught_also_across_lines() {
        let of = |text: &str| guesses(&Tree::of(&[("crates/sim/src/b.rs", text)])).len();
        assert_eq!(of("/// An untested guess.\nconst A: u32 = 1;\n"), 1);
        assert_eq!(of("/// Untested\n/// guess: two.\nconst A: u32 = 1;\n"), 1);
        assert_eq!(of("/// Measured.\nconst A: u32 = 1;\n"), 0);
    }
}
