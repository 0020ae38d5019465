//! The runtime's own table of records ([`raddle_queues::slab`], unchanged): threads' descriptors are had from it, by an
//! instance for each processor and a depot for all. Here half of the processors take records and hand them to the other
//! half, which gives them back: the flow that needs the depot most.

use crate::cost::Costs;
use crate::execution::work;
use crate::hurricane::{Body, processors};
use crate::machine::Controlled;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::pad::Padded;
use raddle_queues::slab::Slab;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

type Word<T> = <Controlled as Machine>::Atomic<T>;
type Record = Word<u64>;

/// Where records are had from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One for all, record by record: a table without instances.
    One,
    /// As it is: an instance for each processor, which exchanges 64 records at once with all others.
    Instances,
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

fn by<const GROUP: usize, const CHUNK: usize>(costs: &Costs, asked: &Asked) -> Result<f64, String> {
    let Asked { table, processors: count, turns } = *asked;
    let pairs = count / 2;
    let ended = Rc::new(Cell::new(0u64));
    let last = ended.clone();
    processors(costs, || {
        let slab = Slab::<Record, Controlled, GROUP, CHUNK>::new(new);
        let slots: Rc<Vec<Slot>> = Rc::new((0..pairs).map(|_| Padded(Atomic::new(null_mut()))).collect());
        let mut bodies: Vec<Body> = Vec::new();
        for pair in 0..pairs {
            let (mut cache, slots_of) = (slab.cache(), slots.clone());
            bodies.push(Box::new(move || {
                work(737 * pair as u64);
                let own = cache.allocate();
                for _ in 0..turns {
                    // The bound has one record for all turns: neither its table nor another record is touched.
                    let record = if table == Table::Nothing { own } else { cache.allocate() };
                    take(&slots_of[pair], record.unwrap_or_else(|why| panic!("{why}")).as_ptr());
                }
            }));
        }
        for pair in 0..pairs {
            let (mut cache, slots_of, last) = (slab.cache(), slots.clone(), last.clone());
            bodies.push(Box::new(move || {
                for _ in 0..turns {
                    let record = give_back(&slots_of[pair]);
                    if table != Table::Nothing {
                        // SAFETY: of this slab, and its taker has handed it over.
                        unsafe { cache.free(record) };
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
        Table::Instances | Table::Nothing => by::<64, 4096>(costs, asked),
    }
}
