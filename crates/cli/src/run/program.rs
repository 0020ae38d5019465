//! Which file a command line names, and what it takes to run it: PATH, `#!` lines, permissions.

use super::elf;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Scripts whose interpreters are scripts: the kernel gives up after as many.
const MOST_SCRIPTS: usize = 5;
/// The kernel looks for a `#!` line in so many bytes.
const SCRIPT_LINE: u64 = 256;

/// What is to be executed.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// What it is told as its own name.
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
}

/// The program behind a command line.
#[derive(Debug)]
pub struct Found {
    pub program: Program,
    /// The script that names it as its interpreter.
    pub script: Option<PathBuf>,
}

/// Why a command line cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound(String),
    Unfit(String),
}

impl Refusal {
    /// The exit status that shells use for it.
    pub fn status(&self) -> u8 {
        match self {
            Refusal::NotFound(_) => 127,
            Refusal::Unfit(_) => 126,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::NotFound(text) | Refusal::Unfit(text)) = self;
        f.write_str(text)
    }
}

fn unfit(path: &Path, why: impl fmt::Display) -> Refusal {
    Refusal::Unfit(format!("`{}` cannot be run: {why}", path.display()))
}

/// Finds the program, through `#!` lines, and checks that it can be taken over.
pub fn find(name: &OsStr, arguments: &[OsString]) -> Result<Found, Refusal> {
    let path = in_path(name, std::env::var_os("PATH").as_deref())?;
    let mut program = Program { path, name: name.into(), arguments: arguments.to_vec(), environment: Vec::new() };
    let mut script: Option<PathBuf> = None;
    for _ in 0..MOST_SCRIPTS {
        check_file(&program.path)?;
        let Some(line) = script_line(&program.path)? else {
            elf::check(&program.path).map_err(|why| match &script {
                None => unfit(&program.path, why),
                Some(script) => unfit(script, format!("its interpreter is `{}`, and {why}", program.path.display())),
            })?;
            return Ok(Found { program, script });
        };
        let file = program.path.clone();
        program = interpreted(program, &line)?;
        script.get_or_insert(file);
    }
    Err(unfit(&program.path, "its interpreter is a script whose interpreter is a script, and so on"))
}

/// The file that a name means, as a shell would look for it.
fn in_path(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Refusal> {
    let shown = Path::new(name).display();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Refusal::NotFound(format!("`{shown}` is not there")))
            }
            _ => Ok(path),
        };
    }
    let folders = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let files = std::env::split_paths(folders).map(|folder| folder.join(name)).filter(|file| file.is_file());
    let mut seen = None;
    for file in files {
        if may_execute(&file) {
            return Ok(file);
        }
        seen.get_or_insert(file);
    }
    match seen {
        Some(file) => Ok(file),
        None if !name.is_empty() && Path::new(name).exists() => Err(Refusal::NotFound(format!(
            "`{shown}` is in no folder of PATH; the one in this folder is called `./{shown}`"
        ))),
        None => Err(Refusal::NotFound(format!("`{shown}` is in no folder of PATH"))),
    }
}

fn may_execute(path: &Path) -> bool {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// What the file system says of the file.
fn check_file(path: &Path) -> Result<(), Refusal> {
    let data = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::NotFound(format!("`{}` is a link to nothing", path.display())),
        _ => unfit(path, error),
    })?;
    if data.is_dir() {
        return Err(unfit(path, "it is a directory"));
    }
    if !data.is_file() {
        return Err(unfit(path, "it is no regular file"));
    }
    if !may_execute(path) {
        return Err(unfit(path, "you may not execute it (`chmod +x` allows it)"));
    }
    if data.permissions().mode() & 0o6000 != 0 {
        let why =
            "it is set-uid or set-gid: the loader puts no library before such a program; run a copy without that bit";
        return Err(unfit(path, why));
    }
    Ok(())
}

/// What stands behind `#!`; none where the file does not begin so.
fn script_line(path: &Path) -> Result<Option<Vec<u8>>, Refusal> {
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| unfit(path, format!("it cannot be read: {error}")))?;
    file.take(SCRIPT_LINE).read_to_end(&mut start).map_err(|error| unfit(path, error))?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest).trim_ascii();
    if line.is_empty() {
        return Err(unfit(path, "its `#!` line names no interpreter"));
    }
    Ok(Some(line.to_vec()))
}

/// The script's interpreter with its arguments, as the kernel would start it; `env` is gone through here, because the
/// library would take itself out of the environment in `env` already.
fn interpreted(script: Program, line: &[u8]) -> Result<Program, Refusal> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let interpreter = PathBuf::from(OsString::from_vec(line[..end].to_vec()));
    let option = Some(line[end..].trim_ascii()).filter(|option| !option.is_empty());
    let mut program = Program {
        name: interpreter.clone().into(),
        path: interpreter.clone(),
        arguments: Vec::new(),
        environment: script.environment,
    };
    if interpreter.file_name() == Some(OsStr::new("env")) {
        by_env(&mut program, &script.path, option.unwrap_or_default())?;
    } else {
        if !interpreter.exists() {
            let shown = interpreter.display();
            return Err(unfit(&script.path, format!("its interpreter `{shown}` is not there")));
        }
        program.arguments.extend(option.map(|option| OsString::from_vec(option.to_vec())));
    }
    program.arguments.push(script.path.into());
    program.arguments.extend(script.arguments);
    Ok(program)
}

/// `#!/usr/bin/env NAME`, and `#!/usr/bin/env -S A=1 NAME ARGUMENT...` without quotes.
fn by_env(program: &mut Program, script: &Path, option: &[u8]) -> Result<(), Refusal> {
    let text = String::from_utf8_lossy(option).into_owned();
    let split = text.strip_prefix("-S").or_else(|| text.strip_prefix("--split-string="));
    let words: Vec<&str> = match split {
        Some(rest) if rest.contains(['"', '\'', '\\', '$']) => Vec::new(),
        Some(rest) => rest.split_whitespace().collect(),
        None => vec![text.as_str()],
    };
    let assignments = words.iter().map_while(|word| word.split_once('='));
    program.environment.extend(assignments.clone().map(|(name, value)| (name.into(), value.into())));
    match words.get(assignments.count()..) {
        Some([name, arguments @ ..]) if !name.is_empty() && !name.starts_with('-') => {
            program.path = in_path(OsStr::new(name), std::env::var_os("PATH").as_deref())
                .map_err(|refusal| unfit(script, format!("its interpreter: {refusal}")))?;
            program.name = (*name).into();
            program.arguments.extend(arguments.iter().map(OsString::from));
            Ok(())
        }
        _ => Err(unfit(
            script,
            "raddle does not understand the options of `env` in its `#!` line; name the interpreter yourself: \
             `raddle run -- INTERPRETER SCRIPT`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(line: &str) -> Result<Program, Refusal> {
        let program = Program {
            path: "/scripts/a".into(),
            name: "a".into(),
            arguments: vec!["x".into()],
            environment: Vec::new(),
        };
        interpreted(program, line.as_bytes())
    }

    #[test]
    fn an_interpreter_gets_its_option_the_script_and_the_arguments() {
        let program = script("/bin/sh -e -u").unwrap();
        assert_eq!(program.path, Path::new("/bin/sh"));
        assert_eq!(program.arguments, ["-e -u", "/scripts/a", "x"]);
    }

    #[test]
    fn env_is_gone_through() {
        let program = script("/usr/bin/env sh").unwrap();
        assert!(program.path.ends_with("bin/sh"), "{program:?}");
        assert_eq!((program.name.as_os_str(), program.arguments.len()), (OsStr::new("sh"), 2));
        let program = script("/usr/bin/env -S A=1 sh -e").unwrap();
        assert_eq!(program.arguments, ["-e", "/scripts/a", "x"]);
        assert_eq!(program.environment, [("A".into(), "1".into())]);
        assert!(script("/usr/bin/env -i sh").is_err());
        assert!(script("/usr/bin/env no-such-program-anywhere").unwrap_err().to_string().contains("in no folder"));
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        assert!(script("/no/such/interpreter").unwrap_err().to_string().contains("/no/such/interpreter"));
    }

    #[test]
    fn names_are_looked_for_in_path() {
        assert_eq!(in_path(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin"))), Ok("/bin/sh".into()));
        assert_eq!(in_path(OsStr::new("sh"), Some(OsStr::new("/nowhere"))).unwrap_err().status(), 127);
        assert_eq!(in_path(OsStr::new("/no/where"), None).unwrap_err().status(), 127);
    }
}
