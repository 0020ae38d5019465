//! `cargo xtask install --prefix FOLDER`: the command, the library, its header and its pkg-config file.

use crate::shell::{self, Failure, Outcome, cargo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What shows lightweight threads in gdb, which loads it with a library of its name.
pub const DEBUGGER_SCRIPT: &str = "crates/posix/gdb/raddle.py";

/// Builds as README does, so that nothing is left to build after its first command, and copies; overwrites what an
/// earlier version left. (A package is built with link-time optimisation, which takes minutes.)
pub fn run(args: &[String]) -> Outcome {
    let prefix = match args {
        [flag, prefix] if flag == "--prefix" => PathBuf::from(prefix),
        _ => return Err(Failure::usage("usage: cargo xtask install --prefix FOLDER")),
    };
    std::fs::create_dir_all(&prefix).map_err(|error| failed(&prefix, &error))?;
    let prefix = prefix.canonicalize().map_err(|error| failed(&prefix, &error))?;
    let profile = "optimised";
    shell::run(&mut cargo(&["build", "--locked", "--profile", profile, "-p", "raddle-cli", "-p", "raddle-drop-in"]))?;
    let built = target().join(profile);
    copy(&built.join("raddle"), &prefix.join("bin/raddle"))?;
    copy(&built.join("libraddle_drop_in.so"), &prefix.join("lib/libraddle.so.0"))?;
    copy(&shell::root().join(DEBUGGER_SCRIPT), &prefix.join("lib/libraddle.so.0-gdb.py"))?;
    let shown = prefix.display().to_string();
    development_files(&prefix.join("lib"), &prefix.join("include"), &shown, &format!("{shown}/lib"))?;
    shell::run(Command::new(prefix.join("bin/raddle")).arg("write-pages").arg(prefix.join("share")))?;
    let file = prefix.join("lib/pkgconfig/raddle.pc");
    println!(
        "install: {}; for C and C++: PKG_CONFIG_PATH={}",
        prefix.join("bin/raddle").display(),
        file.parent().unwrap_or(&file).display()
    );
    Ok(())
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from)
}

/// What linking a program with the library takes: its link, its headers, and the pkg-config file for `prefix` and
/// `library`.
pub fn development_files(libraries: &Path, headers: &Path, prefix: &str, library: &str) -> Outcome {
    let room = shell::root().join("crates/posix");
    let link = libraries.join("libraddle.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink("libraddle.so.0", &link).map_err(|error| failed(&link, &error))?;
    for header in ["raddle.h", "raddle.hpp"] {
        copy(&room.join("include").join(header), &headers.join(header))?;
    }
    let template = room.join("raddle.pc.in");
    let text = std::fs::read_to_string(&template).map_err(|error| failed(&template, &error))?;
    let values = [("@prefix@", prefix), ("@libdir@", library), ("@version@", env!("CARGO_PKG_VERSION"))];
    let text = values.iter().fold(text, |text, (name, value)| text.replace(name, value));
    let file = libraries.join("pkgconfig/raddle.pc");
    make_folder(&file)?;
    std::fs::write(&file, text).map_err(|error| failed(&file, &error))
}

pub fn make_folder(file: &Path) -> Outcome {
    let folder = file.parent().unwrap_or(file);
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))
}

/// A file in use (a program that runs, a library that is loaded) is replaced, not written into.
pub fn copy(from: &Path, to: &Path) -> Outcome {
    make_folder(to)?;
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).map(drop).map_err(|error| failed(to, &error))
}

pub fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_needed() {
        assert_eq!(run(&[]).unwrap_err().status, 2);
        assert_eq!(run(&["--prefix".to_string()]).unwrap_err().status, 2);
    }
}
