//! The drop-in library: it is part of this command, and put into a file for the loader.
//!
//! `RADDLE_LIBRARY` names another one. A build that has none in it (`cargo check` makes none) takes the one beside it.

use super::{elf, unpack};
use crate::output::{Output, written_there};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The library's file and a hash of it, unless it was not built.
const EMBEDDED: Option<(&[u8], &str)> = raddle_macros::drop_in_library!();
/// The same of the library for MPI's calls.
const EMBEDDED_FOR_MPI: Option<(&[u8], &str)> = raddle_macros::mpi_library!();
const FOR_MPI: &str = "libraddle_mpi.so";
/// As cargo names it.
const BUILT: &str = "libraddle_drop_in.so";
/// As it is installed.
const INSTALLED: &str = "libraddle.so.0";

/// The library's path, fit for `LD_PRELOAD`.
pub fn find() -> Result<String, String> {
    if let Some(named) = std::env::var_os("RADDLE_LIBRARY") {
        let path = PathBuf::from(&named);
        if !path.is_file() {
            return Err(format!("RADDLE_LIBRARY={}: there is no such file", path.display()));
        }
        if elf::library(&path) == elf::Library::Another {
            return Err(format!("RADDLE_LIBRARY={}: this is not raddle's drop-in library", path.display()));
        }
        return fit_for_preload(&path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let own = own_program()
        .map_err(|e| format!("cannot tell where this program lies: {e}; name the library with RADDLE_LIBRARY"))?;
    let Some((bytes, hash)) = EMBEDDED else {
        let beside = own.with_file_name(BUILT);
        return beside.canonicalize().map_err(|_| without_library(&own)).and_then(|path| fit_for_preload(&path));
    };
    let lies_ready = copies(&own).into_iter().filter(|path| unpack::holds(path, bytes));
    let mut fit = lies_ready.filter_map(|path| fit_for_preload(&path.canonicalize().ok()?).ok());
    fit.next().map_or_else(|| unpack::place(bytes, hash), Ok)
}

/// A remark on the library that RADDLE_LIBRARY names, where it is not as good as the one in this command.
pub fn remark() -> Option<String> {
    let path = PathBuf::from(std::env::var_os("RADDLE_LIBRARY")?);
    (elf::library(&path) == elf::Library::WithoutAllocator).then(|| {
        format!(
            "RADDLE_LIBRARY={}: this build takes its memory from the program's allocator, so a program with jemalloc, \
             tcmalloc or the like may hang or crash; take {BUILT} of the package raddle-drop-in, or leave \
             RADDLE_LIBRARY out",
            path.display()
        )
    })
}

/// Where this program lies.
pub fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| as_called().ok_or(error))
}

/// Where this program was called from: what there is to go by without `/proc`.
fn as_called() -> Option<PathBuf> {
    let called = PathBuf::from(std::env::args_os().next()?);
    if called.components().count() > 1 {
        return called.canonicalize().ok();
    }
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders).map(|folder| folder.join(&called)).find(|path| path.is_file());
    found?.canonicalize().ok()
}

/// Write the library into a file, for those who load it by LD_PRELOAD themselves (images, units, pods)
#[derive(Args)]
pub struct Write {
    /// The file, such as /usr/lib/libraddle.so.0
    file: PathBuf,
}

/// Writes the library.
pub fn write(options: &Write) -> Result<ExitCode, String> {
    let own = own_program().map_err(|e| format!("cannot tell where this program lies: {e}"))?;
    let (bytes, _) = EMBEDDED.ok_or_else(|| without_library(&own))?;
    let written = Output::of(&options.file).and_then(|output| match output {
        // A device, a pipe: it stays what it is.
        Output::There(_, file) => written_there(&file, bytes),
        Output::Replaced(path) => unpack::write(&path, bytes),
        Output::Standard => unreachable!("a file was named"),
    });
    written.map_err(|error| format!("cannot write {}: {error}", options.file.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The path of the library for MPI's calls, fit for `LD_PRELOAD`.
pub fn find_for_mpi() -> Result<String, String> {
    let own = own_program().map_err(|e| format!("cannot tell where this program lies: {e}"))?;
    if let Some((bytes, hash)) = EMBEDDED_FOR_MPI {
        return unpack::place(bytes, hash);
    }
    let folder = own.parent().unwrap_or(Path::new("/"));
    let beside = [folder.join(FOR_MPI), folder.join("../lib").join(FOR_MPI)];
    let found = beside.iter().find_map(|path| path.canonicalize().ok());
    found
        .ok_or_else(|| {
            format!("this build has no {FOR_MPI} in it: build the command with `cargo build --release -p raddle-cli`")
        })
        .and_then(|path| fit_for_preload(&path))
}

/// Where the same library may lie ready: installed (the administrator's copy is shared by all), and as cargo left it.
fn copies(own: &Path) -> Vec<PathBuf> {
    let Some(folder) = own.parent() else { return Vec::new() };
    let built = [folder.join(BUILT), folder.join("deps").join(BUILT)];
    // As Debian lays libraries out, too.
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let library = |folder: &str| own.ancestors().nth(2).map(|prefix| prefix.join("lib").join(folder).join(INSTALLED));
    [library(""), library(&multiarch)].into_iter().flatten().chain(built).collect()
}

fn without_library(own: &Path) -> String {
    format!(
        "this build of {} has no drop-in library in it, and {BUILT} is not beside it: build the command with \
         `cargo build --release -p raddle-cli`, or name the library with RADDLE_LIBRARY",
        own.display()
    )
}

/// The loader splits `LD_PRELOAD` at blanks and colons and knows no quotes.
pub fn fit_for_preload(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some(text) if !text.contains([' ', ':', '\t', '\n']) => Ok(text.to_string()),
        _ => Err(format!(
            "the library's path `{}` holds a blank, a colon or what is not UTF-8, which LD_PRELOAD cannot express: move it",
            path.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_split_is_refused() {
        assert!(fit_for_preload(Path::new("/a/b.so")).is_ok());
        assert!(fit_for_preload(Path::new("/a b/c.so")).is_err());
        assert!(fit_for_preload(Path::new("/a:b/c.so")).is_err());
    }

    #[test]
    fn an_installed_library_is_looked_for_in_lib() {
        let found = copies(Path::new("/opt/raddle/bin/raddle"));
        assert_eq!(found[0], Path::new("/opt/raddle/lib/libraddle.so.0"));
        assert_eq!(found[2], Path::new("/opt/raddle/bin/libraddle_drop_in.so"));
    }

    #[test]
    fn a_build_holds_the_libraries() {
        for library in [EMBEDDED, EMBEDDED_FOR_MPI] {
            let (bytes, hash) = library.expect("cargo builds the library before this package");
            assert!(bytes.starts_with(b"\x7fELF") && hash.len() == 16);
        }
        let has_id = EMBEDDED.is_some_and(|(bytes, _)| unpack::has_build_id(&bytes[..unpack::PAGE]));
        assert!(has_id, "each start would compare all of it");
    }
}
