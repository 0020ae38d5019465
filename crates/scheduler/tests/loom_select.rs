//! All interleavings, within stated bounds, of a thread that waits for several: as `loom_sync.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, explore};
use raddle_scheduler::sync::{channel, oneshot, select};

#[test]
fn the_first_of_two_channels_is_found() {
    explore(2, &["1", "2"], || {
        let (left, from_left) = channel::bounded::<u32, Model>(1);
        let (right, from_right) = channel::bounded::<u32, Model>(1);
        let sending = thread::spawn(move || {
            left.send(1).unwrap();
            right.send(2).unwrap();
            (left, right)
        });
        let place = select::wait(&[&from_left, &from_right]).unwrap();
        let first = [&from_left, &from_right][place].try_recv().unwrap();
        drop(sending.join().unwrap());
        first
    });
}

#[test]
fn a_promise_ends_the_wait_or_the_time_does() {
    explore(2, &["Err(TimedOut)", "Ok(0)"], || {
        let (promise, future) = oneshot::channel::<u32, Model>();
        let (_sender, receiver) = channel::unbounded::<u32, Model>();
        let giving = thread::spawn(move || promise.set(7).unwrap());
        let place = select::wait_timeout(&[&future, &receiver], TIMEOUT);
        // Whatever has ended it, the promise's own wait works afterwards.
        assert_eq!(future.get(), Ok(7));
        giving.join().unwrap();
        place
    });
}

#[test]
fn the_end_of_a_channel_ends_the_wait() {
    explore(2, &["Ok(1)"], || {
        let (_promise, future) = oneshot::channel::<u32, Model>();
        let (sender, receiver) = channel::unbounded::<u32, Model>();
        let closing = thread::spawn(move || drop(sender));
        let place = select::wait(&[&future, &receiver]);
        closing.join().unwrap();
        place
    });
}
