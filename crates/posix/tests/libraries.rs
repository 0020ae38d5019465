//! Libraries that make threads of their own, and allocators that are put in the C library's place: programs that use them give the
//! same results as natively. The verdicts are in docs/drop-in-verdicts.md.
//!
//! `cargo xtask setup` installs them.

mod common;

use std::path::Path;

/// A program gives the same with the library preloaded as without.
#[track_caller]
fn the_same(source: &str, options: &[&str]) {
    let program = common::compile(source, options);
    let expected = common::native(&program, &[]).well();
    for processors in ["1", "2", "4"] {
        assert_eq!(
            common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(),
            expected,
            "{processors}"
        );
    }
}

#[test]
fn openmp() {
    the_same("lib_openmp.c", &["-fopenmp"]);
}

#[test]
fn libuv() {
    the_same("lib_uv.c", &["-luv"]);
}

#[test]
fn tbb() {
    the_same("lib_tbb.cc", &["-std=c++17", "-ltbb"]);
}

#[test]
fn the_c_librarys_allocator() {
    the_same("lib_malloc.c", &[]);
}

/// Preloaded behind our library, as `raddle run` does with what the user preloads.
#[track_caller]
fn with_allocator(name: &str) {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    let allocator = found.unwrap_or_else(|| panic!("{name} is missing: `cargo xtask setup` installs it"));
    let program = common::compile("lib_malloc.c", &[]);
    let expected = common::native(&program, &[]).well();
    let both = format!("{}:{}", common::library().display(), allocator.display());
    for processors in ["1", "2", "4"] {
        let environment = [("LD_PRELOAD", both.as_str()), ("RADDLE_PROCESSORS", processors)];
        assert_eq!(common::drop_in(&program, &[], &environment).well(), expected, "{processors}");
    }
}

#[test]
fn jemalloc() {
    with_allocator("libjemalloc.so.2");
}
