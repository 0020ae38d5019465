//! Names the library as it is installed: a program that is linked with it and one that has it preloaded get the same
//! one. And gives it a build id, by which `raddle run` knows its file again.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libraddle.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--build-id=sha1");
    println!("cargo:rerun-if-changed=build.rs");
}
