//! All interleavings, within stated bounds, of threads that fill a batch, lead it, or do without, as `raddle::io` sends
//! by it.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_runtime::explore;
use raddle_machine::Loom;
use raddle_scheduler::batch::{BatchPlace, Outcome};

const SENDERS: usize = 3;

/// What was put in by whom.
type Batch = UnsafeCell<Vec<usize>>;

struct World {
    place: BatchPlace<Loom>,
    batch: Batch,
    outcomes: [Outcome<Loom>; SENDERS],
    /// How often it was carried out. Written by whoever does, read by who asked for it.
    carried: [UnsafeCell<usize>; SENDERS],
}

// SAFETY: loom checks each access.
unsafe impl Sync for World {}

/// Who went which way, without quotes.
struct Ways(Vec<&'static str>);

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// The word for the only batch there is.
const BATCH: usize = 5;

impl World {
    fn new() -> Arc<Self> {
        let place = BatchPlace::default();
        place.put(BATCH);
        let carried = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(World { place, batch: UnsafeCell::new(Vec::new()), outcomes: Default::default(), carried })
    }

    fn carry_out(&self, who: usize) {
        // SAFETY: loom checks that nobody else is at it.
        self.carried[who].with_mut(|count| unsafe { *count += 1 });
    }

    /// Puts something in, or does it without the batch; the leader tries to carry out what came together. (It may find
    /// the batch in somebody's hands; what it would then wait for, and the others for it, is left to whoever joins all:
    /// loom does not end threads that spin.)
    fn send(&self, me: usize) -> &'static str {
        if self.place.take().is_none() {
            self.carry_out(me);
            return "without";
        }
        // SAFETY: loom checks that nobody else is at it, here and below.
        let leads = self.batch.with_mut(|batch| unsafe {
            (*batch).push(me);
            (*batch).len() == 1
        });
        self.place.put(BATCH);
        if !leads {
            return "posted";
        }
        match self.empty() {
            Some(0) => unreachable!("its own is there"),
            Some(1) => "alone",
            Some(_) => "led",
            None => "late",
        }
    }

    /// The leader's second turn, or whoever comes late: so many were carried out.
    fn empty(&self) -> Option<usize> {
        self.place.take()?;
        // SAFETY: whoever took the batch out of its place has it alone.
        let all = self.batch.with_mut(|batch| unsafe { std::mem::take(&mut *batch) });
        for &who in &all {
            self.carry_out(who);
            self.outcomes[who].set(who as isize - 9);
        }
        self.place.put(BATCH);
        Some(all.len())
    }
}

fn senders(count: usize) -> Ways {
    let world = World::new();
    let send = |me: usize| {
        let world = world.clone();
        move || world.send(me)
    };
    let others: Vec<_> = (1..count).map(|me| thread::spawn(send(me))).collect();
    let mine = send(0)();
    let mut all: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).chain([mine]).collect();
    world.empty().expect("nobody has it in hands");
    for who in 0..count {
        // SAFETY: all have been joined.
        assert_eq!(world.carried[who].with(|count| unsafe { *count }), 1, "carried out once");
    }
    all.sort_unstable();
    Ways(all)
}

#[test]
fn each_of_two_is_carried_out_once() {
    explore(4, &["alone alone", "alone without", "late posted", "led posted"], || senders(2));
}

#[test]
fn each_of_three_is_carried_out_once() {
    let ways = [
        "alone alone alone",
        "alone alone without",
        "alone late posted",
        "alone led posted",
        "alone without without",
        "late posted posted",
        "late posted without",
        "led posted posted",
        "led posted without",
    ];
    explore(2, &ways, || senders(3));
}

/// Whoever sees the outcome sees what was done for it, and the leader touches it no more.
#[test]
fn an_outcome_comes_after_what_it_tells_of() {
    explore(3, &["false", "true"], || {
        let world = World::new();
        let leader = {
            let world = world.clone();
            thread::spawn(move || {
                world.carry_out(1);
                world.outcomes[1].set(-8);
            })
        };
        let outcome = world.outcomes[1].get();
        if outcome.is_some() {
            assert_eq!(outcome, Some(-8));
            // SAFETY: loom checks that the leader is through with it.
            assert_eq!(world.carried[1].with(|count| unsafe { *count }), 1);
        }
        leader.join().unwrap();
        outcome.is_some()
    });
}
