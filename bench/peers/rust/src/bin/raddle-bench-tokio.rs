//! The workloads as async tasks on tokio's multi-threaded scheduler.
#![forbid(unsafe_code)]

use raddle_bench::program;
use raddle_bench_peers::tasks;

fn main() -> std::process::ExitCode {
    program::main(|request| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(request.processors).build();
        let runtime = runtime.map_err(|e| format!("cannot start tokio's runtime: {e}"))?;
        let inner = request.clone();
        let body = runtime.spawn(async move { tasks::run(&inner).await });
        let outcome = runtime.block_on(body).map_err(|error| match error.try_into_panic() {
            Ok(panic) => program::panic_text(&*panic),
            Err(error) => error.to_string(),
        })?;
        Ok((outcome?, format!("worker_threads={}, otherwise as it comes", request.processors)))
    })
}
