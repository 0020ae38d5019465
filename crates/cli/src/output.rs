//! Where results go.

use clap::ValueEnum;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where results will be written once there are some.
pub enum Output {
    Standard,
    /// No regular file, or one that nothing can be put in the place of: it is written itself.
    There(PathBuf, File),
    /// Written beside, and renamed: an interrupted run leaves what was there.
    Replaced(PathBuf),
}

impl Output {
    /// Finds out whether the file can be written, before work that would be lost otherwise. What it holds stays until
    /// [`Output::write`].
    pub fn claim(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path.filter(|path| *path != Path::new("/dev/stdout")) else { return Ok(Self::Standard) };
        let claimed = Self::of(path);
        claimed.map_err(|why| format!("cannot write {}: {why}; name another file with --out", path.display()))
    }

    /// As [`Output::claim`], for a file that is not named with `--out`.
    pub fn of(path: &Path) -> io::Result<Self> {
        // A link to a file that is not there names the one to be made.
        let opened = OpenOptions::new().write(true).truncate(false).create(path.is_symlink()).open(path);
        let file = match opened {
            Err(why) if why.kind() == ErrorKind::NotFound => {
                let name = path.file_name().ok_or(why)?;
                let path = folder(path).join(name);
                let (beside, _) = beside(&path)?;
                fs::remove_file(beside)?;
                return Ok(Self::Replaced(path));
            }
            opened => opened?,
        };
        let there = file.metadata()?;
        // Names of descriptors: others may hold the same file.
        let descriptor = ["/dev/fd", "/dev/stderr", "/proc"].iter().any(|folder| path.starts_with(folder));
        if !there.is_file() || there.nlink() > 1 || descriptor {
            return Ok(Self::There(path.into(), file));
        }
        let path = fs::canonicalize(path)?;
        let Ok((beside, other)) = beside(&path) else { return Ok(Self::There(path, file)) };
        let other = other.metadata();
        fs::remove_file(beside)?;
        let other = other?;
        let same_owner = (there.uid(), there.gid()) == (other.uid(), other.gid());
        Ok(if same_owner { Self::Replaced(path) } else { Self::There(path, file) })
    }

    /// Puts what there is so far into a file that can be replaced; should the command be ended, it is there.
    pub fn keep(&self, text: impl FnOnce() -> String) {
        if let Self::Replaced(path) = self {
            // The last writing tells what is wrong.
            let _ = replaced(path, &text());
        }
    }

    /// Writes all. A reader that closed its end early, such as `head`, is no error.
    pub fn write(self, text: &str) -> Result<(), String> {
        let (path, result) = match self {
            Self::Standard => return print(text),
            Self::There(path, file) => {
                let result = written_there(&file, text.as_bytes());
                (path, result)
            }
            Self::Replaced(path) => {
                let result = replaced(&path, text);
                (path, result)
            }
        };
        unless_closed(result).map_err(|why| format!("cannot write {}: {why}", path.display()))
    }
}

/// How to show results: as asked for, or as the ending of the file's name says, or as a table.
pub fn format<F: ValueEnum>(given: Option<F>, out: Option<&Path>) -> F {
    let named = |name: &str| F::from_str(name, true).ok();
    let format = given.or_else(|| ending(out).and_then(named)).or_else(|| named("table"));
    format.expect("each command has tables")
}

/// The format that a file's name tells of.
fn ending(out: Option<&Path>) -> Option<&'static str> {
    let ending = out?.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "html" | "htm" => Some("html"),
        "json" | "jsonl" | "ndjson" => Some("json"),
        _ => None,
    }
}

/// Refuses a file whose name asks for another format than the only one that there is.
pub fn has_only(format: &str, out: Option<&Path>) -> Result<(), String> {
    match (ending(out), out) {
        (Some(asked), Some(out)) if asked != format => {
            Err(format!("--out {}: there is no {asked} of this, {format} alone; name another file", out.display()))
        }
        _ => Ok(()),
    }
}

/// Writes to the standard output.
pub fn print(text: &str) -> Result<(), String> {
    printed(text).map(drop)
}

/// As [`print()`]; whether anybody can have read it.
pub fn printed(text: &str) -> Result<bool, String> {
    let mut output = io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).map_err(|why| format!("cannot write: {why}")),
    }
}

/// Writes to the standard error; that nobody can read it is no reason to end.
pub fn remark(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A reader that closed its end early is no error.
pub fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|why| if why.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(why) })
}

/// Writes into a file that is open, in place of what it holds.
pub fn written_there(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}

/// The name at which others than this command will put a file when it is whole: absolute, since they may go elsewhere,
/// in a folder that may be written to, and nothing there that is no file: a device would be gone.
pub fn to_be_put(option: &str, named: &Path) -> Result<PathBuf, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{option}: {}: {why}; name another file", named.display());
    let mut path = std::path::absolute(named).map_err(|error| wrong(&error))?;
    if path.exists() && !path.is_file() {
        return Err(wrong(&"it is no file"));
    }
    if path.is_symlink() {
        path = path.canonicalize().unwrap_or(path);
    }
    let folder = folder(&path);
    // Each process has a folder of its own there.
    if !folder.to_string_lossy().contains("{pid}") {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| wrong(&error))?;
        if !folder.is_dir() {
            return Err(wrong(&"it lies in no folder"));
        }
    }
    Ok(path)
}

fn replaced(path: &Path, text: &str) -> io::Result<()> {
    let (beside, mut file) = beside(path)?;
    let put = || {
        file.write_all(text.as_bytes())?;
        if let Ok(there) = fs::metadata(path) {
            file.set_permissions(there.permissions())?;
        }
        fs::rename(&beside, path)
    };
    let result = { put }();
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A new file in the same folder, of a name that nobody has.
fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let beside = folder(path).join(format!(".raddle-{}-{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            Err(why) if why.kind() == ErrorKind::AlreadyExists && number < 100 => number += 1,
            made => return made.map(|file| (beside, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("raddle-output-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_there_stays_until_the_results_replace_it() {
        let folder = Folder::new("stays");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let output = Output::claim(Some(&link)).unwrap();
        assert!(matches!(output, Output::Replaced(_)));
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        output.write("after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert!(link.is_symlink() && fs::metadata(&file).unwrap().permissions().mode() & 0o777 == 0o640);
        let absent = folder.0.join("absent");
        let output = Output::claim(Some(&absent)).unwrap();
        assert!(!absent.exists() && fs::read_dir(&folder.0).unwrap().count() == 2);
        output.write("new").unwrap();
        assert_eq!(fs::read_to_string(&absent).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3);
    }

    #[test]
    fn a_file_of_two_names_and_a_device_are_written_themselves() {
        let folder = Folder::new("itself");
        let (file, other, link) = (folder.0.join("file"), folder.0.join("other"), folder.0.join("link"));
        fs::write(&file, "what was there before").unwrap();
        fs::hard_link(&file, &other).unwrap();
        symlink("made", &link).unwrap();
        for (path, read) in [(&file, &other), (&link, &folder.0.join("made"))] {
            Output::claim(Some(path)).unwrap().write("after").unwrap();
            assert_eq!(fs::read_to_string(read).unwrap(), "after");
        }
        assert!(Output::claim(Some(Path::new("/dev/null"))).unwrap().write("nothing").is_ok());
        assert!(Output::claim(Some(Path::new("/dev/full"))).unwrap().write("much").is_err());
    }

    #[test]
    fn what_others_put_there_goes_where_a_link_leads_and_never_in_the_place_of_a_device() {
        let folder = Folder::new("put");
        let (file, link, dangling) = (folder.0.join("file"), folder.0.join("link"), folder.0.join("dangling"));
        fs::write(&file, "before").unwrap();
        symlink("file", &link).unwrap();
        symlink("absent", &dangling).unwrap();
        let put = |path: &Path| to_be_put("--trace", path);
        assert_eq!(put(&link).unwrap(), file.canonicalize().unwrap());
        for path in [&file, &dangling, &folder.0.join("new"), &folder.0.join("{pid}/new")] {
            assert_eq!(put(path).unwrap(), *path);
        }
        for path in ["/dev/null".as_ref(), folder.0.as_path(), &folder.0.join("no/such"), &file.join("x")] {
            let why = put(path).unwrap_err();
            assert!(why.starts_with("--trace: ") && why.ends_with("; name another file"), "{why}");
        }
    }

    #[test]
    fn the_ending_of_a_files_name_says_how_to_show_results() {
        #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
        enum Format {
            Table,
            Json,
            Html,
        }
        let by = |given, name: &str| format(given, Some(name.as_ref()));
        for (name, expected) in [
            ("a/page.html", Format::Html),
            ("PAGE.HTM", Format::Html),
            ("rows.json", Format::Json),
            ("rows.jsonl", Format::Json),
            ("html", Format::Table),
            ("page.html.txt", Format::Table),
        ] {
            assert_eq!(by(None, name), expected, "{name}");
            assert_eq!(by(Some(Format::Table), name), Format::Table, "{name}");
        }
        assert_eq!(format::<Format>(None, None), Format::Table);
        assert!(has_only("json", None).is_ok() && has_only("json", Some("a.json".as_ref())).is_ok());
        let why = has_only("table", Some("a.html".as_ref())).unwrap_err();
        assert_eq!(why, "--out a.html: there is no html of this, table alone; name another file");
    }

    #[test]
    fn what_cannot_be_written_is_told_at_once() {
        let folder = Folder::new("told");
        for path in [folder.0.clone(), folder.0.join("no/such"), folder.0.join("x".repeat(300)), "".into(), "/".into()]
        {
            let why = Output::claim(Some(&path)).err().unwrap_or_default();
            assert!(why.starts_with("cannot write") && why.contains("--out"), "{}: {why}", path.display());
        }
    }
}
