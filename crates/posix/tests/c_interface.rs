//! The C interface as a C programmer meets it: header, library and pkg-config file in a prefix, nothing preloaded.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A prefix as `cargo xtask install` makes it, with a link to the library that was just built.
fn prefix() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unique = format!("prefix-{}-{:?}", std::process::id(), std::thread::current().id());
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique.replace(['(', ')'], ""));
    let _ = std::fs::remove_dir_all(&prefix);
    std::fs::create_dir_all(prefix.join("lib/pkgconfig")).unwrap();
    std::os::unix::fs::symlink(package.join("include"), prefix.join("include")).unwrap();
    for name in ["libraddle.so.0", "libraddle.so"] {
        std::os::unix::fs::symlink(common::library(), prefix.join("lib").join(name)).unwrap();
    }
    let template = std::fs::read_to_string(package.join("raddle.pc.in")).unwrap();
    let library = prefix.join("lib");
    let values = [
        ("@prefix@", prefix.as_path()),
        ("@libdir@", library.as_path()),
        ("@version@", Path::new(env!("CARGO_PKG_VERSION"))),
    ];
    let text = values.iter().fold(template, |text, (name, value)| text.replace(name, value.to_str().unwrap()));
    std::fs::write(prefix.join("lib/pkgconfig/raddle.pc"), text).unwrap();
    prefix
}

fn flags(prefix: &Path) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs", "raddle"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let output = command.output().expect("pkg-config (Debian package pkgconf) is needed for this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_c_program_uses_pools_policies_priorities_and_counters() {
    if common::lacks(&[("pkg-config", "pkgconf"), ("c++", "g++")]) {
        return;
    }
    let prefix = prefix();
    let flags = flags(&prefix);
    let program = common::compile("interface.c", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let out = common::native(&program, &[]).well();
    assert_eq!(out, "1000 threads, 1 processors, order 1 2, spawned 1004\n");
    // Preloaded beside: it is the same library, not a second one.
    assert_eq!(common::drop_in(&program, &[], &[]).well(), out);
    // Where threads stay kernel threads the pool has no processors, and everything works. (Their order is the
    // kernel's.)
    let fallback = common::drop_in(&program, &[], &[("RADDLE_KERNEL_THREADS", "1")]).well();
    assert!(fallback.starts_with("0 threads, 0 processors, order "), "{fallback}");
    std::fs::remove_dir_all(prefix).unwrap();
}

#[test]
fn each_lock_keeps_threads_apart_in_c() {
    if common::lacks(&[("pkg-config", "pkgconf")]) {
        return;
    }
    let prefix = prefix();
    let flags = flags(&prefix);
    let program = common::compile("lock_kinds.c", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let names = ["fair", "spin", "mcs", "h1", "h2", "hemlock", "cna", "reciprocating", "by default"];
    let expected: String = names.iter().map(|name| format!("{name} 400\n")).collect();
    assert_eq!(common::native(&program, &[]).well(), expected);
    // One cluster for each core, whatever the machine is.
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_CLUSTERS", "1")]).well(), expected);
    let wrong = common::drop_in(&program, &["wrong"], &[("RADDLE_CLUSTERS", "junk")]).well();
    assert!(wrong.starts_with("RADDLE_CLUSTERS=\"junk\": clusters are `core`"), "{wrong}");
    std::fs::remove_dir_all(prefix).unwrap();
}

#[test]
fn locks_are_tried_and_work_is_left_to_them_in_c() {
    if common::lacks(&[("pkg-config", "pkgconf")]) {
        return;
    }
    let prefix = prefix();
    let flags = flags(&prefix);
    let program = common::compile("lock_tries.c", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(common::native(&program, &[]).well(), "tried, and left\n");
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_KERNEL_THREADS", "1")]).well(), "tried, and left\n");
    std::fs::remove_dir_all(prefix).unwrap();
}

#[test]
fn the_header_suits_c_plus_plus_and_strict_c() {
    if common::lacks(&[("pkg-config", "pkgconf"), ("c++", "g++")]) {
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/raddle.h");
    for (compiler, options) in [("cc", ["-x", "c", "-std=c99"]), ("c++", ["-x", "c++", "-std=c++11"])] {
        let mut command = Command::new(compiler);
        command.args(options).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]).arg(&header);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
