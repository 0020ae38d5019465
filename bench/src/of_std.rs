//! The workloads on std: kernel threads, std's locks and channels.

use crate::bodies::{self, Api, MonitorBuffer, MonitorSemaphore};
use crate::program::{self, Request};
use std::sync::{Condvar, Mutex, MutexGuard, Once, mpsc};
use std::thread;

struct Std;

impl Api for Std {
    type Handle<T: Send + 'static> = thread::JoinHandle<T>;
    type Mutex<T: Send + 'static> = Mutex<T>;
    type Guard<'a, T: Send + 'static> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Gate = Once;
    type Sender<T: Send + 'static> = mpsc::SyncSender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;
    type Buffer<T: Send + 'static> = MonitorBuffer<Std, T>;
    type Semaphore = MonitorSemaphore<Std>;
    type Promise<T: Send + 'static> = mpsc::SyncSender<T>;
    type Future<T: Send + 'static> = mpsc::Receiver<T>;

    fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        match thread::Builder::new().spawn(body) {
            Ok(handle) => handle,
            Err(error) => panic!("cannot start a further kernel thread: {error}"),
        }
    }
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().unwrap()
    }
    fn fork<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        thread::scope(|scope| {
            let a = scope.spawn(a);
            let b = b();
            (a.join().unwrap(), b)
        })
    }
    fn yield_now() {
        thread::yield_now();
    }

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
        Once::new()
    }
    fn pass(gate: &Self::Gate) {
        gate.wait();
    }
    fn open(gate: &Self::Gate) {
        gate.call_once(|| ());
    }

    fn channel<T: Send + 'static>(slots: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::sync_channel(slots)
    }
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) {
        assert!(sender.send(value).is_ok(), "the receiver is gone");
    }
    fn recv<T: Send + 'static>(receiver: &Self::Receiver<T>) -> T {
        receiver.recv().unwrap()
    }

    fn buffer<T: Send + 'static>(slots: usize) -> Self::Buffer<T> {
        MonitorBuffer::new(slots)
    }
    fn put<T: Send + 'static>(buffer: &Self::Buffer<T>, value: T) {
        buffer.put(value);
    }
    fn take<T: Send + 'static>(buffer: &Self::Buffer<T>) -> T {
        buffer.take()
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

    fn promise<T: Send + 'static>() -> (Self::Promise<T>, Self::Future<T>) {
        mpsc::sync_channel(1)
    }
    fn set<T: Send + 'static>(promise: Self::Promise<T>, value: T) {
        // Whoever does not want it any more has dropped the other end.
        let _ = promise.send(value);
    }
    fn get<T: Send + 'static>(future: Self::Future<T>) -> T {
        future.recv().unwrap()
    }
}

/// Refuses trees, and crowds, of so many kernel threads that the machine would suffer before the spawn fails.
fn affordable(request: &Request) -> Result<(), String> {
    let number = |key| request.args.number(key);
    let too_many = match request.workload.as_str() {
        "skynet" => number("N")? > 1_000,
        "fib" => number("n")? > 15,
        "nqueens" => number("n")? > 6,
        "packet" | "packet-copy" | "packet-cache" | "packet-bimodal" => number("N")? > 100_000,
        _ => false,
    };
    if too_many {
        return Err(request.not_offered("so many kernel threads are beyond the system's limits"));
    }
    Ok(())
}

/// The program: these words are its command line. Not generic, so that the workloads are compiled with this package,
/// not with each program.
pub fn main_of(words: &[String]) -> std::process::ExitCode {
    program::main_of(words.iter().cloned(), |request| {
        affordable(request)?;
        program::use_cores(request.processors)?;
        let inner = request.clone();
        let outcome = Std::join(Std::spawn(move || bodies::run::<Std>(&inner)))?;
        Ok((outcome, format!("kernel threads on {} cores, default stacks", request.processors)))
    })
}
