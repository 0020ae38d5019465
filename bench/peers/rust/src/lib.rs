//! Parts of the peers' programs: kernel threads with replaced primitives, and the workloads as async tasks.
#![forbid(unsafe_code)]

pub mod tasks;

use std::thread;

/// A kernel thread, or a panic that says why not.
///
/// ```
/// assert_eq!(raddle_bench_peers::spawn(|| 1).join().unwrap(), 1);
/// ```
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    match thread::Builder::new().spawn(body) {
        Ok(handle) => handle,
        Err(error) => panic!("cannot start a further kernel thread: {error}"),
    }
}

/// The thread part of an `Api` implementation on kernel threads.
#[macro_export]
macro_rules! kernel_threads {
    () => {
        type Handle<T: Send + 'static> = std::thread::JoinHandle<T>;
        fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
            $crate::spawn(body)
        }
        fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
            handle.join().unwrap()
        }
        fn fork<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
            std::thread::scope(|scope| {
                let a = scope.spawn(a);
                let b = b();
                (a.join().unwrap(), b)
            })
        }
        fn yield_now() {
            std::thread::yield_now();
        }
        type Promise<T: Send + 'static> = std::sync::mpsc::SyncSender<T>;
        type Future<T: Send + 'static> = std::sync::mpsc::Receiver<T>;

        fn promise<T: Send + 'static>() -> (Self::Promise<T>, Self::Future<T>) {
            std::sync::mpsc::sync_channel(1)
        }
        fn set<T: Send + 'static>(promise: Self::Promise<T>, value: T) {
            // Whoever does not want it any more has dropped the other end.
            let _ = promise.send(value);
        }
        fn get<T: Send + 'static>(future: Self::Future<T>) -> T {
            future.recv().unwrap()
        }
    };
}
