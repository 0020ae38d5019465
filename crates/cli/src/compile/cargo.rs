//! `raddle cargo`: link-time optimisation by the linker, which loads the pass, and a standard library that has checks.
//!
//! A target is named, even if it is this machine's own: so build scripts and procedural macros, which run here, are
//! built apart and get no checks.

use super::llvm::{self, Llvm};
use super::{flags, sysroot};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Subcommands that build.
const BUILDING: [&str; 8] = ["build", "b", "run", "r", "test", "t", "bench", "rustc"];

pub fn run(arguments: &[OsString]) -> Result<ExitCode, String> {
    let (toolchain, rest) = match arguments.split_first() {
        Some((first, rest)) if first.to_string_lossy().starts_with('+') => (Some(first), rest),
        _ => (None, arguments),
    };
    let (global, rest) = rest.split_at(global_options(rest));
    let Some((subcommand, rest)) = rest.split_first() else {
        return Err("name what cargo is to do: build, run, test or bench".into());
    };
    if !BUILDING.iter().any(|name| subcommand == name) {
        return Err(format!(
            "`{}` builds nothing; raddle cargo has build, run, test and bench",
            subcommand.to_string_lossy()
        ));
    }
    // Cargo forgets those before the subcommand, ours among them, where there are any behind it.
    let settings = settings(rest);
    let cargo = || {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(toolchain).args(global).args(&settings);
        command
    };
    let configuration = flags::configuration(&mut cargo());
    let configured = |name: &str| configuration["build"][name].as_str().map(OsString::from);
    let rustc = match toolchain {
        None => ["RUSTC", "CARGO_BUILD_RUSTC"]
            .into_iter()
            .find_map(std::env::var_os)
            .or_else(|| configured("rustc"))
            .map_or_else(|| PathBuf::from("rustc"), PathBuf::from),
        Some(toolchain) => rustc_of(&toolchain.to_string_lossy()[1..])?,
    };
    let major = llvm::of_rustc(&rustc)?;
    if !llvm::MAJORS.contains(&major) {
        return Err(format!(
            "this rustc has LLVM {major}; the pass exists for {}: use a rustc that has one of these",
            llvm::MAJORS.map(|major| major.to_string()).join(" and ")
        ));
    }
    llvm::named_tools()?;
    let llvm = Llvm::of(major).ok_or_else(|| {
        format!("this rustc has LLVM {major}, and clang {major} is not here: {}", llvm::remedy(major))
    })?;
    let (plugin, linker) = (llvm.plugin()?, llvm.linker()?);
    let host = host(&rustc)?;
    let (how, named) = match option(rest, "--target") {
        Some(named) => ("--target", named),
        None => {
            let named = std::env::var("CARGO_BUILD_TARGET").ok().filter(|named| !named.is_empty());
            let named = named.or_else(|| configured("target")?.into_string().ok());
            ("cargo's build.target", named.unwrap_or_else(|| host.clone()))
        }
    };
    if named != host {
        return Err(format!("{how} {named}: only this machine's own, {host}, is supported"));
    }
    let target = flags::Target::of(&rustc, &host)?;
    let folder = match option(rest, "--target-dir").map(PathBuf::from) {
        Some(folder) => folder,
        None => target_folder(&mut cargo(), option(rest, "--manifest-path"))?.join("raddle"),
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let sysroot = sysroot::prepare(&llvm, &plugin, &rustc, &host, &folder)?;

    let linker = linker_for_all_levels(&linker, &folder)?;
    let own = [
        format!("--sysroot={}", sysroot.display()),
        // Code of the program that the library calls stays apart from the library's own, which gets no checks.
        "--cfg=raddle_yields".into(),
        "-Clinker-plugin-lto".into(),
        format!("-Clinker={}", llvm.tool("clang").display()),
        format!("-Clink-arg=-fuse-ld={linker}"),
        format!("-Clink-arg=-Wl,--load-pass-plugin={plugin}"),
    ];
    let mut command = cargo();
    flags::add(&mut command, &configuration, &target, "rustflags", &own);
    // The examples of documentation, which are compiled and linked apart.
    flags::add(&mut command, &configuration, &target, "rustdocflags", &own);
    flags::refuse_links_without(&mut command, &configuration, &target, &folder)?;
    command.arg(subcommand).arg("--target").arg(&host).arg("--target-dir").arg(&folder);
    command.args(without(rest, &["--target", "--target-dir", "--config"]));
    // The linker optimises across crates already; rustc's own way does not go with it.
    let own = option(rest, "--profile");
    for profile in ["dev", "release", "test", "bench"].into_iter().chain(own.as_deref()) {
        command.env(format!("CARGO_PROFILE_{}_LTO", profile.to_uppercase().replace('-', "_")), "off");
    }
    let error = command.exec();
    Err(format!("cargo cannot be started: {error}"))
}

/// The linker by way of a script: at level 0, that of the profile `dev`, link-time optimisation asks no plug-in, unless
/// its passes are named.
fn linker_for_all_levels(linker: &str, folder: &Path) -> Result<String, String> {
    let text = format!(
        r#"#!/bin/sh
for word; do
    shift
    set -- "$@" "$word"
    case $word in
    -plugin-opt=O0) set -- "$@" --lto-newpm-passes=raddle-yields ;;
    @*) ! grep -q -e -plugin-opt=O0 "${{word#@}}" || set -- "$@" --lto-newpm-passes=raddle-yields ;;
    esac
done
exec '{linker}' "$@"
"#
    );
    Ok(script_in(folder, "raddle-ld", &text)?.display().to_string())
}

/// A script that cargo or rustc starts.
pub fn script_in(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let script = folder.join(name);
    let failed = |error| format!("{}: {error}", script.display());
    if std::fs::read_to_string(&script).is_ok_and(|there| there == text) {
        return Ok(script);
    }
    // In one piece: another one may be linking.
    let own = folder.join(format!("{name}-{}", std::process::id()));
    std::fs::write(&own, text).map_err(failed)?;
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    std::fs::rename(&own, &script).map_err(failed)?;
    Ok(script)
}

fn rustc_of(toolchain: &str) -> Result<PathBuf, String> {
    let output = Command::new("rustup").args(["which", "rustc", "--toolchain", toolchain]).output();
    let output = output.map_err(|error| format!("+{toolchain}: rustup cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("+{toolchain}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn host(rustc: &Path) -> Result<String, String> {
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .map_err(|error| format!("`{}` cannot be started: {error}", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| format!("`{} -vV` names no host", rustc.display()))
}

/// How many words stand before the subcommand: options of cargo itself, with their values.
fn global_options(words: &[OsString]) -> usize {
    let mut count = 0;
    while let Some(word) = words.get(count).map(|word| word.to_string_lossy()).filter(|word| word.starts_with('-')) {
        count += if ["--color", "--config", "-C", "-Z"].contains(&word.as_ref()) { 2 } else { 1 };
    }
    count.min(words.len())
}

/// The settings of cargo's configuration among the arguments, before a `--`.
fn settings(arguments: &[OsString]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut words = arguments.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            found.extend([Some(word), words.next()].into_iter().flatten().cloned());
        } else if word.to_string_lossy().starts_with("--config=") {
            found.push(word.clone());
        }
    }
    found
}

/// Where cargo would build.
fn target_folder(cargo: &mut Command, manifest: Option<String>) -> Result<PathBuf, String> {
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.args(manifest.iter().flat_map(|path| ["--manifest-path", path])).output();
    let output = output.map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    told["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target_directory".into())
}

/// The value of an option before a `--`.
fn option(arguments: &[OsString], name: &str) -> Option<String> {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    let joined = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_string));
    joined.or_else(|| words.windows(2).find_map(|pair| (pair[0] == name).then(|| pair[1].to_string())))
}

/// The arguments without these options and their values.
fn without(arguments: &[OsString], names: &[&str]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    let mut ours = true;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        ours &= text != "--";
        if ours && names.iter().any(|name| text == *name) {
            words.next();
        } else if !(ours && names.iter().any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))))
        {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_cargo_are_told_from_the_programs() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let line = words("--release --target-dir a -- --target x");
        assert_eq!((option(&line, "--target-dir").as_deref(), option(&line, "--target")), (Some("a"), None));
        assert_eq!(without(&line, &["--target", "--target-dir"]), words("--release -- --target x"));
        assert_eq!(option(&words("--target=y"), "--target").as_deref(), Some("y"));
        assert_eq!(without(&words("-q --target=y z"), &["--target"]), words("-q z"));
        let line = words("-q --config a=1 --config=b.toml x -- --config c");
        assert_eq!(settings(&line), words("--config a=1 --config=b.toml"));
        assert_eq!(without(&line, &["--config"]), words("-q x -- --config c"));
    }

    #[test]
    fn the_subcommand_comes_after_options_of_cargo() {
        let count = |text: &str| global_options(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        assert_eq!([count("build -q"), count("-q build"), count("--config a=1 -v b"), count("")], [0, 1, 3, 0]);
        assert_eq!([count("--config=a test"), count("--config")], [1, 1]);
    }

    #[test]
    fn what_builds_nothing_is_refused() {
        assert!(run(&["publish".into()]).unwrap_err().contains("builds nothing"));
        assert!(run(&[]).unwrap_err().contains("build, run, test or bench"));
    }
}
