//! The workloads for runtimes that look like std, written once.
//!
//! A runtime implements [`Api`]; the bodies are generic over it and compile to direct calls, so that no runtime pays
//! for the sharing. [`run`] picks the body of a request. It must be called inside a thread of that runtime.

mod faults;
mod forkjoin;
mod locks;
mod micro;
mod mixer;
mod monitor;
mod nbody;
mod options;
mod packet;
mod programs;
mod radix;
mod sleep;
mod staged;

pub use faults::{Coarse, Element, Elements, Faults, Locked, faults};
pub use locks::{Counted, OwnMutex, Turns, contend};
pub use monitor::{MonitorBuffer, MonitorSemaphore};

/// The sequential parts of the workloads, for programs whose runtime does not look like std.
pub mod shared {
    pub use super::forkjoin::{Queens, lowest_bit};
    pub use super::mixer::{Frame, Hall, Heard, Search};
    pub use super::nbody::sequential as nbody_sequential;
    pub use super::options::{Lattice, Values, sequential};
    pub use super::packet::{Traffic, with_percentiles};
    pub use super::programs::{mandelbrot_row, matrix_factors, matrix_row};
    pub use super::radix::{check_sorted, histogram, permute, prefix_sums, prepare, xorshift_keys};
    pub use super::share;
    pub use super::sleep::{Sleepers, late_ns};
    pub use super::staged::Requests;
    pub use crate::load::latency::code_of as latency_bucket;
}

use crate::args::Args;
use crate::program::{Outcome, Request};
use std::ops::DerefMut;

/// What the bodies need from a runtime: its threads, locks and channels.
///
/// Failures panic: the program turns the first panic into its error line.
pub trait Api: Sized + Send + Sync + 'static {
    /// The right to join one thread.
    type Handle<T: Send + 'static>: Send + 'static;
    /// A mutual exclusion lock around a value.
    type Mutex<T: Send + 'static>: Send + Sync + 'static;
    /// The guard of a held [`Api::Mutex`].
    type Guard<'a, T: Send + 'static>: DerefMut<Target = T>;
    /// A condition variable for [`Api::Guard`].
    type Condvar: Send + Sync + 'static;
    /// A gate that is closed until it is opened, for ever.
    type Gate: Send + Sync + 'static;
    /// The sending end of a bounded channel.
    type Sender<T: Send + 'static>: Send + 'static;
    /// The receiving end of a bounded channel.
    type Receiver<T: Send + 'static>: Send + 'static;
    /// A bounded buffer with any number of users at both ends.
    type Buffer<T: Send + 'static>: Send + Sync + 'static;
    /// A counting semaphore.
    type Semaphore: Send + Sync + 'static;
    /// The duty to give one value.
    type Promise<T: Send + 'static>: Send + 'static;
    /// The right to it.
    type Future<T: Send + 'static>: Send + 'static;

    /// Starts a thread.
    fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;
    /// Starts a thread that is less urgent than others, where the runtime knows such.
    fn spawn_low<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Self::spawn(body)
    }
    /// Waits for a thread's result.
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T;
    /// Runs both closures, possibly at the same time.
    fn fork<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B);
    /// Runs `each` on every item, possibly at the same time, as the pieces of one scope. Kernel threads if not said
    /// otherwise.
    fn scope<T: Send>(items: impl Iterator<Item = T>, each: impl Fn(T) + Send + Sync) {
        let each = &each;
        std::thread::scope(|scope| items.for_each(|item| _ = scope.spawn(move || each(item))));
    }
    /// Runs `here`, and possibly at the same time `piece`, the only one of a scope.
    fn scope_beside(piece: impl FnOnce() + Send, here: impl FnOnce()) {
        std::thread::scope(|scope| {
            scope.spawn(piece);
            here();
        });
    }
    /// Lets others run.
    fn yield_now();

    /// A new lock.
    fn mutex<T: Send + 'static>(value: T) -> Self::Mutex<T>;
    /// Takes the lock.
    fn lock<T: Send + 'static>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;
    /// A new condition variable.
    fn condvar() -> Self::Condvar;
    /// Waits on the condition variable; may wake up without cause.
    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Self::Guard<'a, T>) -> Self::Guard<'a, T>;
    /// Wakes one waiter.
    fn notify_one(condvar: &Self::Condvar);
    /// Wakes all waiters.
    fn notify_all(condvar: &Self::Condvar);

    /// A closed gate.
    fn gate() -> Self::Gate;
    /// Blocks until the gate is open.
    fn pass(gate: &Self::Gate);
    /// Opens the gate: all who wait pass.
    fn open(gate: &Self::Gate);

    /// A channel that holds at most `slots` values.
    fn channel<T: Send + 'static>(slots: usize) -> (Self::Sender<T>, Self::Receiver<T>);
    /// Sends, waiting while the channel is full.
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T);
    /// Receives, waiting while the channel is empty.
    fn recv<T: Send + 'static>(receiver: &Self::Receiver<T>) -> T;

    /// A buffer that holds at most `slots` values.
    fn buffer<T: Send + 'static>(slots: usize) -> Self::Buffer<T>;
    /// Puts a value in, waiting while the buffer is full.
    fn put<T: Send + 'static>(buffer: &Self::Buffer<T>, value: T);
    /// Takes a value out, waiting while the buffer is empty.
    fn take<T: Send + 'static>(buffer: &Self::Buffer<T>) -> T;

    /// A semaphore with so many permits.
    fn semaphore(permits: usize) -> Self::Semaphore;
    /// Takes a permit, waiting while there is none.
    fn acquire(semaphore: &Self::Semaphore);
    /// Gives a permit back.
    fn release(semaphore: &Self::Semaphore);

    /// A promise and the right to what it gives.
    fn promise<T: Send + 'static>() -> (Self::Promise<T>, Self::Future<T>);
    /// Gives the value; nobody may want it any more.
    fn set<T: Send + 'static>(promise: Self::Promise<T>, value: T);
    /// Waits for the value.
    fn get<T: Send + 'static>(future: Self::Future<T>) -> T;
    /// Waits for so long.
    fn sleep(time: std::time::Duration) {
        std::thread::sleep(time);
    }

    /// The requests of `staged` in stages, one or two.
    fn in_stages(requests: &'static shared::Requests, stages: usize) -> Result<Outcome, String> {
        let _ = requests;
        Err(format!("not offered: it has no stages, of which {stages} would be needed"))
    }

    /// The turns of `locks`, with the lock of that name.
    fn locks(by: &str, turns: Turns) -> Result<Outcome, String> {
        match by {
            "mutex" => Ok(contend::<Self, OwnMutex<Self>>(turns)),
            other => Err(format!("not offered: this runtime has no lock `{other}`")),
        }
    }

    /// The turns of `faults`, with elements behind locks of that kind.
    fn faults(by: &str, asked: Faults) -> Result<Outcome, String> {
        match by {
            "coarse" => faults::<Self, Coarse<Self>>(asked),
            "elements" => faults::<Self, Locked<Self>>(asked),
            other => Err(format!("not offered: this runtime keeps no elements by `{other}`")),
        }
    }

    /// What the runtime has counted so far, where it counts: each repetition reports what was added.
    fn counters() -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Runs the request's workload, all repetitions, on the runtime `A`. Call it inside a thread of that runtime.
pub fn run<A: Api>(request: &Request) -> Result<Outcome, String> {
    let number = |key: &str| request.args.number(key);
    let size = |key: &str| number(key).and_then(|n| usize::try_from(n).map_err(|e| format!("{key}={n}: {e}")));
    let once = || match request.workload.as_str() {
        "create" => Ok(micro::create::<A>(number("N")?)),
        "park" => Ok(micro::park::<A>(number("N")?, request.baseline)),
        "sleep" => Ok(sleep::sleepers::<A>(number("N")?, number("ms")?, number("turns")?, request.baseline)),
        "yield" => micro::yields::<A>(number("T")?, number("total")?),
        "pp_chan" => Ok(micro::pp_chan::<A>(number("n")?)),
        "pp_cond" => Ok(micro::pp_cond::<A>(number("n")?)),
        "null_fork" => Ok(micro::null_fork::<A>(number("n")?)),
        "signal_wait" => Ok(micro::signal_wait::<A>(number("n")?)),
        "lock_local" => micro::lock_local::<A>(number("T")?, number("total")?),
        "lock_global" => micro::lock_global::<A>(number("T")?, number("total")?, false),
        "locks" => A::locks(request.args.text("by")?, Turns::new(&request.args)?),
        "faults" => A::faults(request.args.text("by")?, Faults::new(&request.args)?),
        "lock_block" => micro::lock_global::<A>(number("T")?, number("total")?, true),
        "wake_remote" if request.processors < 2 => Err(request.not_offered("it needs a second processor")),
        "wake_remote" => Ok(micro::wake_remote::<A>(number("n")?, number("gap_us")?)),
        "city" => programs::city::<A>(number("N")?, number("K")?, size("C")?),
        "eratosthenes" => Ok(programs::eratosthenes::<A>(number("N")?)),
        "mandelbrot" => Ok(programs::mandelbrot::<A>(number("N")?, number("C")?, number("K")?)),
        "matrix" => Ok(programs::matrix::<A>(size("n")?, size("M")?)),
        "news" => Ok(programs::news::<A>(number("N")?, number("M")?, number("K")?)),
        "nbody" => nbody::run::<A>(&request.args),
        "producer" => Ok(programs::producer::<A>(number("N")?, size("C")?, number("K")?)),
        "tokenring" => Ok(programs::tokenring::<A>(size("N")?, number("K")?)),
        "skynet" => forkjoin::skynet::<A>(number("N")?, request.args.text("by")?),
        "fib" => forkjoin::fib::<A>(number("n")?, request.args.text("by")?),
        "nqueens" => forkjoin::nqueens::<A>(number("n")?, request.args.text("by")?),
        "radix" => radix::radix::<A>(size("N")?, size("T")?, number("r")?),
        name @ ("packet" | "packet-copy" | "packet-cache" | "packet-bimodal") => {
            packet::run::<A>(packet::Traffic::of(name, &request.args)?)
        }
        "mixer" => Ok(mixer::run::<A>(mixer::Hall::new(&request.args)?, request.args.text("by")?)),
        "mixer-load" => mixer::largest::<A>(mixer::Hall::new(&request.args)?, request.args.text("by")?),
        "options" if request.args.text("by")? == "sequential" => options::sequential(request),
        "options" => options::run::<A>(request),
        "staged" => {
            let requests = shared::Requests::new(&request.args)?;
            match request.args.text("by")? {
                "bounded" => A::in_stages(requests, 1),
                "stages" => A::in_stages(requests, 2),
                _ => Ok(staged::in_one_pool::<A>(requests)),
            }
        }
        other => Err(request.not_offered(&format!("there is no workload `{other}`"))),
    };
    request.repeat(|| {
        let before = A::counters();
        let outcome = once()?;
        let added = A::counters().into_iter().zip(before).map(|((key, after), (_, before))| (key, after - before));
        Ok(added.fold(outcome, |outcome, (key, count)| outcome.with(key, count)))
    })
}

pub(crate) use options::expected as expected_of_options;
pub(crate) use packet::expected as expected_of_packets;
pub(crate) use staged::expected as expected_of_staged;

/// Whether there can be such a run: what each of the programs would refuse.
///
/// # Errors
/// Why not.
pub(crate) fn possible(workload: &str, args: &Args) -> Result<(), String> {
    match workload {
        "yield" | "lock_local" | "lock_global" | "lock_block" => {
            share(args.number("total")?, args.number("T")?).map(drop)
        }
        "locks" => Turns::new(args).map(drop),
        "faults" => Faults::new(args).map(drop),
        _ => Ok(()),
    }
}

/// The equal share of `total` for each of `parts`, which must divide it.
pub fn share(total: u64, parts: u64) -> Result<u64, String> {
    match parts {
        0 => Err("T=0: at least one thread is needed".into()),
        _ if total.is_multiple_of(parts) => Ok(total / parts),
        _ => Err(format!("T={parts} does not divide total={total}; choose a total that is a multiple of T")),
    }
}
