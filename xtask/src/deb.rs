//! `cargo xtask deb`: a Debian package with the command, the library, its headers, the pkg-config file, manual pages
//! and completions.

use crate::install;
use crate::shell::{self, Outcome, cargo};
use std::path::Path;
use std::process::Command;

/// Builds, lays it out as Debian does, and packs it.
pub fn run(args: &[String]) -> Outcome {
    shell::no_arguments(args)?;
    let packages = ["build", "--release", "-p", "raddle-cli", "-p", "raddle-drop-in", "-p", "raddle-mpi"];
    shell::run(cargo(&packages).envs(shell::commit()))?;
    let target = install::target();
    let built = target.join("release");
    let tree = target.join("deb");
    let _ = std::fs::remove_dir_all(&tree);
    let machine = std::env::consts::ARCH;
    let library = format!("usr/lib/{machine}-linux-gnu");
    let command = tree.join("usr/bin/raddle");
    install::copy(&built.join("raddle"), &command)?;
    install::copy(&built.join("libraddle_drop_in.so"), &tree.join(&library).join("libraddle.so.0"))?;
    // For programs of MPI's that are linked with it; the command has its own copy.
    install::copy(&built.join("libraddle_mpi.so"), &tree.join(&library).join("libraddle_mpi.so"))?;
    let script = tree.join("usr/share/gdb/auto-load").join(&library).join("libraddle.so.0-gdb.py");
    install::copy(&shell::root().join(install::DEBUGGER_SCRIPT), &script)?;
    // Without the tables for debuggers; the library stays as it is in the command, which compares the two.
    shell::run(Command::new("strip").arg("--strip-debug").arg(&command))?;
    install::development_files(&tree.join(&library), &tree.join("usr/include"), "/usr", &format!("/{library}"))?;
    let shared = tree.join("usr/share");
    shell::run(Command::new(&command).arg("write-pages").arg(&shared))?;
    let documents = shared.join("doc/raddle");
    for (from, to) in [
        ("README.md", "README.md"),
        ("CHANGELOG.md", "changelog"),
        ("docs/drop-in.md", "drop-in.md"),
        ("docs/scale-out.md", "scale-out.md"),
    ] {
        install::copy(&shell::root().join(from), &documents.join(to))?;
    }
    let (mit, apache) = (
        read("LICENSE-MIT")?,
        "On Debian systems the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n",
    );
    write(&documents.join("copyright"), &format!("MIT or Apache-2.0, at your choice.\n\n{mit}\n{apache}"))?;
    compress(&shared.join("man/man1"))?;
    let architecture = shell::output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    write(&tree.join("DEBIAN/control"), &control(architecture))?;
    // The loader's cache learns of the library.
    write(&tree.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")?;
    let package = target.join(format!("raddle_{}_{architecture}.deb", env!("CARGO_PKG_VERSION")));
    shell::run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    println!("deb: {}", package.display());
    Ok(())
}

fn control(architecture: &str) -> String {
    // The oldest C library whose symbols the build on Debian 12 asks for.
    format!(
        "Package: raddle\nVersion: {}\nArchitecture: {architecture}\nSection: utils\nPriority: optional\n\
         Maintainer: The Raddle authors <raddle@localhost>\nDepends: libc6 (>= 2.34), libgcc-s1\n\
         Description: existing programs on lightweight threads\n \
         raddle run gives an existing pthread program lightweight threads, unchanged.\n \
         Included are the library with its headers for C and C++, and a laboratory\n \
         that measures, checks and simulates schedulers.\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn read(name: &str) -> Outcome<String> {
    let path = shell::root().join(name);
    std::fs::read_to_string(&path).map_err(|error| install::failed(&path, &error))
}

fn write(path: &Path, text: &str) -> Outcome {
    install::make_folder(path)?;
    std::fs::write(path, text).map_err(|error| install::failed(path, &error))
}

fn compress(folder: &Path) -> Outcome {
    let pages = std::fs::read_dir(folder).map_err(|error| install::failed(folder, &error))?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "-n"]).args(pages.flatten().map(|page| page.path()));
    shell::run(&mut gzip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_what_dpkg_asks_for() {
        let text = control("amd64");
        for field in ["Package: raddle\n", "Version: ", "Architecture: amd64\n", "Maintainer: ", "Description: "] {
            assert!(text.contains(field), "{field}");
        }
        // Each line is a field, or goes on with a blank.
        assert!(text.lines().all(|line| line.starts_with(' ') || line.contains(": ")), "{text}");
    }

    #[test]
    fn wrong_words_are_refused() {
        assert_eq!(run(&["--fast".to_string()]).unwrap_err().status, 2);
    }
}
