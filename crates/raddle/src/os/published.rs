//! A file that is written anew again and again, by a kernel thread with descriptors of its own: the program's numbers
//! stay as they are.

use super::own_writes::Own;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What the file is to hold.
pub(crate) trait Published: Send + 'static {
    /// Looks at what the next text will tell of; how many nanoseconds the next look can wait.
    fn look(&mut self) -> u64;

    fn text(&mut self) -> String;

    /// It could be written, and cannot be now: called once, on a kernel thread that has no standard error.
    fn failed(&mut self, why: String);
}

/// Writes the text into the file now, and then every so many nanoseconds. Only the user may read it.
///
/// # Errors
/// The file cannot be written, or there is no kernel thread.
pub(crate) fn publish(path: PathBuf, period: u64, mut published: impl Published) -> std::io::Result<()> {
    write(&path, &published.text())?;
    super::spawn("raddle-metrics", move || {
        if super::looks::leave_table(true).is_err() {
            return;
        }
        let mut told = false;
        loop {
            let mut left = period;
            while left > 0 {
                let pause = published.look().clamp(1, left);
                super::events::rest(pause);
                left -= pause;
            }
            // A disk that is full for a while ends nothing.
            let Err(error) = write(&path, &published.text()) else { continue };
            if !std::mem::replace(&mut told, true) {
                published.failed(format!("{} cannot be written any more, and is tried again: {error}", path.display()));
            }
        }
    })
}

/// Under another name first: whoever reads the file finds it whole.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    let _ = std::fs::remove_file(&new);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = Own(file).write_all(text.as_bytes()).and_then(|()| std::fs::rename(&new, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    static TIMES: AtomicU32 = AtomicU32::new(0);
    static FAILED: Mutex<String> = Mutex::new(String::new());

    /// Looks twice for each text.
    struct Times;

    impl Published for Times {
        fn look(&mut self) -> u64 {
            500_000
        }

        fn text(&mut self) -> String {
            format!("time {}\n", TIMES.fetch_add(1, Ordering::Relaxed))
        }

        fn failed(&mut self, why: String) {
            *FAILED.lock().unwrap() += &why;
        }
    }

    #[test]
    fn the_file_is_written_again_and_is_the_users_alone_and_is_told_when_it_cannot_be() {
        let folder = std::env::temp_dir().join(format!("raddle-published-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        publish(path.clone(), 1_000_000, Times).unwrap();
        let seen = || std::fs::read_to_string(&path).unwrap();
        let first = seen();
        while seen() == first {
            std::thread::yield_now();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // It may be written once more meanwhile.
        while std::fs::remove_dir_all(&folder).is_err() {}
        while FAILED.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        let once = format!("{} cannot be written any more, and is tried again: ", path.display());
        assert_eq!(FAILED.lock().unwrap().matches(&once).count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        assert!(publish("/nowhere/file".into(), 1_000_000, Times).is_err());
    }
}
