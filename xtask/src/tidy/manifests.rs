//! The direction of dependencies between packages.

use super::{Tree, Violation};

/// Package, the packages of ours it may use, and the foreign ones (an empty list: any).
type Allowed = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The whole graph; a package that is not here is a violation. `loom` and `proptest` serve tests only.
const GRAPH: [Allowed; 19] = [
    ("raddle-machine", &[], &["libc", "loom"]),
    ("raddle-queues", &["raddle-machine"], &["loom", "proptest"]),
    ("raddle-scheduler", &["raddle-machine", "raddle-queues"], &["loom", "proptest"]),
    ("raddle-context", &["raddle-machine", "raddle-queues"], &["libc"]),
    ("raddle-report", &[], &["-"]),
    (
        "raddle-sim",
        &["raddle-machine", "raddle-queues", "raddle-scheduler", "raddle-context", "raddle-report"],
        &["serde", "serde_json"],
    ),
    ("raddle", &["raddle-machine", "raddle-queues", "raddle-scheduler", "raddle-context"], &["io-uring", "libc"]),
    ("raddle-posix", &["raddle-machine", "raddle", "raddle-macros"], &["libc", "rustc-demangle"]),
    ("raddle-macros", &[], &[]),
    ("raddle-std", &["raddle", "raddle-posix", "raddle-macros"], &[]),
    ("raddle-drop-in", &["raddle-machine", "raddle-posix", "raddle-queues"], &["bitflags"]),
    ("raddle-mpi", &[], &["libc"]),
    (
        "raddle-cli",
        &["raddle", "raddle-bench", "raddle-drop-in", "raddle-macros", "raddle-mpi", "raddle-report", "raddle-sim"],
        &[],
    ),
    ("raddle-bench", &["raddle", "raddle-machine", "raddle-report"], &[]),
    ("raddle-bench-peers", &["raddle", "raddle-bench"], &[]),
    ("raddle-bench-service", &[], &[]),
    ("raddle-examples", &["raddle"], &[]),
    // With rsmpi, which wants an MPI and libclang where it is built.
    ("raddle-example-mpi", &[], &["mpi"]),
    ("xtask", &[], &["-"]),
];

/// Each manifest uses only what the graph allows; `[dev-dependencies]` may name any foreign package.
pub fn directions(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let (name, dependencies) = read(&file.text);
        let Some((_, ours, foreign)) = GRAPH.iter().find(|(package, ..)| *package == name) else {
            let message = format!("package `{name}` is not in the graph of xtask/src/tidy/manifests.rs");
            found.push(Violation::new(&file.path, 0, message));
            continue;
        };
        for (line, dependency, dev) in dependencies {
            let dependency = dependency.as_str();
            let is_ours = GRAPH.iter().any(|(package, ..)| *package == dependency);
            let allowed = match is_ours {
                // A package's tests may name the package itself, to turn its features on.
                true => ours.contains(&dependency) || dev && dependency == name,
                false => dev || foreign.is_empty() || foreign.contains(&dependency),
            };
            if !allowed {
                found.push(Violation::new(&file.path, line, format!("`{name}` must not depend on `{dependency}`")));
            }
        }
    }
    found
}

/// The package's name and its dependencies: line (from 0), name, is it for tests only.
fn read(text: &str) -> (String, Vec<(usize, String, bool)>) {
    let (mut name, mut dependencies, mut section) = (String::new(), Vec::new(), String::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
            let parent = section.rsplit_once('.').filter(|(parent, _)| parent.ends_with("dependencies"));
            if let Some((parent, dependency)) = parent {
                dependencies.push((index, dependency.trim_matches('"').to_string(), parent.contains("dev-")));
            }
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or("").trim_matches('"');
            if section == "package" && key == "name" {
                name = value.trim().trim_matches('"').to_string();
            } else if section.ends_with("dependencies") {
                dependencies.push((index, key.to_string(), section.contains("dev-")));
            }
        }
    }
    (name, dependencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        directions(&Tree::of(&[("crates/x/Cargo.toml", text)])).len()
    }

    #[test]
    fn an_arrow_the_wrong_way_is_caught() {
        assert_eq!(
            count("[package]\nname = \"raddle-queues\"\n[dependencies]\nraddle-scheduler = { path = \"\" }\n"),
            1
        );
        assert_eq!(count("[package]\nname = \"raddle-queues\"\n[dependencies.raddle]\nworkspace = true\n"), 1);
        assert_eq!(
            count("[package]\nname = \"raddle-scheduler\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n"),
            1
        );
        assert_eq!(count("[package]\nname = \"raddle-stranger\"\n"), 1);
        assert_eq!(count("[package]\nname = \"xtask\"\n[dependencies]\nclap = \"4\"\n"), 1);
    }

    #[test]
    fn arrows_the_right_way_pass() {
        let text = "[package]\nname = \"raddle-queues\"\n[dependencies]\nraddle-machine.workspace = true\n\
                    [dependencies.loom]\noptional = true\n[features]\nloom = [\"dep:loom\"]\n[dev-dependencies]\nrand = \"1\"\n";
        assert_eq!(count(text), 0);
    }
}
