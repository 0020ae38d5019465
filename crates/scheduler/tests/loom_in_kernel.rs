//! A thread that waits in the kernel, and those who ask it to come out, in all interleavings. The kernel is a lock around whether a signal has
//! come: a request that is neither seen nor signalled leaves the thread in its call for ever, which loom reports.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::in_kernel::InKernel;

struct Waiter {
    word: InKernel<Loom>,
    /// What is asked of it.
    asked: <Loom as Machine>::Atomic<u32>,
    /// A signal has come: a call ends, or is not made.
    signalled: Mutex<bool>,
    came: Condvar,
}

impl Waiter {
    fn new() -> Arc<Self> {
        let asked = <Loom as Machine>::Atomic::new(0);
        Arc::new(Self { word: InKernel::default(), asked, signalled: Mutex::new(false), came: Condvar::new() })
    }

    /// Waits until it is asked to come out. True if it had to be taken out of the call.
    fn wait(&self) -> bool {
        self.word.enter();
        let seen = self.asked.load(Ordering::Relaxed) != 0;
        if !seen {
            let mut signalled = self.signalled.lock().unwrap();
            while !*signalled {
                signalled = self.came.wait(signalled).unwrap();
            }
        }
        self.word.leave();
        assert!(self.asked.load(Ordering::Relaxed) != 0, "it came out for no reason");
        !seen
    }

    fn ask(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let signals = self.word.is_inside();
        if signals {
            *self.signalled.lock().unwrap() = true;
            self.came.notify_one();
        }
        signals
    }
}

#[test]
fn a_request_is_seen_or_signalled() {
    explore(4, &["(false, false)", "(false, true)", "(true, true)"], || {
        let waiter = Waiter::new();
        let asker = thread::spawn({
            let waiter = waiter.clone();
            move || waiter.ask()
        });
        let taken_out = waiter.wait();
        (taken_out, asker.join().unwrap())
    });
}

#[test]
fn of_two_who_ask_one_that_is_missed_signals() {
    explore(2, &["(false, 0)", "(false, 1)", "(false, 2)", "(true, 1)", "(true, 2)"], || {
        let waiter = Waiter::new();
        let askers: Vec<_> = (0..2)
            .map(|_| {
                let waiter = waiter.clone();
                thread::spawn(move || waiter.ask())
            })
            .collect();
        let taken_out = waiter.wait();
        let signals = askers.into_iter().map(|asker| u32::from(asker.join().unwrap())).sum::<u32>();
        (taken_out, signals)
    });
}
