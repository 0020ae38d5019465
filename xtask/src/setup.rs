//! `cargo xtask setup`: the Debian packages that the commands need.

use crate::shell::{self, Failure, Outcome};
use std::process::Command;

/// Debian package, a program of it, and what is lost without it.
type Need = (&'static str, &'static str, &'static str);

/// What `ci` needs.
const CI: [Need; 24] = [
    ("gcc", "cc", "linking"),
    ("g++", "c++", "the drop-in library's C++ test programs"),
    ("pkgconf", "pkg-config", "the test of the C interface"),
    ("libc6-dev", "", "linking"),
    ("memcached", "memcached", "the tests of `raddle run` with programs of Debian; so the following"),
    ("redis-server", "redis-server", "as above"),
    ("postgresql", "", "the test of a web service under `raddle run`"),
    ("stunnel4", "stunnel4", "as above"),
    ("openssl", "openssl", "as above"),
    ("pigz", "pigz", "as above"),
    ("xz-utils", "xz", "as above"),
    ("zstd", "zstd", "as above"),
    ("perl", "perl", "as above"),
    ("ripgrep", "rg", "as above"),
    ("ruby", "/usr/bin/ruby", "as above"),
    ("python3", "/usr/bin/python3", "as above"),
    ("gdb", "gdb", "the test of lightweight threads in the debugger"),
    ("libtbb-dev", "", "the tests of `raddle run` with libraries that make threads; so the following"),
    ("libuv1-dev", "", "as above"),
    ("libjemalloc2", "", "as above"),
    ("libtcmalloc-minimal4", "", "as above"),
    ("git", "git", "tidy's list of files"),
    ("golang-go", "go", "the Go peer of `raddle bench`; Debian 12 has a new enough one in its backports"),
    ("chromium", "chromium", "opening the HTML report"),
];

/// What campaigns need beyond that; see HACKING.md.
const CAMPAIGNS: [Need; 13] = [
    ("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "building for aarch64"),
    ("libc6-dev-arm64-cross", "", "building for aarch64"),
    ("qemu-user", "qemu-aarch64", "running the aarch64 switch"),
    ("valgrind", "valgrind", "instruction counts"),
    ("cmake", "cmake", "building the compiler pass; so the following"),
    ("make", "make", "as above"),
    ("clang-22", "clang-22", "as above; the LLVM of the released rustc"),
    ("lld-22", "ld.lld-22", "as above"),
    ("llvm-22-dev", "", "as above"),
    ("clang-19", "clang-19", "as above; the older LLVM that it is kept for"),
    ("lld-19", "ld.lld-19", "as above"),
    ("llvm-19-dev", "", "as above"),
    ("debootstrap", "debootstrap", "trying other C libraries"),
];

/// Installs what is missing when we are root, names it otherwise.
pub fn run(args: &[String]) -> Outcome {
    let mut needs = CI.to_vec();
    match args {
        [] => {}
        [all] if all == "--all" => needs.extend(CAMPAIGNS),
        _ => return Err(Failure::usage("`setup` takes `--all` or nothing")),
    }
    let missing: Vec<Need> = needs.into_iter().filter(|need| !is_there(need)).collect();
    let python = pythons_own_tests();
    if missing.is_empty() && python.is_none() {
        println!("setup: nothing is missing");
        return Ok(());
    }
    for (package, _, loss) in &missing {
        println!("setup: {package} is missing ({loss})");
    }
    let mut names: Vec<&str> = missing.iter().map(|(package, ..)| *package).collect();
    if let Some(package) = &python {
        println!("setup: {package} is missing (python's own tests of its threads)");
        names.push(package);
    }
    let root = shell::output(Command::new("id").arg("-u"))?.trim() == "0";
    if !root || !shell::in_path("apt-get") {
        return Err(Failure::usage(format!(
            "install them as root: apt-get install --no-install-recommends {}",
            names.join(" ")
        )));
    }
    shell::run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&names)
        .env("DEBIAN_FRONTEND", "noninteractive");
    shell::run(&mut install)
}

/// The package of python's own tests, if they are missing: its name holds python's version.
fn pythons_own_tests() -> Option<String> {
    let told = shell::output(Command::new("apt-cache").args(["policy", "python3"])).ok()?;
    let version = told.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    let version: Vec<&str> = version.split('.').take(2).collect();
    let version = version.join(".");
    let there = std::path::Path::new("/usr/lib").join(format!("python{version}/test/test_threading.py")).exists();
    (!there).then(|| format!("libpython{version}-testsuite"))
}

/// A program can be there without its package; a package without a program is asked for by name.
fn is_there((package, program, _): &Need) -> bool {
    if program.starts_with('/') {
        return std::path::Path::new(program).exists();
    }
    if !program.is_empty() {
        return shell::in_path(program);
    }
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Status}", package]);
    // No dpkg: not a Debian; the compiler will say what is missing.
    !shell::in_path("dpkg-query") || shell::output(&mut query).is_ok_and(|status| status.contains("ok installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_nowhere_is_missing() {
        assert!(!is_there(&("x", "no-such-program-anywhere", "nothing")));
        assert!(is_there(&("coreutils", "ls", "everything")));
    }

    #[test]
    fn unknown_arguments_are_refused() {
        assert_eq!(run(&["--everything".to_string()]).unwrap_err().status, 2);
    }
}
