//! The workloads as async tasks on tokio. [`run`] picks the body of a request; it must be called inside a task.

mod forkjoin;
mod micro;
mod mixer;
mod options;
mod packet;
mod programs;

use raddle_bench::bodies::shared::{Hall, Traffic, sequential};
use raddle_bench::program::{Outcome, Request};
use tokio::task::{JoinError, JoinHandle};

/// The result of a task; a panic in it goes on here.
async fn joined<T>(handle: JoinHandle<T>) -> T {
    handle.await.unwrap_or_else(|error: JoinError| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => panic!("a task was cancelled: {error}"),
    })
}

/// The results of several tasks, in order.
async fn all<T>(handles: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(handles.len());
    for handle in handles {
        results.push(joined(handle).await);
    }
    results
}

/// Runs the request's workload, all repetitions.
///
/// ```
/// use raddle_bench::program::Request;
/// let request = Request::parse(["create", "N=3", "--processors", "1"].map(String::from)).unwrap();
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
/// let run = async move { raddle_bench_peers::tasks::run(&request).await };
/// let outcome = runtime.block_on(async { tokio::spawn(run).await });
/// assert_eq!(outcome.unwrap().unwrap().checksum, 3);
/// ```
pub async fn run(request: &Request) -> Result<Outcome, String> {
    for _ in 1..request.repeat {
        once(request).await?;
    }
    once(request).await
}

async fn once(request: &Request) -> Result<Outcome, String> {
    let number = |key: &str| request.args.number(key);
    let size = |key: &str| number(key).map(|n| n as usize);
    match request.workload.as_str() {
        "create" => Ok(micro::create(number("N")?).await),
        "park" => Ok(micro::park(number("N")?, request.baseline).await),
        "sleep" => Ok(micro::sleepers(number("N")?, number("ms")?, number("turns")?, request.baseline).await),
        "yield" => micro::yields(number("T")?, number("total")?).await,
        "pp_chan" => Ok(micro::pp_chan(number("n")?).await),
        "pp_cond" => Ok(micro::pp_cond(number("n")?).await),
        "null_fork" => Ok(micro::null_fork(number("n")?).await),
        "signal_wait" => Ok(micro::signal_wait(number("n")?).await),
        "lock_local" => micro::lock_local(number("T")?, number("total")?).await,
        "lock_global" => micro::lock_global(number("T")?, number("total")?, false).await,
        "lock_block" => micro::lock_global(number("T")?, number("total")?, true).await,
        "wake_remote" if request.processors < 2 => Err(request.not_offered("it needs a second processor")),
        "wake_remote" => Ok(micro::wake_remote(number("n")?, number("gap_us")?).await),
        "city" => programs::city(number("N")?, number("K")?, size("C")?).await,
        "eratosthenes" => Ok(programs::eratosthenes(number("N")?).await),
        "mandelbrot" => Ok(programs::mandelbrot(number("N")?, number("C")?, number("K")?).await),
        "matrix" => Ok(programs::matrix(size("n")?, size("M")?).await),
        "news" => Ok(programs::news(number("N")?, number("M")?, number("K")?).await),
        "producer" => Ok(programs::producer(number("N")?, size("C")?, number("K")?).await),
        "tokenring" => Ok(programs::tokenring(size("N")?, number("K")?).await),
        "skynet" | "fib" | "nqueens" if request.args.text("by")? != "spawn" => {
            Err(request.not_offered("tokio has no parallel fork-join call; see by=spawn"))
        }
        "skynet" => Ok(forkjoin::skynet(number("N")?).await),
        "fib" => Ok(forkjoin::fib(number("n")?).await),
        "nqueens" => Ok(forkjoin::nqueens(number("n")?).await),
        "radix" => forkjoin::radix(size("N")?, size("T")?, number("r")?).await,
        name @ ("packet" | "packet-copy" | "packet-cache" | "packet-bimodal") => {
            packet::run(Traffic::of(name, &request.args)?).await
        }
        "mixer" => Ok(mixer::run(Hall::new(&request.args)?, request.args.text("by")?).await),
        "mixer-load" => mixer::largest(Hall::new(&request.args)?, request.args.text("by")?).await,
        "options" if request.args.text("by")? == "sequential" => sequential(request),
        "options" => options::run(request).await,
        other => Err(request.not_offered(&format!("there is no workload `{other}`"))),
    }
}
