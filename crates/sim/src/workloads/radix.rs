//! Lesser Bear's radix sort, without its keys: one makes them, then in each pass threads count, one sums up, threads
//! move. Between two parts all of them have to have come to the same point: by making threads for each part and joining
//! them, or by threads that are made once and wait at a barrier.
//!
//! Source: H. Oguma and Y. Nakayama, *Lesser Bear*, sections 4.1 (creation and termination as the barrier) and 4.3 (one
//! of a mutex and a condition variable, as in the textbooks of pthreads: who comes last does the serial part, and wakes
//! all others).

use super::Arguments;
use crate::threads::{Simulated, Spawned, compute, spawn_joined, touch};
use raddle_scheduler::Runtime;
use raddle_scheduler::sync::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::rc::Rc;

/// A barrier of a mutex and a condition variable.
struct Barrier {
    threads: u64,
    state: Mutex<State, Simulated>,
    all_came: Condvar<Simulated>,
}

#[derive(Default)]
struct State {
    came: u64,
    round: u64,
}

impl Barrier {
    /// Waits for all; the last one does `serial` before the others go on.
    fn wait(&self, serial: impl FnOnce()) {
        let poisoned = || panic!("the barrier is poisoned");
        let mut state: MutexGuard<'_, State, Simulated> = self.state.lock().unwrap_or_else(|_| poisoned());
        touch();
        state.came += 1;
        let round = state.round;
        if state.came == self.threads {
            serial();
            (state.came, state.round) = (0, round + 1);
            drop(state);
            self.all_came.notify_all();
        } else {
            let state = self.all_came.wait_while(state, |state| state.round == round);
            touch();
            drop(state.unwrap_or_else(|_| poisoned()));
        }
    }
}

/// Computes, giving way after each slice of the time.
fn in_slices(nanoseconds: u64, slice: u64) {
    let mut left = nanoseconds;
    while slice > 0 && left > slice {
        compute(slice);
        left -= slice;
        Simulated::yield_now();
    }
    compute(left);
}

pub(super) fn radix(arguments: &Arguments) {
    let [bits, keys, threads] = ["bits", "keys", "t"].map(|name| arguments.of(name));
    let [key, cell, slice] = ["key", "cell", "slice"].map(|name| arguments.of(name));
    let share = move |thread: u64| keys / threads + u64::from(thread < keys % threads);
    let passes = 32u64.div_ceil(bits);
    let sum_up = move || compute((threads << bits) * cell);
    if arguments.of("make") > 0 {
        compute(keys * arguments.of("make"));
    }
    let passed = Rc::new(Cell::new(0));
    if arguments.of("barrier") == 0 {
        let part = |each: u64| {
            let thread = |number: u64| {
                let (nanoseconds, passed) = (share(number) * each, passed.clone());
                spawn_joined(move || {
                    in_slices(nanoseconds, slice);
                    passed.set(passed.get() + 1);
                })
            };
            let parts: Vec<_> = (0..threads).map(thread).collect();
            parts.into_iter().for_each(Spawned::join);
        };
        for _ in 0..passes {
            part(key);
            sum_up();
            part(2 * key);
        }
    } else {
        let barrier =
            Rc::new(Barrier { threads, state: Mutex::with_value(State::default()), all_came: Condvar::default() });
        let thread = |number: u64| {
            let (barrier, passed) = (barrier.clone(), passed.clone());
            spawn_joined(move || {
                for pass in 0..passes {
                    // Who is a part ahead, or behind, has passed the barrier when it was shut.
                    let in_step = |part: u64| assert_eq!(passed.get() / threads, 2 * pass + part, "the barrier leaks");
                    in_step(0);
                    in_slices(share(number) * key, slice);
                    passed.set(passed.get() + 1);
                    barrier.wait(sum_up);
                    in_step(1);
                    in_slices(share(number) * 2 * key, slice);
                    passed.set(passed.get() + 1);
                    barrier.wait(|| ());
                }
            })
        };
        let all: Vec<_> = (0..threads).map(thread).collect();
        all.into_iter().for_each(Spawned::join);
    }
    assert_eq!(passed.get(), 2 * passes * threads, "a part was lost");
}
