//! Flags of rustc and rustdoc beside those that the user's environment and cargo's configuration have.

use super::cargo::script_in;
use cargo_platform::{Cfg, Platform};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr as _;

/// What is built for.
pub struct Target {
    /// Its triple.
    pub name: String,
    /// What holds in a `cfg(…)` there.
    holds: Vec<Cfg>,
}

impl Target {
    /// The one of that triple, as `rustc` knows it.
    pub fn of(rustc: &Path, name: &str) -> Result<Self, String> {
        let output = Command::new(rustc).args(["--print", "cfg", "--target", name]).output();
        let output = output.map_err(|error| format!("`{}` cannot be started: {error}", rustc.display()))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            return Err(format!("`{} --print cfg`: {why}", rustc.display()));
        }
        let holds =
            String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| Cfg::from_str(line).ok()).collect();
        Ok(Self { name: name.to_string(), holds })
    }

    /// The variable by which the environment sets something for it in place of cargo's configuration.
    fn variable(&self, what: &str) -> String {
        format!("CARGO_TARGET_{}_{what}", self.name.to_uppercase().replace(['-', '.'], "_"))
    }

    /// What the configuration sets for it, by its name or by a `cfg(…)` that holds.
    fn settings<'a>(&self, configuration: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
        let tables = configuration["target"].as_object().into_iter().flatten();
        let holding = tables.filter(|(table, _)| {
            Platform::from_str(table).is_ok_and(|platform| platform.matches(&self.name, &self.holds))
        });
        holding.map(move |(_, set)| &set[what]).filter(|value| !value.is_null())
    }
}

/// Cargo's configuration without its environment. Released ones show it only if asked like this.
pub fn configuration(cargo: &mut Command) -> Value {
    cargo.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "config", "get", "--format", "json"]);
    cargo.output().ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}

/// Has `cargo` give `own` beside the flags that it gives anyway: to rustc where `what` is `rustflags`; where it is
/// `rustdocflags` to rustdoc, which compiles examples of documentation.
pub fn add(cargo: &mut Command, configuration: &Value, target: &Target, what: &str, own: &[String]) {
    let variable = what.to_uppercase();
    if let Some(mut flags) = of_environment(&variable) {
        flags.extend_from_slice(own);
        cargo.env(format!("CARGO_ENCODED_{variable}"), flags.join("\x1f"));
    } else if let Ok(flags) = std::env::var(target.variable(&variable)) {
        // Cargo's configuration does not show that variable, and it takes no others then but the target's.
        cargo.env(target.variable(&variable), format!("{flags} {}", own.join(" ")));
    } else {
        // Cargo adds them to what its configuration has.
        cargo.arg("--config").arg(setting(configuration, target, what, own));
    }
}

/// Flags that the environment names: then cargo takes none of its configuration.
fn of_environment(variable: &str) -> Option<Vec<String>> {
    if let Ok(encoded) = std::env::var(format!("CARGO_ENCODED_{variable}")) {
        return Some(encoded.split('\x1f').filter(|flag| !flag.is_empty()).map(str::to_string).collect());
    }
    Some(std::env::var(variable).ok()?.split_whitespace().map(str::to_string).collect())
}

/// The setting by which cargo adds `own` to its configuration's flags: it takes those for all targets only where none
/// are set for the target.
fn setting(configuration: &Value, target: &Target, what: &str, own: &[String]) -> String {
    let (place, there) = if target.settings(configuration, what).next().is_some() {
        (format!("target.{}.{what}", target.name), &configuration["target"][&target.name][what])
    } else {
        (format!("build.{what}"), &configuration["build"][what])
    };
    // Lists are joined; a text is replaced.
    match there.as_str() {
        Some(text) => format!("{place}={}", serde_json::json!(format!("{text} {}", own.join(" ")))),
        None => format!("{place}={}", serde_json::json!(own)),
    }
}

/// Has a link fail that rustc was not given our flags for: they name another linker. Programs that run while others
/// are built, which cargo puts into folders without the target's name, are linked as ever.
pub fn refuse_links_without(
    cargo: &mut Command,
    configuration: &Value,
    target: &Target,
    folder: &Path,
) -> Result<(), String> {
    let of_environment = std::env::var(target.variable("LINKER")).ok();
    let configured = || target.settings(configuration, "linker").next()?.as_str().map(str::to_string);
    let linker = of_environment.or_else(configured).unwrap_or_else(|| "cc".into());
    if linker.contains('/') && PathBuf::from(&linker).is_relative() {
        // Relative to the file that sets it, which is not told.
        return Ok(());
    }
    let text = format!(
        r#"#!/bin/sh
output=
before=
for word; do
    [ "$before" != -o ] || output=$word
    case $word in @*) output=$(grep -A1 -x -e -o "${{word#@}}" | tail -n 1) ;; esac
    before=$word
done
case ${{output#'{folder}'}} in
*/{target}/*/deps/*)
    echo "raddle: cargo does not give rustc the flags that put quantum checks in: what sets rustc's flags, or starts it, in a way that raddle does not know? RUSTFLAGS it knows (docs/preemptible.md)" >&2
    exit 1 ;;
esac
exec '{linker}' "$@"
"#,
        folder = folder.display(),
        target = target.name,
    );
    cargo.env(target.variable("LINKER"), script_in(folder, "raddle-cc", &text)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        let holds = ["unix", "target_os=\"linux\"", "target_env=\"gnu\""];
        Target { name: "a-b-c".into(), holds: holds.map(|cfg| Cfg::from_str(cfg).unwrap()).into() }
    }

    #[test]
    fn flags_are_added_where_cargo_takes_them_from() {
        let with = |text: &str| setting(&serde_json::from_str(text).unwrap(), &target(), "rustflags", &["-o".into()]);
        let all = r#"build.rustflags=["-o"]"#;
        assert_eq!([with("{}"), with(r#"{"build":{"rustflags":["-v"]}}"#)], [all, all]);
        let others = r#"{"target":{"d":{"rustflags":[]},"a-b-c":{"linker":"x"}}}"#;
        assert_eq!([with("null"), with(others)], [all, all]);
        let one = r#"target.a-b-c.rustflags=["-o"]"#;
        assert_eq!(with(r#"{"target":{"a-b-c":{"rustflags":["-v"]}}}"#), one);
        assert_eq!(with(r#"{"build":{"rustflags":"-v -w"}}"#), r#"build.rustflags="-v -w -o""#);
        let documented =
            serde_json::json!({ "build": { "rustdocflags": "-v" }, "target": { "a-b-c": { "rustflags": "-w" } } });
        assert_eq!(setting(&documented, &target(), "rustdocflags", &["-o".into()]), r#"build.rustdocflags="-v -o""#);
    }

    #[test]
    fn flags_of_a_cfg_count_where_it_holds() {
        let place = |cfg: &str| {
            let configuration = serde_json::json!({ "target": { cfg: { "rustflags": "-v" } } });
            setting(&configuration, &target(), "rustflags", &[]).split_once('=').unwrap().0.to_string()
        };
        for holds in ["cfg(unix)", r#"cfg(all(unix, not(target_os = "macos")))"#, "cfg(any(windows, unix))"] {
            assert_eq!(place(holds), "target.a-b-c.rustflags", "{holds}");
        }
        for does_not in ["cfg(windows)", "cfg(not(unix))", r#"cfg(target_env = "musl")"#, "cfg(", "other-name"] {
            assert_eq!(place(does_not), "build.rustflags", "{does_not}");
        }
    }

    #[test]
    fn a_variable_of_the_environment_is_named_as_cargo_does() {
        let name = "x86_64-unknown-linux-gnu".to_string();
        let variable = Target { name, holds: Vec::new() }.variable("RUSTFLAGS");
        assert_eq!(variable, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS");
    }
}
