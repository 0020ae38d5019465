//! The load generator against the servers of this package, at a size of milliseconds: whether the answers are right and
//! the figures there, not how fast anybody is.
#![forbid(unsafe_code)]

use raddle_bench::child::{self, Report};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn load(words: &[&str], server: &[&str]) -> Result<Report, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle-bench-load"));
    command.args(words).args(["warm_ms=20", "ms=100", "--processors", "2", "--"]).args(server);
    child::run(command, Duration::from_secs(300))
}

/// A server in C, compiled for this test.
fn in_c(source: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.trim_end_matches(".c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(sources.join(source));
    assert!(compiler.status().expect("cc is needed for this test").success(), "{source} does not compile");
    program
}

fn check(report: &Report) {
    assert!(report.ops > 0 && report.checksum == 0);
    let figure =
        |key: &str| report.extra.get(key).and_then(|value| value.as_f64()).unwrap_or_else(|| panic!("no {key}"));
    assert!(figure("p50_ns") > 0.0 && figure("p50_ns") <= figure("p99_ns") && figure("p99_ns") <= figure("p999_ns"));
    for key in ["requests_per_s", "server_cpu_ns", "server_rss_kib", "server_kernel_threads"] {
        assert!(figure(key) > 0.0, "{key}");
    }
}

#[test]
fn echo_servers_answer_right() {
    let (threads, epoll) = (in_c("echo_threads.c"), in_c("echo_epoll.c"));
    let (threads, epoll) = (threads.to_str().unwrap(), epoll.to_str().unwrap());
    for server in
        [&[threads][..], &[epoll, "1"], &[epoll, "{processors}"], &[env!("CARGO_BIN_EXE_raddle-bench-echo-std")]]
    {
        check(&load(&["echo", "C=20"], server).unwrap_or_else(|error| panic!("{server:?}: {error}")));
    }
}

#[test]
fn memcached_answers_right() {
    if raddle_bench::smoke::lacks(&[("/usr/bin/memcached", "memcached")]) {
        return;
    }
    let words = ["/usr/bin/memcached", "-t", "4", "-U", "0", "-u", "root", "-l", "127.0.0.1", "-p", "{port}"];
    check(&load(&["memcached", "C=20"], &words).unwrap());
}

#[test]
fn what_goes_wrong_is_named() {
    let server = env!("CARGO_BIN_EXE_raddle-bench-echo-std");
    assert!(load(&["echo", "C=20"], &["/absent/server"]).is_err());
    assert!(load(&["echo", "C=20"], &["/bin/false"]).unwrap_err().contains("no port"));
    let closes = load(&["memcached", "C=20"], &[server]).unwrap_err();
    assert!(closes.contains("answered"), "{closes}");
    let many = load(&["echo", "C=4000000000"], &[server]).unwrap_err();
    assert!(many.contains("descriptors") && many.contains("ulimit"), "{many}");
}
