//! `raddle cc`, `raddle c++`, `raddle cargo`: compilers that put quantum checks in, so that a thread that only computes
//! gives way to others.

mod cargo;
mod flags;
pub mod llvm;
mod sysroot;

use clap::Args;
use llvm::Llvm;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  raddle cc -O2 -pthread server.c -o server && raddle run -- ./server
  make CC='raddle cc' CXX='raddle c++'
  CC='raddle cc' CXX='raddle c++' cmake -B build

All arguments go to clang (RADDLE_LLVM=22 or 19 chooses which); `--print-flags` alone shows what is added. The program runs without raddle, too.
Guide: docs/preemptible.md";

const CARGO_EXAMPLES: &str = "\
Examples:
  raddle cargo build --release && raddle run -- target/raddle/x86_64-unknown-linux-gnu/release/server
  raddle cargo test

All arguments go to cargo. The program, its dependencies and the standard library get checks; build scripts and procedural macros do not.
Guide: docs/preemptible.md";

/// Compile C with quantum checks: a thread that only computes gives way to others
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct C {
    /// Arguments of clang
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Compile C++ with quantum checks
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Cxx {
    /// Arguments of clang++
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Run cargo so that what it builds, the standard library included, has quantum checks
#[derive(Args)]
#[command(after_help = crate::screen::examples(CARGO_EXAMPLES))]
pub struct Cargo {
    /// Arguments of cargo: `build`, `run`, `test` or `bench`, and theirs
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub fn c(options: &C) -> Result<ExitCode, String> {
    compile("clang", &options.arguments)
}

pub fn cxx(options: &Cxx) -> Result<ExitCode, String> {
    compile("clang++", &options.arguments)
}

pub fn cargo(options: &Cargo) -> Result<ExitCode, String> {
    cargo::run(&options.arguments)
}

fn compile(program: &str, arguments: &[OsString]) -> Result<ExitCode, String> {
    let llvm = Llvm::find()?;
    let plugin = llvm.plugin()?;
    let words = words(arguments);
    let mut flags = vec![format!("-fpass-plugin={plugin}")];
    // The pass runs where code is generated: in the linker, also where it alone tells that objects hold bitcode.
    if words.iter().any(|word| word.starts_with("-flto")) {
        flags.push(format!("-fuse-ld={}", llvm.linker()?));
        flags.push(format!("-Wl,--load-pass-plugin={plugin}"));
        // A thin link at level 0 asks no plug-in, and what was compiled at that level stays as it is at this one.
        let level = words.iter().rfind(|word| word.starts_with("-O"));
        if level.is_some_and(|level| level == "-O0") && words.iter().any(|word| word == "-flto=thin") {
            flags.push("-Wl,--lto-O1".into());
        }
    } else if words.iter().any(|word| word.starts_with("-fuse-ld=") && word.contains("lld")) {
        flags.push(format!("-Wl,--load-pass-plugin={plugin}"));
    }
    if arguments.iter().any(|argument| argument == "--print-flags") {
        crate::output::print(&format!("{}\n", flags.join(" ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(flag) = bare(&words) {
        eprintln!(
            "raddle: {flag}: perhaps nothing sets up the thread-local storage that checks count in; none are put in"
        );
        let error = Command::new(llvm.tool(program)).args(arguments).exec();
        return Err(format!("`{}` cannot be started: {error}", llvm.tool(program).display()));
    }
    let mut command = Command::new(llvm.tool(program));
    // A call that only links, or only preprocesses, does not use them.
    command.arg("--start-no-unused-arguments").args(flags).arg("--end-no-unused-arguments").args(arguments);
    let error = command.exec();
    Err(format!("`{}` cannot be started: {error}", llvm.tool(program).display()))
}

/// The arguments, those in files (`@file`) included.
fn words(arguments: &[OsString]) -> Vec<String> {
    let of = |argument: &OsString| {
        let word = argument.to_string_lossy().into_owned();
        let text = word.strip_prefix('@').and_then(|file| std::fs::read_to_string(file).ok());
        // Flags that matter here need no quotes, and may have them.
        text.map_or(vec![word], |text| {
            text.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_string()).collect()
        })
    };
    arguments.iter().flat_map(of).collect()
}

/// The flag by which a program does without the C library's start, if there is one.
fn bare(words: &[String]) -> Option<&str> {
    let words = || words.iter().map(String::as_str);
    let freestanding = words().rfind(|word| ["-ffreestanding", "-fhosted"].contains(word));
    let links = !words().any(|word| ["-c", "-S", "-E", "-shared", "-r"].contains(&word));
    let of_link = words().find(|word| links && ["-nostartfiles", "-nostdlib"].contains(word));
    freestanding.filter(|&flag| flag != "-fhosted").or(of_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_by_itself_is_seen() {
        let bare = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_string).collect();
            bare(&words).map(str::to_string)
        };
        assert_eq!(bare("-O2 -ffreestanding -c a.c").as_deref(), Some("-ffreestanding"));
        assert_eq!(bare("-static -nostdlib a.c").as_deref(), Some("-nostdlib"));
        for hosted in ["-O2 a.c", "-ffreestanding -fhosted a.c", "-shared -nostdlib a.o", "-nostdlib -c a.c"] {
            assert_eq!(bare(hosted), None, "{hosted}");
        }
    }
}
