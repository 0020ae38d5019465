//! For async code: waits of this library as futures, for any executor.
//!
//! What would wait, waits on a lightweight thread, which wakes the task. A future that is dropped before it is done
//! cancels that thread; no message is lost by it, since the thread only waits until one is there.
//!
//! ```
//! use raddle::future;
//! use raddle::sync::{Mutex, channel, oneshot};
//! use std::sync::Arc;
//!
//! let (sender, receiver) = channel::bounded(4);
//! let (promise, answer) = oneshot::channel();
//! let sum = Arc::new(Mutex::new(0));
//! let theirs = sum.clone();
//! // Blocking code on a lightweight thread ...
//! raddle::spawn(move || {
//!     (1..=10).for_each(|i| sender.send(i).unwrap());
//!     *theirs.lock().unwrap() += 100;
//!     promise.set(42)
//! });
//! // ... and async code that waits for it.
//! let all = raddle::block_on(async {
//!     while let Ok(number) = future::receive(&receiver).await {
//!         *future::lock(&sum).await.unwrap() += number;
//!     }
//!     future::value(answer).await.unwrap() + *future::lock(&sum).await.unwrap()
//! });
//! assert_eq!(all, 197);
//! ```
//!
//! A guard belongs to the thread that has it, so a task that may go to another thread cannot keep one across an
//! `await`:
//! ```compile_fail
//! use raddle::{future, sync::Mutex};
//! static LOCK: Mutex<u32> = Mutex::new(0);
//! fn goes_to_another_thread(_: impl Future + Send) {}
//! goes_to_another_thread(async {
//!     let guard = future::lock(&&LOCK).await;
//!     std::future::ready(()).await;
//!     drop(guard);
//! });
//! ```

use crate::JoinHandle;
use crate::sync::channel::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use crate::sync::oneshot::{self, GetError};
use crate::sync::{
    LockResult, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, TryLockError, TryLockResult,
    select,
};
use raddle_scheduler::code_of_program;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a closure on a lightweight thread of its own returns; see [`run`].
pub struct Run<T> {
    /// Until it was joined.
    thread: Option<JoinHandle<T>>,
    end: Arc<End>,
}

impl<T> std::fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// Where the thread says that it is through, and the task who is to be told.
#[derive(Default)]
struct End(std::sync::Mutex<(bool, Option<Waker>)>);

impl End {
    fn is_reached(&self, waker: &Waker) -> bool {
        let mut end = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !end.0 {
            end.1 = Some(waker.clone());
        }
        end.0
    }
}

/// Tells the task, also when the closure panics.
struct Reached(Arc<End>);

impl Drop for Reached {
    fn drop(&mut self) {
        let mut end = self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        end.0 = true;
        let waker = end.1.take();
        drop(end);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Runs blocking code on a lightweight thread. If the future is dropped first, the thread is cancelled: its waits
/// return that.
///
/// A panic of the closure goes on in the task.
///
/// # Panics
/// When no thread can be had.
pub fn run<T: Send + 'static>(blocking: impl FnOnce() -> T + Send + 'static) -> Run<T> {
    let end = Arc::new(End::default());
    let reached = Reached(end.clone());
    let thread = crate::spawn(move || {
        let _reached = reached;
        code_of_program::call(blocking)
    });
    Run { thread: Some(thread), end }
}

impl<T> Future for Run<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.end.is_reached(context.waker()) {
            return Poll::Pending;
        }
        let thread = self.thread.take().expect("a future is not polled after its end");
        // The thread has nothing left to do but to end.
        Poll::Ready(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.cancel();
        }
    }
}

/// Receives a message.
///
/// # Errors
/// If the channel is empty and has no sender any more.
pub async fn receive<T: Send + 'static>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    loop {
        match receiver.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvError::Disconnected),
            Err(_) => {}
        }
        let theirs = receiver.clone();
        let _ = run(move || select::wait(&[&theirs])).await;
    }
}

/// Sends a message, waiting for room. If the future is dropped while it waits, the message is sent or dropped.
///
/// # Errors
/// With the message, if there is no receiver any more.
pub async fn send<T: Send + 'static>(sender: &Sender<T>, message: T) -> Result<(), SendError<T>> {
    match sender.try_send(message) {
        Ok(()) => Ok(()),
        Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
        Err(TrySendError::Full(message)) => {
            let theirs = sender.clone();
            run(move || theirs.send(message)).await
        }
    }
}

/// What a promise gives.
///
/// # Errors
/// If it is broken.
pub async fn value<T: Send + 'static>(future: oneshot::Future<T>) -> Result<T, GetError> {
    match future.try_get() {
        Ok(value) => Ok(value),
        Err(Err(error)) => Err(error),
        Err(Ok(future)) => run(move || future.get()).await,
    }
}

/// Tries until it is had; between the tries a thread waits until it could be had.
async fn until_had<'a, L: Clone + Send + 'static, G>(
    lock: &'a L,
    attempt: impl Fn(&'a L) -> TryLockResult<G>,
    wait: impl Fn(&L) + Clone + Send + 'static,
) -> LockResult<G> {
    loop {
        match attempt(lock) {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let (theirs, wait) = (lock.clone(), wait.clone());
        run(move || wait(&theirs)).await;
    }
}

/// Locks a mutex, in an [`Arc`] or a static. Others that ask may be earlier: it is not fair.
///
/// # Errors
/// If a thread panicked while it had the lock; the guard is inside the error.
pub async fn lock<T: 'static, L>(mutex: &L) -> LockResult<MutexGuard<'_, T>>
where
    L: Deref<Target = Mutex<T>> + Clone + Send + 'static,
{
    until_had(mutex, |mutex| mutex.try_lock(), |mutex: &L| drop(mutex.lock_cancellable())).await
}

/// Reads what a lock, in an [`Arc`] or a static, protects.
///
/// # Errors
/// If a writer panicked; the guard is inside the error.
pub async fn read<T: 'static, L>(lock: &L) -> LockResult<RwLockReadGuard<'_, T>>
where
    L: Deref<Target = RwLock<T>> + Clone + Send + 'static,
{
    until_had(lock, |lock| lock.try_read(), |lock: &L| drop(lock.read_cancellable())).await
}

/// Writes what a lock, in an [`Arc`] or a static, protects.
///
/// # Errors
/// If a writer panicked; the guard is inside the error.
pub async fn write<T: 'static, L>(lock: &L) -> LockResult<RwLockWriteGuard<'_, T>>
where
    L: Deref<Target = RwLock<T>> + Clone + Send + 'static,
{
    until_had(lock, |lock| lock.try_write(), |lock: &L| drop(lock.write_cancellable())).await
}

/// Takes permits of a semaphore in an [`Arc`] or a static. [`Semaphore::release`] gives them back.
pub async fn acquire<S>(semaphore: &S, count: u32)
where
    S: Deref<Target = Semaphore> + Clone + Send + 'static,
{
    while !semaphore.try_acquire(count) {
        let theirs = semaphore.clone();
        run(move || {
            if theirs.acquire_cancellable(count).is_ok() {
                theirs.release(count);
            }
        })
        .await;
    }
}
