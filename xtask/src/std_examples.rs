//! `cargo xtask std-examples`: the examples of std's own documentation, compiled and run with our `thread` and `sync`
//! in the place of std's, and the table of that in docs/std-examples.md.
//!
//! They are read from the documentation that rustup installs beside the compiler (component rust-docs), and stay
//! there. Each is compiled as it stands first, then with the two paths replaced. What compiles is run in both forms,
//! ours on a lightweight thread, and must end alike. A campaign, not a part of `ci`.

use crate::shell::{self, Failure, Outcome, cargo};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Pages of std, without what std itself calls unstable.
const PAGES: [&str; 2] = ["std/thread", "std/sync"];
/// Below them, what names no thread of std's: atomics and reference counts are std's own here, too.
const NOT_OURS: [&str; 3] = ["/atomic/", "struct.Arc.html", "struct.Weak.html"];
/// An example that has not ended by then does not end.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

struct Example {
    page: String,
    code: String,
}

/// How an example ended, in one word.
type Ended = &'static str;

/// The command.
pub fn run() -> Outcome {
    let docs = documentation()?;
    let examples = collect(&docs)?;
    let work = std::env::temp_dir().join(format!("raddle-std-examples-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|error| Failure::failed(format!("{}: {error}", work.display())))?;
    let told = compare(&examples, &work);
    let _ = std::fs::remove_dir_all(&work);
    let (table, whole) = told?;
    let page = shell::root().join("docs/std-examples.md");
    std::fs::write(&page, table).map_err(|error| Failure::failed(format!("{}: {error}", page.display())))?;
    println!("std-examples: {whole}; docs/std-examples.md");
    Ok(())
}

fn documentation() -> Outcome<PathBuf> {
    let root = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let docs = Path::new(root.trim()).join("share/doc/rust/html");
    if !docs.is_dir() {
        return Err(Failure::usage("std's documentation is missing (rustup component add rust-docs)"));
    }
    Ok(docs)
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        match path.is_dir() {
            true => pages(&path, found),
            false if path.extension().is_some_and(|end| end == "html") => found.push(path),
            false => {}
        }
    }
}

/// All examples, each once, by their pages.
fn collect(docs: &Path) -> Outcome<Vec<Example>> {
    let mut files = Vec::new();
    PAGES.iter().for_each(|page| pages(&docs.join(page), &mut files));
    files.sort();
    let (mut seen, mut examples) = (BTreeSet::new(), Vec::new());
    for file in files {
        let name = file.strip_prefix(docs).unwrap_or(&file).display().to_string();
        if NOT_OURS.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).map_err(|error| Failure::failed(format!("{name}: {error}")))?;
        for code in examples_of(&text).into_iter().filter(|code| !code.contains("#![feature")) {
            if seen.insert(code.clone()) {
                examples.push(Example { page: name.replace(".html", ""), code });
            }
        }
    }
    Ok(examples)
}

/// The programs behind a page's buttons that run an example: whole ones, as they are compiled.
fn examples_of(page: &str) -> Vec<String> {
    let links = page.split("play.rust-lang.org/?code=").skip(1);
    links.filter_map(|rest| rest.split(['"', '&']).next()).map(decoded).collect()
}

fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let hex =
            || std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], (bytes[at] == b'%').then(hex).flatten()) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// With our paths in the place of std's.
fn ours(code: &str) -> String {
    let mut code = code.to_string();
    for module in ["thread", "sync"] {
        code = code.replace(&format!("std::{module}"), &format!("raddle::{module}"));
    }
    code
}

/// One program of those examples that compile, with what the compiler says of the others.
fn build(
    work: &Path,
    name: &str,
    codes: &[(usize, String)],
    externs: &[String],
) -> Outcome<(PathBuf, BTreeMap<usize, String>)> {
    let (source, program) = (work.join(format!("{name}.rs")), work.join(name));
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    loop {
        let mut text = String::from("#![allow(warnings)]\n");
        let mut lines: Vec<(usize, usize)> = Vec::new();
        for (number, code) in codes.iter().filter(|(number, _)| !refused.contains_key(number)) {
            lines.push((text.lines().count() + 1, *number));
            let _ = write!(text, "mod e{number} {{ {code}\npub fn call() {{ let _ = main(); }}\n}}\n");
        }
        text.push_str("fn call(number: usize) {\n    match number {\n");
        lines.iter().for_each(|(_, number)| _ = writeln!(text, "        {number} => e{number}::call(),"));
        text.push_str("        _ => {}\n    }\n}\nfn main() {\n    let number = std::env::args().nth(1).unwrap().parse().unwrap();\n");
        text.push_str(match externs.is_empty() {
            true => "    call(number);\n}\n",
            false => "    raddle::Builder::new().processors(2).build().unwrap().run(move || call(number));\n}\n",
        });
        std::fs::write(&source, text).map_err(|error| Failure::failed(format!("{}: {error}", source.display())))?;
        let mut compiler = Command::new("rustc");
        compiler.args(["--edition", "2024", "--error-format", "short", "-o"]).arg(&program).arg(&source).args(externs);
        let output = compiler.output().map_err(|error| Failure::usage(format!("rustc: {error}")))?;
        if output.status.success() {
            return Ok((program, refused));
        }
        let told = String::from_utf8_lossy(&output.stderr);
        let before = refused.len();
        for line in told.lines().filter(|line| line.contains(": error")) {
            let at = line.split(':').nth(1).and_then(|number| number.parse::<usize>().ok());
            let of = at.and_then(|at| lines.iter().rev().find(|(from, _)| *from <= at));
            if let Some((_, number)) = of {
                let text = line.split_once(": error").map_or(line, |(_, rest)| rest);
                let text = text.split_once(": ").map_or(text, |(_, text)| text);
                refused.entry(*number).or_insert_with(|| text.to_string());
            }
        }
        if refused.len() == before {
            return Err(Failure::failed(format!("{name}.rs: {told}")));
        }
    }
}

fn end_of(program: &Path, number: usize) -> Ended {
    let started = Command::new(program).arg(number.to_string()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else { return "does not start" };
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return "ends well",
            Ok(Some(_)) => return "fails",
            Ok(None) if begin.elapsed() < ENDS_WITHIN => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return "does not end";
            }
        }
    }
}

/// The library and the folder of what it is built on, as the compiler wants them.
fn library() -> Outcome<Vec<String>> {
    let told = shell::output(&mut cargo(&["build", "-p", "raddle", "--message-format", "json"]))?;
    let is_ours = |path: &&str| {
        path.ends_with(".rlib")
            && path.rsplit('/').next().is_some_and(|name| name.starts_with("libraddle-") || name == "libraddle.rlib")
    };
    let path = told.split('"').find(is_ours).ok_or_else(|| Failure::failed("cargo names no library"))?;
    let folder = Path::new(path).parent().unwrap_or(Path::new("."));
    let folder = if folder.ends_with("deps") { folder.to_path_buf() } else { folder.join("deps") };
    Ok(vec!["--extern".into(), format!("raddle={path}"), "-L".into(), format!("dependency={}", folder.display())])
}

/// The page, and one line of the same.
fn compare(examples: &[Example], work: &Path) -> Outcome<(String, String)> {
    let as_it_stands: Vec<_> = examples.iter().map(|example| example.code.clone()).enumerate().collect();
    let (of_std, not_std) = build(work, "of_std", &as_it_stands, &[])?;
    let fit = |number: &usize| !not_std.contains_key(number);
    let with_ours: Vec<_> =
        examples.iter().map(|example| ours(&example.code)).enumerate().filter(|(number, _)| fit(number)).collect();
    let (of_ours, refused) = build(work, "of_ours", &with_ours, &library()?)?;
    #[derive(Default)]
    struct Row {
        all: u32,
        compile: u32,
        alike: u32,
    }
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut others = String::new();
    for (number, example) in examples.iter().enumerate().filter(|(number, _)| fit(number)) {
        let row = rows.entry(&example.page).or_default();
        row.all += 1;
        if let Some(why) = refused.get(&number) {
            let _ = writeln!(others, "| `{}` | {} |", example.page, why.replace('|', "\\|"));
            continue;
        }
        row.compile += 1;
        let (natively, here) = (end_of(&of_std, number), end_of(&of_ours, number));
        match natively == here {
            true => row.alike += 1,
            false => _ = writeln!(others, "| `{}` | std's {natively}, ours {here} |", example.page),
        }
    }
    let sum = |of: fn(&Row) -> u32| rows.values().map(of).sum::<u32>();
    let (all, compile, alike) = (sum(|row| row.all), sum(|row| row.compile), sum(|row| row.alike));
    let version = shell::output(Command::new("rustc").arg("--version"))?;
    let version = version.split(" (").next().unwrap_or("rustc").trim();
    let mut page = format!(
        "# The examples of std's documentation\n\nWritten by `cargo xtask std-examples`, of {version}. Each example of `std::thread` and `std::sync` that the\n\
         compiler takes as it stands, without unstable features (atomics, `Arc` and `Weak` left out: they are std's here,\n\
         too), is compiled with `raddle::thread` and `raddle::sync` in the place of std's, and run on a lightweight thread:\n\
         does it end as with std?\n\n\
         **{compile} of {all} compile, {alike} end alike.**\n\n| page | examples | compile | end alike |\n|---|---|---|---|\n"
    );
    for (name, Row { all, compile, alike }) in &rows {
        let _ = writeln!(page, "| `{name}` | {all} | {compile} | {alike} |");
    }
    if !others.is_empty() {
        let _ = write!(page, "\n## What differs\n\n| page | what |\n|---|---|\n{others}");
    }
    Ok((page, format!("{compile} of {all} compile, {alike} end alike")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_read_from_the_links_of_a_page() {
        let page =
            r#"<a href="https://play.rust-lang.org/?code=fn+main()+%7B%0A++1+%2B+2;%0A%7D&amp;edition=2024">Run</a>"#;
        assert_eq!(examples_of(page), ["fn main() {\n  1 + 2;\n}"]);
        assert!(examples_of("no example").is_empty());
    }

    #[test]
    fn our_paths_stand_in_the_place_of_stds() {
        assert_eq!(
            ours("use std::thread; std::sync::Mutex; std::time"),
            "use raddle::thread; raddle::sync::Mutex; std::time"
        );
    }
}
