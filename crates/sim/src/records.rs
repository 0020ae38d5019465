//! The runtime's own table of records ([`raddle_queues::slab`], unchanged): threads' descriptors are had from it, by an
//! instance for each processor and a depot for each [`TOGETHER`] of them. Here half of the processors take records and
//! hand them to the other half, which gives them back: the flow that needs depots most.

use crate::cost::Costs;
use crate::execution::work;
use crate::hurricane::{Body, processors};
use crate::machine::Controlled;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::pad::Padded;
use raddle_queues::slab::{Cache, NoObject, Slab, TOGETHER};
use raddle_scheduler::lock::{H2Mcs, Lock, Place};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

type Word<T> = <Controlled as Machine>::Atomic<T>;
type Record = Word<u64>;

/// Where records are had from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One for all, record by record: a table without instances.
    One,
    /// An instance for each processor, which exchanges 64 records at once with all others.
    Instances,
    /// Such instances, of which so many together have a depot: as it is, with [`TOGETHER`].
    Clusters(usize),
    /// The same depots without instances, record by record: what is made where no processor is at hand, as C threads'
    /// records.
    Singly(usize),
    /// Nobody meets anybody: each record that is handed over is new to its taker, and is not given back to the depot.
    /// What no arrangement of clusters can be quicker than.
    Nothing,
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Where records are had from.
    pub table: Table,
    /// Processors; half of them take, half give back.
    pub processors: usize,
    /// Records that each of the takers has, one after the other.
    pub turns: u64,
}

fn new(_: u32) -> Record {
    Atomic::new(0)
}

/// Nanoseconds between two looks at a slot.
const LOOK_NS: u64 = 200;

/// One taker's record for its partner.
type Slot = Padded<Word<*mut Record>>;

/// A thread's life, roughly: its record is written by the taker, and read by who gives it back.
fn take(slot: &Slot, record: *mut Record) {
    // SAFETY: in use, and the slot is how it goes on: nobody has it but the taker.
    unsafe { &*record }.store(1, Ordering::Relaxed);
    while !slot.0.load(Ordering::Acquire).is_null() {
        work(LOOK_NS);
    }
    slot.0.store(record, Ordering::Release);
}

fn give_back(slot: &Slot) -> NonNull<Record> {
    loop {
        if let Some(record) = NonNull::new(slot.0.load(Ordering::Acquire)) {
            // SAFETY: handed over, so the partner's alone.
            unsafe { record.as_ref() }.load(Ordering::Relaxed);
            slot.0.store(null_mut(), Ordering::Release);
            return record;
        }
        work(LOOK_NS);
    }
}

/// A processor's way to the table.
enum Way<const GROUP: usize, const CHUNK: usize> {
    Instance(Cache<Record, Controlled, GROUP, CHUNK>),
    Singly(Arc<Slab<Record, Controlled, GROUP, CHUNK>>, usize),
}

impl<const GROUP: usize, const CHUNK: usize> Way<GROUP, CHUNK> {
    fn allocate(&mut self) -> Result<NonNull<Record>, NoObject> {
        match self {
            Self::Instance(cache) => cache.allocate(),
            Self::Singly(slab, cluster) => slab.allocate_near(|| *cluster * TOGETHER),
        }
    }

    fn free(&mut self, record: NonNull<Record>) {
        // SAFETY: of this slab, and its taker has handed it over.
        unsafe {
            match self {
                Self::Instance(cache) => cache.free(record),
                Self::Singly(slab, cluster) => slab.free_near(record, || *cluster * TOGETHER),
            }
        }
    }
}

fn by<const GROUP: usize, const CHUNK: usize>(costs: &Costs, asked: &Asked) -> Result<f64, String> {
    let Asked { table, processors: count, turns } = *asked;
    let pairs = count / 2;
    let ended = Rc::new(Cell::new(0u64));
    let last = ended.clone();
    processors(costs, || {
        let cluster = match table {
            Table::Clusters(size) | Table::Singly(size) => size,
            Table::One | Table::Instances | Table::Nothing => count,
        };
        let slab = Slab::<Record, Controlled, GROUP, CHUNK>::in_clusters(count.div_ceil(cluster), new);
        let way = |processor| match table {
            Table::Singly(_) => Way::Singly(slab.clone(), processor / cluster),
            _ => Way::Instance(slab.cache_in(processor / cluster)),
        };
        let slots: Rc<Vec<Slot>> = Rc::new((0..pairs).map(|_| Padded(Atomic::new(null_mut()))).collect());
        let mut bodies: Vec<Body> = Vec::new();
        for pair in 0..pairs {
            let (mut table_of, slots_of) = (way(pair), slots.clone());
            bodies.push(Box::new(move || {
                work(737 * pair as u64);
                let own = table_of.allocate();
                for _ in 0..turns {
                    // The bound has one record for all turns: neither its table nor another record is touched.
                    let record = if table == Table::Nothing { own } else { table_of.allocate() };
                    take(&slots_of[pair], record.unwrap_or_else(|why| panic!("{why}")).as_ptr());
                }
            }));
        }
        for pair in 0..pairs {
            let (mut table_of, slots_of, last) = (way(pairs + pair), slots.clone(), last.clone());
            bodies.push(Box::new(move || {
                for _ in 0..turns {
                    let record = give_back(&slots_of[pair]);
                    if table != Table::Nothing {
                        table_of.free(record);
                    }
                }
                last.set(last.get().max(Controlled::now()));
            }));
        }
        (bodies, slab)
    })?;
    Ok(ended.get() as f64 / turns as f64)
}

/// Nanoseconds for a record of each pair of processors: from the beginning to the end of all, by the turns.
///
/// # Errors
/// If the processors do not all end.
pub fn records(costs: &Costs, asked: &Asked) -> Result<f64, String> {
    match asked.table {
        Table::One => by::<1, 64>(costs, asked),
        Table::Instances | Table::Clusters(_) | Table::Singly(_) | Table::Nothing => by::<64, 4096>(costs, asked),
    }
}

/// Levels of a heap of timers that setting one, or taking it back, goes through.
const LEVELS: usize = 5;

/// Nanoseconds of computing between two turns.
const BETWEEN_NS: u64 = 1_000;

type Words = [Padded<Word<u64>>; LEVELS];

fn words() -> Words {
    [(); LEVELS].map(|()| Padded(Atomic::new(0)))
}

fn go_through(heap: &Words) {
    for word in heap {
        word.0.store(word.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Nanoseconds of a turn of each processor that counts something and sets a timer: with one count and one heap of
/// timers for all, behind a lock; or, as it is, with a count and a heap of its own, which others ask for seldom.
///
/// # Errors
/// If the processors do not all end.
pub fn notes(costs: &Costs, one: bool, count: usize, turns: u64) -> Result<f64, String> {
    let ended = Rc::new(Cell::new(0u64));
    let last = ended.clone();
    processors(costs, || {
        let counted: Rc<Padded<Word<u64>>> = Rc::new(Padded(Atomic::new(0)));
        let timers = Rc::new(Lock::<Words, H2Mcs<Controlled>, Controlled>::new(words()));
        let mut bodies: Vec<Body> = Vec::new();
        for number in 0..count {
            let (counted, timers, last) = (counted.clone(), timers.clone(), last.clone());
            bodies.push(Box::new(move || {
                let (mut place, own_count, own_timers) = (Place::new(), Padded(Word::<u64>::new(0)), words());
                work(737 * number as u64);
                for _ in 0..turns {
                    work(BETWEEN_NS);
                    if one {
                        counted.0.fetch_add(1, Ordering::Relaxed);
                        timers.with_place(&mut place, |heap| go_through(heap));
                    } else {
                        own_count.0.store(own_count.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        go_through(&own_timers);
                    }
                }
                last.set(last.get().max(Controlled::now()));
            }));
        }
        (bodies, timers)
    })?;
    Ok(ended.get() as f64 / turns as f64)
}
