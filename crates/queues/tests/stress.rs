//! Kernel threads at full speed, a bounded number of operations: each item comes out exactly once. For Miri and
//! ThreadSanitizer as much as for itself; nothing here depends on time.

use raddle_machine::{Atomic, Machine, Ordering, Real};
use raddle_queues::fifo_ring::{FifoRing, Steal};
use raddle_queues::inbox::{Inbox, Link};
use raddle_queues::lifo_ring::LifoRing;
use raddle_queues::slab::Slab;
use raddle_queues::spsc::Spsc;
use raddle_queues::tickets::Tickets;
use raddle_queues::unbounded::{Hazards, Item, Unbounded};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::thread;

const ITEMS: usize = if cfg!(miri) { 100 } else { 100_000 };
const THIEVES: usize = 3;

type Word<T> = <Real as Machine>::Atomic<T>;

/// What items name, and how many have come out. The contents are plain memory: a checker for data races sees whether
/// the queue orders the writing before the reading.
struct Tally {
    contents: Vec<UnsafeCell<usize>>,
    total: Word<usize>,
}

// SAFETY: an item's content is its holder's, which the queues under test ensure.
unsafe impl Sync for Tally {}

impl Tally {
    fn new() -> Self {
        Self { contents: (0..=ITEMS).map(|_| UnsafeCell::new(0)).collect(), total: Word::<usize>::new(0) }
    }

    /// Writes what the item names, before it is pushed.
    fn fill(&self, item: usize) -> usize {
        // SAFETY: the pusher holds the item.
        unsafe { *self.contents[item].get() = item };
        item
    }

    fn count(&self, item: usize) {
        // SAFETY: whoever took the item holds it.
        let content = unsafe { self.contents[item].get().replace(0) };
        assert_eq!(content, item, "item {item} comes twice, or before its content");
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    fn complete(&self) -> bool {
        self.total.load(Ordering::Relaxed) == ITEMS
    }
}

#[test]
fn fifo_ring_with_thieves() {
    let tally = Tally::new();
    let (ring, mut owner) = FifoRing::<Real>::new(4).unwrap();
    thread::scope(|scope| {
        for _ in 0..THIEVES {
            scope.spawn(|| {
                let (_, mut mine) = FifoRing::<Real>::new(2).unwrap();
                while !tally.complete() {
                    match mine.steal_from(&ring, 16) {
                        Steal::Taken { first, .. } => tally.count(first),
                        _ => thread::yield_now(),
                    }
                    while let Some(item) = mine.pop() {
                        tally.count(item);
                    }
                }
            });
        }
        let mut fresh = 1..=ITEMS;
        let mut round = 0;
        while !tally.complete() {
            round += 1;
            // Bursts of all sizes, so that the ring grows, shrinks and wraps under the thieves.
            for item in fresh.by_ref().take(1 << (round % 10)) {
                owner.push(tally.fill(item)).unwrap();
            }
            owner.set_window(round % 3);
            for _ in 0..1 << (round * 7 % 9) {
                let Some(item) = owner.pop() else { break };
                tally.count(item);
            }
            if round % 4 == 0 {
                owner.publish_all().unwrap();
            }
            if fresh.is_empty() && owner.is_empty() {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn lifo_ring_with_thieves() {
    let tally = Tally::new();
    let (ring, mut owner) = LifoRing::<Real>::new(4).unwrap();
    thread::scope(|scope| {
        for _ in 0..THIEVES {
            scope.spawn(|| {
                let mut out = [0; 16];
                while !tally.complete() {
                    match ring.steal(&mut out) {
                        Steal::Taken { more, .. } => out[..=more].iter().for_each(|&item| tally.count(item)),
                        _ => thread::yield_now(),
                    }
                }
            });
        }
        let mut fresh = 1..=ITEMS;
        let mut round = 0;
        while !tally.complete() {
            round += 1;
            for item in fresh.by_ref().take(1 << (round % 10)) {
                owner.push(tally.fill(item)).unwrap();
            }
            owner.publish(round % 5);
            for _ in 0..1 << (round * 7 % 9) {
                let item = if round % 8 == 0 { owner.pop_oldest() } else { owner.pop() };
                let Some(item) = item else { break };
                tally.count(item);
            }
            if fresh.is_empty() && owner.is_empty() {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn single_producer_queue() {
    let (mut producer, mut consumer) = Spsc::<Real>::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for item in 1..=ITEMS {
                producer.push(item).unwrap();
            }
        });
        let mut next = 1;
        while next <= ITEMS {
            let mut check = |item| {
                assert_eq!(item, next);
                next += 1;
            };
            if consumer.take_all(&mut check) == 0 {
                thread::yield_now();
            }
            consumer.pop().map(&mut check);
        }
    });
}

#[test]
fn inbox_of_many_senders() {
    let links: Vec<Link<Real>> = (0..ITEMS).map(|_| Link::new()).collect();
    let inbox = Inbox::<Real>::new();
    let index = |link: NonNull<Link<Real>>| (link.addr().get() - links.as_ptr().addr()) / size_of::<Link<Real>>();
    thread::scope(|scope| {
        for sender in 0..THIEVES {
            let (links, inbox) = (&links, &inbox);
            scope.spawn(move || {
                for link in links.iter().skip(sender).step_by(THIEVES) {
                    // SAFETY: `links` outlives the scope; each link is pushed once.
                    unsafe { inbox.push(NonNull::from(link)) };
                }
            });
        }
        let mut next = [0, 1, 2];
        while next.iter().any(|&item| item < ITEMS) {
            for item in inbox.take_all().map(index) {
                assert_eq!(item, next[item % THIEVES], "a sender's items keep their order");
                next[item % THIEVES] += THIEVES;
            }
            thread::yield_now();
        }
    });
}

#[test]
fn unbounded_queues_with_circulating_items() {
    let domain = Hazards::<Real>::new(THIEVES).unwrap();
    let queues = [Unbounded::new(&domain).unwrap(), Unbounded::new(&domain).unwrap()];
    let items: Vec<Item<Real>> = (0..8).map(|_| Item::new().unwrap()).collect();
    let mut seat = domain.seat(0).unwrap();
    for item in &items {
        // SAFETY: `items` outlives the queues' use of it; each is in one queue.
        unsafe { queues[0].enqueue(&mut seat, NonNull::from(item)) };
    }
    drop(seat);
    thread::scope(|scope| {
        for me in 0..THIEVES {
            let (domain, queues) = (&domain, &queues);
            scope.spawn(move || {
                let mut seat = domain.seat(me).unwrap();
                for round in 0..ITEMS / THIEVES {
                    match queues[round % 2].dequeue(&mut seat) {
                        // SAFETY: dequeued, so ours.
                        Some(item) => unsafe { queues[(round + me) % 2].enqueue(&mut seat, item) },
                        None => thread::yield_now(),
                    }
                }
            });
        }
    });
    let mut seat = domain.seat(0).unwrap();
    let mut left: Vec<_> =
        queues.iter().flat_map(|queue| std::iter::from_fn(|| queue.dequeue(&mut seat)).collect::<Vec<_>>()).collect();
    left.sort();
    assert!(left.iter().zip(&items).all(|(a, b)| *a == NonNull::from(b)) && left.len() == items.len());
    for item in &items {
        // SAFETY: in no queue any more.
        unsafe { seat.release(item) };
    }
}

#[test]
fn numbers_circulate_by_tickets() {
    // Little room, so that enqueuers meet dequeuers of the round before.
    let queue = Tickets::<Real>::new(4).unwrap();
    let tally = Tally::new();
    (1..=3).for_each(|number| queue.enqueue(tally.fill(number) as u32).unwrap());
    thread::scope(|scope| {
        for _ in 0..THIEVES {
            scope.spawn(|| {
                for _ in 0..ITEMS / THIEVES {
                    let Some(number) = queue.dequeue() else {
                        thread::yield_now();
                        continue;
                    };
                    tally.count(number as usize);
                    while queue.enqueue(tally.fill(number as usize) as u32).is_err() {
                        // Given back: it is ours again.
                        tally.count(number as usize);
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let mut left: Vec<_> = std::iter::from_fn(|| queue.dequeue()).collect();
    left.sort();
    assert_eq!(left, [1, 2, 3]);
}

#[test]
fn slab_objects_have_one_user_at_a_time() {
    let slab = Slab::<Word<u32>, Real, 4, 64>::new(|_| Word::<u32>::new(0));
    thread::scope(|scope| {
        for me in 1..=THIEVES as u32 {
            let slab = &slab;
            scope.spawn(move || {
                let mut cache = slab.cache();
                let mut held = Vec::new();
                for round in 0..ITEMS / THIEVES {
                    if round * me as usize % 29 < 15 {
                        let object = cache.allocate().unwrap();
                        // SAFETY: objects live as long as the slab.
                        assert_eq!(unsafe { object.as_ref() }.swap(me, Ordering::Relaxed), 0);
                        held.push(object);
                    } else if let Some(object) = held.pop() {
                        // SAFETY: as above; allocated above, freed once.
                        unsafe {
                            assert_eq!(object.as_ref().swap(0, Ordering::Relaxed), me);
                            cache.free(object);
                        }
                    }
                }
            });
        }
    });
    let created = slab.created() as usize;
    assert_eq!(slab.iterate().count(), created);
}
