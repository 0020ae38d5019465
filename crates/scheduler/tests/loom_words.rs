//! The words of the drop-in library's mutexes, condition variables and semaphores in all interleavings: nobody is left
//! asleep, and what was done before is seen. What sleeps is the kernel's futex, as `crates/posix/src/futex.rs` calls
//! it.
#![cfg(feature = "loom")]

mod loom_kernel;
mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_kernel::{Kernel, Kind, TimedOut, Word};
use loom_runtime::{Watched, explore};
use raddle_machine::{Atomic, Loom, Ordering};
use raddle_scheduler::words::Sleepers as _;
use raddle_scheduler::words::condition::Condition;
use raddle_scheduler::words::mutex::{MutexWord, WAITED_FOR};
use raddle_scheduler::words::semaphore::{Overflows, SemaphoreWord, Slept};

#[derive(Default)]
struct Lock {
    kernel: Kernel,
    word: MutexWord<Loom>,
    /// Unlockers leave it for whom they wake.
    leaves: bool,
}

impl Lock {
    fn lock(&self, impatient: bool) -> Result<(), TimedOut> {
        if self.word.try_acquire() || impatient && self.word.try_acquire_left() {
            return Ok(());
        }
        let sleep = |word: &Word| self.kernel.sleep_at(Kind::First, word, WAITED_FOR, impatient).map(|()| true);
        self.word.wait_for(|| self.kernel.bucket.may_sleep(), sleep)
    }

    fn unlock(&self) {
        let wake = |address| {
            self.kernel.wake(address, 1);
        };
        self.word.release(|| self.leaves, wake);
    }
}

struct Guarded {
    lock: Lock,
    inside: Watched,
}

fn guarded(leaves: bool) -> Arc<Guarded> {
    Arc::new(Guarded { lock: Lock { leaves, ..Lock::default() }, inside: Watched::new() })
}

impl Guarded {
    fn enter(&self, impatient: bool) -> bool {
        let mine = self.lock.lock(impatient).is_ok();
        if mine {
            self.inside.add();
            self.lock.unlock();
        }
        mine
    }
}

fn lockers(others: usize, preemptions: usize, leaves: bool) {
    explore(preemptions, &["()"], move || {
        let guarded = guarded(leaves);
        let threads: Vec<_> = (0..others)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || guarded.enter(false))
            })
            .collect();
        assert!(guarded.enter(false));
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        assert!(!guarded.lock.word.is_held());
        assert_eq!(guarded.inside.get(), 1 + others as u32);
    });
}

#[test]
fn two_are_never_inside_a_mutex_together() {
    lockers(1, 3, false);
    lockers(1, 3, true);
}

#[test]
fn of_three_none_is_left_asleep_at_a_mutex() {
    lockers(2, 2, false);
    lockers(2, 2, true);
}

#[test]
fn one_that_times_out_at_a_mutex_takes_nobodys_wake_up() {
    for leaves in [false, true] {
        times_out(leaves);
    }
}

fn times_out(leaves: bool) {
    explore(2, &["false", "true"], move || {
        let guarded = guarded(leaves);
        let patient = {
            let guarded = guarded.clone();
            thread::spawn(move || assert!(guarded.enter(false)))
        };
        let impatient = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.enter(true))
        };
        assert!(guarded.enter(false));
        patient.join().unwrap();
        impatient.join().unwrap()
    });
}

struct Permits {
    kernel: Kernel,
    word: SemaphoreWord<Loom>,
    gift: Watched,
    /// Whether posts leave their permits for whom they wake.
    leaves: bool,
}

fn permits(leaves: bool) -> Arc<Permits> {
    Arc::new(Permits { kernel: Kernel::default(), word: SemaphoreWord::new(0), gift: Watched::new(), leaves })
}

impl Permits {
    fn wait(&self, impatient: bool) -> bool {
        self.word.take_unless_left() || self.word.wait_for(|word| self.sleep(word, impatient)).is_ok()
    }

    fn sleep(&self, word: &SemaphoreWord<Loom>, impatient: bool) -> Slept<TimedOut> {
        let name = std::ptr::from_ref(word).addr();
        let none = || word.word().fetch_or(0, Ordering::Relaxed) as u32 == 0;
        match self.kernel.sleep(Kind::First, name, impatient, none) {
            Ok(()) => Slept::LookAgain,
            Err(error) => Slept::Over(error),
        }
    }

    fn post(&self) -> Result<(), Overflows> {
        self.word.post(
            || self.leaves,
            |address| {
                self.kernel.wake(address, 1);
            },
        )
    }
}

#[test]
fn who_takes_a_permit_sees_what_was_done_before_it_was_posted() {
    for leaves in [false, true] {
        explore(3, &["2"], move || {
            let permits = permits(leaves);
            let poster = {
                let permits = permits.clone();
                thread::spawn(move || {
                    permits.gift.add();
                    permits.post().unwrap();
                })
            };
            assert!(permits.wait(false));
            let seen = permits.gift.add();
            poster.join().unwrap();
            seen
        });
    }
}

#[test]
fn as_many_are_woken_as_permits_are_posted() {
    for leaves in [false, true] {
        explore(2, &["()"], move || {
            let permits = permits(leaves);
            let waiters = [0, 1].map(|_| {
                let permits = permits.clone();
                thread::spawn(move || assert!(permits.wait(false)))
            });
            permits.post().unwrap();
            permits.post().unwrap();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert!(!permits.word.take() && !permits.word.is_left());
        });
    }
}

#[test]
fn one_that_times_out_at_a_semaphore_takes_nobodys_permit() {
    for leaves in [false, true] {
        explore(2, &["false", "true"], move || {
            let permits = permits(leaves);
            let impatient = {
                let permits = permits.clone();
                thread::spawn(move || {
                    let took = permits.wait(true);
                    if took {
                        permits.post().unwrap();
                    }
                    took
                })
            };
            let patient = {
                let permits = permits.clone();
                thread::spawn(move || assert!(permits.wait(false)))
            };
            permits.post().unwrap();
            patient.join().unwrap();
            impatient.join().unwrap()
        });
    }
}

#[test]
fn a_wake_up_that_comes_with_an_interruption_is_used() {
    for leaves in [false, true] {
        explore(3, &["false", "true"], move || {
            let permits = permits(leaves);
            let poster = {
                let permits = permits.clone();
                thread::spawn(move || permits.post().unwrap())
            };
            let interrupted = |word: &SemaphoreWord<Loom>| match permits.sleep(word, true) {
                Slept::Over(error) => Slept::Interrupted(error),
                other => other,
            };
            let took = permits.word.wait_for(interrupted).is_ok();
            poster.join().unwrap();
            // The permit is there if it was not taken.
            assert_eq!(permits.word.take(), !took);
            took
        });
    }
}

#[derive(Default)]
struct Gate {
    lock: Lock,
    condition: Condition<Loom>,
    open: loom::sync::atomic::AtomicU32,
}

impl Gate {
    fn wait(&self, impatient: bool) -> bool {
        self.lock.lock(false).unwrap();
        while self.open.load(loom::sync::atomic::Ordering::Relaxed) == 0 {
            let before = self.condition.arrive();
            self.lock.unlock();
            let mut slept = Ok(());
            while !self.condition.was_signalled(before) && slept.is_ok() {
                slept = self.lock.kernel.sleep_at(Kind::First, self.condition.sequence(), before, impatient);
            }
            self.condition.leave(&self.lock.kernel);
            self.lock.lock(false).unwrap();
            if slept.is_err() {
                break;
            }
        }
        let open = self.open.load(loom::sync::atomic::Ordering::Relaxed) != 0;
        self.lock.unlock();
        open
    }

    fn open(&self, count: usize) {
        self.lock.lock(false).unwrap();
        self.open.store(1, loom::sync::atomic::Ordering::Relaxed);
        self.lock.unlock();
        self.condition.signal(count, &self.lock.kernel);
    }
}

#[test]
fn a_signal_after_the_mutex_was_given_up_is_not_lost() {
    explore(3, &["true"], || {
        let gate = Arc::new(Gate::default());
        let opener = {
            let gate = gate.clone();
            thread::spawn(move || gate.open(1))
        };
        let open = gate.wait(false);
        opener.join().unwrap();
        open
    });
}

#[test]
fn a_broadcast_reaches_all_and_then_the_object_may_be_destroyed() {
    explore(1, &["(true, true)"], || {
        let gate = Arc::new(Gate::default());
        let waiters = [false, true].map(|impatient| {
            let gate = gate.clone();
            thread::spawn(move || gate.wait(impatient))
        });
        gate.open(usize::MAX);
        let [patient, impatient] = waiters.map(|waiter| waiter.join().unwrap());
        gate.condition.destroy(|_, _| panic!("all have left"));
        (patient, impatient)
    });
}

#[test]
fn who_destroys_waits_until_the_last_has_left() {
    explore(3, &["2"], || {
        let gate = Arc::new(Gate::default());
        let object = Arc::new(Watched::new());
        let before = gate.condition.arrive();
        let waiter = {
            let (gate, object) = (gate.clone(), object.clone());
            thread::spawn(move || {
                while !gate.condition.was_signalled(before) {
                    gate.lock.kernel.sleep_at(Kind::First, gate.condition.sequence(), before, false).unwrap();
                }
                object.add();
                gate.condition.leave(&gate.lock.kernel);
            })
        };
        gate.condition.signal(1, &gate.lock.kernel);
        gate.condition.destroy(|word, expected| gate.lock.kernel.sleep_at(Kind::First, word, expected, false).unwrap());
        let seen = object.add();
        waiter.join().unwrap();
        seen
    });
}

/// One waits, is counted and has noted the number; one of the other kind comes after the signal, and sleeps before
/// anybody was woken.
#[test]
fn a_signal_is_not_spent_on_one_of_the_other_kind_that_came_later() {
    explore(2, &["()"], || {
        let gate = Arc::new(Gate::default());
        let before = gate.condition.arrive();
        let first = {
            let gate = gate.clone();
            thread::spawn(move || {
                while !gate.condition.was_signalled(before) {
                    gate.lock.kernel.sleep_at(Kind::Second, gate.condition.sequence(), before, false).unwrap();
                }
                gate.condition.leave(&gate.lock.kernel);
            })
        };
        let later = {
            let gate = gate.clone();
            thread::spawn(move || {
                let before = gate.condition.arrive();
                let _ = gate.lock.kernel.sleep_at(Kind::First, gate.condition.sequence(), before, true);
                gate.condition.leave(&gate.lock.kernel);
            })
        };
        gate.condition.signal(1, &gate.lock.kernel);
        first.join().unwrap();
        later.join().unwrap();
    });
}
