//! `cargo xtask yields-paper`: what quantum checks cost the lock-free scheduler's News, Matrix and switches (its table
//! 1, figures 10 and 8), which it blames them for: without checks, with ours, and with one where its compiler has it.
//!
//! Machine instructions are counted without a runtime (valgrind's callgrind), so that they are the program's own;
//! processor time is that under `raddle run` with one queue for all, as the paper's system has it, and beside it that
//! of kernel threads without checks. `-O0` is what the paper's compiler does, which has no optimiser.

use crate::shell::{self, Failure, Outcome, cargo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name, and what the pass is told. The last has a check at each procedure and each way back.
const KINDS: [(&str, &str); 3] =
    [("without", "off"), ("ours", "gap=4096"), ("the paper's", "chunk=1;leaf=1;unrolled=1")];

const LEVELS: [&str; 2] = ["-O2", "-O0"];

/// What it is called, the words to count, and those to time.
const ROWS: [(&str, &str, &str); 4] = [
    ("News, customers counted", "news 200 5 4", "news 1000 10 10"),
    ("News, customers looked at", "loop 200 5 4", "loop 1000 10 10"),
    ("Matrix, 16 threads", "matrix 120 16", "matrix 600 16"),
    ("Figure 8, 64 threads", "switch 64 20000", "switch 64 400000"),
];

/// The command: `--rounds N`, `--raddle PROGRAM` in place of a release build.
pub fn run(arguments: &[String]) -> Outcome {
    let (mut rounds, mut raddle) = (5, None);
    let mut rest = arguments;
    while let [option, value, others @ ..] = rest {
        match (option.as_str(), value.parse()) {
            ("--rounds", Ok(number)) if number > 0 => rounds = number,
            ("--raddle", _) => raddle = Some(PathBuf::from(value)),
            _ => break,
        }
        rest = others;
    }
    if !rest.is_empty() {
        return Err(Failure::usage("yields-paper takes --rounds N and --raddle PROGRAM"));
    }
    if !shell::in_path("valgrind") {
        return Err(Failure::usage("valgrind is needed (Debian's package of that name)"));
    }
    let raddle = match raddle {
        Some(raddle) => raddle,
        None => {
            shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli"]))?;
            shell::root().join("target/release/raddle")
        }
    };
    let folder = shell::root().join("target/yields-paper");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    let program = |level: &str, kind: usize| folder.join(format!("paper{level}.{kind}"));
    for level in LEVELS {
        for (kind, (_, limits)) in KINDS.iter().enumerate() {
            let mut compile = Command::new(&raddle);
            compile.args(["cc", level, "-pthread", "yields/cost/paper.c", "-o"]).arg(program(level, kind));
            shell::run(compile.env("RADDLE_YIELDS", limits).current_dir(shell::root()))?;
        }
    }
    println!("millions of instructions, without a runtime\n{}", heads(&[]));
    for level in LEVELS {
        for (name, words, _) in ROWS {
            let counts = (0..KINDS.len()).map(|kind| instructions(&program(level, kind), words));
            println!("{}", row(name, level, &counts.collect::<Outcome<Vec<f64>>>()?));
        }
    }
    println!(
        "\nmilliseconds of processor time, two processors, the middle of {rounds}\n{}",
        heads(&["kernel threads"])
    );
    for level in LEVELS {
        for (name, _, words) in ROWS {
            let mut times = vec![Vec::new(); KINDS.len()];
            let mut natively = Vec::new();
            for _ in 0..rounds {
                for (kind, times) in times.iter_mut().enumerate() {
                    times.push(milliseconds(Some(&raddle), &program(level, kind), words)?);
                }
                natively.push(milliseconds(None, &program(level, 0), words)?);
            }
            times.push(natively);
            let middle = |mut seen: Vec<f64>| {
                seen.sort_by(f64::total_cmp);
                seen[seen.len() / 2]
            };
            println!("{}", row(name, level, &times.into_iter().map(middle).collect::<Vec<_>>()));
        }
    }
    Ok(())
}

fn heads(more: &[&str]) -> String {
    let kinds = KINDS.iter().map(|(name, _)| *name).chain(more.iter().copied());
    kinds.fold(format!("{:<31}", ""), |line, name| format!("{line}{name:>19}"))
}

/// The figures, and what multiple of the first each is.
fn row(name: &str, level: &str, figures: &[f64]) -> String {
    let mut line = format!("{name:<27} {level}");
    for (place, figure) in figures.iter().enumerate() {
        let ratio = if place == 0 { String::new() } else { format!(" {:.3}", figure / figures[0]) };
        line += &format!("{:>19}", format!("{figure:.2}{ratio}"));
    }
    line
}

fn instructions(program: &Path, words: &str) -> Outcome<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--max-threads=2000"]);
    let output = command.arg(program).args(words.split(' ')).output();
    let output = output.map_err(|error| Failure::usage(format!("valgrind cannot be started: {error}")))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<f64>().ok());
    count
        .filter(|_| output.status.success())
        .map(|count| count / 1e6)
        .ok_or_else(|| Failure::failed(format!("{} {words} under valgrind: {told}", program.display())))
}

fn milliseconds(raddle: Option<&Path>, program: &Path, words: &str) -> Outcome<f64> {
    let mut command = match raddle {
        None => Command::new(program),
        Some(raddle) => {
            let mut command = Command::new(raddle);
            command.args(["run", "--processors", "2", "--policy", "fifo", "--"]).arg(program);
            command
        }
    };
    let told = shell::output(command.args(words.split(' ')))?;
    let time = told.split(' ').next().and_then(|time| time.parse().ok());
    time.ok_or_else(|| Failure::failed(format!("{} {words} said {told:?}", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_the_first() {
        assert_eq!(
            row("News", "-O2", &[2.0, 3.0]).split_whitespace().collect::<Vec<_>>(),
            ["News", "-O2", "2.00", "3.00", "1.500"]
        );
        assert!(run(&["--rounds".into(), "0".into()]).is_err());
        assert_eq!(milliseconds(None, Path::new("/bin/echo"), "12.5 7").unwrap(), 12.5);
    }
}
