//! A folder of a test's own, which goes with it, and C programs in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Folder(pub PathBuf);

impl Folder {
    /// `kind` stands in its name.
    pub fn new(kind: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{kind}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Writes a file, whose path may name folders in this one.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Compiles a C program.
    #[allow(dead_code)] // Not by each of the test programs.
    pub fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (source, program) = (self.file(&format!("{name}.c"), source), self.0.join(name));
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).args(options);
        let output = compiler.output().expect("cc (Debian package gcc) is needed for these tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
