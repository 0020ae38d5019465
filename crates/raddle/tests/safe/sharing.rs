//! What may go to other threads, and be shared with them. A type that says so and may not is unsound, whatever it does.

use raddle::sync::{channel, oneshot};
use raddle::{JoinHandle, ScopedJoinHandle};
use raddle_machine::Real;
use raddle_scheduler::Ready;
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

struct Probe<T: ?Sized>(PhantomData<T>);

trait No {
    const SEND: bool = false;
    const SYNC: bool = false;
    const CLONE: bool = false;
}
impl<T: ?Sized> No for Probe<T> {}

// An inherent constant goes before a trait's, where its bounds hold.
impl<T: ?Sized + Send> Probe<T> {
    const SEND: bool = true;
}
impl<T: ?Sized + Sync> Probe<T> {
    const SYNC: bool = true;
}
impl<T: Clone> Probe<T> {
    const CLONE: bool = true;
}

/// `Send`, `Sync` and `Clone` of each type.
macro_rules! table {
    ($($t:ty => $send:literal $sync:literal $clone:literal,)*) => {
        [$((
            stringify!($t),
            [<Probe<$t>>::SEND, <Probe<$t>>::SYNC, <Probe<$t>>::CLONE],
            [$send == 1, $sync == 1, $clone == 1],
        )),*]
    };
}

#[test]
fn what_may_be_sent_shared_and_doubled() {
    type Own = Rc<u32>;
    type Alone = Cell<u32>;
    let facts = table! {
        raddle::sync::Mutex<u32> => 1 1 0,
        raddle::sync::Mutex<Alone> => 1 1 0,
        raddle::sync::Mutex<Own> => 0 0 0,
        raddle::sync::MutexGuard<'static, u32> => 0 1 0,
        raddle::sync::MutexGuard<'static, Alone> => 0 0 0,
        raddle::sync::RwLock<u32> => 1 1 0,
        raddle::sync::RwLock<Alone> => 1 0 0,
        raddle::sync::RwLock<Own> => 0 0 0,
        raddle::sync::RwLockReadGuard<'static, u32> => 0 1 0,
        raddle::sync::RwLockReadGuard<'static, Alone> => 0 0 0,
        raddle::sync::RwLockWriteGuard<'static, u32> => 0 1 0,
        raddle::sync::RwLockWriteGuard<'static, Alone> => 0 0 0,
        raddle::sync::Monitor<Alone> => 1 1 0,
        raddle::sync::Monitor<Own> => 0 0 0,
        raddle::sync::MonitorGuard<'static, u32> => 0 1 0,
        raddle::sync::MonitorGuard<'static, Alone> => 0 0 0,
        raddle::sync::OnceLock<u32> => 1 1 1,
        raddle::sync::OnceLock<Alone> => 1 0 1,
        raddle::sync::OnceLock<Own> => 0 0 1,
        raddle::sync::Semaphore => 1 1 0,
        raddle::sync::Barrier => 1 1 0,
        raddle::sync::Condvar => 1 1 0,
        raddle::sync::Once => 1 1 0,
        channel::Sender<Alone> => 1 1 1,
        channel::Sender<Own> => 0 0 1,
        channel::Receiver<Alone> => 1 1 1,
        channel::Receiver<Own> => 0 0 1,
        oneshot::Promise<Alone> => 1 1 0,
        oneshot::Promise<Own> => 0 0 0,
        oneshot::Future<Alone> => 1 0 0,
        oneshot::Future<u32> => 1 0 0,
        oneshot::Future<Own> => 0 0 0,
        JoinHandle<Alone> => 1 1 0,
        JoinHandle<Own> => 0 0 0,
        ScopedJoinHandle<'static, Own> => 0 0 0,
        ScopedJoinHandle<'static, u32> => 1 1 0,
        raddle::Pool => 1 1 0,
        raddle::Builder => 1 1 1,
        raddle::park::Thread => 1 1 1,
        raddle::stage::Stage => 1 1 1,
        raddle::stage::Place => 1 1 0,
        Ready<Real> => 1 0 0,
    };
    let wrong: Vec<_> = facts.iter().filter(|(_, is, expected)| is != expected).collect();
    assert!(wrong.is_empty(), "[Send, Sync, Clone], as it is and as it should be: {wrong:#?}");
}
