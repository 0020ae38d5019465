//! The library in this command becomes a file that the loader can open.
//!
//! The file lies in the user's cache and is used again. Nobody else may have written it: folder and file belong to the
//! user (or to root), others cannot write to them, and what tells its build (the linker's build id, its size, its first
//! and its last page) is compared each time: all twelve megabytes took five times as long as the rest of a start. Where
//! no such folder is to be had (a file system that is read-only or forbids execution), the file is in memory, and its
//! descriptor goes to the program.

use super::library::fit_for_preload;
use rustix::fs::{MemfdFlags, OFlags, SealFlags, StatVfsMountFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Libraries of other builds stay in the cache for so long.
const OTHERS_STAY: Duration = Duration::from_secs(30 * 24 * 3600);
/// What is compared at once, and at either end of a file.
const BLOCK_BYTES: usize = 64 << 10;
pub const PAGE: usize = 4 << 10;
/// From here on, descriptors are those of nobody who counts on low numbers.
const HIGH: i32 = 1000;

/// Puts the library where the loader finds it, and tells its path.
pub fn place(bytes: &[u8], hash: &str) -> Result<String, String> {
    let mut failures = Vec::new();
    for folder in folders() {
        match in_folder(&folder, bytes, hash) {
            Ok(path) => return Ok(path),
            Err(why) => failures.push(format!("{}: {why}", folder.display())),
        }
    }
    in_memory(bytes).map_err(|error| {
        format!("the library cannot be put where the loader finds it: {}; in memory: {error}", failures.join("; "))
    })
}

/// Where it may lie, the best place first.
fn folders() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    // What root starts may become another user and then load it again, so it lies where all may read.
    let shared = (user == 0).then(|| PathBuf::from("/var/cache"));
    let home = variable("HOME").map(|home| home.join(".cache"));
    let temporary = variable("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let caches = variable("XDG_CACHE_HOME").into_iter().chain(shared).chain(home);
    let of_raddle = caches.map(|folder| folder.join("raddle"));
    of_raddle.chain([temporary.join(format!("raddle-{user}"))]).collect()
}

fn in_folder(folder: &Path, bytes: &[u8], hash: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let path = folder.join(format!("libraddle-{hash}.so"));
    let preload = fit_for_preload(&path)?;
    let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder).map_err(text)?;
    let data = folder.symlink_metadata().map_err(text)?;
    if !data.is_dir() || !is_private(&data) {
        return Err("it is no folder of this user's, or others may write to it".into());
    }
    let system = rustix::fs::statvfs(folder).map_err(|error| error.to_string())?;
    if system.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("its file system allows no execution (noexec)".into());
    }
    if !holds(&path, bytes) {
        write(&path, bytes).map_err(text)?;
        remove_others(folder, &path);
    }
    Ok(preload)
}

/// Nobody but this user and root can have written it.
fn is_private(data: &std::fs::Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    (data.uid() == user || data.uid() == 0) && data.mode() & 0o022 == 0
}

/// Whether the file is a private one with these bytes. Of a library whose first page has a build id, which is a hash of
/// all of it, that page and the last one are looked at.
pub fn holds(path: &Path, bytes: &[u8]) -> bool {
    let open = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    let Ok(file) = open else { return false };
    let Ok(data) = file.metadata() else { return false };
    if !data.is_file() || !is_private(&data) || data.len() != bytes.len() as u64 {
        return false;
    }
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut is_same = |at: usize, part: &[u8]| {
        let found = &mut buffer[..part.len()];
        file.read_exact_at(found, at as u64).is_ok() && found == part
    };
    let first = &bytes[..bytes.len().min(PAGE)];
    if has_build_id(first) {
        let last = bytes.len().saturating_sub(PAGE);
        return is_same(0, first) && is_same(last, &bytes[last..]);
    }
    bytes.chunks(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES)).all(|(part, at)| is_same(at, part))
}

/// Whether these bytes of an ELF file hold the note in which the linker has put a hash of its contents.
pub fn has_build_id(bytes: &[u8]) -> bool {
    // The length of the name, the length of the hash (between), the kind (3: a build id), and the name.
    let (name_length, kind_and_name) = (4u32.to_ne_bytes(), *b"\x03\0\0\0GNU\0");
    let is_note = |words: &[u8]| words[..4] == name_length && words[4] >= 16 && words[8..] == kind_and_name;
    bytes.starts_with(b"\x7fELF") && bytes.windows(16).step_by(4).any(is_note)
}

/// Under another name first: whoever opens the file finds it whole.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(bytes)?;
        // Only its ends are looked at later: it is whole before it has its name, also where the power fails.
        file.sync_data()?;
        std::fs::rename(&new, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Those of builds that nobody has had here for long.
fn remove_others(folder: &Path, kept: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let age = entry.metadata().ok().and_then(|data| data.modified().ok()?.elapsed().ok());
        if path != kept && name.to_string_lossy().starts_with("libraddle-") && age > Some(OTHERS_STAY) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// In a file that has no name, by a descriptor that the program inherits.
fn in_memory(bytes: &[u8]) -> std::io::Result<String> {
    let made = rustix::fs::memfd_create("raddle", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(made);
    file.write_all(bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let high = rustix::io::fcntl_dupfd_cloexec(&file, HIGH).unwrap_or_else(|_| OwnedFd::from(file));
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty())?;
    let path = format!("/proc/self/fd/{}", high.as_raw_fd());
    // It stays open for the program that this process becomes.
    let _ = high.into_raw_fd();
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("raddle-unpack-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_was_changed_is_replaced() {
        let folder = Folder::new("changed");
        let cache = folder.0.join("raddle");
        let path = PathBuf::from(in_folder(&cache, b"library", "1").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"library");
        std::fs::write(&path, b"luggage").unwrap();
        assert!(!holds(&path, b"library"));
        in_folder(&cache, b"library", "1").unwrap();
        assert!(holds(&path, b"library"));
    }

    #[test]
    fn a_library_is_told_by_its_build_id_and_its_ends() {
        let folder = Folder::new("build-id");
        let path = folder.0.join("library");
        let mut library = vec![7u8; 3 * BLOCK_BYTES + 5];
        library[..4].copy_from_slice(b"\x7fELF");
        let is_held = |library: &[u8], changed_at: usize| {
            let mut other = library.to_vec();
            other[changed_at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
            holds(&path, library)
        };
        let end = library.len() - 1;
        let places = [0, 600, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, end];
        assert_eq!(places.map(|at| is_held(&library, at)), [false; 5], "without an id each byte counts");
        library[592..608].copy_from_slice(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0");
        library[608..628].copy_from_slice(&[9; 20]);
        assert_eq!([610, 627, 4, end].map(|at| is_held(&library, at)), [false; 4]);
        std::fs::write(&path, &library[1..]).unwrap();
        assert!(!holds(&path, &library), "another size");
        std::fs::write(&path, &library).unwrap();
        assert!(holds(&path, &library));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_and_so_is_a_link() {
        let folder = Folder::new("others");
        let cache = folder.0.join("raddle");
        in_folder(&cache, b"library", "1").unwrap();
        std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(in_folder(&cache, b"library", "1").unwrap_err().contains("others may write"));
        std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&cache, folder.0.join("link")).unwrap();
        assert!(in_folder(&folder.0.join("link"), b"library", "1").is_err());
        let file = cache.join("libraddle-1.so");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(!holds(&file, b"library"));
    }

    #[test]
    fn old_libraries_of_other_builds_are_removed() {
        let folder = Folder::new("old");
        let cache = folder.0.join("raddle");
        let [old, recent] = ["1", "2"].map(|hash| PathBuf::from(in_folder(&cache, b"library", hash).unwrap()));
        let then = std::time::SystemTime::now() - OTHERS_STAY - Duration::from_secs(60);
        File::open(&old).unwrap().set_modified(then).unwrap();
        in_folder(&cache, b"another", "3").unwrap();
        assert!(!old.exists() && recent.exists());
    }

    #[test]
    fn a_file_in_memory_holds_the_library() {
        let path = in_memory(b"library").unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"library");
    }
}
