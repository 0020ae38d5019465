//! Where the servers' programs come from.

use crate::runtimes::{Programs, Runtime, Source, find};
use std::path::{Path, PathBuf};
use std::process::Command;

/// C programs of this suite, with their sources in the folder `servers`.
const IN_C: [(&str, &str); 2] =
    [("raddle-bench-echo-threads", "echo_threads.c"), ("raddle-bench-echo-epoll", "echo_epoll.c")];

impl Programs {
    /// Builds the load generator and all that the server of `runtime` needs, when there are sources to build from.
    /// Gives the generator and the words after its own, or why something is missing. `progress` is told before a build
    /// starts.
    pub fn prepare_load(
        &self,
        runtime: &Runtime,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(PathBuf, Vec<String>), String> {
        if let Source::Absent(why) = runtime.source {
            return Err(why.into());
        }
        let generator = self.program_of_load(runtime.program, progress)?;
        let mut words = vec!["--".to_string()];
        for word in runtime.words {
            let is_program = *word == "raddle" || word.starts_with("raddle-") || word.starts_with('/');
            words.push(match is_program {
                true => self.program_of_load(word, progress)?.to_string_lossy().into_owned(),
                false => word.to_string(),
            });
        }
        Ok((generator, words))
    }

    fn program_of_load(&self, name: &str, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, String> {
        if name.starts_with('/') {
            let path = PathBuf::from(name);
            let package = name.rsplit('/').next().unwrap_or(name);
            return if path.is_file() { Ok(path) } else { Err(format!("{name} is not there; apt install {package}")) };
        }
        let path = self.folder().join(name);
        if let Some(sources) = self.sources() {
            progress(&format!("building {name}"));
            self.build_for_load(sources, name, &path)?;
        }
        match path.is_file() {
            true => Ok(path),
            false => Err(format!(
                "{} is not there; run `cargo xtask bench` in this project's sources, which builds it",
                path.display()
            )),
        }
    }

    fn build_for_load(&self, sources: &Path, name: &str, path: &Path) -> Result<(), String> {
        if let Some((_, source)) = IN_C.iter().find(|(program, _)| *program == name) {
            let mut command = Command::new("cc");
            command.current_dir(sources.join("servers")).args(["-O2", "-pthread", "-o"]).arg(path).arg(source);
            return crate::runtimes::finish(command, &format!("cc of {source}"));
        }
        match name {
            "raddle" => {
                self.cargo(sources, "raddle-cli", &["--bin", "raddle"])?;
                self.cargo(sources, "raddle-drop-in", &[])
            }
            "raddle-service-blocking" => self.service(sources, name, "blocking"),
            "raddle-service-tokio" => self.service(sources, name, "tokio"),
            "raddle-bench-go" => self.go(sources),
            "raddle-bench-tokio" => self.prepare(find("tokio")?, &mut |_| ()).map(drop),
            _ => self.cargo(sources, "raddle-bench", &["--bin", name]),
        }
    }

    /// In a workspace of its own, for the sake of everybody who does not need its dependencies.
    fn service(&self, sources: &Path, name: &str, feature: &str) -> Result<(), String> {
        let target = self.folder().with_file_name("service");
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(sources.join("service")).args(["build", "--quiet", "--release", "--no-default-features"]);
        command.args(["--features", feature, "--bin", name, "--target-dir"]).arg(&target);
        crate::runtimes::finish(command, &format!("cargo build of {name}"))?;
        let (from, to) = (target.join("release").join(name), self.folder().join(name));
        std::fs::copy(&from, &to)
            .map(drop)
            .map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))
    }
}
