//! The queues side by side, without a scheduler: what an operation costs, alone and against another kernel thread.
//!
//! `cargo run --release -p raddle-queues --example compare [ROUNDS]`. Forms are interleaved, round by round; printed
//! are the middle of the rounds and their spread. Two kernel threads are on two cores only when the machine has two to
//! spare.

use raddle_machine::Real;
use raddle_queues::fifo_ring::FifoRing;
use raddle_queues::locked::Locked;
use raddle_queues::slab::Slab;
use raddle_queues::tickets::Tickets;
use raddle_queues::unbounded::{Hazards, Item, Unbounded};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const OPERATIONS: usize = 400_000;
/// Numbers in a queue for all: more than kernel threads, so that it is seldom empty.
const INSIDE: usize = 64;

/// Nanoseconds for each of `OPERATIONS` calls of the closure of each kernel thread, which takes one out and puts one
/// in.
fn timed<'a>(kernel_threads: usize, make: impl Fn(usize) -> Box<dyn FnMut() + 'a> + Sync) -> f64 {
    let start = Barrier::new(kernel_threads);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..kernel_threads)
            .map(|me| {
                let (start, make) = (&start, &make);
                scope.spawn(move || {
                    let mut step = make(me);
                    start.wait();
                    let began = Instant::now();
                    (0..OPERATIONS).for_each(|_| step());
                    began.elapsed().as_nanos() as f64
                })
            })
            .collect();
        let longest = runs.into_iter().map(|run| run.join().unwrap()).fold(0.0, f64::max);
        longest / (OPERATIONS * kernel_threads) as f64
    })
}

fn tickets(kernel_threads: usize) -> f64 {
    let queue = Tickets::<Real>::new(4096).unwrap();
    let places = Slab::<usize, Real>::new(|_| 0);
    (0..INSIDE).for_each(|number| queue.enqueue(number as u32).unwrap());
    let mut cache = places.cache();
    let all: Vec<_> = (0..INSIDE).map(|_| cache.allocate().unwrap()).collect();
    let ns = timed(kernel_threads, |_| {
        let (queue, mut cache) = (&queue, places.cache());
        Box::new(move || {
            let Some(number) = queue.dequeue() else { return };
            let place = cache.slab().at(number).unwrap();
            // SAFETY: allocated above or below, freed once; of this slab.
            unsafe { cache.free(place) };
            let place = cache.allocate().unwrap();
            // SAFETY: allocated from this slab just now.
            let number = unsafe { cache.slab().index_of(place) };
            while queue.enqueue(number).is_err() {}
        })
    });
    drop(all);
    ns
}

fn unbounded(kernel_threads: usize) -> f64 {
    let domain = Hazards::<Real>::new(kernel_threads).unwrap();
    let queue = Unbounded::new(&domain).unwrap();
    let items: Vec<Item<Real>> = (0..INSIDE).map(|_| Item::new().unwrap()).collect();
    let mut seat = domain.seat(0).unwrap();
    // SAFETY: here and below: `items` outlives the queue's use of it, and who has dequeued an item has it alone.
    items.iter().for_each(|item| unsafe { queue.enqueue(&mut seat, NonNull::from(item)) });
    drop(seat);
    let ns = timed(kernel_threads, |me| {
        let (queue, mut seat) = (&queue, domain.seat(me).unwrap());
        Box::new(move || {
            if let Some(item) = queue.dequeue(&mut seat) {
                // SAFETY: the item came out of this queue and is in none now.
                unsafe { queue.enqueue(&mut seat, item) };
            }
        })
    });
    let mut seat = domain.seat(0).unwrap();
    while queue.dequeue(&mut seat).is_some() {}
    // SAFETY: none is queued any more.
    items.iter().for_each(|item| unsafe { seat.release(item) });
    ns
}

fn locked(kernel_threads: usize) -> f64 {
    let queue = Locked::<VecDeque<u32>, Real>::new((0..INSIDE as u32).collect());
    timed(kernel_threads, |_| {
        let queue = &queue;
        Box::new(move || {
            if let Some(number) = queue.with(VecDeque::pop_front) {
                queue.with(|queue| queue.push_back(number));
            }
        })
    })
}

/// An owner that puts bursts in and takes them out, alone or with a thief that takes half of what it sees: nanoseconds
/// for each number.
fn owner(thief: bool, owner: impl FnOnce(), steal: impl Fn() + Sync) -> f64 {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if thief {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    steal();
                }
            });
        }
        let began = Instant::now();
        owner();
        over.store(true, Ordering::Relaxed);
        began.elapsed().as_nanos() as f64 / OPERATIONS as f64
    })
}

const BURST: usize = 100;

fn spmc_tickets(thief: bool) -> f64 {
    let queue = Tickets::<Real>::new(128).unwrap();
    let put = || {
        for _ in 0..OPERATIONS / BURST {
            (0..BURST as u32).for_each(|number| while queue.enqueue(number).is_err() {});
            while queue.dequeue().is_some() {}
        }
    };
    owner(thief, put, || {
        let _stolen = queue.dequeue();
    })
}

fn spmc_ring(thief: bool) -> f64 {
    let (ring, mut mine) = FifoRing::<Real>::new(128).unwrap();
    let put = || {
        for _ in 0..OPERATIONS / BURST {
            (1..=BURST).for_each(|number| mine.push(number).unwrap());
            while mine.pop().is_some() {}
        }
    };
    owner(thief, put, || {
        let mut taken = [0; 64];
        let _stolen = ring.steal(&mut taken);
    })
}

/// What is compared: its name, and a round of it.
type Form = (&'static str, fn() -> f64);

const FORMS: [Form; 10] = [
    ("for all: tickets, alone", || tickets(1)),
    ("for all: lock-free list, alone", || unbounded(1)),
    ("for all: locked, alone", || locked(1)),
    ("for all: tickets, two", || tickets(2)),
    ("for all: lock-free list, two", || unbounded(2)),
    ("for all: locked, two", || locked(2)),
    ("owner's: tickets, alone", || spmc_tickets(false)),
    ("owner's: ring, alone", || spmc_ring(false)),
    ("owner's: tickets, a thief", || spmc_tickets(true)),
    ("owner's: ring, a thief", || spmc_ring(true)),
];

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(9, |rounds| rounds.parse().expect("ROUNDS is a number"));
    let mut seen = FORMS.map(|_| Vec::new());
    for _ in 0..rounds.max(1) {
        FORMS.iter().zip(&mut seen).for_each(|((_, form), seen)| seen.push(form()));
    }
    for ((name, _), mut seen) in FORMS.iter().zip(seen) {
        seen.sort_by(f64::total_cmp);
        println!("{name:32} {:7.1} ns ({:.1} to {:.1})", seen[seen.len() / 2], seen[0], seen[seen.len() - 1]);
    }
}
