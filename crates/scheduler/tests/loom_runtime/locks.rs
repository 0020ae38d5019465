//! Exclusion, of whatever lock.

use super::{Watched, explore};
use loom::thread;
use raddle_machine::Loom;
use raddle_scheduler::lock::{Algorithm, Lock, Place};
use std::sync::Arc;

type Watch<A> = Lock<Watched, A, Loom>;

/// Two threads, twice each with one place, so that nodes are used again after a contention.
pub fn excludes_twice<A: Algorithm<Loom> + 'static>() {
    excludes_twice_by(A::new);
}

pub fn excludes_twice_by<A: Algorithm<Loom> + 'static>(new: fn() -> A) {
    explore(2, &["4"], move || {
        let lock = Arc::new(Watch::<A>::with_algorithm(new(), Watched::new()));
        let twice = |lock: &Watch<A>| {
            let mut place = Place::new();
            (0..2).map(|_| lock.with_place(&mut place, |value| value.add())).max().unwrap()
        };
        let other = thread::spawn({
            let lock = lock.clone();
            move || twice(&lock)
        });
        let mine = twice(&lock);
        mine.max(other.join().unwrap())
    });
}

/// Three threads, so that a queue has a middle.
pub fn excludes_three<A: Algorithm<Loom> + 'static>(preemptions: usize) {
    explore(preemptions, &["3"], || {
        let lock = Arc::new(Watch::<A>::new(Watched::new()));
        let others = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || lock.with(|value| value.add()))
        });
        let mine = lock.with(|value| value.add());
        others.into_iter().map(|other| other.join().unwrap()).fold(mine, u32::max)
    });
}
