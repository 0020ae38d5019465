//! A web service of blocking crates that know nothing of raddle, under `raddle run`, against real Redis and PostgreSQL
//! servers.
#![forbid(unsafe_code)]

use raddle_bench::load;
use raddle_bench::program::Request;
use std::path::Path;
use std::process::Command;

/// Builds the service, unoptimised, in a target folder of its own.
fn service() -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/service/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("service");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--bin", "raddle-service-blocking", "--manifest-path"]).arg(manifest);
    let built = cargo.arg("--target-dir").arg(&target).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug/raddle-service-blocking").to_string_lossy().into_owned()
}

#[test]
fn a_service_of_blocking_crates_answers_right_through_redis_and_postgresql() {
    if raddle_bench::smoke::lacks(&[("redis-server", "redis-server"), ("/usr/lib/postgresql", "postgresql")]) {
        return;
    }
    const CONNECTIONS: u64 = 200;
    let words = ["service", "pool=8", "warm_ms=200", "ms=500", "--processors", "2"].map(String::from);
    let mut request = Request::parse(words).unwrap();
    request.args.set("C", &CONNECTIONS.to_string());
    let server = [env!("CARGO_BIN_EXE_raddle"), "run", "--", &service()].map(String::from);
    // Every answer is held against what the servers were filled with.
    let outcome = load::run(&request, &server).unwrap();
    let figure = |name: &str| outcome.extra.iter().find(|(key, _)| *key == name).unwrap().1.as_f64().unwrap();
    // All connections were served once before the counting began.
    assert!(outcome.ops > 0 && figure("views") >= (CONNECTIONS + outcome.ops) as f64, "{outcome:?}");
    let kernel_threads = figure("server_kernel_threads");
    assert!(kernel_threads < 100.0, "{kernel_threads} kernel threads for {CONNECTIONS} connections and requests");
}
