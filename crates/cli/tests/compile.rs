//! `raddle cc`, `raddle c++`, `raddle cargo` as a user meets them. Where no LLVM 22 is installed, what needs it is
//! skipped, and said to be.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::path::Path;
use std::process::{Command, Output};

/// One thread counts until the other has had its turns: with checks, and a quantum of nothing, at each check.
const COUNTS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
enum { TURNS = 200 };
static atomic_long turns;
/* Before the runtime starts, and after main has ended: checks ask, and nothing switches. */
static volatile unsigned long early;
static void begins(void) { for (unsigned long i = 0; i < 300000; i++) early += i; }
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = begins;
__attribute__((constructor(101))) static void second(void) { begins(); }
__attribute__((destructor)) static void last(void) { begins(); }
static void *other(void *unused) { for (int i = 0; i < TURNS; i++) { atomic_fetch_add(&turns, 1); sched_yield(); } return unused; }
/* On a busy machine the kernel may keep the other one from its core for a while: then once more. */
static void *counts(void *unused) {
    for (int tries = 0; tries < 50; tries++) {
        pthread_t id;
        atomic_store(&turns, 0);
        pthread_create(&id, 0, other, 0);
        unsigned long count = 0;
        while (atomic_load_explicit(&turns, memory_order_relaxed) < TURNS) count++;
        pthread_join(id, 0);
        if (count < TURNS * 1000) { puts("gave way"); return unused; }
    }
    puts("did not give way");
    return unused;
}
int main(void) {
    pthread_t id;
    if (early != 2 * (299999UL * 300000 / 2)) puts("what runs before main has lost something");
    pthread_create(&id, 0, counts, 0);
    pthread_join(id, 0);
}
"#;

/// The program is its own runtime: it counts how often checks ask, in std's code for this program and in what std has
/// compiled already.
const ASKS: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
static ASKED: AtomicU64 = AtomicU64::new(0);
#[no_mangle]
pub unsafe extern "C" fn raddle_quantum_used(word: *mut i64) { ASKED.fetch_add(1, Relaxed); unsafe { *word = 1000 } }
#[cfg(target_arch = "x86_64")]
mod left {
    #[unsafe(naked)]
    pub extern "C" fn five(_: u64) -> u64 { core::arch::naked_asm!("lea rax, [rdi + 5]", "ret") }
}
fn asked(what: &str, work: impl FnOnce() -> u64) {
    let before = ASKED.load(Relaxed);
    std::hint::black_box(work());
    println!("{what}: {}", if ASKED.load(Relaxed) > before + 10 { "asked" } else { "did not ask" });
}
fn main() {
    let mut numbers: Vec<u64> = (0..200_000).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    asked("sort", || { numbers.sort(); numbers[7] });
    let text = "größer ".repeat(100_000);
    asked("chars", || std::hint::black_box(&text).chars().count() as u64);
    asked("utf8", || String::from_utf8_lossy(std::hint::black_box(text.as_bytes())).len() as u64);
    asked("no_std", || bare::count(std::hint::black_box(300_000)));
    #[cfg(target_arch = "x86_64")]
    println!("naked: {}", left::five(37));
    asked("own loop", || std::hint::black_box(&numbers).iter().fold(1, |a, b| a.rotate_left(5) ^ b));
}
"#;

/// A crate without the standard library, with an instruction of its own in its loop.
const BARE: &str = r#"
#![no_std]
/// ```
/// static ASKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
/// #[no_mangle]
/// pub unsafe extern "C" fn raddle_quantum_used(word: *mut i64) {
///     ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///     *word = 1000;
/// }
/// bare::count(std::hint::black_box(300_000));
/// assert!(ASKED.load(std::sync::atomic::Ordering::Relaxed) > 10);
/// ```
#[inline(never)]
pub fn count(turns: u64) -> u64 {
    let (mut sum, mut turn) = (1u64, 0);
    while turn < turns {
        #[cfg(target_arch = "x86_64")]
        unsafe { core::arch::asm!("rol {0}, 5", "xor {0}, {1}", inout(reg) sum, in(reg) turn) }
        #[cfg(not(target_arch = "x86_64"))]
        { sum = sum.rotate_left(5) ^ turn; }
        turn += 1 + (sum & 1);
    }
    sum
}
"#;

/// On one processor, beside a thread that gives way all the time: closures that the optimiser puts into the library's
/// functions count until that thread has had its turns.
const CLOSURES: &str = r#"
use raddle::sync::{Condvar, LazyLock, Mutex, OnceLock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
static TURNS: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
#[inline(always)]
fn count() {
    let end = TURNS.load(Relaxed) + 200;
    let mut count = 0;
    while TURNS.load(Relaxed) < end { count += 1; }
    COUNT.store(count, Relaxed);
}
/// On a busy machine the kernel may keep the other thread from its core for a while: then once more.
fn way(name: &str, take: impl Fn()) {
    for _ in 0..50 {
        COUNT.store(u64::MAX, Relaxed);
        take();
        if COUNT.load(Relaxed) <= 2_000_000 { return }
    }
    println!("{name}: did not give way")
}
struct Counts;
impl Drop for Counts { #[inline(always)] fn drop(&mut self) { count() } }
fn main() {
    let pool = raddle::Builder::new().processors(1).quantum(Duration::ZERO).build().unwrap();
    let other = pool.spawn(|| while !STOP.load(Relaxed) { TURNS.fetch_add(1, Relaxed); raddle::yield_now(); });
    way("Pool::run", || pool.run(|| count()));
    way("Pool::spawn", || pool.spawn(|| count()).join().unwrap());
    way("Builder", || raddle::thread::Builder::new().name("n".into()).spawn_into(&pool, || count()).unwrap().join().unwrap());
    pool.run(|| {
        way("spawn", || raddle::spawn(|| count()).join().unwrap());
        way("scope", || raddle::scope(|_| count()));
        way("Scope::spawn", || raddle::scope(|s| { s.spawn(|| count()); }));
        way("Scope::fork", || raddle::scope(|s| s.fork(|| count())));
        way("join, first", || { raddle::join(|| count(), || ()); });
        way("join, second", || { raddle::join(|| (), || count()); });
        way("block_on", || raddle::block_on(async { count() }));
        way("future::run", || raddle::block_on(raddle::future::run(|| count())));
        way("a result's drop", || {
            let ends = raddle::spawn(|| { raddle::yield_now(); Counts });
            drop(ends);
            while COUNT.load(Relaxed) == u64::MAX { raddle::yield_now() }
        });
        way("LazyLock", || { let lazy = LazyLock::new(|| count()); *LazyLock::force(&lazy) });
        way("OnceLock", || { OnceLock::new().get_or_init(|| count()); });
        way("wait_while", || drop(Condvar::new().wait_while(Mutex::new(()).lock().unwrap(), |_| { count(); false })));
    });
    STOP.store(true, Relaxed);
    other.join().unwrap();
    println!("all ways");
}
"#;

/// A program that starts by itself, with no thread-local storage.
#[cfg(target_arch = "x86_64")]
const STARTS: &str = r#"
static void call(long number, long a, const char *b, long c) { __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); }
__attribute__((force_align_arg_pointer)) void _start(void) {
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 300000; i++) sum += i;
    call(1, 1, sum == 299999UL * 300000 / 2 ? "right\n" : "wrong\n", 6);
    call(60, 0, 0, 0);
}
"#;

/// The same without the standard library of Rust.
const STARTS_IN_RUST: &str = r#"
#![no_std]
#![no_main]
#[panic_handler]
fn panics(_: &core::panic::PanicInfo) -> ! { loop {} }
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! { loop { core::hint::spin_loop() } }
"#;

fn raddle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    for variable in [
        "RADDLE_LLVM",
        "RADDLE_YIELDS",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
    ] {
        command.env_remove(variable);
    }
    command
}

#[track_caller]
fn well(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// True where the pass can be built; otherwise says that the test is skipped.
fn has_llvm(test: &str) -> bool {
    let needed = [
        "/usr/lib/llvm-22/bin/clang",
        "/usr/lib/llvm-22/bin/ld.lld",
        "/usr/lib/llvm-22/lib/cmake/llvm/LLVMConfig.cmake",
    ];
    let starts = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has = needed.iter().all(|path| Path::new(path).exists()) && starts("cmake") && starts("make");
    if !has {
        eprintln!("SKIPPED: {test} needs clang-22, lld-22, llvm-22-dev, cmake and make");
    }
    has
}

#[test]
fn a_thread_that_counts_gives_way_on_one_processor() {
    if !has_llvm("raddle cc") {
        return;
    }
    let folder = Folder::new("compile");
    let source = folder.file("counts.c", COUNTS);
    // Flags may come in a file.
    let in_file = format!("@{}", folder.file("flags", "-O1\n\"-flto\"\n").display());
    let ways: [(&[&str], &str); 6] = [
        (&["-O0"], "o0"),
        (&["-O2"], "o2"),
        (&["-O2", "-flto"], "lto"),
        (&["-O0", "-flto=thin"], "thin"),
        (&["-O0", "-flto"], "lto0"),
        (&[&in_file], "in-file"),
    ];
    for (flags, name) in ways {
        let program = folder.0.join(name);
        well(raddle().arg("cc").args(flags).arg("-pthread").arg(&source).arg("-o").arg(&program).output().unwrap());
        let run = raddle()
            .args(["run", "--processors", "1", "--"])
            .arg(&program)
            .env("RADDLE_QUANTUM", "0")
            .output()
            .unwrap();
        assert_eq!(well(run), "gave way\n", "{flags:?}");
    }
    // Compiled and linked apart: what is optimised gets checks where the link is not, or only the linker is told.
    let object = folder.0.join("counts.o");
    for (how, link) in [("-flto=thin", &["-O0", "-flto=thin"][..]), ("-flto", &["-fuse-ld=lld"])] {
        well(raddle().args(["cc", "-O2", how, "-c"]).arg(&source).arg("-o").arg(&object).output().unwrap());
        let program = folder.0.join("apart");
        well(raddle().arg("cc").args(link).arg("-pthread").arg(&object).arg("-o").arg(&program).output().unwrap());
        let mut run = raddle();
        run.args(["run", "--processors", "1", "--"]).arg(&program).env("RADDLE_QUANTUM", "0");
        assert_eq!(well(run.output().unwrap()), "gave way\n", "{how}, {link:?}");
    }
    // By CMake, whose own link-time optimisation is for compiler and linker to know.
    let lines = "cmake_minimum_required(VERSION 3.20)\nproject(counts C)\nset(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)\nadd_executable(made counts.c)\n";
    folder.file("CMakeLists.txt", lines);
    let built = folder.0.join("built");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&folder.0).arg("-B").arg(&built).arg("-DCMAKE_BUILD_TYPE=Release");
    well(configure.env("CC", concat!(env!("CARGO_BIN_EXE_raddle"), " cc")).output().unwrap());
    well(Command::new("cmake").arg("--build").arg(&built).output().unwrap());
    let mut run = raddle();
    run.args(["run", "--processors", "1", "--"]).arg(built.join("made")).env("RADDLE_QUANTUM", "0");
    assert_eq!(well(run.output().unwrap()), "gave way\n", "by CMake");
    let flags = well(raddle().args(["cc", "--print-flags"]).output().unwrap());
    assert!(flags.starts_with("-fpass-plugin=/"), "{flags}");
}

#[test]
fn rust_with_its_standard_library() {
    if !has_llvm("raddle cargo") {
        return;
    }
    let folder = Folder::new("compile");
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../raddle");
    let manifest = format!(
        r#"[package]
name = "asks"
edition = "2021"
build = "build.rs"
default-run = "asks"
[dependencies]
bare.path = "bare"
raddle = {{ path = "{library}", default-features = false }}
[workspace]
[profile.release]
lto = "fat"
[profile.own-one]
inherits = "release"
lto = "fat"
"#
    );
    folder.file("Cargo.toml", &manifest);
    // The versions of dependencies that are here.
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"), folder.0.join("Cargo.lock")).unwrap();
    folder.file("bare/Cargo.toml", "[package]\nname = \"bare\"\nedition = \"2021\"\n");
    folder.file("bare/src/lib.rs", BARE);
    folder.file("build.rs", "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }");
    // Flags of cargo's configuration are kept; those for a target that this is not set none aside.
    let configuration = "[build]\nrustflags = ['--cfg', 'configured']\n[target.'cfg(windows)']\nrustflags = ['-v']\n";
    folder.file(".cargo/config.toml", configuration);
    folder.file("src/main.rs", format!("#[cfg(not(configured))] compile_error!(\"no flags\");\n{ASKS}"));
    folder.file("src/bin/closures.rs", CLOSURES);
    let mut cargo = raddle();
    let rustc = String::from_utf8(Command::new("rustc").arg("-vV").output().unwrap().stdout).unwrap();
    let output = cargo
        .args(["cargo", "run", "-q", "--offline", "--profile", "own-one"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    if !rustc.contains("LLVM version: 22.") {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains("LLVM"), "{told}");
        eprintln!("SKIPPED: this rustc has another LLVM than 22");
        return;
    }
    let naked = if cfg!(target_arch = "x86_64") { "naked: 42\n" } else { "" };
    let ways = format!("sort: asked\nchars: asked\nutf8: asked\nno_std: asked\n{naked}own loop: asked\n");
    assert_eq!(well(output), ways);
    // Unoptimised, too; from another folder, and with the options that cargo takes before its subcommand.
    let mut dev = raddle();
    dev.args(["cargo", "--config", "build.rustflags=['--cfg', 'configured']", "-q", "run", "--offline"]);
    dev.arg("--manifest-path").arg(folder.0.join("Cargo.toml")).current_dir(std::env::temp_dir());
    let dev = dev.output().unwrap();
    assert_eq!(well(dev), ways);
    // Settings behind the subcommand, and flags that the environment has for the target.
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_uppercase().replace('-', "_");
    for configured in ["RADDLE_NO_SUCH".into(), format!("CARGO_TARGET_{host}_RUSTFLAGS")] {
        let mut run = raddle();
        run.args([
            "cargo",
            "run",
            "-q",
            "--offline",
            "--profile=own-one",
            "--bin",
            "closures",
            "--config",
            "build.jobs=2",
        ]);
        let run = run.env(configured, "--cfg configured").current_dir(&folder.0).output().unwrap();
        assert_eq!(well(run), "all ways\n");
    }
    // Examples of documentation have checks, too.
    let mut examples = raddle();
    examples.args(["cargo", "test", "--offline", "--doc", "-p", "bare"]).current_dir(&folder.0);
    let told = well(examples.output().unwrap());
    assert!(told.contains("1 passed"), "{told}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_starts_by_itself_is_left_alone_or_refused() {
    if !has_llvm("raddle cc -ffreestanding") {
        return;
    }
    let folder = Folder::new("compile");
    let source = folder.file("starts.c", STARTS);
    let program = folder.0.join("starts");
    for flags in [&["-ffreestanding", "-nostdlib"][..], &["-nostartfiles"], &["-flto", "-ffreestanding", "-nostdlib"]] {
        let mut compile = raddle();
        compile.args(["cc", "-O2", "-static"]).args(flags).arg(&source).arg("-o").arg(&program);
        let output = compile.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("raddle: -") && said.contains("none are put in"), "{said}");
        well(output);
        assert_eq!(well(Command::new(&program).output().unwrap()), "right\n", "{flags:?}");
    }
    // In Rust it is known at the link only, and what is in `core` has checks by then.
    folder.file(
        "Cargo.toml",
        "[package]\nname = \"starts\"\nedition = \"2024\"\nbuild = \"build.rs\"\n[workspace]\n[profile.dev]\npanic = \"abort\"\n",
    );
    folder.file("build.rs", "fn main() { println!(\"cargo:rustc-link-arg=-nostartfiles\"); }");
    folder.file("src/main.rs", STARTS_IN_RUST);
    let refused = |arguments: &[&str], (variable, value): (&str, &str)| {
        let mut build = raddle();
        build.args(["cargo", "build", "-q", "--offline"]).args(arguments).env(variable, value);
        let output = build.current_dir(&folder.0).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let nothing = ("RADDLE_NO_SUCH", "");
    let target = refused(&["--target", "x86_64-unknown-none"], nothing);
    let configured = refused(&[], ("CARGO_BUILD_TARGET", "x86_64-unknown-none"));
    let said = refused(&[], nothing);
    if said.contains("this rustc has LLVM") {
        eprintln!("SKIPPED: this rustc has another LLVM than 22");
        return;
    }
    assert!(target.contains("--target x86_64-unknown-none: only this machine's own"), "{target}");
    assert!(configured.contains("build.target x86_64-unknown-none: only this machine's own"), "{configured}");
    assert!(said.contains("raddle-yields: this program is linked without the C library's start files"), "{said}");
    // Flags that are lost on the way to rustc: no program without checks is built in silence.
    let wrapper = "#!/bin/sh\nfor word; do shift; case $word in -Clink*) ;; *) set -- \"$@\" \"$word\" ;; esac; done\nexec \"$@\"\n";
    let wrapper = folder.file("wrapper", wrapper);
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = refused(&[], ("RUSTC_WRAPPER", wrapper.to_str().unwrap()));
    assert!(said.contains("cargo does not give rustc the flags that put quantum checks in"), "{said}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let told = |arguments: &[&str], environment: &[(&str, &str)]| {
        let output = raddle().args(arguments).envs(environment.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&["cc"], &[("RADDLE_LLVM", "7")]).contains("RADDLE_LLVM=7: the supported majors are 22 and 19"));
    assert!(told(&["cargo", "publish"], &[]).contains("`publish` builds nothing"));
    assert!(told(&["cargo", "build"], &[("RUSTC", "/bin/true")]).contains("names no LLVM version"));
    let folder = Folder::new("compile");
    let other = folder.file("rustc", "#!/bin/sh\necho 'host: x86_64-unknown-linux-gnu'; echo 'LLVM version: 17.0.6'\n");
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mismatched = told(&["cargo", "build"], &[("RUSTC", other.to_str().unwrap())]);
    assert!(mismatched.contains("this rustc has LLVM 17; the pass exists for 22 and 19"), "{mismatched}");
    // The compiler that is named goes before a newer one.
    let clang = folder.file("clang", "#!/bin/sh\necho 19.1.7\n");
    std::fs::set_permissions(&clang, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let named = [("RADDLE_LLVM_TOOLS", folder.0.to_str().unwrap()), ("RADDLE_YIELDS_PLUGIN", clang.to_str().unwrap())];
    let older = told(&["cc", "-flto", "--print-flags"], &named);
    assert!(older.contains("ld.lld is not here: apt-get install lld-19"), "{older}");
    if !has_llvm("a plug-in that is none") {
        return;
    }
    // The compiler names what it cannot load, and makes nothing.
    let source = folder.file("counts.c", COUNTS);
    let mut compile = raddle();
    compile.env("RADDLE_YIELDS_PLUGIN", &source).arg("cc").arg("-c").arg(&source).arg("-o");
    let output = compile.arg(folder.0.join("none.o")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("unable to load plugin"), "{said}");
    assert!(!folder.0.join("none.o").exists());
}
