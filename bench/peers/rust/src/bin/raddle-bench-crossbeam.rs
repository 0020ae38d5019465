//! The workloads that are about channels, on kernel threads with crossbeam's channels, and its one lock in `locks`.
#![forbid(unsafe_code)]

use crossbeam_channel::{Receiver, Sender, bounded};
use crossbeam_utils::sync::ShardedLock;
use raddle_bench::bodies::{self, Api, Counted, MonitorSemaphore, Turns};
use raddle_bench::program::{self, Outcome};
use std::sync::{Condvar, Mutex, MutexGuard};

struct Crossbeam;

impl Api for Crossbeam {
    raddle_bench_peers::kernel_threads!();

    type Mutex<T: Send + 'static> = Mutex<T>;
    type Guard<'a, T: Send + 'static> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Gate = std::sync::Once;
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Buffer<T: Send + 'static> = (Sender<T>, Receiver<T>);
    type Semaphore = MonitorSemaphore<Self>;

    fn mutex<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    #[inline(always)]
    fn lock<T: Send + 'static>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
    fn condvar() -> Condvar {
        Condvar::new()
    }
    fn wait<'a, T: Send + 'static>(condvar: &Condvar, guard: Self::Guard<'a, T>) -> Self::Guard<'a, T> {
        condvar.wait(guard).unwrap()
    }
    fn notify_one(condvar: &Condvar) {
        condvar.notify_one();
    }
    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }

    fn gate() -> Self::Gate {
        std::sync::Once::new()
    }
    fn pass(gate: &Self::Gate) {
        gate.wait();
    }
    fn open(gate: &Self::Gate) {
        gate.call_once(|| ());
    }

    fn channel<T: Send + 'static>(slots: usize) -> (Sender<T>, Receiver<T>) {
        bounded(slots)
    }
    fn send<T: Send + 'static>(sender: &Sender<T>, value: T) {
        assert!(sender.send(value).is_ok(), "the receiver is gone");
    }
    fn recv<T: Send + 'static>(receiver: &Receiver<T>) -> T {
        receiver.recv().unwrap()
    }

    fn buffer<T: Send + 'static>(slots: usize) -> Self::Buffer<T> {
        bounded(slots)
    }
    fn put<T: Send + 'static>(buffer: &Self::Buffer<T>, value: T) {
        Self::send(&buffer.0, value);
    }
    fn take<T: Send + 'static>(buffer: &Self::Buffer<T>) -> T {
        Self::recv(&buffer.1)
    }

    fn locks(by: &str, turns: Turns) -> Result<Outcome, String> {
        match by {
            "mutex" => Ok(bodies::contend::<Self, Sharded>(turns)),
            other => Err(format!("not offered: crossbeam has no lock `{other}`")),
        }
    }

    fn semaphore(permits: usize) -> Self::Semaphore {
        MonitorSemaphore::new(permits)
    }
    fn acquire(semaphore: &Self::Semaphore) {
        semaphore.acquire();
    }
    fn release(semaphore: &Self::Semaphore) {
        semaphore.release();
    }
}

/// Crossbeam's lock, for one who writes: it has no mutex.
struct Sharded(ShardedLock<u64>);

impl Counted for Sharded {
    fn new() -> Self {
        Self(ShardedLock::new(0))
    }
    #[inline(always)]
    fn add(&self, inside: impl FnOnce()) {
        let mut count = self.0.write().unwrap();
        *count += 1;
        inside();
    }
    fn count(&self) -> u64 {
        *self.0.read().unwrap()
    }
}

/// The workloads in which the channels decide; in the others it would be std under another name.
const ABOUT_CHANNELS: [&str; 5] = ["locks", "pp_chan", "eratosthenes", "producer", "tokenring"];

fn main() -> std::process::ExitCode {
    program::main(|request| {
        if !ABOUT_CHANNELS.contains(&request.workload.as_str()) {
            return Err(request.not_offered("this workload is not about channels; see std"));
        }
        program::use_cores(request.processors)?;
        let inner = request.clone();
        let outcome = Crossbeam::join(Crossbeam::spawn(move || bodies::run::<Crossbeam>(&inner)))?;
        Ok((outcome, format!("kernel threads on {} cores, crossbeam's bounded channels", request.processors)))
    })
}
