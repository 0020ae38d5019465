//! `park` and `unpark`, handles to threads, and futures inside threads.
//!
//! How a token is left and taken is [`raddle_scheduler::parker`]'s business.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! pool.run(|| {
//!     let me = raddle::current();
//!     raddle::spawn(move || me.unpark());
//!     raddle::park();
//!     assert_eq!(raddle::block_on(async { 6 * 7 }), 42);
//! });
//! ```

pub use crate::threads::handle::{Thread, ThreadId};
use raddle_scheduler::code_of_program;
use std::cell::OnceCell;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

thread_local! {
    static HANDLE: OnceCell<Thread> = const { OnceCell::new() };
}

/// A handle to the calling thread.
pub fn current() -> Thread {
    if let Some(handle) = crate::carry::switching::current().map(Thread::of) {
        return handle.clone();
    }
    let make = || {
        let ours = crate::carry::foreign::thread().or_else(crate::threads::fallback::descriptor);
        ours.map(|descriptor| Thread::of(descriptor).clone())
            .unwrap_or_else(|| Thread::new(std::thread::current().name().map(str::to_owned)))
    };
    // After the thread-local destructors have begun, each call makes a handle of its own.
    HANDLE.try_with(|handle| handle.get_or_init(make).clone()).unwrap_or_else(|_| make())
}

/// Blocks until a token is there (see [`Thread::unpark`]) and takes it. May return for no reason, as std's does: when
/// the thread is cancelled, for one.
pub fn park() {
    park_until(None);
}

/// As [`park`], for at most `timeout`.
pub fn park_timeout(timeout: Duration) {
    park_until(Some(crate::carry::timers::deadline_after(timeout)));
}

fn park_until(deadline: Option<u64>) {
    match crate::carry::switching::current() {
        // SAFETY: the calling thread's own, in which nobody else parks.
        Some(me) => unsafe { Thread::of(me).park(deadline) },
        // SAFETY: the same.
        None => unsafe { current().park(deadline) },
    }
}

/// Runs a future to its end on the calling thread, which is parked while the future waits.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    // A parker of its own: the thread's tokens are the user's.
    let parker = Thread::new(None);
    let waker = parker.waker();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = code_of_program::poll(future.as_mut(), &mut context) {
            return value;
        }
        // SAFETY: made for the calling thread, which alone parks there.
        crate::threads::scope::masked(|| unsafe { parker.park(None) });
    }
}

/// What a thread ended with, for whoever polls: see [`crate::JoinHandle`]'s `IntoFuture`.
pub struct JoinFuture<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

struct Shared<T> {
    result: Option<crate::threads::thread::Result<T>>,
    waker: Option<Waker>,
}

impl<T> std::fmt::Debug for JoinFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinFuture").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> IntoFuture for crate::JoinHandle<T> {
    type Output = crate::threads::thread::Result<T>;
    type IntoFuture = JoinFuture<T>;

    /// A future for any async runtime; a lightweight thread joins on its behalf.
    fn into_future(self) -> JoinFuture<T> {
        let shared = Arc::new(Mutex::new(Shared { result: None, waker: None }));
        let theirs = shared.clone();
        crate::spawn(move || {
            let result = self.join();
            let mut shared = theirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            shared.result = Some(result);
            let waker = shared.waker.take();
            drop(shared);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        JoinFuture { shared }
    }
}

impl<T> Future for JoinFuture<T> {
    type Output = crate::threads::thread::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_for_the_next_park_and_tokens_do_not_add_up() {
        let pool = crate::Builder::new().processors(2).build().unwrap();
        pool.run(|| {
            let me = current();
            me.unpark();
            me.unpark();
            park();
            let start = std::time::Instant::now();
            park_timeout(Duration::from_millis(2));
            assert!(start.elapsed() >= Duration::from_millis(2), "the second token was not kept");
        });
    }

    #[test]
    fn parked_threads_of_both_kinds_wake_each_other() {
        let pool = crate::Builder::new().processors(2).build().unwrap();
        let kernel = current();
        for _ in 0..1000 {
            let kernel = kernel.clone();
            let (sender, receiver) = std::sync::mpsc::channel();
            let light = pool.spawn(move || {
                sender.send(current()).unwrap();
                park();
                kernel.unpark();
            });
            receiver.recv().unwrap().unpark();
            park();
            light.join().unwrap();
        }
    }

    #[test]
    fn a_future_is_driven_inside_a_thread_and_a_handle_is_awaited() {
        let pool = crate::Builder::new().processors(2).build().unwrap();
        let sum = pool.run(|| {
            let handles: Vec<_> = (0..100u64).map(|i| crate::spawn(move || i)).collect();
            block_on(async {
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.unwrap();
                }
                sum
            })
        });
        assert_eq!(sum, 4950);
        // From a kernel thread too.
        assert_eq!(block_on(async { pool.spawn(|| 7).await.unwrap() }), 7);
    }
}
