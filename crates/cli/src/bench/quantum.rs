//! `raddle bench quantum`: how long a thread that is ready waits behind threads that compute, on one processor, in C,
//! C++ and Rust, with quantum checks and without.
//!
//! The programs lie in `quantum/`: one driver, and for each language the work, which is compiled with and without
//! checks by this command's own `cc`, `c++` and `cargo`. Each row is a fresh process under `raddle run`.

use super::{Format, Meter, Options};
use crate::compile::llvm::{Llvm, quiet};
use crate::output::Output;
use raddle_bench::child::tied;
use raddle_bench::report::nanoseconds;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The name by which the command line asks for it.
pub const NAME: &str = "quantum";

const SOURCES: [(&str, &str); 4] = [
    ("driver.c", include_str!("quantum/driver.c")),
    ("work.c", include_str!("quantum/work.c")),
    ("work.cc", include_str!("quantum/work.cc")),
    ("src/main.rs", include_str!("quantum/work.rs")),
];
const MANIFEST: &str = "[package]\nname = \"work\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
const LANGUAGES: [&str; 3] = ["C", "C++", "Rust"];
/// Microseconds.
const QUANTA: [u32; 4] = [50, 200, 1000, 10_000];
/// Threads that compute, beside the one that waits for them.
const BUSY: u32 = 3;
const SAMPLES: u64 = 2000;
/// A thread that starves waits for tens of milliseconds each time.
const STARVED_SAMPLES: u64 = 50;
const PERIODS: u64 = 50;
/// The figures that a program prints.
const FIGURES: [&str; 6] = ["p50_ns", "p99_ns", "p999_ns", "cpu_p50_ns", "cpu_p99_ns", "cpu_p999_ns"];

/// What one row measures.
#[derive(Clone, Debug)]
struct Case {
    language: &'static str,
    checks: bool,
    preempt: &'static str,
    quantum: u32,
    mode: &'static str,
    busy: u32,
    samples: u64,
}

fn cases() -> Vec<Case> {
    let ready = |language, checks, preempt, quantum, samples| Case {
        language,
        checks,
        preempt,
        quantum,
        mode: "ready",
        busy: BUSY,
        samples,
    };
    let mut cases = Vec::new();
    for language in LANGUAGES {
        cases.extend(QUANTA.map(|quantum| ready(language, true, "yields", quantum, SAMPLES)));
        cases.push(ready(language, false, "yields", 1000, STARVED_SAMPLES));
    }
    cases.extend(QUANTA[1..].iter().map(|&quantum| ready("C", false, "timer", quantum, SAMPLES / 4)));
    for (checks, preempt) in [(true, "yields"), (false, "timer"), (false, "yields")] {
        let mode = "periodic";
        let rows =
            [1, 3, 7].map(|busy| Case { mode, busy, samples: PERIODS, ..ready("C", checks, preempt, 100, PERIODS) });
        cases.extend(rows);
    }
    cases
}

/// Runs it.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    super::blocked::refuse(NAME, options)?;
    let most = match options.args.as_slice() {
        [] => u64::MAX,
        [n] => n.parse().ok().filter(|n| *n > 0).ok_or(format!("--args {n}: how often a thread waits, at most"))?,
        _ => return Err(format!("`{NAME}` takes one number by --args: how often a thread waits, at most")),
    };
    let output = Output::claim(options.out.as_deref())?;
    let mut meter = Meter::new();
    let folder = Folder::make()?;
    let mut programs = Vec::new();
    let mut absent = Vec::new();
    for language in LANGUAGES {
        for checks in [false, true] {
            let what = if checks { "with checks" } else { "without checks" };
            meter.line(&format!("raddle: building in {language}, {what}"));
            match build(&folder.0, language, checks) {
                Ok(program) => programs.push((language, checks, program)),
                Err(why) => absent.push(format!("{language}, {what}: {why}")),
            }
        }
    }
    let mut rows = Vec::new();
    for case in cases() {
        let of = |(language, checks, _): &&(&str, bool, PathBuf)| *language == case.language && *checks == case.checks;
        let Some((_, _, program)) = programs.iter().find(of) else { continue };
        let case = Case { samples: case.samples.min(most), ..case };
        let mut rounds = Vec::new();
        for round in 1..=options.rounds {
            let Case { language, mode, quantum, busy, .. } = case;
            meter.line(&format!("raddle: {language} {mode}, {quantum} us, {busy} busy, round {round}"));
            rounds.push(one(program, &case)?);
        }
        rows.push(row(&case, &rounds));
    }
    meter.clear();
    let text = match options.format() {
        Format::Json => rows.iter().map(|row| format!("{row}\n")).collect(),
        _ => table(&rows, &absent),
    };
    output.write(&text)?;
    for line in absent.iter().filter(|_| options.format() == Format::Json) {
        eprintln!("raddle: not measured: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the programs are built: in the checkout's own target folder, which keeps the standard library with checks, or
/// in one that is removed.
struct Folder(PathBuf, bool);

impl Folder {
    fn make() -> Result<Self, String> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let (path, kept) = match target.canonicalize() {
            Ok(target) => (target.join("bench-quantum"), true),
            Err(_) => (std::env::temp_dir().join(format!("raddle-bench-quantum-{}", std::process::id())), false),
        };
        let folder = Folder(path, kept);
        let write = |name: &str, text: &str| {
            let path = folder.0.join(name);
            let parent = path.parent().unwrap_or(&folder.0);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        SOURCES.iter().try_for_each(|(name, text)| write(name, text))?;
        write("Cargo.toml", MANIFEST)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.1 {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A program of that language. Without checks clang compiles it, too, if it is here.
fn build(folder: &Path, language: &str, checks: bool) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot tell where this program lies: {error}"))?;
    let (subcommand, compiler, source) = match language {
        "C" => ("cc", "clang", "work.c"),
        "C++" => ("c++", "clang++", "work.cc"),
        _ => ("cargo", "cargo", "src/main.rs"),
    };
    let plain = |name: &str| match Llvm::find() {
        Ok(llvm) => Command::new(llvm.tool(name)),
        Err(_) => Command::new(if name == "clang" { "cc" } else { "c++" }),
    };
    let driver = folder.join("driver.o");
    quiet("cc", plain("clang").args(["-O2", "-c", "driver.c", "-o"]).arg(&driver).current_dir(folder).output())?;
    let mut command = match (checks, language) {
        (true, _) => {
            let mut command = Command::new(own);
            command.arg(subcommand);
            command
        }
        (false, "Rust") => Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
        (false, _) => plain(compiler),
    };
    command.current_dir(folder);
    if language == "Rust" {
        let target = folder.join(if checks { "checked" } else { "plain" });
        command.args(["build", "--release", "--offline", "--target-dir"]).arg(&target);
        command.env("RUSTFLAGS", format!("-Clink-arg={}", driver.display())).env_remove("CARGO_ENCODED_RUSTFLAGS");
        quiet("cargo build", command.output())?;
        let mut places = vec![target.join("release/work")];
        let under = std::fs::read_dir(&target).into_iter().flatten().flatten();
        places.extend(under.map(|entry| entry.path().join("release/work")));
        return places
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| "cargo has built it, and it is not there".into());
    }
    let program = folder.join(format!("{subcommand}.{}", if checks { "checked" } else { "plain" }));
    command.args(["-O2", source]).arg(&driver).arg("-lpthread").arg("-o").arg(&program);
    quiet(subcommand, command.output())?;
    Ok(program)
}

/// A fresh process.
fn one(program: &Path, case: &Case) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot tell where this program lies: {error}"))?;
    let mut command = Command::new(own);
    command.args(["run", "--processors", "1", "--policy", "priority(2, steal)"]);
    command.arg(format!("--preempt={}", case.preempt)).arg("--").arg(program);
    command.args([case.mode, &case.busy.to_string(), &case.samples.to_string()]);
    let output = tied(&mut command, Signal::KILL).env("RADDLE_QUANTUM", case.quantum.to_string()).output();
    let output = output.map_err(|error| format!("cannot start a program that measures: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().find_map(|line| serde_json::from_str(line).ok()).filter(|_| output.status.success());
    figures.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{case:?} ended with {} and without a result: {text}{said}", output.status)
    })
}

/// The median of the rounds, figure by figure.
fn row(case: &Case, rounds: &[Value]) -> Value {
    let mut row = json!({
        "language": case.language, "checks": case.checks, "preempt": case.preempt, "quantum_us": case.quantum,
        "mode": case.mode, "busy": case.busy, "samples": case.samples,
    });
    for key in FIGURES {
        let mut all: Vec<u64> = rounds.iter().filter_map(|round| round[key].as_u64()).collect();
        all.sort_unstable();
        row[key] = json!(all.get(all.len() / 2));
    }
    row
}

fn table(rows: &[Value], absent: &[String]) -> String {
    let at = |row: &Value, key: &str| row[key].as_f64().unwrap_or(0.0);
    let kind = |row: &Value| match (row["checks"].as_bool(), row["preempt"].as_str()) {
        (Some(true), _) => "checks",
        (_, Some("timer")) => "timer",
        _ => "neither",
    };
    let mut text = format!(
        "one processor; {BUSY} threads compute, one of a higher priority is made ready: until its first step\n\n\
         {:<6}{:<9}{:>9}{:>11}{:>11}{:>11}{:>13}{:>14}\n",
        "", "", "quantum", "p50", "p99", "p99.9", "p99.9 of", "p99.9 of it"
    );
    let _ = writeln!(text, "{:57}{:>13}{:>14}", "", "a core", "/ quantum");
    for row in rows.iter().filter(|row| row["mode"] == "ready") {
        let quantum = at(row, "quantum_us") * 1000.0;
        let _ = writeln!(
            text,
            "{:<6}{:<9}{:>9}{:>11}{:>11}{:>11}{:>13}{:>14.2}",
            row["language"].as_str().unwrap_or(""),
            kind(row),
            nanoseconds(quantum),
            nanoseconds(at(row, "p50_ns")),
            nanoseconds(at(row, "p99_ns")),
            nanoseconds(at(row, "p999_ns")),
            nanoseconds(at(row, "cpu_p999_ns")),
            at(row, "cpu_p999_ns") / quantum,
        );
    }
    let _ = writeln!(
        text,
        "\none processor, a thread that wakes up each 20 ms beside threads of its priority that compute: how late\n\n\
         {:<6}{:<9}{:>9}{:>7}{:>11}{:>11}",
        "", "", "quantum", "busy", "p50", "p99"
    );
    for row in rows.iter().filter(|row| row["mode"] == "periodic") {
        let _ = writeln!(
            text,
            "{:<6}{:<9}{:>9}{:>7}{:>11}{:>11}",
            row["language"].as_str().unwrap_or(""),
            kind(row),
            nanoseconds(at(row, "quantum_us") * 1000.0),
            at(row, "busy"),
            nanoseconds(at(row, "p50_ns")),
            nanoseconds(at(row, "p99_ns")),
        );
    }
    text += "\nchecks: compiled with quantum checks, std's code included. timer: --preempt=timer, compiled without. neither: the\n\
             monitor alone. Of a core: in processor time of the process, of which other programs take none.\n";
    for line in absent {
        let _ = writeln!(text, "not measured: {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_the_median_round_and_multiples_of_the_quantum() {
        let case = cases().into_iter().find(|case| case.checks && case.quantum == 50).unwrap();
        let round = |ns: u64| json!({"p50_ns": ns, "p999_ns": ns, "cpu_p999_ns": ns});
        let text = table(&[row(&case, &[round(90_000), round(70_000), round(80_000)])], &["Rust: no clang".into()]);
        assert!(text.contains("80.0 µs") && text.contains("1.60") && text.contains("not measured: Rust"), "{text}");
    }

    #[test]
    fn each_language_is_measured_with_checks_and_without() {
        for language in LANGUAGES {
            let of = |checks| cases().iter().filter(|case| case.language == language && case.checks == checks).count();
            assert!(of(true) >= QUANTA.len() && of(false) >= 1);
        }
    }
}
