//! The workloads as async tasks on tokio's multi-threaded scheduler; `serve N` is the echo server for the load
//! generator.
#![forbid(unsafe_code)]

use raddle_bench::program;
use raddle_bench_peers::tasks;

/// An echo server with a task for each connection. It prints `port N` and serves until it is killed.
fn serve(processors: usize) -> std::io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(processors).enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("port {}", listener.local_addr()?.port());
        loop {
            let (mut connection, _) = listener.accept().await?;
            connection.set_nodelay(true)?;
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = connection.read(&mut buffer).await {
                    if connection.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    })
}

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, rest @ ..] = words.as_slice()
        && word == "serve"
    {
        let processors = rest.first().and_then(|number| number.parse().ok()).unwrap_or(1);
        if let Err(error) = serve(processors) {
            eprintln!("cannot serve: {error}");
        }
        return std::process::ExitCode::FAILURE;
    }
    program::main(|request| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(request.processors).enable_time().build();
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
