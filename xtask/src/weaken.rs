//! `cargo xtask model --weaken`: does a test notice when a memory ordering is too weak?
//!
//! For each comment `// Ordering[tag]: …` the strong orderings of the statement below it become `Relaxed`, one at a
//! time (a fence goes altogether), in a copy of the checkout; then the interleaving tests of that package must fail.
//! The copy is built once, with all mutants in it: each asks the machine whether its number is the one in [`CHOICE`]
//! ([`armed`]). A mutant whose tests run out of time is not counted as killed. A comment that says `Not weakened:`
//! argues why no model can notice. Its mutants are run all the same, against the tests named after what was changed
//! where there are any: one that is killed refutes the comment, and is an error. What an argued survivor rests on is
//! the argument alone, so the last line counts these apart.

use crate::model::{self, Weaken};
use crate::shell::{self, Failure, Outcome};
use crate::source::{Source, find_word};
use crate::tidy::{STRONG, ordering_tags, read_tree};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many times longer than the unchanged tests a mutant's may take. It ends what hangs only; its verdict
/// is then "timed out", not "killed".
const ROOM: u32 = 5;

/// What a mutant's tests get at least.
const LEAST: Duration = Duration::from_secs(60);

/// The programs of tests, by the tests' names.
type Programs = BTreeMap<String, PathBuf>;

/// One change of one file.
#[derive(Debug, PartialEq)]
struct Mutant {
    tag: String,
    path: String,
    /// From 1.
    line: usize,
    start: usize,
    end: usize,
    replacement: &'static str,
    what: String,
    argued: bool,
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum Verdict {
    Killed,
    Survived,
    TimedOut,
    SurvivedAsArgued,
    KilledThoughArgued,
}

impl Verdict {
    /// What the verdict means when the comment argues that nothing can notice.
    fn if_argued(self) -> Self {
        match self {
            Self::Killed => Self::KilledThoughArgued,
            Self::Survived => Self::SurvivedAsArgued,
            // Neither refutes nor confirms the argument.
            other => other,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Survived => "SURVIVED",
            Self::TimedOut => "SURVIVED (out of time)",
            Self::SurvivedAsArgued => "survived, as argued",
            Self::KilledThoughArgued => "KILLED THOUGH ARGUED",
        }
    }
}

/// The command.
pub fn run(options: &Weaken) -> Outcome {
    let tree = read_tree(&shell::root())?;
    let mut rows = Vec::new();
    let mut copy: Option<Copy> = None;
    for (package, folder) in model::CRATES {
        if options.package.as_ref().is_some_and(|name| !model::matches(package, name)) {
            continue;
        }
        let asked = |path: &str| options.files.as_ref().is_none_or(|parts| parts.split(',').any(|p| path.contains(p)));
        let files = tree.files.iter().filter(|f| f.path.starts_with(&format!("{folder}/src/")) && asked(&f.path));
        let mutants: Vec<(&Source, Mutant)> = files
            .flat_map(|file| mutants(file).into_iter().map(move |mutant| (file, mutant)))
            .filter(|(_, mutant)| options.tag.as_ref().is_none_or(|tag| *tag == mutant.tag))
            .collect();
        if options.list {
            rows.extend(mutants.into_iter().map(|(_, mutant)| (mutant, None)));
            continue;
        }
        if mutants.is_empty() {
            continue;
        }
        let copy = match &mut copy {
            Some(copy) => copy,
            None => copy.insert(Copy::of(tree.paths.iter())?),
        };
        copy.arm(&mutants)?;
        println!("{package}: {} mutants in one build", mutants.len());
        let mut tests = model::tests(&shell::root().join(folder));
        if options.near {
            let near = |mutant: &Mutant| in_order(tests.clone(), &mutant.path).swap_remove(0);
            let wanted: BTreeSet<String> = mutants.iter().flat_map(|(_, mutant)| near(mutant)).collect();
            tests = wanted.into_iter().collect();
        }
        let (programs, limit) = copy.baseline(package, folder, &tests, options.limit)?;
        for (number, (_, mutant)) in mutants.into_iter().enumerate() {
            let verdict = copy.test(folder, &programs, number, &mutant, options.near, limit)?;
            let verdict = if mutant.argued { verdict.if_argued() } else { verdict };
            println!("{:<24} {}", verdict.word(), describe(&mutant));
            rows.push((mutant, Some(verdict)));
        }
    }
    report(&rows)
}

fn describe(mutant: &Mutant) -> String {
    format!("{:<22} {}:{} {}", mutant.tag, mutant.path, mutant.line, mutant.what)
}

fn report(rows: &[(Mutant, Option<Verdict>)]) -> Outcome {
    if rows.is_empty() {
        return Err(Failure::usage("no tagged ordering matches"));
    }
    println!("\n{:<24} {:<22} where and what", "verdict", "tag");
    for (mutant, verdict) in rows {
        println!("{:<24} {}", verdict.map_or("listed", Verdict::word), describe(mutant));
    }
    let (line, fine) = summary(rows);
    println!("{line}");
    if fine { Ok(()) } else { Err(Failure::failed("not every weakened ordering is noticed by a test")) }
}

/// The closing line, and whether every mutant that was run ended as it should.
fn summary(rows: &[(Mutant, Option<Verdict>)]) -> (String, bool) {
    let verdicts: Vec<Verdict> = rows.iter().filter_map(|(_, verdict)| *verdict).collect();
    if verdicts.is_empty() {
        return (format!("{} mutants, none run", rows.len()), true);
    }
    let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let (killed, argued) = (count(Verdict::Killed), count(Verdict::SurvivedAsArgued));
    let wrong = verdicts.len() - killed - argued;
    (format!("{} mutants run: {killed} killed, {argued} survived as argued, {wrong} wrong", verdicts.len()), wrong == 0)
}

/// The mutants of a file.
fn mutants(file: &Source) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (line, tag) in ordering_tags(file) {
        let (start, end, argued) = statement_below(file, line);
        let statement = &file.code[start..end];
        let mut push = |start: usize, end: usize, replacement, what| {
            let line = file.line_of(start) + 1;
            found.push(Mutant {
                tag: tag.clone(),
                path: file.path.clone(),
                line,
                start,
                end,
                replacement,
                what,
                argued,
            });
        };
        if let Some(at) =
            ["fence", "light_fence", "heavy_fence", "model_fence"].iter().find_map(|word| find_word(statement, word, 0))
        {
            // A relaxed fence is no fence; the call goes, from its path to its bracket.
            let first =
                statement[..at].rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).map_or(0, |i| i + 1);
            if let Some(length) = statement[at..].find(')') {
                push(start + first, start + at + length + 1, "()", "without its fence".to_string());
            }
            continue;
        }
        for word in STRONG {
            let mut from = 0;
            while let Some(at) = find_word(statement, word, from) {
                from = at + word.len();
                push(start + at, start + from, "Relaxed", format!("{word} to Relaxed"));
            }
        }
    }
    found
}

/// The statement below the comment on `line`: from the end of the comment to the first `;` or the next tag. Also
/// whether the comment argues that nothing can notice.
fn statement_below(file: &Source, line: usize) -> (usize, usize, bool) {
    let code: Vec<&str> = file.code.lines().collect();
    let comments: Vec<&str> = file.comments.lines().collect();
    let mut first = line;
    let mut argued = false;
    // A comment at the end of a line of code speaks of that line.
    while first < code.len() && code[first].trim().is_empty() {
        argued |= comments[first].contains("Not weakened:");
        first += 1;
    }
    let mut last = first;
    let ends = |index: usize| code[index].trim_end().ends_with(';') || code[index].trim_end().ends_with('}');
    while last + 1 < code.len() && !ends(last) && !comments[last + 1].contains("Ordering[") && last - first < 12 {
        last += 1;
    }
    (file.line_start(first), file.line_start(last + 1).min(file.code.len()), argued)
}

/// The variable that chooses a mutant, by its number.
const CHOICE: &str = "RADDLE_WEAKEN";

/// What the mutants ask, added to the copy of the machine.
const MACHINE: &str = r#"
#[doc(hidden)]
pub fn weakened(number: usize) -> bool {
    static CHOICE: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOICE.get_or_init(|| std::env::var("RADDLE_WEAKEN").ok()?.parse().ok()) == Some(number)
}

#[doc(hidden)]
pub fn weaker(number: usize, ordering: Ordering) -> Ordering {
    if weakened(number) { Ordering::Relaxed } else { ordering }
}
"#;

/// The text of a file with its mutants in it, each under its number.
fn armed(file: &Source, mutants: &[(usize, &Mutant)]) -> String {
    let mut text = file.text.clone();
    let mut mutants = mutants.to_vec();
    mutants.sort_by_key(|(_, mutant)| std::cmp::Reverse(mutant.start));
    for (number, mutant) in mutants {
        // The path before the word belongs to it; a fence's span has it already.
        let first =
            text[..mutant.start].rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).map_or(0, |i| i + 1);
        let old = &text[first..mutant.end];
        let new = match mutant.replacement {
            "()" => format!("if !raddle_machine::weakened({number}) {{ {old} }}"),
            _ => format!("raddle_machine::weaker({number}, {old})"),
        };
        text.replace_range(first..mutant.end, &new);
    }
    text
}

/// A copy of the checkout, with one folder for what is built there.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn of<'a>(paths: impl Iterator<Item = &'a String>) -> Outcome<Self> {
        let root = std::env::temp_dir().join(format!("raddle-weaken-{}", std::process::id()));
        let copy = Self { root };
        for path in paths {
            let to = copy.root.join(path);
            let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::copy(shell::root().join(path), &to))
                .map_err(|error| copy.error(path, &error))?;
        }
        Ok(copy)
    }

    fn error(&self, path: &str, error: &std::io::Error) -> Failure {
        Failure::failed(format!("{}: {error}", self.root.join(path).display()))
    }

    /// Puts all mutants of a package in, and what they ask.
    fn arm(&self, mutants: &[(&Source, Mutant)]) -> Outcome {
        let mut rest: Vec<(usize, &(&Source, Mutant))> = mutants.iter().enumerate().collect();
        while let Some(&(_, (file, _))) = rest.first() {
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, (_, mutant))| mutant.path == file.path);
            let here: Vec<_> = here.into_iter().map(|(number, (_, mutant))| (number, mutant)).collect();
            self.write(&file.path, &armed(file, &here))?;
            rest = elsewhere;
        }
        let machine = "crates/machine/src/lib.rs";
        let text = std::fs::read_to_string(shell::root().join(machine)).map_err(|error| self.error(machine, &error))?;
        self.write(machine, &(text + MACHINE))
    }

    fn write(&self, path: &str, text: &str) -> Outcome {
        std::fs::write(self.root.join(path), text).map_err(|error| self.error(path, &error))
    }

    /// With no mutant chosen the tests must build and pass, otherwise every mutant would look killed. Answers with the
    /// programs, each with its test's name, and the time that a mutant's tests get: as asked for, or by what they took
    /// now, with room for a busy machine.
    fn baseline(
        &self,
        package: &str,
        folder: &str,
        tests: &[String],
        limit: Option<Duration>,
    ) -> Outcome<(Programs, Duration)> {
        let folder = self.root.join(folder);
        let Some(programs) = self.build(package, tests)? else {
            return Err(Failure::failed(format!(
                "the interleaving tests of {package} do not build with the mutants in them"
            )));
        };
        let start = Instant::now();
        for program in &programs {
            let output = Command::new(program).current_dir(&folder).output();
            let output = output.map_err(|error| Failure::failed(format!("{}: {error}", program.display())))?;
            if !output.status.success() {
                eprintln!("{}", String::from_utf8_lossy(&output.stdout));
                return Err(Failure::failed(format!(
                    "{} does not pass unchanged ({})",
                    program.display(),
                    output.status
                )));
            }
        }
        let took = start.elapsed();
        println!("{package}: with none chosen, its interleaving tests pass in {:.1} s", took.as_secs_f64());
        Ok((
            programs.into_iter().map(|program| (test_of(&program), program)).collect(),
            limit.unwrap_or(LEAST.max(took * ROOM)),
        ))
    }

    /// Runs the interleaving tests with a mutant chosen: first those named after what was changed, which kill most
    /// mutants, then the others, unless the comment argues that none can notice: the distant tests of those would take
    /// most of the campaign's time, or that was asked for. The time for the tests is that for running them all.
    fn test(
        &self,
        folder: &str,
        programs: &Programs,
        number: usize,
        mutant: &Mutant,
        near: bool,
        limit: Duration,
    ) -> Outcome<Verdict> {
        let folder = self.root.join(folder);
        let deadline = Instant::now() + limit;
        let sets = in_order(programs.keys().cloned().collect(), &mutant.path);
        let sets = if near || mutant.argued { &sets[..1] } else { &sets[..] };
        for test in sets.iter().flatten() {
            let verdict = run_test(&programs[test], &folder, number, deadline)?;
            if verdict != Verdict::Survived {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Survived)
    }

    /// The programs of these tests of `package`, or nothing when they do not compile.
    fn build(&self, package: &str, tests: &[String]) -> Outcome<Option<Vec<PathBuf>>> {
        if tests.is_empty() {
            return Err(Failure::failed(format!("{package} has no interleaving tests")));
        }
        let mut build = model::command(package, tests);
        build
            .args(["--no-run", "--color", "never"])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", self.root.join("target"));
        let built = build.output().map_err(|error| Failure::usage(format!("cargo cannot be started: {error}")))?;
        let told = String::from_utf8_lossy(&built.stderr);
        if !built.status.success() {
            eprintln!("{told}");
            return Ok(None);
        }
        let found: Vec<PathBuf> = programs(&told).map(|program| self.root.join(program)).collect();
        match found.len() == tests.len() {
            true => Ok(Some(found)),
            false => Err(Failure::failed(format!("cargo names {} test programs of {}", found.len(), tests.len()))),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files; nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// What else than their names' files the interleaving tests are about.
const ABOUT: [(&str, &[&str]); 7] = [
    ("loom_deferred", &["lock/mcs"]),
    ("loom_fifo", &["ring_buffer"]),
    ("loom_locks", &["sync/barrier", "sync/once", "sync/rwlock"]),
    ("loom_mailboxes", &["inbox", "spsc"]),
    ("loom_park", &["runtime", "thread.rs"]),
    ("loom_words", &["words/condition", "words/mutex", "words/semaphore"]),
    ("loom_words_gates", &["words/barrier", "words/once", "words/request", "words/rwlock", "words/visitors"]),
];

/// The tests of the changed file, by their names (`loom_sync` of what is in `sync`) and by [`ABOUT`], then the others;
/// either may be missing.
fn in_order(tests: Vec<String>, changed: &str) -> Vec<Vec<String>> {
    let inside = changed.split_once("/src/").map_or(changed, |(_, inside)| inside);
    let named = |test: &str| test.strip_prefix("loom_").is_some_and(|name| !name.is_empty() && inside.contains(name));
    let about = |test: &str| ABOUT.iter().any(|(of, files)| *of == test && files.iter().any(|f| inside.contains(f)));
    let (near, far): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| named(test) || about(test));
    [near, far].into_iter().filter(|tests| !tests.is_empty()).collect()
}

/// The test programs that `cargo test --no-run` names.
fn programs(told: &str) -> impl Iterator<Item = &str> {
    told.lines().filter_map(|line| line.trim().strip_prefix("Executable")?.rsplit_once('(')?.1.strip_suffix(')'))
}

/// The name of the test whose program that is: cargo puts a hash behind it.
fn test_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(test, _)| test).to_string()
}

fn run_test(program: &Path, folder: &Path, number: usize, deadline: Instant) -> Outcome<Verdict> {
    judge(Command::new(program).env(CHOICE, number.to_string()).current_dir(folder), deadline)
}

/// Runs a test program until it ends or says that a test of it failed: the others would take most of a killed mutant's
/// time.
fn judge(command: &mut Command, deadline: Instant) -> Outcome<Verdict> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let name = command.get_program().to_os_string();
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", name.display()));
    let mut child = command.spawn().map_err(failed)?;
    let mut told = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let says = std::thread::spawn(move || told.any(|line| line.is_ok_and(|line| is_failure(&line))));
    let end = |child: &mut Child| child.kill().and_then(|()| child.wait()).map_err(failed);
    while !says.is_finished() {
        if Instant::now() >= deadline {
            end(&mut child)?;
            return Ok(Verdict::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if says.join().unwrap_or(false) {
        end(&mut child)?;
        return Ok(Verdict::Killed);
    }
    // It has closed its output: it ends, or has ended, perhaps by a signal.
    match child.wait().map_err(failed)?.success() {
        true => Ok(Verdict::Survived),
        false => Ok(Verdict::Killed),
    }
}

/// How the test harness says, in a line of its own, that a test failed.
fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program that prints this and then ends so is judged to be.
    fn judged(told: &str, then: &str) -> Verdict {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo '{told}'; {then}")]);
        let verdict = judge(&mut command, Instant::now() + Duration::from_secs(600));
        verdict.unwrap_or_else(|_| panic!("{then} was not run"))
    }

    #[test]
    fn the_first_failure_ends_a_program() {
        assert_eq!(judged("test a_b ... FAILED", "exec sleep 3600"), Verdict::Killed);
        assert_eq!(judged("test a_b ... ok", "exit 0"), Verdict::Survived);
        assert_eq!(judged("test a_b ... ok", "kill -9 $$"), Verdict::Killed);
    }

    fn changed(text: &str) -> Vec<String> {
        let file = Source::new("crates/queues/src/a.rs", text);
        let apply = |mutant: Mutant| {
            let mut text = text.to_string();
            text.replace_range(mutant.start..mutant.end, mutant.replacement);
            text
        };
        mutants(&file).into_iter().map(apply).collect()
    }

    #[test]
    fn the_statement_below_is_weakened() {
        let text = "fn f() {\n    // Ordering[a]: Release. Makes\n    // visible: x\n    s.store(1, Ordering::Release);\n    t.load(Ordering::Acquire);\n}\n";
        assert_eq!(changed(text), [text.replace("Ordering::Release)", "Ordering::Relaxed)")]);
    }

    #[test]
    fn each_ordering_of_a_statement_is_weakened_alone() {
        let text =
            "// Ordering[a]: AcqRel.\nlet x = h\n    .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Acquire);\n";
        let ends: Vec<String> = changed(text).iter().map(|text| text.lines().last().unwrap().to_string()).collect();
        assert_eq!(
            ends,
            [
                "    .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);",
                "    .compare_exchange(1, 2, Ordering::Relaxed, Ordering::Acquire);"
            ]
        );
    }

    #[test]
    fn a_fence_goes() {
        let text = "// Ordering[a]: SeqCst.\nM::fence(Ordering::SeqCst);\nb.load(Ordering::Acquire);\n";
        assert_eq!(changed(text), [text.replace("M::fence(Ordering::SeqCst)", "()")]);
        let text = "// Ordering[a]: the dear side.\nM::heavy_fence();\n";
        assert_eq!(changed(text), [text.replace("M::heavy_fence()", "()")]);
    }

    #[test]
    fn all_mutants_of_a_file_are_in_one_text_under_their_numbers() {
        let text = "// Ordering[a]: AcqRel.\nh.swap(1, Ordering::AcqRel);\n// Ordering[b]: SeqCst.\nM::fence(Ordering::SeqCst);\n";
        let file = Source::new("crates/queues/src/a.rs", text);
        let found = mutants(&file);
        let numbered: Vec<(usize, &Mutant)> = (7..).zip(&found).collect();
        let expected = text
            .replace("Ordering::AcqRel)", "raddle_machine::weaker(7, Ordering::AcqRel))")
            .replace("M::fence(Ordering::SeqCst)", "if !raddle_machine::weakened(8) { M::fence(Ordering::SeqCst) }");
        assert_eq!(armed(&file, &numbered), expected);
    }

    #[test]
    fn an_argued_comment_is_recognised() {
        let text = "// Ordering[a]: SeqCst. Not weakened: the model treats it as weaker.\nb.load(Ordering::SeqCst);\n";
        assert!(mutants(&Source::new("crates/queues/src/a.rs", text))[0].argued);
    }

    #[test]
    fn an_argument_that_a_test_refutes_is_wrong() {
        let row = |verdict| {
            let text = "// Ordering[a]: Release.\ns.store(1, Ordering::Release);\n";
            (mutants(&Source::new("crates/queues/src/a.rs", text)).remove(0), Some(verdict))
        };
        assert!(summary(&[row(Verdict::Killed), row(Verdict::Survived.if_argued())]).1);
        for wrong in [Verdict::Killed.if_argued(), Verdict::TimedOut.if_argued(), Verdict::TimedOut, Verdict::Survived]
        {
            assert!(!summary(&[row(Verdict::Killed), row(wrong)]).1, "{wrong:?}");
        }
    }

    #[test]
    fn tests_named_after_what_was_changed_come_first() {
        let tests = || ["loom_idle", "loom_park", "loom_sync"].map(String::from).to_vec();
        assert_eq!(
            in_order(tests(), "crates/scheduler/src/sync/mutex.rs"),
            [vec!["loom_sync"], vec!["loom_idle", "loom_park"]]
        );
        assert_eq!(
            in_order(tests(), "crates/scheduler/src/thread.rs"),
            [vec!["loom_park"], vec!["loom_idle", "loom_sync"]]
        );
        assert_eq!(in_order(tests(), "crates/scheduler/src/ready.rs"), [tests()]);
        assert_eq!(in_order(vec!["loom_idle".to_string()], "crates/scheduler/src/idle.rs"), [["loom_idle"]]);
    }

    #[test]
    fn test_programs_are_found() {
        let told = "   Compiling x\n  Executable tests/loom_a.rs (target/release/deps/loom_a-12ab)\n";
        assert_eq!(programs(told).collect::<Vec<_>>(), ["target/release/deps/loom_a-12ab"]);
        assert_eq!(test_of(Path::new("target/release/deps/loom_a-12ab")), "loom_a");
    }
}
