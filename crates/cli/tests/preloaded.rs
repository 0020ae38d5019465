//! The library as units, images and pods load it: by `LD_PRELOAD`, without the command.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::process::{Command, Stdio};

/// Says how often the library is mapped.
const TOLD: &str = "grep -c libraddle.so.0 /proc/self/maps";

/// An entry point of an image, or a wrapper of a unit, becomes the server by `exec`: that goes on with the library.
/// What either starts is native.
#[test]
fn what_a_script_becomes_goes_on_and_what_it_starts_is_native() {
    let folder = Folder::new("preloaded");
    let library = folder.0.join("libraddle.so.0");
    let written = Command::new(env!("CARGO_BIN_EXE_raddle")).arg("write-library").arg(&library).status().unwrap();
    assert!(written.success());
    for name in [library.to_str().unwrap(), "libraddle.so.0"] {
        let maps = |script: &str| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", script]).stdin(Stdio::null()).env_remove("RADDLE_NOTHING_SKIPPED");
            shell.env("LD_PRELOAD", name).env("LD_LIBRARY_PATH", &folder.0).env("RADDLE_PROCESSORS", "1");
            let output = shell.output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}");
            String::from_utf8(output.stdout).unwrap().trim().to_string()
        };
        assert_ne!(maps(&format!("exec {TOLD}")), "0", "{name}");
        assert_ne!(maps(&format!("exec env {TOLD}")), "0", "{name}");
        assert_eq!(maps(&format!("{TOLD}; true")), "0", "{name}");
        // It finds nothing of it.
        assert_eq!(maps("env | grep -E 'RADDLE|PRELOAD'; true"), "", "{name}");
        let found = maps("exec env");
        assert!(!found.contains("RADDLE") && !found.contains("LD_PRELOAD"), "{found}");
    }
}

/// A device, or a pipe, gets the bytes and stays what it is.
#[test]
fn the_library_is_written_into_a_device_and_in_the_place_of_a_file() {
    let folder = Folder::new("written");
    let write = |path: &std::path::Path, output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.arg("write-library").arg(path).stdout(output).output().unwrap()
    };
    let (file, link, pipe) = (folder.file("file", "before"), folder.0.join("link"), folder.0.join("pipe"));
    std::os::unix::fs::symlink("file", &link).unwrap();
    assert!(write(&link, Stdio::null()).status.success());
    assert!(link.is_symlink());
    let library = std::fs::read(&file).unwrap();
    assert!(library.starts_with(b"\x7fELF"));
    // A link to whatever the output is.
    std::os::unix::fs::symlink("/proc/self/fd/1", &pipe).unwrap();
    assert!(write(&pipe, Stdio::piped()).stdout == library);
    assert!(pipe.is_symlink());
    // Not in the root's own folder of devices, should it fail.
    let full = folder.0.join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let output = write(&full, Stdio::null());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
}
