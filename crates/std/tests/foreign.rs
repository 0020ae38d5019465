//! The attribute in a package of somebody else's, whose dependency uses std's threads, as programs are shipped:
//! optimised across all packages, for size, without unwinding.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = include_str!("foreign/program.rs");
const LIBRARY: &str = include_str!("foreign/library.rs");

/// The package and its dependency, in a workspace of their own.
fn packages(folder: &Path) {
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n{rest}")
    };
    let ours = env!("CARGO_MANIFEST_DIR");
    let program = format!(
        "[dependencies]\nlibrary = {{ path = \"library\" }}\nraddle = {{ package = \"raddle-std\", path = {ours:?} }}\n\
         [profile.release]\nlto = \"fat\"\nopt-level = \"z\"\npanic = \"abort\"\n"
    );
    for (path, text) in [
        ("Cargo.toml", package("foreign", &program).as_str()),
        ("src/main.rs", PROGRAM),
        ("library/Cargo.toml", package("library", "").replace("[workspace]\n", "").as_str()),
        ("library/src/lib.rs", LIBRARY),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    // The versions that were tested here, which are there already: nothing is asked for over the network.
    std::fs::copy(Path::new(ours).join("../../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(folder)
        .args(arguments)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap()
}

/// The threads of the program, as built with these options of the compiler, are lightweight.
#[track_caller]
fn is_lightweight_with(folder: &Path, options: &[&str]) {
    let build = ["rustc", "--quiet", "--offline", "--release", "--"];
    let built = cargo(folder, &[&build, options].concat());
    assert!(built.status.success(), "{options:?}: {}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(folder.join("target/release/foreign")).env("RADDLE_PROCESSORS", "2").output().unwrap();
    assert!(output.status.success(), "{options:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let kernel_threads: usize = text.trim().parse().unwrap();
    assert!(kernel_threads < 100, "{options:?}: {kernel_threads} kernel threads for 300 threads");
}

#[test]
fn a_program_of_somebody_elses_as_it_is_shipped() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    packages(&folder);
    is_lightweight_with(&folder, &[]);
    // What the program depends on was compiled for both kinds.
    is_lightweight_with(&folder, &["-Clto=thin"]);

    let options = ["--config", "build.rustflags=['-Ctarget-feature=+crt-static']"];
    let target = format!("--target={}-unknown-linux-gnu", std::env::consts::ARCH);
    let static_one = cargo(&folder, &[&["check", "--quiet", "--offline"], &options[..], &[&target]].concat());
    let said = String::from_utf8_lossy(&static_one.stderr);
    assert!(!static_one.status.success() && said.contains("must be linked dynamically"), "{said}");
}
