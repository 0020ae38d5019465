//! Programs of MPI's, natively and with this library: MPICH's and Open MPI's, on kernel threads and under
//! `raddle run`'s library.
//!
//! Where an MPI is not installed its tests are skipped, and say so; `.ci/run` installs both (Debian packages mpich,
//! libmpich-dev, openmpi-bin, libopenmpi-dev).

#[path = "../../drop-in/tests/common/mod.rs"]
mod shipped;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Both libraries: this one, and the drop-in's.
fn libraries() -> &'static (PathBuf, PathBuf) {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = shipped::built(&["raddle-mpi", "raddle-drop-in"]);
        (folder.join("libraddle_mpi.so"), folder.join("libraddle_drop_in.so"))
    })
}

/// An MPI: the ending of its commands, and how it is started.
struct Mpi {
    name: &'static str,
    options: &'static [&'static str],
}

const MPIS: [Mpi; 2] = [
    Mpi { name: "mpich", options: &[] },
    Mpi {
        name: "openmpi",
        options: &["--allow-run-as-root", "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none"],
    },
];

impl Mpi {
    /// Whether it is installed; says so if it is not.
    fn is_there(&self) -> bool {
        let there = ["mpicc", "mpirun"].iter().all(|command| {
            let version =
                Command::new(format!("{command}.{}", self.name)).arg("--version").stderr(Stdio::null()).output();
            version.is_ok_and(|output| output.status.success())
        });
        if !there {
            eprintln!("skipped: {} is not installed", self.name);
        }
        there
    }

    fn compile(&self, source: &str) -> PathBuf {
        let folder = if source == "stencil.c" { "../../examples/c" } else { "tests/c" };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(source);
        let unique = format!("{source}-{}-{}-{:?}", self.name, std::process::id(), std::thread::current().id());
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique.replace(['(', ')'], ""));
        let language = if source.ends_with(".f90") { "mpif90" } else { "mpicc" };
        let mut compiler = Command::new(format!("{language}.{}", self.name));
        if ["counts.c", "entered.c"].contains(&source) {
            compiler.args(["-shared", "-fPIC"]);
        }
        let output = compiler.args(["-O1", "-g", "-Wall", "-pthread", "-o"]).arg(&program).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Starts so many ranks of it with these preloaded, and answers with what they printed.
    #[track_caller]
    fn run(&self, ranks: u32, preload: &str, program: &Path, arguments: &[&str]) -> String {
        let output = self.end(ranks, preload, &[], program, arguments);
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{}: {preload}: {}: {said:?}", self.name, output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        // Ranks print one after the other, but what starts them may mix their lines.
        lines.sort_unstable();
        lines.join("\n")
    }

    /// The same to its end, whatever that is; `settings` are variables of the ranks, `NAME=value`.
    #[track_caller]
    fn end(&self, ranks: u32, preload: &str, settings: &[&str], program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(format!("mpirun.{}", self.name));
        command.args(self.options).args(["-n", &ranks.to_string(), "env"]).args(settings);
        command.args([&format!("LD_PRELOAD={preload}"), "RADDLE_PROCESSORS=1"]).arg(program).args(arguments);
        // Into files: nobody reads while it runs.
        let files = ["out", "err"].map(|end| PathBuf::from(format!("{}-{end}", program.display())));
        let [out, err] = files.each_ref().map(|path| std::fs::File::create(path).unwrap());
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(300);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > limit {
                // It ends its ranks when it is asked to.
                let _ = Command::new("sh").args(["-c", &format!("kill {}", child.id())]).status();
                panic!("it has not ended in five minutes: {command:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let [stdout, stderr] = files.map(|path| {
            let text = std::fs::read(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            text
        });
        Output { status, stdout, stderr }
    }
}

/// With this library alone, and beside the drop-in's.
fn ways() -> [String; 2] {
    let (ours, drop_in) = libraries();
    [ours.display().to_string(), format!("{}:{}", drop_in.display(), ours.display())]
}

#[test]
fn every_call_gives_what_it_gives_natively() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("calls.c");
        let file = std::env::temp_dir().join(format!("raddle-mpi-{}-{}", mpi.name, std::process::id()));
        let arguments = ["6", file.to_str().unwrap()];
        // Natively with one thread a rank: with more, ranks that share a core may take minutes.
        let native = mpi.run(2, "", &program, &["1", arguments[1]]);
        assert!(native.contains("rank 1 thread 0") && native.contains("too long 1"), "{native}");
        for way in ways() {
            let one = mpi.run(2, &way, &program, &["1", arguments[1]]);
            assert_eq!(one, native, "{}: {way}", mpi.name);
            let many = mpi.run(3, &way, &program, &arguments);
            assert_eq!(many.lines().filter(|line| line.contains("thread")).count(), 18, "{many}");
        }
        let _ = std::fs::remove_file(&file);
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn hundreds_of_threads_of_two_ranks_send_to_and_fro() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("pingpong.c");
        for way in ways() {
            for (threads, rounds) in [("1", "200"), ("16", "20"), ("300", "5")] {
                let sum = threads.parse::<u32>().unwrap() * rounds.parse::<u32>().unwrap();
                assert_eq!(mpi.run(2, &way, &program, &[threads, rounds]), sum.to_string());
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Three hundred threads have nothing to wait for but each other: few of them ask MPI, and then it is asked seldom.
#[test]
fn threads_that_wait_ask_seldom() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("together.c");
        let counts = mpi.compile("counts.c");
        for way in ways() {
            let told = mpi.run(1, &format!("{way}:{}", counts.display()), &program, &["300"]);
            let figures: Vec<u32> = told.split(' ').filter_map(|word| word.trim_matches(',').parse().ok()).collect();
            let &[sum, at_first, possible, _, least] = figures.as_slice() else { panic!("{told}") };
            // Each asks once, and one at a time again and again: before the second comes, for a millisecond
            // (`idle::AWAKE`), and then seldom. A second one may come late.
            assert!(at_first < 1000 + possible, "{}: {way}: {told}", mpi.name);
            assert!(sum == 300 * 299 / 2 && least <= 6, "{}: {way}: {told}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
        std::fs::remove_file(counts).unwrap();
    }
}

/// A rank whose threads all wait sleeps between its tests, but not while parts of a long message may come.
#[test]
fn who_tests_sleeps_unless_something_long_is_outstanding() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("lengths.c");
        let counts = mpi.compile("counts.c");
        for way in ways() {
            let told = mpi.run(1, &format!("{way}:{}", counts.display()), &program, &[]);
            let expected = "a: asleep 1\nb: asleep 1\nc: awake 1\nd: asleep 1\ne: awake 1\nf: asleep 1";
            assert_eq!(told, expected, "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
        std::fs::remove_file(counts).unwrap();
    }
}

/// Where both partners have taken their receive back, each one's send goes on when the other looks for it.
#[test]
fn partners_that_took_their_receives_back_exchange_messages() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("exchange.c");
        for way in ways() {
            let told = mpi.run(2, &way, &program, &["200", "50"]);
            assert_eq!(told, "rank 0: right 10000\nrank 1: right 10000", "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// While MPI ends it calls functions of the program's, which may wait.
#[test]
fn a_function_that_the_end_calls_waits_for_another_rank() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("deleted.c");
        for way in ways() {
            let told = mpi.run(2, &way, &program, &[]);
            let expected =
                (0..2).flat_map(|rank| ["got 5, sum 10", "refused 1 1 1"].map(|it| format!("rank {rank}: {it}")));
            assert_eq!(told, expected.collect::<Vec<_>>().join("\n"), "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Receives of long messages that do not come are taken back and asked for otherwise: what comes then is the same.
#[test]
fn long_receives_that_were_taken_back_get_their_messages() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("taken_back.c");
        let counts = mpi.compile("counts.c");
        for way in ways() {
            for arguments in [&[][..], &["with a handler"]] {
                let told = mpi.run(2, &format!("{way}:{}", counts.display()), &program, arguments);
                assert_eq!(told, "asleep 1, right 21 of 21", "{}: {way}, {arguments:?}", mpi.name);
            }
        }
        std::fs::remove_file(program).unwrap();
        std::fs::remove_file(counts).unwrap();
    }
}

/// What makes communicators and windows, and fences, has no non-blocking form: a thread goes there when all ranks have
/// come.
#[test]
fn calls_of_all_ranks_let_others_run_until_all_have_come() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("gathered.c");
        let counts = mpi.compile("entered.c");
        let file = format!("{}-file", program.display());
        for way in ways() {
            let told = mpi.run(2, &format!("{way}:{}", counts.display()), &program, &[&file]);
            let names = ["dup", "split", "create", "cart", "window", "fence", "fence", "wait", "free", "open"];
            let calls = names.iter().enumerate().map(|(nth, call)| format!("{nth} {call}: lets others run 1"));
            let mut expected: Vec<String> = calls.collect();
            expected.extend(["6 got 11", "7 got 20", "ranks 0 1 0 0 of 2"].map(String::from));
            expected.sort_unstable();
            assert_eq!(told, expected.join("\n"), "{}: {way}", mpi.name);
        }
        for left in [program, counts, file.into()] {
            std::fs::remove_file(left).unwrap();
        }
    }
}

#[test]
fn what_one_rank_is_refused_holds_nobody_up() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("refused.c");
        let arguments: &[&str] = if mpi.name == "openmpi" { &["with a handler that makes one"] } else { &[] };
        let native = mpi.run(2, "", &program, arguments);
        assert_eq!(native.matches(": refused 1").count(), 4, "{}: {native}", mpi.name);
        for way in ways() {
            assert_eq!(mpi.run(2, &way, &program, arguments), native, "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Wrong arguments: the refusal does not wait for ranks that never come to the call.
#[test]
fn what_a_call_refuses_by_its_arguments_it_refuses_at_once() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("at_once.c");
        let native = mpi.run(2, "", &program, &[]);
        let refused = native.matches(": refused 1").count();
        assert!(refused > 40 && !native.contains(": refused 0"), "{}: {native}", mpi.name);
        for way in ways() {
            assert_eq!(mpi.run(2, &way, &program, &[]), native, "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// One call after the other, in the same order in all ranks, and none before all of its ranks have come: whatever the
/// order in which threads come. (Natively all are in MPI's calls at once, and turn round there.)
#[test]
fn threads_make_communicators_one_after_the_other() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("groups.c");
        let counts = mpi.compile("entered.c");
        for way in ways().map(|way| format!("{way}:{}", counts.display())) {
            let told = mpi.run(3, &way, &program, &["order"]);
            assert_eq!(told, "rank 0: lets others run 1\nrank 0: right 2\nrank 1: right 2", "{}: {way}", mpi.name);
            let told = mpi.run(3, &way, &program, &["many"]);
            let expected = [56, 48, 48].iter().enumerate();
            let expected = expected.map(|(rank, right)| format!("rank {rank}: right {right}, at once 1"));
            assert_eq!(told, expected.collect::<Vec<_>>().join("\n"), "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
        std::fs::remove_file(counts).unwrap();
    }
}

/// Also where one rank is a neighbour twice: which one it is then, Open MPI's two forms do not agree on.
#[test]
fn neighbours_get_what_they_get_natively() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("neighbours.c");
        for ranks in [1, 2, 3] {
            // Natively with one thread a rank, as above.
            let native = mpi.run(ranks, "", &program, &["1"]);
            assert!(native.starts_with("rank 0: 0a"), "{native}");
            assert_eq!(native.matches("all alike 1").count(), ranks as usize, "{native}");
            for way in ways() {
                for threads in ["1", "8"] {
                    let told = mpi.run(ranks, &way, &program, &[threads]);
                    assert_eq!(told, native, "{}: {way}: {ranks} ranks", mpi.name);
                }
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// While one thread has what new communicators get their numbers from, another that waits for it lets it go on: begun
/// without blocking, MPICH's duplicate of a communicator of one rank turned round in its first call, taking memory.
#[test]
fn a_rank_alone_duplicates_beside_threads_that_make_communicators() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("dups.c");
        for way in ways() {
            let told = mpi.run(2, &way, &program, &[]);
            assert_eq!(told, "rank 0: made 20, stayed 1\nrank 1: made 20, stayed 1", "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Levels of MPI_THREAD, handlers of errors, cancelled requests, windows, new communicators: as natively. Natively the
/// last level may not end while twenty threads wait.
#[test]
fn what_is_seldom_used_works_while_threads_wait() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("corners.c");
        for way in ways() {
            for level in ["0", "1", "2", "3"] {
                let told = mpi.run(2, &way, &program, &[level]);
                let expected = (0..2).flat_map(|rank| corners(rank, level)).collect::<Vec<_>>().join("\n");
                assert_eq!(told, expected, "{}: {way}", mpi.name);
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// What a rank prints of it, in the order of the letters.
fn corners(rank: u32, level: &str) -> Vec<String> {
    let other = 1 - rank;
    let mut lines = vec![format!("level {level}, as asked for 1, main 1, sum 1")];
    if level == "3" {
        lines.insert(0, "handler called 1, truncated 1".into());
        lines.insert(0, format!("got {}, was put {}", 10 + other, 20 + other));
        lines.push("nothing to wait for 1".into());
        lines.push("split 1, cancelled 11".into());
        lines.push("waitall 1, the second's 1, first 1".into());
    }
    lines.into_iter().map(|line| format!("rank {rank}: {line}")).collect()
}

#[test]
fn what_a_program_does_wrong_is_told_as_natively() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("wrong.c");
        for what in ["calls", "handled", "late", "answered", "fatal", "twice", "several", "pending"] {
            let told = |preload: &str| {
                let output = mpi.end(2, preload, &[], &program, &[what]);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let mut lines: Vec<String> =
                    text.lines().filter(|line| line.starts_with("rank 1")).map(str::to_string).collect();
                lines.sort_unstable();
                (output.status.success(), lines)
            };
            // Open MPI's own `MPI_Waitall` with a wrong message does not always end (2 of 12 runs did not).
            let native = if what == "pending" && mpi.name == "openmpi" { (true, pending()) } else { told("") };
            let goes_on = ["calls", "handled", "late", "several", "pending"].contains(&what)
                || what == "answered" && mpi.name == "openmpi";
            assert_eq!(native.0, goes_on, "{native:?}");
            for way in ways() {
                assert_eq!(told(&way), native, "{}: {way}: {what}", mpi.name);
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// What rank 1 prints with Open MPI natively, where it ends.
fn pending() -> Vec<String> {
    let lines = |late: u32| {
        let waited = "18, of each 0 15, right of the third 1, ended 1 1, the handler was told 0";
        [format!("rank 1: late {late}: {waited}"), format!("rank 1: late {late}: then 0, got 1 1")]
    };
    [0, 1].into_iter().flat_map(lines).collect()
}

/// A program looks whether they are there (mpi4py does): Open MPI 4 has none, and this library exports them.
#[test]
fn calls_with_large_counts_are_there_in_each_mpi() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("large.c");
        let native = mpi.run(2, "", &program, &[]);
        let expected = "rank 1: got 10, 1 of them; 0 10; 10 11; 11 21 10 11; refused 1";
        assert!(native.contains(expected), "{native}");
        for way in ways() {
            assert_eq!(mpi.run(2, &way, &program, &[]), native, "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Each communicator's own, though requests do not know which it is of (MPICH's, Open MPI's of collective calls).
#[test]
fn handlers_of_errors_are_those_of_the_calls_communicator() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("handlers.c");
        for what in ["return", "call", "fatal", "none", "old"] {
            let told = |preload: &str| {
                let output = mpi.end(2, preload, &[], &program, &[what]);
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                // What starts them may tell of the end, too.
                let mut lines: Vec<String> =
                    text.lines().filter(|line| line.starts_with("rank")).map(str::to_string).collect();
                lines.sort_unstable();
                (output.status.success(), lines)
            };
            let native = told("");
            assert_eq!(native.0, native.1.iter().any(|line| line.contains("too long 1 1 1")), "{native:?}");
            for way in ways() {
                assert_eq!(told(&way), native, "{}: {way}: {what}", mpi.name);
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// Also where those of several threads are tested together.
#[test]
fn each_error_is_told_to_its_handler_in_its_thread() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("told.c");
        let each = if mpi.name == "openmpi" { [3, 4] } else { [1, 2] };
        for way in ways() {
            let told = mpi.run(2, &way, &program, &["6", "20"]);
            let expected = each.map(|errors| errors * 6 * 20).into_iter().enumerate();
            let expected =
                expected.map(|(rank, errors)| format!("rank {rank}: failed {errors}, told {errors}, elsewhere 0"));
            assert_eq!(told, expected.collect::<Vec<_>>().join("\n"), "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn a_rank_that_takes_no_part_between_two_groups_holds_nobody_up() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("between.c");
        for way in std::iter::once(String::new()).chain(ways()) {
            assert_eq!(mpi.run(3, &way, &program, &[]), "sum 5", "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// A test of another thread's might run them (0 of 8 runs ended without `operations`).
#[test]
fn operations_of_the_programs_own_run_in_the_thread_that_calls() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("operations.c");
        for way in ways() {
            let told = mpi.run(2, &way, &program, &[]);
            let expected = [0, 1].map(|rank| format!("rank {rank}: wrong 0, freed 1, sum 1")).join("\n");
            assert_eq!(told, expected, "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// It ends where its call has ended; what it led goes on. Natively MPICH's other thread waits for ever.
#[test]
fn a_thread_that_is_cancelled_in_a_call_leaves_the_others_alone() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("cancelled.c");
        for way in ways() {
            assert_eq!(mpi.run(1, &way, &program, &[]), "got 7\nthe other 0, cancelled 1", "{}: {way}", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

/// One thread a rank natively, many with ours: the cells depend on the size alone.
#[test]
fn a_stencil_of_many_tiles_gives_the_bytes_of_one() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("stencil.c");
        let native = mpi.run(2, "", &program, &["1", "128", "64", "50"]);
        assert_eq!(native.len(), 16, "{native}");
        for way in ways() {
            for (ranks, tiles) in [(1, "8"), (2, "1"), (2, "32"), (3, "7")] {
                let told = mpi.run(ranks, &way, &program, &[tiles, "128", "64", "50"]);
                assert_eq!(told, native, "{}: {way}: {ranks} ranks of {tiles} tiles", mpi.name);
            }
        }
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn calls_of_fortran_are_taken_over() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("fortran.f90");
        let native = mpi.run(2, "", &program, &[]);
        assert!(native.contains("rank 1 sum 3 from 0 all -1 -1"), "{native}");
        for way in ways() {
            assert_eq!(mpi.run(2, &way, &program, &[]), native, "{}: {way}", mpi.name);
        }
        // The loader says which library has the functions that Fortran's are made of.
        let told = mpi.end(1, &ways()[0], &["LD_DEBUG=bindings", "LD_BIND_NOW=1"], &program, &[]);
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        for call in ["MPI_Send", "MPI_Recv", "MPI_Wait", "MPI_Allreduce"] {
            let taken = |line: &str| {
                line.contains("fh.so") | line.contains("fort.so")
                    && line.contains("to /")
                    && line.contains("libraddle_mpi.so")
                    && line.contains(&format!("{call}'"))
            };
            assert!(told.lines().any(taken), "{}: {call} is not taken over", mpi.name);
        }
        std::fs::remove_file(program).unwrap();
    }
}

#[test]
fn a_rank_that_ends_ends_the_others_though_threads_wait() {
    for mpi in MPIS.iter().filter(|mpi| mpi.is_there()) {
        let program = mpi.compile("endings.c");
        // Where a rank only leaves (`exit`), the status is that of one or the other of them.
        let way = &ways()[1];
        for end in ["kill", "abort", "long"] {
            let native = mpi.end(2, "", &[], &program, &[end]);
            assert!(!native.status.success());
            assert_eq!(mpi.end(2, way, &[], &program, &[end]).status, native.status, "{}: {end}", mpi.name);
        }
        // Again where one was not in its call yet.
        let finalizes = || String::from_utf8_lossy(&mpi.end(2, way, &[], &program, &["finalize"]).stderr).into_owned();
        let all_wait = |told: &String| told.contains("MPI_Finalize while 20 of the rank's threads wait");
        let told: Vec<_> = (0..10).map(|_| finalizes()).take_while(|told| !all_wait(told)).collect();
        assert!(told.len() < 10, "{}: {told:?}", mpi.name);
        std::fs::remove_file(program).unwrap();
    }
}
