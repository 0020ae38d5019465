//! Tells the command which commit it is built at, so that reports of an installed one name it, too: `RADDLE_COMMIT`, if
//! whoever builds sets it, and otherwise the checkout's. A package has no checkout, and is known by its version.
//!
//! The names of what it sets do not begin with `RADDLE_`: cargo gives it to the tests that it runs, too, which look for
//! settings.
//! Not in test builds: they find the checkout that they lie in when they run, and a commit would rebuild the command.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RADDLE_COMMIT");
    let version = env!("CARGO_PKG_VERSION");
    match std::env::var("RADDLE_COMMIT").ok().or_else(of_checkout) {
        Some(commit) => {
            println!("cargo:rustc-env=BUILT_AT_COMMIT={commit}");
            println!("cargo:rustc-env=BUILT_AS_VERSION={version}, commit {commit}");
        }
        None => println!("cargo:rustc-env=BUILT_AS_VERSION={version}"),
    }
}

fn of_checkout() -> Option<String> {
    // Of the project, rather than one in which somebody has unpacked a package.
    let root = Path::new("../..");
    let is_ours = root.join(".git").exists() && root.join("crates/cli/build.rs").exists();
    if !is_ours || std::env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    // Their files change with every commit, and when another branch is taken.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(file) = git(&["rev-parse", "--git-path", name]).filter(|file| Path::new(file).exists()) {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    Some(if is_changed { format!("{commit} with changes") } else { commit })
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
