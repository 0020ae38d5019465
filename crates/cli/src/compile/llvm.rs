//! Which LLVM is here, and the pass plug-in for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The majors that are supported; the first is that of the released rustc.
pub const MAJORS: [u32; 2] = [22, 19];

/// One that is installed.
pub struct Llvm {
    pub major: u32,
    tools: PathBuf,
}

impl Llvm {
    /// The one that `RADDLE_LLVM` names, or the newest.
    pub fn find() -> Result<Self, String> {
        named_tools()?;
        let wanted = variable("RADDLE_LLVM").and_then(|wanted| wanted.into_string().ok());
        let wanted = match wanted.as_deref().map(str::parse) {
            None => None,
            Some(Ok(major)) if MAJORS.contains(&major) => Some(major),
            Some(_) => return Err(format!("RADDLE_LLVM={}: {}", wanted.unwrap_or_default(), supported())),
        };
        // What is named goes before the newest.
        let named = variable("RADDLE_LLVM_TOOLS").and_then(|tools| version(&Path::new(&tools).join("clang")));
        let of_wanted = |major: &u32| wanted.is_none_or(|wanted| wanted == *major);
        let mut found = named.into_iter().chain(MAJORS).filter(of_wanted).filter_map(Self::of);
        found.next().ok_or_else(|| {
            let major = wanted.unwrap_or(MAJORS[0]);
            format!("clang {major} is not here: {}", remedy(major))
        })
    }

    /// The one of that major, with its clang.
    pub fn of(major: u32) -> Option<Self> {
        let tools = PathBuf::from(format!("/usr/lib/llvm-{major}/bin"));
        let named = variable("RADDLE_LLVM_TOOLS")
            .map(PathBuf::from)
            .filter(|tools| version(&tools.join("clang")) == Some(major));
        let tools = named.unwrap_or(tools);
        tools.join("clang").is_file().then_some(Self { major, tools })
    }

    /// One of its programs.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.tools.join(name)
    }

    /// Its linker.
    pub fn linker(&self) -> Result<String, String> {
        let linker = self.tool("ld.lld");
        if !linker.is_file() {
            return Err(format!("{} is not here: apt-get install lld-{}", linker.display(), self.major));
        }
        Ok(linker.display().to_string())
    }

    /// The pass for it: one that lies ready, or built now from the sources.
    pub fn plugin(&self) -> Result<String, String> {
        named_plugin(variable("RADDLE_YIELDS_PLUGIN").map(PathBuf::from))?;
        if let Some(ready) = self.ready() {
            return Ok(ready.display().to_string());
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../yields");
        let built = sources.join(format!("../target/yields-{}", self.major));
        if !sources.join("CMakeLists.txt").is_file() {
            return Err(format!(
                "the pass for LLVM {} is not here: build it from the sources with `cargo xtask yields --llvm {}`, and name it with RADDLE_YIELDS_PLUGIN",
                self.major, self.major
            ));
        }
        if let Some(remedy) = self.lacks() {
            return Err(format!("the pass cannot be built for LLVM {}: {remedy}", self.major));
        }
        // One at a time: others may be at it, too.
        let lock = built.with_extension("lock");
        let lock = std::fs::create_dir_all(built.parent().unwrap_or(&built)).and_then(|()| std::fs::File::create(lock));
        let _held = lock
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(|error| format!("{}: {error}", built.display()))?;
        if let Some(ready) = self.ready() {
            return Ok(ready.display().to_string());
        }
        eprintln!("raddle: note: building the compiler pass for LLVM {} first, this once", self.major);
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&sources).arg("-B").arg(&built);
        configure.arg(format!("-DLLVM_DIR={}", self.config().display()));
        if !starts("c++") && variable("CXX").is_none() {
            configure.arg(format!("-DCMAKE_CXX_COMPILER={}", self.tool("clang++").display()));
        }
        quiet("cmake", configure.output())?;
        quiet("cmake --build", Command::new("cmake").arg("--build").arg(&built).output())?;
        // It may be older than a source that it does not depend on.
        let pass = built.join("raddle-yields.so");
        pass.canonicalize()
            .map(|pass| pass.display().to_string())
            .map_err(|_| format!("{} was built, and the pass is not there", built.display()))
    }

    /// LLVM's own settings for who builds against it.
    fn config(&self) -> PathBuf {
        self.tools.join("../lib/cmake/llvm")
    }

    /// The remedy, if the pass cannot be built here.
    pub fn lacks(&self) -> Option<String> {
        let has = self.config().join("LLVMConfig.cmake").is_file() && starts("cmake") && starts("make");
        (!has).then(|| remedy(self.major))
    }

    /// Where the pass lies, if it does: named, installed, or built in the checkout since its sources changed.
    pub fn ready(&self) -> Option<PathBuf> {
        let name = format!("raddle-yields-{}.so", self.major);
        let own = std::env::current_exe().ok()?;
        let prefix = own.parent().and_then(Path::parent);
        let named = variable("RADDLE_YIELDS_PLUGIN").map(PathBuf::from);
        let built =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/yields-{}/raddle-yields.so", self.major));
        let built =
            Some(built).filter(|pass| is_newer(pass, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../yields")));
        let candidates = [named, prefix.map(|prefix| prefix.join("lib/raddle").join(name)), built];
        candidates.into_iter().flatten().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok())
    }
}

/// True if no source of the pass has changed since `pass` was built.
fn is_newer(pass: &Path, yields: &Path) -> bool {
    let changed = |path: PathBuf| path.metadata().and_then(|found| found.modified()).ok();
    let Some(built) = changed(pass.to_owned()) else { return false };
    let sources = std::fs::read_dir(yields.join("src")).into_iter().flatten().flatten().map(|entry| entry.path());
    sources.chain([yields.join("CMakeLists.txt")]).filter_map(changed).all(|source| source <= built)
}

/// The major of the LLVM in a rustc, as `rustc -vV` says.
pub fn of_rustc(rustc: &Path) -> Result<u32, String> {
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .map_err(|error| format!("`{}` cannot be started: {error}", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let major = line.and_then(|version| version.split('.').next()?.parse().ok());
    major.ok_or_else(|| format!("`{} -vV` names no LLVM version", rustc.display()))
}

/// What to install.
pub fn remedy(major: u32) -> String {
    format!("apt-get install clang-{major} lld-{major} llvm-{major}-dev cmake make (Debian's names)")
}

/// True if there is such a program.
fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// A variable of the environment; an empty one sets nothing.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What `RADDLE_LLVM_TOOLS` names must hold a clang of a supported major.
pub fn named_tools() -> Result<(), String> {
    variable("RADDLE_LLVM_TOOLS").map_or(Ok(()), |folder| has_clang(Path::new(&folder)))
}

fn has_clang(folder: &Path) -> Result<(), String> {
    match version(&folder.join("clang")) {
        Some(major) if MAJORS.contains(&major) => Ok(()),
        Some(major) => Err(format!("RADDLE_LLVM_TOOLS={}: this is clang {major}; {}", folder.display(), supported())),
        None => Err(format!("RADDLE_LLVM_TOOLS={}: there is no clang in it", folder.display())),
    }
}

/// What `RADDLE_YIELDS_PLUGIN` names must be there.
fn named_plugin(file: Option<PathBuf>) -> Result<(), String> {
    match file {
        Some(file) if !file.is_file() => Err(format!("RADDLE_YIELDS_PLUGIN={}: there is no such file", file.display())),
        _ => Ok(()),
    }
}

fn supported() -> String {
    format!("the supported majors are {}", MAJORS.map(|major| major.to_string()).join(" and "))
}

fn version(clang: &Path) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split('.').next()?.parse().ok()
}

/// Ends well, or what it said from its first error on; without one, on its last lines.
pub fn quiet(what: &str, output: std::io::Result<std::process::Output>) -> Result<(), String> {
    let output = output.map_err(|error| format!("`{what}` cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // From the first error on: what comes after it often is about what comes of it.
    let error = lines.iter().position(|line| line.to_lowercase().contains("error"));
    let from = error.unwrap_or(lines.len()).min(lines.len().saturating_sub(5));
    let told = lines[from..].iter().take(5).copied().collect::<Vec<_>>().join(" | ");
    Err(format!("`{what}` failed ({}): {told}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_older_than_its_sources_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("raddle-pass-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src")).unwrap();
        let pass = folder.join("pass.so");
        assert!(!is_newer(&pass, &folder));
        let file = |path: &Path, seconds: u64| {
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::create(path).and_then(|file| file.set_modified(at)).unwrap();
        };
        file(&folder.join("src/pass.cpp"), 1000);
        file(&pass, 2000);
        assert!(is_newer(&pass, &folder));
        file(&folder.join("src/pass.cpp"), 3000);
        assert!(!is_newer(&pass, &folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        assert!(Llvm::of(3).is_none());
        assert!(remedy(22).contains("clang-22") && remedy(22).contains("llvm-22-dev"));
        let nowhere = || Some(PathBuf::from("/nowhere"));
        assert!(has_clang(Path::new("/nowhere")).unwrap_err().contains("no clang in it"));
        assert!(named_plugin(nowhere()).unwrap_err().contains("no such file") && named_plugin(None).is_ok());
        assert!(of_rustc(Path::new("/nowhere/rustc")).unwrap_err().contains("cannot be started"));
        assert!(of_rustc(Path::new("/bin/true")).unwrap_err().contains("names no LLVM version"));
        let failed =
            quiet("false", Command::new("sh").args(["-c", "echo first; echo why >&2; exit 3"]).output()).unwrap_err();
        assert!(failed.contains("first | why") && failed.contains("3"), "{failed}");
        let lines = "echo 'Error: why'; for i in 1 2 3 4 5 6; do echo after $i; done; exit 1";
        let failed = quiet("sh", Command::new("sh").args(["-c", lines]).output()).unwrap_err();
        assert!(failed.ends_with(": Error: why | after 1 | after 2 | after 3 | after 4"), "{failed}");
    }
}
