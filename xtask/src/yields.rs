//! `cargo xtask yields`: builds the compiler pass against each LLVM that is here, and runs its tests.

use crate::shell::{self, Failure, Outcome};
use std::path::PathBuf;
use std::process::Command;

/// The majors that are supported, the one of the released rustc first.
const MAJORS: [u32; 2] = [22, 19];

/// What came of it, for those who cannot have an LLVM.
#[derive(Default, Debug, PartialEq)]
pub struct Done {
    pub passed: Vec<u32>,
    pub skipped: Vec<u32>,
}

impl Done {
    /// One line that says what was left out, and what it takes.
    pub fn line(&self) -> String {
        let list = |majors: &[u32]| majors.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut line = format!(
            "yields: passed with LLVM {}",
            if self.passed.is_empty() { "none".into() } else { list(&self.passed) }
        );
        for major in &self.skipped {
            line += &format!("; 1 skipped, for want of cmake, clang-{major}, lld-{major} or llvm-{major}-dev");
        }
        line
    }
}

/// The command: `--llvm MAJOR` for one alone, which must be here then.
pub fn run(args: &[String]) -> Outcome {
    let wanted = match args {
        [] => None,
        [option, major] if option == "--llvm" => match major.parse() {
            Ok(major) if MAJORS.contains(&major) => Some(major),
            _ => return Err(Failure::usage(format!("`{major}` is not one of the supported majors {MAJORS:?}"))),
        },
        _ => return Err(Failure::usage("`yields` takes `--llvm MAJOR` or nothing")),
    };
    let done = tests(wanted)?;
    println!("{}", done.line());
    if done.passed.is_empty() {
        return Err(Failure::usage(
            "there is no LLVM to build against: install clang-22, lld-22, llvm-22-dev, cmake and make (Debian's names)",
        ));
    }
    Ok(())
}

/// Builds and tests with each major, or with the one that is wanted.
pub fn tests(wanted: Option<u32>) -> Outcome<Done> {
    let mut done = Done::default();
    for major in MAJORS.into_iter().filter(|major| wanted.is_none_or(|wanted| wanted == *major)) {
        let llvm = PathBuf::from(format!("/usr/lib/llvm-{major}"));
        let needed = ["lib/cmake/llvm/LLVMConfig.cmake", "bin/clang", "bin/ld.lld", "bin/opt"];
        if !needed.iter().all(|path| llvm.join(path).exists()) || !shell::in_path("cmake") {
            done.skipped.push(major);
            continue;
        }
        let folder = format!("target/yields-{major}");
        shell::run(
            Command::new("cmake")
                .args(["-S", "yields", "-B", &folder])
                .arg(format!("-DLLVM_DIR=/usr/lib/llvm-{major}/lib/cmake/llvm"))
                .current_dir(shell::root())
                .stdout(std::process::Stdio::null()),
        )?;
        shell::run(Command::new("cmake").args(["--build", &folder]).current_dir(shell::root()))?;
        let plugin = format!("{folder}/raddle-yields.so");
        let mut tests = Command::new("yields/tests/run.sh");
        shell::run(tests.arg(plugin).arg(llvm.join("bin")).current_dir(shell::root()))?;
        done.passed.push(major);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_said_with_its_remedy() {
        let line = Done { passed: vec![22], skipped: vec![19] }.line();
        assert_eq!(line, "yields: passed with LLVM 22; 1 skipped, for want of cmake, clang-19, lld-19 or llvm-19-dev");
        assert!(
            Done { passed: vec![], skipped: vec![22] }.line().starts_with("yields: passed with LLVM none; 1 skipped")
        );
        assert!(run(&["--llvm".into(), "3".into()]).is_err());
    }
}
