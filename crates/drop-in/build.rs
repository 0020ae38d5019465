//! Names the library as it is installed: a program that is linked with it and one that has it preloaded get the same
//! one. And gives it a build id, by which `raddle run` knows its file again.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libraddle.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    // As in the C library: what it calls of its own is its own, whatever functions of the same names a program has.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
