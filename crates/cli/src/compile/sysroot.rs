//! The standard library with quantum checks: a copy of rustc's sysroot in which each object is made anew from the
//! bitcode that it carries.
//!
//! Made once for each rustc, pass and limits of its own, and kept beside what cargo builds.

use super::llvm::{Llvm, quiet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the copy is, made now if it is not there.
pub fn prepare(llvm: &Llvm, plugin: &str, rustc: &Path, target: &str, cache: &Path) -> Result<PathBuf, String> {
    let told = |argument: &str| -> Result<String, String> {
        let output = Command::new(rustc).args(argument.split(' ')).output();
        let output = output.map_err(|error| format!("`{}` cannot be started: {error}", rustc.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let original = PathBuf::from(told("--print sysroot")?);
    let libraries = original.join("lib/rustlib").join(target).join("lib");
    if !libraries.is_dir() {
        return Err(format!("the standard library for {target} is not in {}", original.display()));
    }
    let pass = fs::read(plugin).map_err(at(Path::new(plugin)))?;
    let limits = std::env::var_os("RADDLE_YIELDS").unwrap_or_default();
    let copy =
        cache.join(format!("sysroot-{:016x}", key(&[told("-vV")?.as_bytes(), &pass, limits.as_encoded_bytes()])));
    if copy.is_dir() {
        return Ok(copy);
    }
    eprintln!("raddle: putting quantum checks into the standard library (once for each rustc)");
    let making = cache.join(format!("making-{}", std::process::id()));
    let made = make(llvm, plugin, &original, &libraries, target, &making);
    // Another may have made it meanwhile: then that one serves.
    let placed = made.and_then(|()| {
        fs::rename(&making, &copy).or_else(|error| if copy.is_dir() { Ok(()) } else { Err(at(&copy)(error)) })
    });
    let _ = fs::remove_dir_all(&making);
    placed.map(|()| copy)
}

/// FNV-1a.
fn key(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

fn make(llvm: &Llvm, plugin: &str, original: &Path, libraries: &Path, target: &str, copy: &Path) -> Result<(), String> {
    let own = copy.join("lib/rustlib").join(target).join("lib");
    fs::create_dir_all(&own).map_err(at(&own))?;
    // All but the libraries is the original's.
    link_all(original, copy, &["lib"])?;
    link_all(&original.join("lib"), &copy.join("lib"), &["rustlib"])?;
    link_all(&original.join("lib/rustlib"), &copy.join("lib/rustlib"), &[target])?;
    link_all(&original.join("lib/rustlib").join(target), &copy.join("lib/rustlib").join(target), &["lib"])?;
    for entry in fs::read_dir(libraries).map_err(at(libraries))? {
        let path = entry.map_err(at(libraries))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What compilers call behind the program's back stays as it is.
        let to_do = name.ends_with(".rlib")
            && !name.starts_with("libcompiler_builtins")
            && !name.starts_with("libprofiler_builtins");
        if to_do {
            with_checks(llvm, plugin, &path, &own.join(&name), &copy.join("work"))?;
        } else {
            symlink(&path, own.join(&name)).map_err(at(&own))?;
        }
    }
    let _ = fs::remove_dir_all(copy.join("work"));
    Ok(())
}

fn link_all(from: &Path, to: &Path, but: &[&str]) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let name = entry.file_name();
        if !but.iter().any(|but| name == *but) {
            symlink(entry.path(), to.join(&name)).map_err(at(to))?;
        }
    }
    Ok(())
}

/// One library: its objects from their bitcode. An object without bitcode stays.
fn with_checks(llvm: &Llvm, plugin: &str, library: &Path, to: &Path, work: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work).map_err(at(work))?;
    let run = |tool: &str, arguments: &[&str]| {
        quiet(tool, Command::new(llvm.tool(tool)).args(arguments).current_dir(work).output())
    };
    run("llvm-ar", &["x", &library.display().to_string()])?;
    let mut members: Vec<String> = Vec::new();
    for entry in fs::read_dir(work).map_err(at(work))? {
        members.push(entry.map_err(at(work))?.file_name().to_string_lossy().into_owned());
    }
    // The metadata first, as rustc has it.
    members.sort_by_key(|name| (name != "lib.rmeta", name.clone()));
    for member in members.iter().filter(|name| name.ends_with(".o")) {
        let dump = format!("--dump-section=.llvmbc={member}.bc");
        if run("llvm-objcopy", &[&dump, member, "/dev/null"]).is_err() {
            continue;
        }
        let (bitcode, checked) = (format!("{member}.bc"), format!("{member}.checked.bc"));
        run("opt", &[&format!("-load-pass-plugin={plugin}"), "-passes=raddle-yields", &bitcode, "-o", &checked])?;
        let sections = ["-O2", "--relocation-model=pic", "-filetype=obj", "-function-sections", "-data-sections"];
        run("llc", &[&sections[..], &[&checked, "-o", member]].concat())?;
    }
    let mut pack = vec!["rc".to_string(), to.display().to_string()];
    pack.extend(members);
    run("llvm-ar", &pack.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_rustc_or_pass_gets_another_copy() {
        assert_ne!(key(&[b"a", b"b"]), key(&[b"a", b"c"]));
        assert_ne!(key(&[b"ab", b""]), key(&[b"a", b"b"]));
        assert_eq!(key(&[b"a"]), key(&[b"a"]));
    }
}
