//! A running thread that moves between two kernel threads, and those who leave something with it, in all interleavings
//! within stated bounds: nothing that was left is lost, and whoever comes after all that is not taken for one of many.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::Thread;
use raddle_scheduler::doorbell::Doorbell;
use raddle_scheduler::whereabouts::Whereabouts;

type Word = <Loom as Machine>::Atomic<u32>;

struct World {
    thread: Thread<Loom>,
    bell: Doorbell<Loom, 1>,
    /// What was left and not taken.
    left: Word,
    /// The kernel thread that it runs on: 0 or 1.
    at: Whereabouts<Loom, u64>,
    /// Signals that wait for the kernel threads.
    signals: [Mutex<u32>; 2],
}

/// A kernel thread's address, which is never read.
fn carrier(number: usize) -> *mut u64 {
    std::ptr::without_provenance_mut((number + 1) * size_of::<u64>())
}

impl World {
    fn new() -> Arc<Self> {
        // SAFETY: nobody asks for a descriptor.
        let thread = unsafe { Thread::new(0, 0) };
        let signals = [Mutex::new(0), Mutex::new(0)];
        let at = Whereabouts::nowhere();
        at.install(carrier(0));
        Arc::new(World { thread, bell: Doorbell::default(), left: Word::new(0), at, signals })
    }

    /// Leaves something, and has the thread look. True if that took a signal.
    fn ask(&self) -> bool {
        self.left.fetch_add(1, Ordering::Release);
        let mut signalled = false;
        let request = || {
            let _ = self.thread.interrupt();
            Some(self.at.meet().addr() / size_of::<u64>() - 1)
        };
        self.bell.ring(0, request, |kernel_thread: usize| {
            *self.signals[kernel_thread].lock().unwrap() += 1;
            signalled = true;
            true
        });
        signalled
    }

    fn heed(&self) {
        self.bell.answer();
        self.left.swap(0, Ordering::Acquire);
    }

    /// The thread is at a place where a signal may find it.
    fn may_be_signalled(&self, kernel_thread: usize) {
        let signalled = {
            let mut signals = self.signals[kernel_thread].lock().unwrap();
            std::mem::take(&mut *signals) > 0
        };
        if signalled {
            self.heed();
        }
    }

    /// It leaves its kernel thread, where signals find another thread from now on, for the other one.
    fn moves(&self) {
        self.at.install(carrier(1));
        Whereabouts::<Loom, u64>::resumed();
        if self.thread.take_interruption() {
            self.heed();
        }
    }

    /// All have asked, and the thread computes on `kernel_thread`.
    fn settles(&self, kernel_thread: usize) {
        self.may_be_signalled(kernel_thread);
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "something was left, and nobody looks");
        assert!(self.ask(), "no signal is on its way, and none is sent");
        self.may_be_signalled(kernel_thread);
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "the last signal went astray");
    }
}

/// How many of the askers signalled.
fn asked_by(askers: usize, of_each: usize, thread: impl FnOnce(&World), at_last: usize) -> usize {
    let world = World::new();
    let ask = |world: Arc<World>| move || (0..of_each).filter(|_| world.ask()).count();
    let askers: Vec<_> = (0..askers).map(|_| thread::spawn(ask(world.clone()))).collect();
    thread(&world);
    let signals = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
    world.settles(at_last);
    signals
}

#[test]
fn who_comes_while_the_thread_looks_is_not_lost() {
    explore(4, &["1", "2"], || asked_by(1, 2, |world| world.may_be_signalled(0), 0));
}

#[test]
fn of_two_at_once_none_is_lost() {
    explore(3, &["1", "2"], || asked_by(2, 1, |world| world.may_be_signalled(0), 0));
}

#[test]
fn a_signal_that_finds_another_thread_holds_up_nobody() {
    explore(4, &["1", "2"], || asked_by(1, 2, World::moves, 1));
}

#[test]
fn nor_do_two_of_them() {
    explore(3, &["1", "2"], || asked_by(2, 1, World::moves, 1));
}

#[test]
fn a_thread_that_looks_and_moves_loses_nothing() {
    explore(2, &["1", "2", "3", "4"], || {
        let moves = |world: &World| {
            world.may_be_signalled(0);
            world.moves();
            world.may_be_signalled(1);
        };
        asked_by(2, 2, moves, 1)
    });
}

/// A signal handler that interrupts an asker before its signal, asks too, and waits for what it asked for.
#[test]
fn who_is_stopped_before_its_signal_holds_up_nobody() {
    explore(1, &["1"], || {
        let world = World::new();
        let mut in_handler = 0;
        let request = || {
            in_handler += u32::from(world.ask());
            world.may_be_signalled(0);
            assert_eq!(world.left.load(Ordering::Relaxed), 0, "the handler waits for ever");
            Some(())
        };
        world.bell.ring(0, request, |()| true);
        assert!(world.ask(), "what it has noted is no longer so");
        in_handler
    });
}
