//! The C library's own thread tests, built outside its tree against the C library that is installed.
//!
//! FOLDER is what `glibc-2.36.tar.xz` of Debian's package `glibc-source` unpacks to. Its makefiles are not run: the
//! support library is compiled from `support/`, and each test by itself, with the flags and arguments that the
//! makefiles name for it. What a test loads (`tst-…mod.c`) becomes a library beside it.

use super::{Built, Test, in_parallel, sets_the_clock};
use crate::shell::{Failure, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the tests lie; of the last two folders, only those that make threads.
const FOLDERS: [&str; 5] = ["nptl", "sysdeps/pthread", "rt", "sysdeps/nptl", "sysdeps/unix/sysv/linux"];
const ALL_OF: usize = 3;
/// Headers that the tests and the support library share with the C library's own build, searched after the system's.
const HEADERS: [&str; 14] = [
    "",
    "include",
    "sysdeps/unix/sysv/linux/x86_64",
    "sysdeps/unix/sysv/linux/x86",
    "sysdeps/unix/sysv/linux",
    "sysdeps/x86_64/nptl",
    "sysdeps/x86/nptl",
    "sysdeps/nptl",
    "sysdeps/pthread",
    "sysdeps/x86_64",
    "sysdeps/x86",
    "sysdeps/posix",
    "sysdeps/generic",
    "nptl",
];
/// What the C library's build defines beside, as far as the tests' headers want it. A test ends itself after 20 s, or
/// what it says, times the factor.
const PRELUDE: &str = "\
#include <limits.h>
#define IS_IN(library) 0
#define IN_MODULE 0
#define SHARED 1
#define TIMEOUTFACTOR 3
#define attribute_hidden
#define attribute_relro
#define attribute_tls_model_ie
#define hidden_proto(...)
#define rtld_hidden_proto(...)
#define libc_hidden_proto(...)
#define libc_hidden_def(...)
#define libc_hidden_weak(...)
#define weak_alias(...)
#define strong_alias(...)
";
/// Where programs of the support library would find an installed tree; no thread test asks.
const PLACES: [&str; 11] = [
    "SRCDIR_PATH",
    "OBJDIR_PATH",
    "OBJDIR_ELF_LDSO_PATH",
    "INSTDIR_PATH",
    "LIBDIR_PATH",
    "BINDIR_PATH",
    "SBINDIR_PATH",
    "SLIBDIR_PATH",
    "ROOTSBINDIR_PATH",
    "SYSCONFDIR_PATH",
    "COMPLOCALEDIR_PATH",
];

/// A source of the tree, as `nptl/tst-join1`.
struct Source {
    name: String,
    stem: String,
    file: PathBuf,
}

/// True if `folder` is the unpacked source of the C library.
pub fn is_a_tree(folder: &Path) -> bool {
    folder.join("nptl/Makefile").is_file() && folder.join("support/support_test_main.c").is_file()
}

/// Builds the tests whose names begin with one of `only` (with none, all); beside them, what cannot be built, and why.
pub fn build(tree: &Path, only: &[String], out: &Path, jobs: usize) -> Outcome<Built> {
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    std::fs::create_dir_all(out.join("support"))
        .map_err(|error| Failure::failed(format!("{}: {error}", out.display())))?;
    write(out.join("prelude.h"), PRELUDE)?;
    write(out.join("config.h"), "")?;
    write(out.join("abi-versions.h"), "")?;
    let settings = settings(tree);
    let compiler = Compiler { tree, out, settings: &settings };
    let support = compiler.support(jobs)?;
    let (modules, tests): (Vec<Source>, Vec<Source>) =
        sources(tree)?.into_iter().partition(|source| is_a_module(&source.stem));
    let libraries: Vec<PathBuf> =
        in_parallel(&modules, jobs, |module| compiler.module(module)).into_iter().flatten().collect();
    let wanted: Vec<Source> = tests
        .into_iter()
        .filter(|test| only.is_empty() || only.iter().any(|prefix| test.name.starts_with(prefix.as_str())))
        .collect();
    let built = in_parallel(&wanted, jobs, |test| compiler.test(test, &support, &libraries));
    let (mut programs, mut unbuilt) = (Vec::new(), Vec::new());
    for (source, built) in wanted.iter().zip(built) {
        match built {
            Ok(program) => programs.push(compiler.with_arguments(source, program)),
            Err(why) => unbuilt.push((source.name.clone(), why)),
        }
    }
    Ok((programs, unbuilt))
}

struct Compiler<'a> {
    tree: &'a Path,
    out: &'a Path,
    settings: &'a BTreeMap<String, String>,
}

impl Compiler<'_> {
    fn command(&self, source: &Path) -> Command {
        let plus = source.extension().is_some_and(|extension| extension == "cc");
        let mut command = Command::new(if plus { "c++" } else { "cc" });
        command.args(["-O2", "-g", "-w", "-D_GNU_SOURCE", "-D_ISOMAC=1", "-pthread"]);
        command.arg(if plus { "-std=gnu++11" } else { "-std=gnu11" });
        command.arg("-include").arg(self.out.join("prelude.h")).arg("-I").arg(self.out);
        command.arg("-I").arg(source.parent().unwrap_or(self.tree)).arg("-I").arg(self.tree.join("support"));
        for folder in HEADERS {
            command.arg("-idirafter").arg(self.tree.join(folder));
        }
        command.args(PLACES.map(|place| format!("-D{place}=\"/nonexistent\"")));
        command
    }

    /// The object files of the support library; what needs more than the system has is left out, and tests that need it
    /// are not built.
    fn support(&self, jobs: usize) -> Outcome<PathBuf> {
        let sources = in_folder(&self.tree.join("support"))?;
        let is_a_program = |stem: &str| {
            ["tst-", "test-", "shell-", "echo-", "true-", "links-"].iter().any(|prefix| stem.starts_with(prefix))
        };
        let sources: Vec<_> =
            sources.into_iter().filter(|(stem, extension, _)| extension == "c" && !is_a_program(stem)).collect();
        let objects = in_parallel(&sources, jobs, |(stem, _, file)| {
            let object = self.out.join("support").join(stem).with_extension("o");
            said(self.command(file).arg("-fPIC").arg("-c").arg(file).arg("-o").arg(&object)).is_ok().then_some(object)
        });
        let library = self.out.join("support.a");
        let _ = std::fs::remove_file(&library);
        let objects: Vec<PathBuf> = objects.into_iter().flatten().collect();
        said(Command::new("ar").arg("rcs").arg(&library).args(&objects)).map_err(Failure::failed)?;
        println!("conformance: {} of {} files of the support library", objects.len(), sources.len());
        Ok(library)
    }

    fn module(&self, module: &Source) -> Option<PathBuf> {
        let library = self.out.join(&module.stem).with_extension("so");
        let mut command = self.command(&module.file);
        command.args(["-shared", "-fPIC"]).args(self.flags(&module.stem)).arg(&module.file).arg("-o").arg(&library);
        said(&mut command).is_ok().then_some(library)
    }

    /// One test's program. Where symbols are missing, it is linked with the libraries that are named after it.
    fn test(&self, test: &Source, support: &Path, libraries: &[PathBuf]) -> Result<PathBuf, String> {
        let program = self.out.join(&test.stem);
        let command = |with: &[&PathBuf]| {
            let mut command = self.command(&test.file);
            command.args(self.flags(&test.stem)).arg(&test.file).arg("-o").arg(&program).arg(support).args(with);
            command.args(["-Wl,--export-dynamic", "-Wl,-rpath,$ORIGIN", "-lrt", "-lm", "-ldl"]);
            command
        };
        said(&mut command(&[])).map(|()| program.clone()).or_else(|why| {
            let named = |library: &&PathBuf| {
                library.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&test.stem))
            };
            let own: Vec<&PathBuf> = libraries.iter().filter(named).collect();
            if own.is_empty() {
                return Err(why);
            }
            said(&mut command(&own)).map(|()| program.clone()).map_err(|_| why)
        })
    }

    /// What the makefiles say for `stem` alone, as far as it is spelt out.
    fn flags(&self, stem: &str) -> Vec<String> {
        let keys = [
            format!("CFLAGS-{stem}.c"),
            format!("CFLAGS-{stem}.o"),
            format!("LDFLAGS-{stem}"),
            format!("LDLIBS-{stem}"),
        ];
        let values = keys.iter().filter_map(|key| self.settings.get(key)).filter(|value| !value.contains("$("));
        values.flat_map(|value| words(value)).collect()
    }

    fn with_arguments(&self, test: &Source, program: PathBuf) -> Test {
        let mut arguments = self.settings.get(&format!("{}-ARGS", test.stem)).cloned().unwrap_or_default();
        // One test's may be another's.
        if let Some(other) = arguments.strip_prefix("$(").and_then(|rest| rest.strip_suffix("-ARGS)")) {
            arguments = self.settings.get(&format!("{other}-ARGS")).cloned().unwrap_or_default();
        }
        let arguments = arguments
            .replace("$(host-test-program-cmd)", &program.display().to_string())
            .replace("$(objpfx)", &format!("{}/", self.out.display()));
        Test { name: test.name.clone(), program, arguments: words(&arguments) }
    }
}

/// A file of the tree that holds a `main` no more than a library does.
fn is_a_module(stem: &str) -> bool {
    let Some((_, end)) = stem.rsplit_once("mod") else { return false };
    end.len() <= 1 && end.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The tests and modules, by name. Statically linked twins are left out: nothing here is linked statically.
fn sources(tree: &Path) -> Outcome<Vec<Source>> {
    let mut found: Vec<Source> = Vec::new();
    for (index, folder) in FOLDERS.iter().enumerate() {
        let short = folder.rsplit('/').next().unwrap_or(folder);
        for (stem, extension, file) in in_folder(&tree.join(folder))? {
            let is_a_test =
                (stem.starts_with("tst-") || stem.starts_with("test-")) && (extension == "c" || extension == "cc");
            let is_a_part = ["aux", "-static", "-common", "-cleanup"].iter().any(|end| stem.ends_with(end))
                || stem.contains("skeleton");
            if !is_a_test || is_a_part || sets_the_clock(&file) {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let has_threads = index < ALL_OF || text.contains("pthread_") || text.contains("thrd_");
            if has_threads && !found.iter().any(|other| other.stem == stem) {
                found.push(Source { name: format!("{short}/{stem}"), stem, file });
            }
        }
    }
    Ok(found)
}

/// Stem, extension and path of each file, sorted.
fn in_folder(folder: &Path) -> Outcome<Vec<(String, String, PathBuf)>> {
    let read = std::fs::read_dir(folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    let mut files: Vec<_> = read
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let part = |part: Option<&std::ffi::OsStr>| Some(part?.to_str()?.to_string());
            Some((part(path.file_stem())?, part(path.extension())?, path))
        })
        .collect();
    files.sort();
    Ok(files)
}

/// `NAME = VALUE` of the tests' makefiles, with lines that go on put together.
fn settings(tree: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        let text = std::fs::read_to_string(tree.join(folder).join("Makefile")).unwrap_or_default();
        found.extend(settings_of(&text));
    }
    found
}

fn settings_of(makefile: &str) -> Vec<(String, String)> {
    let joined = makefile.replace("\\\n", " ");
    let assigned = joined.lines().filter_map(|line| line.split_once('='));
    assigned
        .map(|(name, value)| (name.trim_end_matches(['+', ':', ' ', '\t']).to_string(), value.trim().to_string()))
        .filter(|(name, _)| name.starts_with("CFLAGS-") || name.starts_with("LD") || name.ends_with("-ARGS"))
        .collect()
}

/// The words of a shell's line, where only double quotes quote.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(String::from).collect(),
            _ => vec![part.to_string()],
        })
        .collect()
}

/// Runs a compiler; the first error that it names.
fn said(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let telling = told.lines().find(|line| line.contains("error") || line.contains("undefined"));
    Err(telling.or_else(|| told.lines().next()).unwrap_or("the compiler failed").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefiles_name_flags_and_arguments() {
        let found = settings_of(
            "CFLAGS-tst-a.c += -fexceptions \\\n  -g\ntests = tst-a\ntst-b-ARGS = --command \"exec $(x) --y\"\n",
        );
        assert_eq!(found[0], ("CFLAGS-tst-a.c".to_string(), "-fexceptions    -g".to_string()));
        assert_eq!(words(&found[1].1), ["--command", "exec $(x) --y"]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn modules_are_told_from_tests() {
        assert!(is_a_module("tst-tls5moda") && is_a_module("tst-join7mod") && is_a_module("tst-audit-threads-mod1"));
        assert!(!is_a_module("tst-join7") && !is_a_module("tst-mode-of-all"));
    }
}
