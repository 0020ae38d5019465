//! The loads, and the servers that bear them.

use crate::catalogue::{Unit, Workload};
use crate::runtimes::{Runtime, Source};

const DEFAULTS: &[(&str, &str)] = &[("C", "1000"), ("ms", "3000"), ("warm_ms", "1000")];

/// The workloads that are a load on a server.
pub static LOADS: &[Workload] = &[
    Workload {
        name: "echo",
        about: "C connections send messages of 64 bytes to an echo server, one outstanding each; the generator shares the cores",
        unit: Unit::Each("request"),
        defaults: DEFAULTS,
        cases: &["1000", "10000"],
        also_on_one: false,
        expected: |_| Some(0),
        slow: |a| a.number("ms").unwrap_or(0) as f64 / 1e3 + 10.0,
    },
    Workload {
        name: "memcached",
        about: "C connections to Debian's memcached -t 4, nine gets for each set, one outstanding each",
        unit: Unit::Each("request"),
        defaults: DEFAULTS,
        cases: &["50", "1000"],
        also_on_one: false,
        expected: |_| Some(0),
        slow: |a| a.number("ms").unwrap_or(0) as f64 / 1e3 + 10.0,
    },
    Workload {
        name: "service",
        about: "C connections to a web service that asks Redis, PostgreSQL and another service, all on the same cores",
        unit: Unit::Each("request"),
        defaults: &[("C", "9500"), ("ms", "10000"), ("warm_ms", "8000"), ("pool", "16")],
        cases: &["100", "9500"],
        also_on_one: false,
        expected: |_| Some(0),
        slow: |a| a.number("ms").unwrap_or(0) as f64 / 1e3 + 30.0,
    },
];

/// A server for one of the loads.
#[derive(Debug)]
pub struct Server {
    /// The load.
    pub load: &'static str,
    /// What it runs on; the program that is started is the load generator, its words are the server's.
    pub runtime: Runtime,
}

/// In a server's words: the number of processors.
pub const PROCESSORS: &str = "{processors}";

const fn server(load: &'static str, name: &'static str, about: &'static str, words: &'static [&'static str]) -> Server {
    let program = "raddle-bench-load";
    let runtime = Runtime { name, about, program, words, source: Source::Load, policies: false, by_default: true };
    Server { load, runtime }
}

/// One under `raddle run`, which takes policies.
const fn ours(load: &'static str, name: &'static str, about: &'static str, words: &'static [&'static str]) -> Server {
    let mut server = server(load, name, about, words);
    server.runtime.policies = true;
    server
}

const fn absent(load: &'static str, name: &'static str, about: &'static str) -> Server {
    let mut server = server(load, name, about, &[]);
    server.runtime.source = Source::Absent("this suite has no server for it yet");
    server
}

/// All servers, for each load ours first. The first word names a program of this suite, or one of the system's by its
/// path.
pub static SERVERS: &[Server] = &[
    ours(
        "echo",
        "raddle",
        "an unmodified C server with a POSIX thread for each connection, under `raddle run`",
        &["raddle", "run", "--", "raddle-bench-echo-threads"],
    ),
    server("echo", "threads", "the same, on kernel threads", &["raddle-bench-echo-threads"]),
    ours(
        "echo",
        "raddle-rust",
        "an unmodified Rust server with a std::thread for each connection, under `raddle run`",
        &["raddle", "run", "--", "raddle-bench-echo-std"],
    ),
    server("echo", "threads-rust", "the same, on kernel threads", &["raddle-bench-echo-std"]),
    server("echo", "epoll-one", "an event loop in C, on one kernel thread", &["raddle-bench-echo-epoll", "1"]),
    server("echo", "epoll", "the same, as many event loops as processors", &["raddle-bench-echo-epoll", PROCESSORS]),
    server("echo", "go", "a goroutine for each connection", &["raddle-bench-go", "serve", PROCESSORS]),
    server("echo", "tokio", "a task for each connection", &["raddle-bench-tokio", "serve", PROCESSORS]),
    absent("echo", "java", "virtual threads"),
    absent("echo", "may", "coroutines in Rust"),
    ours(
        "memcached",
        "raddle",
        "memcached -t 4 under `raddle run`",
        &[
            "raddle",
            "run",
            "--",
            MEMCACHED,
            "-t",
            "4",
            "-c",
            "4096",
            "-U",
            "0",
            "-u",
            "root",
            "-l",
            "127.0.0.1",
            "-p",
            super::server::PORT,
        ],
    ),
    server(
        "memcached",
        "threads",
        "memcached -t 4 on kernel threads",
        &[MEMCACHED, "-t", "4", "-c", "4096", "-U", "0", "-u", "root", "-l", "127.0.0.1", "-p", super::server::PORT],
    ),
    ours(
        "service",
        "raddle",
        "tiny_http, ureq, redis and postgres as they are, a std::thread for each connection and each worker, under `raddle run`",
        &["raddle", "run", "--", "raddle-service-blocking"],
    ),
    ours(
        "service",
        "raddle-each",
        "the same with a std::thread for each request, too, which the first thread starts: under `raddle run --main`",
        &["raddle", "run", "--main", "--", "raddle-service-blocking", "--threads-for", "requests"],
    ),
    server("service", "threads", "the same program, on kernel threads", &["raddle-service-blocking"]),
    server("service", "tokio", "axum, reqwest, redis and tokio-postgres", &["raddle-service-tokio"]),
];

const MEMCACHED: &str = "/usr/bin/memcached";

/// The servers for a load; of those named, if any are.
pub fn servers(load: &str, names: &[String]) -> Vec<&'static Runtime> {
    let named = |server: &&Server| names.is_empty() || names.iter().any(|name| name == server.runtime.name);
    SERVERS.iter().filter(|server| server.load == load).filter(named).map(|server| &server.runtime).collect()
}

/// True if this workload is a load.
pub fn is_load(workload: &Workload) -> bool {
    LOADS.iter().any(|load| load.name == workload.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_has_servers_and_ours_comes_first() {
        for load in LOADS {
            let all = servers(load.name, &[]);
            assert!(all.len() > 1 && all[0].is_ours(), "{}", load.name);
            assert!(all.iter().any(|runtime| runtime.name == "threads"));
        }
        assert_eq!(servers("echo", &["go".into()]).len(), 1);
    }
}
