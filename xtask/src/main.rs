//! All automation of the project: `cargo xtask COMMAND`.
//!
//! One file per command. Architecture invariant: this crate depends on no other, so that it builds in seconds on a
//! machine that has nothing but a Rust toolchain, and a broken room never keeps the tools from starting.
#![forbid(unsafe_code)]

mod aarch64;
mod bench;
mod ci;
mod conformance;
mod deb;
mod elsewhere;
mod freeze;
mod glibc;
mod install;
mod lock_counts;
mod miri;
mod model;
mod mpi;
mod mutants;
mod preempt;
mod programs;
mod setup;
mod shell;
mod size;
mod source;
mod std_examples;
mod stuck;
mod tidy;
mod tsan;
mod weaken;
mod yields;
mod yields_paper;
mod yields_programs;
mod yields_server;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND [ARGUMENTS]

  ci                   everything a change must pass: format, clippy, tidy, tests, loom tests, rustdoc
  tidy                 the architecture invariants and the comment rules (see HACKING.md)
  model                the interleaving tests of crates/queues and crates/scheduler
  model --weaken [TAG] [--crate NAME] [--files PART,..] [--seconds N] [--near] [--list]
                       relaxes each tagged memory ordering in turn; a test must fail for each
  mutants [--only PART,..] [--target FOLDER] [--list]
                       faults in our policies, queues, locks and clusters, each in a copy: `raddle check` must find it
                       and show it again, or an interleaving test fail
  std-examples         std's own examples with our thread and sync in place of std's; writes docs/std-examples.md
  elsewhere            tests of the runtime in which each thread that was suspended goes on on another processor
  mpi pingpong|stencil|waiting|latency [--mpi NAME] [--threads T,..] [--runs N] [--native-seconds S] [--real-time]
                       programs of MPI's natively and with ours, in turns, two ranks; fails where one of ours does not end
  bench [ARGUMENTS]    the release build of `raddle bench ARGUMENTS`
  lock-counts [--rounds N] [--programs FOLDER]
                       what a turn of a lock costs, ours beside std's, parking_lot's and crossbeam's: instructions (needs
                       valgrind) and processor time; fails where each of ours takes more instructions than another's
  freeze [--count N] [--millis N] [--policy P] [--seed N]
                       stops a kernel thread of the runtime N times under each policy: the others must go on
  aarch64 [ARGUMENTS]  the tests of crates/context for aarch64 under an emulator
  glibc [--trees FOLDER] [RELEASE]...
                       programs under the C libraries of other Debian releases, in trees made by debootstrap (needs root)
  conformance --suite FOLDER | --glibc FOLDER [--only PREFIX] [--jobs N] [--raddle PROGRAM] [--no-table]
                       the Open POSIX Test Suite, or glibc's own thread tests, natively and under `raddle run`; writes docs/conformance.md
  programs [--only NAME] [--skip NAME] [--raddle PROGRAM] [--packages] [--no-table]
                       programs of Debian natively and under `raddle run`, outputs compared; writes docs/programs.md
  install --prefix FOLDER
                       the command, the library, its header and its pkg-config file
  deb                  the same as a Debian package, in the target folder
  size [--linux FOLDER]
                       lines of code of each room; beside them Linux's scheduler, if its sources are in FOLDER
  setup [--all]        installs the Debian packages that ci (or, with --all, every campaign) needs
  preempt [--times N] [--jobs N]
                       threads give way to a timer in the midst of what they do, a million times in each program
  yields [--llvm MAJOR]
                       builds the compiler pass that puts quantum checks in against each LLVM that is here, and tests it
  yields-paper [--rounds N] [--raddle PROGRAM]
                       what checks cost the lock-free scheduler's News, Matrix and switches: ours, and the paper's
  yields-programs [--only NAME] [--raddle PROGRAM]
                       programs of Debian and the registry, compiled with quantum checks, pass their own tests
  miri                 the tests of queues and scheduler under Miri (needs a nightly toolchain with miri)
  tsan                 the tests of queues and scheduler under ThreadSanitizer, with no suppression

exit status: 0 done, 1 something failed, 2 wrong use or a tool is missing
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        "ci" => shell::no_arguments(rest).and_then(|()| ci::run()),
        "tidy" => shell::no_arguments(rest).and_then(|()| tidy::run()),
        "model" => model::run(rest),
        "mpi" => mpi::run(rest),
        "std-examples" => shell::no_arguments(rest).and_then(|()| std_examples::run()),
        "elsewhere" => shell::no_arguments(rest).and_then(|()| elsewhere::run()),
        "mutants" => mutants::run(rest),
        "bench" => bench::run(rest),
        "lock-counts" => lock_counts::run(rest),
        "freeze" => freeze::run(rest),
        "preempt" => preempt::run(rest),
        "aarch64" => aarch64::run(rest),
        "glibc" => glibc::run(rest),
        "conformance" => conformance::run(rest),
        "programs" => programs::run(rest),
        "install" => install::run(rest),
        "deb" => deb::run(rest),
        "size" => size::run(rest),
        "setup" => setup::run(rest),
        "yields" => yields::run(rest),
        "yields-paper" => yields_paper::run(rest),
        "yields-programs" => yields_programs::run(rest),
        "miri" => miri::run(rest),
        "tsan" => tsan::run(rest),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(shell::Failure::usage(format!("`{other}` is no command; `cargo xtask help` lists them"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.status)
        }
    }
}
