//! A file in memory: what is stored there is in the file when the process ends, however it ends.

use super::own_writes;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A new file of so many zero bytes, in the place of what was there, for the user alone. Its room on the disk is
/// taken now: a store never finds it full. It stays in memory as long as the process; a fork shares it.
///
/// # Errors
/// What the system says.
pub(crate) fn create(path: &Path, size: usize) -> io::Result<*mut u8> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let mapped = map(&file, size);
    if mapped.is_err() {
        let _ = std::fs::remove_file(path);
    }
    mapped
}

fn map(file: &std::fs::File, size: usize) -> io::Result<*mut u8> {
    // SAFETY: an open file; an error is looked at.
    let allocate = || -unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size as libc::off_t) } as isize;
    let refused = -own_writes::attempt(allocate);
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused as i32));
    }
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let arguments = [0, size, protection, libc::MAP_SHARED as usize, file.as_raw_fd() as usize, 0];
    // SAFETY: new pages, or an error.
    let pages = unsafe { raddle_machine::raw::system_call(libc::SYS_mmap as usize, arguments) };
    match (-4095..0).contains(&pages) {
        true => Err(io::Error::from_raw_os_error(-pages as i32)),
        false => Ok(std::ptr::with_exposed_provenance_mut(pages as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_stored_is_in_the_file_which_is_the_users_alone() {
        let path = std::env::temp_dir().join(format!("raddle-mapped-{}", std::process::id()));
        std::fs::write(&path, "former").unwrap();
        let pages = create(&path, 8192).unwrap();
        // SAFETY: so many bytes were asked for.
        unsafe { pages.add(8191).write_volatile(7) };
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[8191]), (8192, 0, 7));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(path).unwrap();
        assert!(create("/nowhere/file".as_ref(), 4096).is_err());
    }
}
