//! Names the library as it is installed: a program that is linked with it and one that has it preloaded get the same
//! one.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libraddle.so.0");
    // As in the C library: what it calls of its own is its own, whatever functions of the same names a program has.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
