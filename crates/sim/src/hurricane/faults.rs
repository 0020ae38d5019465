//! Page faults of processors in clusters: figure 7.
//!
//! What the paper tells: a fault takes 160 µs of which locks are 40, a null remote call 27 µs, a look-up with
//! replication 88 µs; two loads. What it does not tell, and is chosen here: eleven pairs of lock and unlock (40 µs of
//! 3.65), of which four at the table of page descriptors, with four accesses to it each, two for the others; what is
//! left is computing, evenly between them. None of that is fitted to figure 7.
//!
//! A cluster has its own tables, each behind a coarse lock whose memory lies with one of its processors. A page
//! descriptor is reserved during a fault on it. One that is not in the cluster gets a place-holder, and is asked for by
//! a call to the i-th processor of its home cluster, which fails if the descriptor is reserved there (the optimistic
//! protocol). A processor that is called serves one call at a time, and loses that time itself.

use super::{Body, LOOP, processors};
use crate::cost::Costs;
use crate::execution::work;
use crate::machine::Controlled;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::pad::Padded;
use raddle_scheduler::lock::{Algorithm, Lock, Place, Reservation, Spin, Spinning, SwapH2Mcs};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// On a line of its own, so that it has a home of its own.
type Word = Padded<<Controlled as Machine>::Atomic<u32>>;

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Padded(Atomic::new(0))).collect()
}

/// The tables of a cluster, in the order in which a fault visits them; `PAGE` is reserved at the first visit and given
/// up at the last.
const VISITS: [usize; 11] = [REGION, PROCESS, PAGE, FRAME, PAGE, MAPPING, MAPPING, PAGE, FRAME, PAGE, REGION];
/// The same where the table of page descriptors is visited only to reserve one, and to give it up.
const FEWER: [usize; 11] = [REGION, PROCESS, PAGE, FRAME, FRAME, MAPPING, MAPPING, PROCESS, FRAME, PAGE, REGION];
const REGION: usize = 0;
const PROCESS: usize = 1;
const PAGE: usize = 2;
const FRAME: usize = 3;
const MAPPING: usize = 4;
const TABLES: usize = 5;

/// Nanoseconds of computing between two visits: what is left of 160 µs.
const COMPUTE: u64 = 8_100;
/// A null remote call, and what a look-up with replication takes beyond it and its accesses.
const CALL: u64 = 27_000;
const REPLICATE: u64 = 50_000;
/// The cap of back-off at 35 µs, in spin hints, which is what the system uses.
const CAP: u32 = 70;

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Processes, one on each processor.
    pub processes: usize,
    /// Processors.
    pub processors: usize,
    /// Processors of a cluster.
    pub cluster: usize,
    /// On the same pages, or each on its own.
    pub shared: bool,
    /// Distributed locks (H2), or spin locks.
    pub distributed: bool,
    /// Faults of each process on its own pages; rounds on the shared ones.
    pub turns: u64,
    /// How often a fault visits the table of page descriptors: four times, or only to reserve one and to give it up.
    pub often: bool,
    /// Each process begins with another page, and computes up to so many nanoseconds before each fault.
    pub apart: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            processes: 1,
            processors: 16,
            cluster: 16,
            shared: false,
            distributed: true,
            turns: 40,
            often: true,
            apart: 0,
        }
    }
}

/// Shared pages.
pub const PAGES: usize = 4;

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Response {
    /// Microseconds of a fault, on the average.
    pub mean: f64,
    /// Remote requests for a page, with those that failed.
    pub requests: u64,
    /// Of these, those that met a reservation and came again.
    pub retries: u64,
    /// Rounds of each page, of all.
    pub rounds: u64,
}

/// One coarse lock, and words where its table lies.
struct Table<A> {
    lock: Lock<(), A, Controlled>,
    words: Vec<Word>,
}

impl<A: Algorithm<Controlled>> Table<A> {
    /// Enters, searches and changes it.
    fn visit<R>(&self, place: &mut Place<A, Controlled>, accesses: usize, f: impl FnOnce() -> R) -> R {
        let result = self.lock.with_place(place, |()| {
            (0..accesses).for_each(|index| _ = self.words[index].load(Ordering::Relaxed));
            f()
        });
        work(LOOP);
        result
    }
}

/// A page descriptor, or a replica of one. Its count and its presence are protected by its table's lock.
struct Page {
    reservation: Reservation<Controlled>,
    present: Cell<bool>,
    mapped: Cell<u32>,
}

struct Cluster<A> {
    tables: Vec<Table<A>>,
    pages: Vec<Page>,
}

struct System<A> {
    clusters: Vec<Cluster<A>>,
    /// A processor that serves a call is locked, and loses time.
    busy: Vec<Word>,
    debt: Vec<Cell<u64>>,
    arrived: Word,
    flags: Vec<Word>,
    asked: Faults,
    waits: Spinning<Controlled>,
    times: Cell<u64>,
    faults: Cell<u64>,
    requests: Cell<u64>,
    retries: Cell<u64>,
}

struct Me<A: Algorithm<Controlled>> {
    number: usize,
    places: RefCell<Vec<Place<A, Controlled>>>,
    round: Cell<u32>,
}

impl<A: Algorithm<Controlled>> System<A> {
    fn new(asked: Faults, algorithm: fn() -> A) -> Self {
        let table = || Table { lock: Lock::with_algorithm(algorithm(), ()), words: words(4) };
        let page = || Page { reservation: Reservation::new(), present: Cell::new(false), mapped: Cell::new(0) };
        let cluster = |_| Cluster {
            tables: (0..TABLES).map(|_| table()).collect(),
            pages: (0..PAGES.max(asked.processors)).map(|_| page()).collect(),
        };
        Self {
            clusters: (0..asked.processors / asked.cluster).map(cluster).collect(),
            busy: words(asked.processors),
            debt: vec![Cell::new(0); asked.processors],
            arrived: Padded(Atomic::new(0)),
            flags: words(asked.processors),
            asked,
            waits: Spinning::with_cap(CAP),
            times: Cell::new(0),
            faults: Cell::new(0),
            requests: Cell::new(0),
            retries: Cell::new(0),
        }
    }

    fn home(&self, page: usize) -> usize {
        page % self.clusters.len()
    }

    /// What lies with this processor is used by it first.
    fn settle(&self, me: &Me<A>) {
        let (cluster, within) = (me.number / self.asked.cluster, me.number % self.asked.cluster);
        for (index, table) in self.clusters[cluster].tables.iter().enumerate() {
            if index % self.asked.cluster == within {
                table.lock.with_place(&mut me.places.borrow_mut()[0], |()| ());
                table.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
                if index == PAGE {
                    for (number, page) in self.clusters[cluster].pages.iter().enumerate() {
                        if page.reservation.try_exclusive() {
                            page.reservation.end_exclusive(&self.waits);
                        }
                        page.present.set(!self.asked.shared || self.home(number) == cluster);
                    }
                }
            }
        }
        self.busy[me.number].store(0, Ordering::Relaxed);
        self.flags[me.number].store(0, Ordering::Relaxed);
    }

    /// Computes, and pays for the calls that this processor has served.
    fn compute(&self, me: &Me<A>, nanoseconds: u64) {
        work(nanoseconds + self.debt[me.number].take());
    }

    /// Calls the processor of the same number in another cluster.
    fn call<R>(&self, me: &Me<A>, cluster: usize, f: impl FnOnce() -> R) -> R {
        let target = cluster * self.asked.cluster + me.number % self.asked.cluster;
        let mut pause = 1;
        while self.busy[target].swap(1, Ordering::Acquire) != 0 {
            (0..pause).for_each(|_| Controlled::spin_hint());
            pause = (pause * 2).min(CAP);
        }
        work(CALL / 2);
        let began = Controlled::now();
        let result = f();
        let took = Controlled::now() - began;
        self.busy[target].swap(0, Ordering::Release);
        self.debt[target].set(self.debt[target].get() + took + CALL / 2);
        work(CALL / 2);
        result
    }

    /// The place-holder is reserved by the caller: asks the page's home until it answers.
    fn replicate(&self, me: &Me<A>, page: usize) {
        let home = self.home(page);
        let mut pause = 8;
        loop {
            self.requests.set(self.requests.get() + 1);
            let had = self.call(me, home, || {
                let there = &self.clusters[home];
                let descriptor = &there.pages[page].reservation;
                let place = &mut me.places.borrow_mut()[TABLES];
                if !there.tables[PAGE].visit(place, 4, || descriptor.try_exclusive()) {
                    return false;
                }
                work(REPLICATE);
                descriptor.end_exclusive(&self.waits);
                true
            });
            if had {
                return;
            }
            self.retries.set(self.retries.get() + 1);
            (0..pause).for_each(|_| Controlled::spin_hint());
            pause = (pause * 2).min(CAP);
        }
    }

    /// Reserves a page in this cluster; whether it is only a place-holder.
    fn reserve(&self, me: &Me<A>, page: usize) -> bool {
        let here = &self.clusters[me.number / self.asked.cluster];
        let descriptor = &here.pages[page];
        loop {
            let found = {
                let place = &mut me.places.borrow_mut()[PAGE];
                here.tables[PAGE].visit(place, 4, || {
                    let ours = descriptor.reservation.try_exclusive();
                    ours.then(|| !descriptor.present.replace(true))
                })
            };
            if let Some(absent) = found {
                return absent;
            }
            // Spin on the reservation, lock again, search again.
            descriptor.reservation.wait(&self.waits);
        }
    }

    fn fault(&self, me: &Me<A>, page: usize) {
        let began = Controlled::now();
        let here = &self.clusters[me.number / self.asked.cluster];
        let descriptor = &here.pages[page];
        let visits = if self.asked.often { &VISITS } else { &FEWER };
        let last = visits.iter().rposition(|&table| table == PAGE);
        for (index, &table) in visits.iter().enumerate() {
            if table == PAGE && visits.iter().position(|&table| table == PAGE) == Some(index) {
                if self.reserve(me, page) {
                    self.replicate(me, page);
                }
            } else {
                let place = &mut me.places.borrow_mut()[table];
                here.tables[table].visit(place, if table == PAGE { 4 } else { 2 }, || {
                    if Some(index) == last {
                        descriptor.mapped.set(descriptor.mapped.get() + 1);
                        descriptor.reservation.end_exclusive(&self.waits);
                    }
                });
            }
            self.compute(me, COMPUTE);
        }
        self.times.set(self.times.get() + Controlled::now() - began);
        self.faults.set(self.faults.get() + 1);
    }

    /// Takes a page out of the process's table; the last one of a cluster gives the replica back.
    fn unmap(&self, me: &Me<A>, page: usize) {
        let cluster = me.number / self.asked.cluster;
        let descriptor = &self.clusters[cluster].pages[page];
        self.reserve(me, page);
        let remote = self.asked.shared && self.home(page) != cluster;
        let drop_replica = {
            let place = &mut me.places.borrow_mut()[PAGE];
            self.clusters[cluster].tables[PAGE].visit(place, 4, || {
                descriptor.mapped.set(descriptor.mapped.get() - 1);
                let unused = remote && descriptor.mapped.get() == 0;
                if !unused {
                    descriptor.reservation.end_exclusive(&self.waits);
                }
                unused
            })
        };
        if drop_replica {
            self.call(me, self.home(page), || {
                let place = &mut me.places.borrow_mut()[TABLES];
                self.clusters[self.home(page)].tables[PAGE].visit(place, 4, || ());
            });
            let place = &mut me.places.borrow_mut()[PAGE];
            self.clusters[cluster].tables[PAGE].visit(place, 4, || {
                descriptor.present.set(false);
                descriptor.reservation.end_exclusive(&self.waits);
            });
        }
        self.compute(me, COMPUTE);
    }

    /// Waits for all processes, each at a word of its own.
    fn barrier(&self, me: &Me<A>) {
        let round = me.round.get() + 1;
        me.round.set(round);
        let all = self.asked.processes as u32;
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == all * round {
            (0..self.asked.processes).for_each(|number| self.flags[number].store(round, Ordering::Release));
        } else {
            while self.flags[me.number].load(Ordering::Acquire) < round {
                (0..4).for_each(|_| Controlled::spin_hint());
            }
        }
        self.compute(me, 0);
    }

    fn process(&self, number: usize) {
        let places = (0..=TABLES).map(|_| Place::new()).collect();
        let me = Me { number, places: RefCell::new(places), round: Cell::new(0) };
        self.settle(&me);
        if number >= self.asked.processes {
            return;
        }
        work(1_000_000 + 3_137 * number as u64);
        for _ in 0..self.asked.turns {
            if !self.asked.shared {
                self.fault(&me, number);
                // Unmapped without anybody's noticing: only faults are measured, and the table does not grow.
                continue;
            }
            for page in 0..PAGES {
                let page = if self.asked.apart > 0 {
                    work(Controlled::random() % self.asked.apart);
                    (page + number) % PAGES
                } else {
                    page
                };
                self.fault(&me, page);
            }
            self.barrier(&me);
            (0..PAGES).for_each(|page| self.unmap(&me, page));
            self.barrier(&me);
        }
    }
}

fn simulate<A: Algorithm<Controlled> + 'static>(
    costs: &Costs,
    asked: &Faults,
    algorithm: fn() -> A,
) -> Result<Response, String> {
    let system = processors(costs, || {
        let system = Rc::new(System::new(*asked, algorithm));
        let one = |number: usize| -> Body {
            let system = system.clone();
            Box::new(move || system.process(number))
        };
        ((0..asked.processors).map(one).collect(), system.clone())
    })?;
    Ok(Response {
        mean: system.times.get() as f64 / system.faults.get().max(1) as f64 / 1e3,
        requests: system.requests.get(),
        retries: system.retries.get(),
        rounds: asked.turns * PAGES as u64,
    })
}

/// Runs it.
///
/// # Errors
/// If the processors do not all end, or are no whole number of clusters.
pub fn faults(costs: &Costs, asked: &Faults) -> Result<Response, String> {
    if asked.cluster == 0 || !asked.processors.is_multiple_of(asked.cluster) || asked.processes > asked.processors {
        return Err(format!("{} processors in clusters of {}", asked.processors, asked.cluster));
    }
    if asked.distributed {
        simulate(costs, asked, SwapH2Mcs::new)
    } else {
        simulate(costs, asked, || Spin::<_, false, true>::with_caps(1, CAP))
    }
}
