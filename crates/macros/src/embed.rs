//! The drop-in library's file, put into the command.
//!
//! The command's package depends on the package of the library, which makes nothing that Rust could link; so cargo has
//! built the library's file before it compiles the command, with the same profile, in a folder that it names to the
//! compiler. Nothing is built twice, and no build script starts another cargo.

use std::path::{Path, PathBuf};

/// `Some((BYTES, "HASH"))`, or `None` where no such file was built: `cargo check` builds none. `package` is the folder
/// of the command's package.
pub(crate) fn expression(package: &Path, arguments: impl Iterator<Item = String>, name: &str) -> String {
    let lies_beside = package.join("../drop-in/Cargo.toml").exists();
    let library = newest(folders(arguments).iter().flat_map(|folder| libraries(folder, name, !lies_beside)));
    let library = library.and_then(|path| Some((path.canonicalize().ok()?, std::fs::read(&path).ok()?)));
    match library {
        Some((path, bytes)) => format!(
            "::core::option::Option::Some((include_bytes!({path:?}) as &'static [u8], \"{:016x}\"))",
            hash(&bytes)
        ),
        None => "::core::option::Option::None::<(&'static [u8], &'static str)>".into(),
    }
}

/// Where the compiler looks for what was built before, and where it puts what it builds.
fn folders(arguments: impl Iterator<Item = String>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut previous = String::new();
    for argument in arguments {
        let value = match previous.as_str() {
            "-L" | "--out-dir" => Some(argument.as_str()),
            _ => argument.strip_prefix("-L").or_else(|| argument.strip_prefix("--out-dir=")),
        };
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let folder = PathBuf::from(value.strip_prefix("dependency=").unwrap_or(value));
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        previous = argument;
    }
    folders
}

/// Files `libNAME.so`; of a package from a registry cargo puts a hash between, of one whose sources lie beside the
/// command's it does not. Both may be in one folder: `cargo package` builds the former there.
fn libraries(folder: &Path, library: &str, has_hash: bool) -> Vec<PathBuf> {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let hash = name.strip_prefix("lib").and_then(|rest| rest.strip_prefix(library)?.strip_suffix(".so"));
        hash.is_some_and(|hash| if has_hash { hash.starts_with('-') } else { hash.is_empty() })
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_library).collect()
}

fn newest(files: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    files.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
}

/// FNV-1a: it tells builds apart; whether a file is the right one is seen by its bytes.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = String> {
        line.split(' ').map(String::from).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn the_compilers_folders_are_found_in_both_forms() {
        let found = folders(words("rustc --out-dir /a -L dependency=/b -Ldependency=/c --out-dir=/d -L /b"));
        assert_eq!(found, ["/a", "/b", "/c", "/d"].map(PathBuf::from));
    }

    #[test]
    fn the_newest_file_is_taken_and_none_where_there_is_none() {
        let folder = std::env::temp_dir().join(format!("raddle-embed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let line = format!("rustc -L dependency={}", folder.display());
        let from_registry = || expression(&folder, words(&line), "raddle_drop_in");
        assert!(from_registry().contains("None"));
        std::fs::write(folder.join("libraddle_drop_in_other.so"), "no").unwrap();
        assert!(from_registry().contains("None"));
        std::fs::write(folder.join("libraddle_drop_in-0123.so"), "yes").unwrap();
        let text = from_registry();
        // Where the library's sources lie beside, the file is theirs, whatever was built later for another.
        let package = folder.join("cli");
        std::fs::create_dir_all(folder.join("drop-in")).unwrap();
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(folder.join("drop-in/Cargo.toml"), "").unwrap();
        let beside = expression(&package, words(&line), "raddle_drop_in");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(beside.contains("None"), "{beside}");
        assert!(
            text.contains("libraddle_drop_in-0123.so") && text.contains(&format!("{:016x}", hash(b"yes"))),
            "{text}"
        );
    }

    #[test]
    fn builds_differ_by_their_hash() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_ne!(hash(b"a"), hash(b"b"));
    }
}
