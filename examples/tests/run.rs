//! Every example does what it says.
#![forbid(unsafe_code)]

#[path = "../../bench/src/lacks.rs"]
mod lacks;

use lacks::lacks;
use std::path::{Path, PathBuf};
use std::process::Command;

fn output(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn in_rust() {
    for (program, expected) in [
        (env!("CARGO_BIN_EXE_server"), "100 of 100 clients were answered"),
        (env!("CARGO_BIN_EXE_pipeline"), "9 words of 37 letters"),
        (env!("CARGO_BIN_EXE_fork_join"), "sorted: true"),
        (env!("CARGO_BIN_EXE_cancellation"), "1000 threads were told to end, and did"),
        (env!("CARGO_BIN_EXE_stages"), "sum of the answers: 50500"),
        (env!("CARGO_BIN_EXE_timeouts"), "each wait ended as it should"),
        (env!("CARGO_BIN_EXE_futures"), "42"),
        (env!("CARGO_BIN_EXE_locals"), "1000 of 1000 threads found what they had left"),
    ] {
        assert_eq!(output(Command::new(program)).trim_end(), expected);
    }
    // Its threads are made while none of them runs, but where the machine stops who makes them for long.
    let ordered = || output(Command::new(env!("CARGO_BIN_EXE_priorities")));
    let in_order = |out: &String| out.trim_end() == "a request, a report, another report, cleaning up";
    let seen: Vec<_> = (0..20).map(|_| ordered()).take_while(|out| !in_order(out)).collect();
    assert!(seen.len() < 20, "{seen:?}");
}

/// README's server stands in a program, too, which answers. (Samples are only compiled where they never end.)
#[test]
fn the_server_of_readme_answers() {
    let source = std::fs::read_to_string(root().join("src/bin/echo.rs")).unwrap();
    let (_, code) = source.split_once("\n\n").unwrap();
    let readme = std::fs::read_to_string(root().join("../README.md")).unwrap();
    assert!(readme.contains(code), "README and examples/src/bin/echo.rs differ");
    let error = Command::new(env!("CARGO_BIN_EXE_echo")).arg("nowhere").output().unwrap();
    assert!(!error.status.success());
    // Another program may take the port before the server does; then it ends, and another one is tried.
    let connected = (0..20).find_map(|_| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_echo")).arg(free.to_string()).spawn().unwrap();
        loop {
            match std::net::TcpStream::connect(free) {
                Ok(stream) => return Some((server, stream)),
                Err(_) if server.try_wait().unwrap().is_some() => return None,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
    });
    let (mut server, mut stream) = connected.expect("a port is free");
    std::io::Write::write_all(&mut stream, b"hello").unwrap();
    let mut answer = [0; 5];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(&answer, b"hello");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library under its own name in a folder: what `cargo xtask install` makes of it.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("installed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let deps = std::env::current_exe().unwrap();
    let built = deps.with_file_name("libraddle_posix.so");
    std::fs::copy(&built, folder.join("libraddle.so.0")).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    std::fs::copy(&built, folder.join("libraddle.so")).unwrap();
    folder
}

#[test]
fn in_c_and_cpp() {
    if lacks(&[("c++", "g++")]) {
        return;
    }
    let folder = installed();
    let readme = std::fs::read_to_string(root().join("../README.md")).unwrap();
    let (sample, _) = readme.split_once("```c\n").unwrap().1.split_once("```").unwrap();
    let of_readme = folder.join("readme.c");
    std::fs::write(&of_readme, sample).unwrap();
    for (compiler, source, expected) in [
        ("cc", root().join("c/pools.c"), "sum 4950 on lightweight threads\n"),
        ("c++", root().join("c/scope.cc"), "sum 4950, a lock, and an exception: none\n"),
        ("cc", of_readme, ""),
    ] {
        let program = folder.join("program");
        let mut build = Command::new(compiler);
        build.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
        build.arg("-I").arg(root().join("../crates/posix/include")).arg("-L").arg(&folder).arg("-lraddle");
        output(build);
        let mut run = Command::new(&program);
        run.env("LD_LIBRARY_PATH", &folder);
        assert_eq!(output(run), expected);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn in_python() {
    if lacks(&[("/usr/bin/python3", "python3")]) {
        return;
    }
    let mut command = Command::new("/usr/bin/python3");
    command.arg(root().join("ring.py"));
    assert_eq!(output(command), "token is back after 100000 hops\n");
}
