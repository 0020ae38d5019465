//! Libraries that make threads of their own: programs that use them give the same results as natively. The verdicts are
//! in docs/drop-in-verdicts.md.
//!
//! `cargo xtask setup` installs them.

mod common;

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
    if common::lacks(&[("/usr/include/uv.h", "libuv1-dev")]) {
        return;
    }
    the_same("lib_uv.c", &["-luv"]);
}

#[test]
fn tbb() {
    if common::lacks(&[("/usr/include/tbb", "libtbb-dev"), ("c++", "g++")]) {
        return;
    }
    the_same("lib_tbb.cc", &["-std=c++17", "-ltbb"]);
}

/// As the C library's own, the library's calls of its functions never come to a program's of the same name.
#[test]
fn functions_of_the_programs_own_are_not_called() {
    the_same("own_functions.c", &["-rdynamic"]);
}

#[test]
fn the_c_librarys_allocator() {
    the_same("lib_malloc.c", &[]);
}
