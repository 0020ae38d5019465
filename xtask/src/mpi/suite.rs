//! `cargo xtask mpi suite FOLDER`: MPICH's own tests with threads, natively and under `raddle run --mpi`.
//!
//! `FOLDER` is `test/mpi` of MPICH's sources (Debian: `apt-get source mpich`), configured with
//! `CC=mpicc.mpich MPICC=mpicc.mpich --enable-threads=multiple` and built: `make -C util`, then
//! `make -C threads check TESTS=`. Which tests there are, with how many ranks and which arguments, their lists say.

use crate::shell::{self, Failure, Outcome, cargo};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask mpi suite FOLDER [--seconds S] [TEST ..]
FOLDER is test/mpi of MPICH's sources, configured and built; a test has S seconds (300)";

/// A line of a list.
#[derive(Debug, PartialEq)]
struct Test {
    name: String,
    ranks: String,
    arguments: Vec<String>,
    settings: Vec<String>,
}

/// The command.
pub fn run(args: &[String]) -> Outcome {
    let Some((folder, mut rest)) = args.split_first() else { return Err(Failure::usage(USAGE)) };
    let mut seconds = 300;
    if let [option, value, after @ ..] = rest
        && option == "--seconds"
    {
        seconds = value.parse().map_err(|_| Failure::usage(format!("--seconds {value}: not a number")))?;
        rest = after;
    }
    let patience = Duration::from_secs(seconds);
    shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    let raddle = target.join("release/raddle").display().to_string();
    let (mut natively, mut ours, mut missing) = (0, 0, 0);
    let mut lost = Vec::new();
    for folder in lists(Path::new(folder))? {
        let list = std::fs::read_to_string(folder.join("testlist")).map_err(|e| Failure::failed(e.to_string()))?;
        for test in list.lines().filter_map(parse).filter(|test| rest.is_empty() || rest.contains(&test.name)) {
            if !folder.join(&test.name).exists() {
                println!("{}: not built", test.name);
                missing += 1;
                continue;
            }
            let [native, taken] = [None, Some(raddle.as_str())].map(|way| passes(&test, &folder, way, patience));
            let (native, taken) = (native?, taken?);
            let told = |seconds: Option<f64>| seconds.map_or("failed".into(), |seconds| format!("{seconds:.1} s"));
            let whole = format!("{} {} ({} ranks)", test.name, test.arguments.join(" "), test.ranks);
            println!("{whole}: natively {}, with ours {}", told(native), told(taken));
            natively += usize::from(native.is_some());
            ours += usize::from(taken.is_some());
            if native.is_some() && taken.is_none() {
                lost.push(whole);
            }
        }
    }
    println!("natively {natively} pass, with ours {ours}; {missing} were not built");
    match (natively, lost.is_empty()) {
        (0, _) => Err(Failure::failed("no test passes natively: is the folder configured and built?")),
        (_, true) => Ok(()),
        (_, false) => Err(Failure::failed(format!("pass natively and not with ours: {}", lost.join("; ")))),
    }
}

/// The folders of `threads` that have a list.
fn lists(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let threads = folder.join("threads");
    let entries = std::fs::read_dir(&threads)
        .map_err(|error| Failure::usage(format!("{}: {error}\n{USAGE}", threads.display())))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("testlist").exists());
    folders.sort();
    Ok(folders)
}

/// `NAME RANKS [arg=A ..] [env=NAME=VALUE ..] ..`
fn parse(line: &str) -> Option<Test> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|word| !word.starts_with('#'))?;
    let ranks = words.next()?;
    let rest: Vec<&str> = words.collect();
    let after = |prefix| rest.iter().filter_map(|word| word.strip_prefix(prefix)).map(str::to_string).collect();
    Some(Test { name: name.into(), ranks: ranks.into(), arguments: after("arg="), settings: after("env=") })
}

/// One run: how long it took, if it passed.
fn passes(test: &Test, folder: &Path, raddle: Option<&str>, patience: Duration) -> Outcome<Option<f64>> {
    let mut command = Command::new("mpirun.mpich");
    command.args(["-n", &test.ranks, "env"]).args(&test.settings);
    command.args(raddle).args(raddle.map_or(&[][..], |_| &["run", "--mpi", "--"]));
    command.arg(folder.join(&test.name)).args(&test.arguments).current_dir(folder);
    let path = std::env::temp_dir().join(format!("raddle-mpi-suite-{}", std::process::id()));
    let file = std::fs::File::create(&path).map_err(|error| Failure::failed(error.to_string()))?;
    command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| Failure::usage(format!("mpirun.mpich: {error}")))?;
    let ended = super::ends(&mut child, patience);
    let text = std::fs::read(&path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    let well = ended && child.wait().is_ok_and(|status| status.success());
    let good = well && String::from_utf8_lossy(&text).contains("No Errors");
    Ok(good.then(|| began.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_list_tells_ranks_and_arguments() {
        let test = parse("mt_sendrecv 2 arg=-iter=1024 env=A=b timeLimit=600").unwrap();
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!((test.name.as_str(), test.ranks.as_str()), ("mt_sendrecv", "2"));
        assert_eq!((test.arguments, test.settings), (words(&["-iter=1024"]), words(&["A=b"])));
        assert_eq!(parse("# a remark"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_folder_that_is_none_is_said() {
        let told = run(&["/nowhere".into(), "--seconds".into(), "x".into()]).unwrap_err().to_string();
        assert!(told.contains("--seconds x"), "{told}");
        assert!(lists(Path::new("/nowhere")).unwrap_err().to_string().contains("usage"));
    }
}
