//! The workloads that are about locks, on kernel threads with parking_lot's locks.
#![forbid(unsafe_code)]

use parking_lot::{Condvar, Mutex, MutexGuard};
use raddle_bench::bodies::{self, Api, MonitorBuffer, MonitorSemaphore};
use raddle_bench::program;
use std::sync::mpsc;

struct ParkingLot;

impl Api for ParkingLot {
    raddle_bench_peers::kernel_threads!();

    type Mutex<T: Send + 'static> = Mutex<T>;
    type Guard<'a, T: Send + 'static> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Gate = std::sync::Once;
    type Sender<T: Send + 'static> = mpsc::SyncSender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;
    type Buffer<T: Send + 'static> = MonitorBuffer<Self, T>;
    type Semaphore = MonitorSemaphore<Self>;

    fn mutex<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    #[inline(always)]
    fn lock<T: Send + 'static>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }
    fn condvar() -> Condvar {
        Condvar::new()
    }
    fn wait<'a, T: Send + 'static>(condvar: &Condvar, mut guard: Self::Guard<'a, T>) -> Self::Guard<'a, T> {
        condvar.wait(&mut guard);
        guard
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
}

/// The workloads in which the locks decide; in the others it would be std under another name.
const ABOUT_LOCKS: [&str; 10] = [
    "pp_cond",
    "lock_local",
    "lock_global",
    "lock_block",
    "locks",
    "faults",
    "wake_remote",
    "city",
    "news",
    "producer",
];

fn main() -> std::process::ExitCode {
    program::main(|request| {
        if !ABOUT_LOCKS.contains(&request.workload.as_str()) {
            return Err(request.not_offered("this workload is not about locks; see std"));
        }
        program::use_cores(request.processors)?;
        let inner = request.clone();
        let outcome = ParkingLot::join(ParkingLot::spawn(move || bodies::run::<ParkingLot>(&inner)))?;
        Ok((outcome, format!("kernel threads on {} cores, parking_lot's Mutex and Condvar", request.processors)))
    })
}
