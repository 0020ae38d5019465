//! Where the drop-in library lies.

use std::path::{Path, PathBuf};

/// As `cargo build` of everything names it.
const BUILT: &str = "libraddle_drop_in.so";
/// As building the command alone makes it, without link-time optimisation.
const ALONGSIDE: &str = "libraddle_posix.so";
/// As it is installed.
const INSTALLED: &str = "libraddle.so.0";

/// The library's path, fit for `LD_PRELOAD`.
pub fn find() -> Result<String, String> {
    let path = match std::env::var_os("RADDLE_LIBRARY") {
        Some(named) => {
            let path = PathBuf::from(&named);
            if !path.is_file() {
                return Err(format!("RADDLE_LIBRARY={}: there is no such file", path.display()));
            }
            path
        }
        None => {
            let own = std::env::current_exe().map_err(|e| format!("cannot tell where this program lies: {e}"))?;
            newest(candidates(&own)).ok_or_else(|| {
                format!(
                    "the drop-in library {BUILT} is not beside this program, nor {INSTALLED} in the lib folder next to its folder: \
                     build it with `cargo build --release -p raddle-drop-in`, or name it with RADDLE_LIBRARY"
                )
            })?
        }
    };
    let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    fit_for_preload(&path)
}

/// Beside the program (`deps` holds what was built as a dependency only), or installed.
fn candidates(own: &Path) -> Vec<PathBuf> {
    let Some(folder) = own.parent() else { return Vec::new() };
    let mut found = vec![folder.join(BUILT), folder.join(ALONGSIDE), folder.join("deps").join(ALONGSIDE)];
    found.extend(folder.parent().map(|above| above.join("lib").join(INSTALLED)));
    found
}

/// The one that was built last: an earlier build of the other kind may still lie there.
fn newest(candidates: Vec<PathBuf>) -> Option<PathBuf> {
    let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    candidates.into_iter().filter(|path| path.is_file()).max_by_key(built)
}

/// The loader splits `LD_PRELOAD` at blanks and colons and knows no quotes.
fn fit_for_preload(path: &Path) -> Result<String, String> {
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
        let found = candidates(Path::new("/opt/raddle/bin/raddle"));
        assert!(found.contains(&PathBuf::from("/opt/raddle/lib/libraddle.so.0")));
        assert_eq!(found[0], Path::new("/opt/raddle/bin/libraddle_drop_in.so"));
    }
}
