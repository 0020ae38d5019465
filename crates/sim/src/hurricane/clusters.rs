//! Loads on the library's own clusters ([`raddle_scheduler::lock::Clustered`], unchanged), a processor each: faults
//! on pages that all read, copy-on-write faults, the end of programs in a family tree, and a registry that is looked
//! into by all.
//!
//! Source: Unrau et al., sections 2.2, 2.3, 2.5 and 4.2. What they do not tell is chosen here: what a processor
//! computes between two requests, and how many pages and children there are.

use super::{Body, processors};
use crate::cost::Costs;
use crate::execution::{current, work};
use crate::machine::Controlled;
use raddle_machine::Machine;
use raddle_scheduler::lock::{
    Algorithm, Change, ClusterStats, Clustered, Clusters, Protocol, Seat, Spinning, SwapH2Mcs, Ways,
};
use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

/// What the processors do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Each faults on the same few pages: it holds their descriptors, and lets them go again.
    Shared,
    /// Each faults on pages of its own.
    Own,
    /// Each writes to pages that all have: it takes one from the count of the page, and gets a page of its own.
    CopyOnWrite,
    /// Programs end: each takes itself from its parent's children, and gives its own children to the root.
    Destruction,
    /// Each looks threads up by their number; one in a hundred requests changes one.
    Registry,
    /// Message passing: each sends to some process of its own program, which are four, and takes what was sent to it.
    Messages,
    /// A file server: each reads a directory that all read, and a file of its own; one request in 16 changes the
    /// directory.
    Files,
    /// Ends of programs as above, and a message to some parent each time, noted in the record that has its place in
    /// the tree.
    Together,
    /// The same, with a record for messages and one for the place in the tree.
    Apart,
}

/// In the order of their numbers on a command line.
pub const LOADS: [Load; 9] = [
    Load::Own,
    Load::Shared,
    Load::CopyOnWrite,
    Load::Destruction,
    Load::Registry,
    Load::Messages,
    Load::Files,
    Load::Together,
    Load::Apart,
];

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The load.
    pub load: Load,
    /// Processors.
    pub processors: usize,
    /// Processors of a cluster; the last one may have fewer.
    pub cluster: usize,
    /// Requests of each.
    pub turns: u64,
    /// Pages, or threads in the registry.
    pub pages: u64,
    /// Nanoseconds of computing for a request.
    pub work: u64,
    /// Nanoseconds of a null remote call.
    pub call: u64,
    /// How dead-lock is avoided, and what becomes of replicas.
    pub ways: Ways,
}

impl Default for Asked {
    fn default() -> Self {
        let ways = Ways { protocol: Protocol::Optimistic, change: Change::Invalidate, moves_after: None };
        Self { load: Load::Shared, processors: 16, cluster: 4, turns: 20, pages: 4, work: 80_000, call: 27_000, ways }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Nanoseconds of a request, on the average.
    pub mean: f64,
    /// Requests.
    pub requests: u64,
    /// What the clusters counted.
    pub stats: ClusterStats,
}

/// Processors by their numbers, so many to a cluster.
struct Seats(Asked);

impl Clusters for Seats {
    fn count(&self) -> usize {
        self.0.processors.div_ceil(self.0.cluster)
    }
    fn members(&self, _: usize) -> usize {
        self.0.cluster
    }
    fn here(&self) -> Seat {
        let processor = current().unwrap_or(0);
        Seat { cluster: processor / self.0.cluster, member: processor % self.0.cluster }
    }
    fn carry<R>(&self, _: Seat, _: Seat, call: impl FnOnce() -> R) -> R {
        work(self.0.call / 2);
        let result = call();
        work(self.0.call - self.0.call / 2);
        result
    }
}

/// A page's descriptor, or a program in the family tree.
#[derive(Clone, Default)]
struct Record {
    count: u64,
    parent: u64,
    children: Vec<u64>,
}

/// Replayed by a seed: no hash that differs from run to run.
type Table<A> = Clustered<u64, Record, A, Spinning<Controlled>, Seats, BuildHasherDefault<DefaultHasher>>;

/// The family tree's root.
const ROOT: u64 = 1 << 40;

/// Where messages have records of their own.
const MAILBOX: u64 = 1 << 41;

/// Files of one's own, after the directories.
const FILES: u64 = 1 << 20;

/// Processes of a program that send messages to each other.
const PROGRAM: u64 = 4;

/// The table of a load, and who works on it.
pub(crate) struct System<A: Algorithm<Controlled>> {
    table: Table<A>,
    asked: Asked,
    times: Cell<u64>,
    requests: Cell<u64>,
    filled: Cell<bool>,
}

impl<A: Algorithm<Controlled>> System<A> {
    pub(crate) fn new(asked: Asked) -> Self {
        let table = Table::with_parts(Seats(asked), 1, BuildHasherDefault::default()).with_ways(asked.ways);
        Self { table, asked, times: Cell::new(0), requests: Cell::new(0), filled: Cell::new(false) }
    }

    fn page(&self, number: usize, turn: u64) -> u64 {
        match self.asked.load {
            Load::Shared | Load::CopyOnWrite => turn % self.asked.pages,
            Load::Own => number as u64 * self.asked.pages + turn % self.asked.pages,
            Load::Destruction | Load::Registry | Load::Together | Load::Apart => {
                Controlled::random() % self.asked.pages
            }
            Load::Messages => number as u64 / PROGRAM * PROGRAM + Controlled::random() % PROGRAM,
            Load::Files => turn % self.asked.pages,
        }
    }

    /// What the processors find there.
    pub(crate) fn fill(&self) {
        let record = |count| Record { count, ..Record::default() };
        match self.asked.load {
            Load::Own => {
                // Each is at home in its processor's own cluster.
                for page in 0..self.asked.pages * self.asked.processors as u64 {
                    self.table.insert(page, record(0));
                    self.table.migrate(&page, (page / self.asked.pages) as usize / self.asked.cluster);
                }
            }
            Load::Shared | Load::CopyOnWrite | Load::Registry => {
                (0..self.asked.pages).for_each(|page| _ = self.table.insert(page, record(1 << 30)));
            }
            Load::Messages | Load::Files => {
                let first = if self.asked.load == Load::Files { FILES } else { 0 };
                // Processors in programs of four, whole ones.
                let processes = (self.asked.processors as u64).next_multiple_of(PROGRAM);
                for process in 0..processes {
                    self.table.insert(first + process, record(0));
                    let home = process.min(self.asked.processors as u64 - 1) as usize / self.asked.cluster;
                    self.table.migrate(&(first + process), home);
                }
                if self.asked.load == Load::Files {
                    (0..self.asked.pages).for_each(|directory| _ = self.table.insert(directory, record(1)));
                }
            }
            Load::Destruction | Load::Together | Load::Apart => {
                // Each processor's programs are children of a few parents, and these of the root.
                self.table.insert(ROOT, record(0));
                for parent in 0..self.asked.pages {
                    self.table.insert(ROOT + 1 + parent, Record { parent: ROOT, ..record(0) });
                    self.table.insert(MAILBOX + parent, record(0));
                }
            }
        }
        self.filled.set(true);
    }

    fn request(&self, number: usize, turn: u64) {
        let page = self.page(number, turn);
        match self.asked.load {
            Load::Own | Load::Shared => {
                let held = self.table.hold(&page);
                work(self.asked.work);
                drop(held);
            }
            Load::CopyOnWrite => {
                let seen = self.table.read(&page).map_or(0, |record| record.count);
                work(self.asked.work / 2);
                let fresh = (1 << 20) + number as u64 * self.asked.turns + turn;
                self.table.update(&page, |record| record.count -= 1);
                self.table.insert(fresh, Record { count: seen.min(1), ..Record::default() });
                work(self.asked.work / 2);
            }
            Load::Messages => {
                let mine = number as u64;
                self.table.update(&page, |record| record.count += 1);
                work(self.asked.work);
                self.table.update(&mine, |record| record.count = 0);
            }
            Load::Files => {
                if turn % 16 == 15 {
                    self.table.update(&page, |directory| directory.count += 1);
                } else {
                    assert!(self.table.read(&page).is_some(), "nobody takes out a directory");
                }
                let file = self.table.hold(&(FILES + number as u64));
                work(self.asked.work);
                drop(file);
            }
            Load::Destruction | Load::Together | Load::Apart => {
                let message = Controlled::random() % self.asked.pages;
                match self.asked.load {
                    Load::Together => _ = self.table.update(&(ROOT + 1 + message), |record| record.count += 1),
                    Load::Apart => _ = self.table.update(&(MAILBOX + message), |record| record.count += 1),
                    _ => {}
                }
                let (parent, program) = (ROOT + 1 + page, (1 << 20) + number as u64 * self.asked.turns + turn);
                self.table.insert(program, Record { parent, ..Record::default() });
                self.table.update(&parent, |record| record.children.push(program));
                work(self.asked.work / 2);
                let gone = self.table.remove(&program).unwrap_or_default();
                self.table.update(&gone.parent, |record| record.children.retain(|&child| child != program));
                for orphan in gone.children {
                    self.table.update(&orphan, |record| record.parent = ROOT);
                }
                work(self.asked.work / 2);
            }
            Load::Registry => {
                if turn % 100 == 99 {
                    self.table.update(&page, |record| record.count += 1);
                } else {
                    assert!(self.table.read(&page).is_some(), "nobody takes out what is registered");
                }
                work(self.asked.work);
            }
        }
    }

    /// All requests of a processor.
    pub(crate) fn process(&self, number: usize) {
        while !self.filled.get() {
            work(1_000);
        }
        work(737 * number as u64);
        for turn in 0..self.asked.turns {
            let began = Controlled::now();
            self.request(number, turn);
            self.times.set(self.times.get() + Controlled::now() - began);
            self.requests.set(self.requests.get() + 1);
        }
    }
}

/// Runs it on processors without threads.
///
/// # Errors
/// If there is no cluster, or the processors do not all end.
pub fn run(costs: &Costs, asked: &Asked) -> Result<Seen, String> {
    if asked.cluster == 0 || asked.processors == 0 || asked.pages == 0 {
        return Err(format!("{} processors in clusters of {}, {} pages", asked.processors, asked.cluster, asked.pages));
    }
    let system = processors(costs, || {
        let system = Rc::new(System::<SwapH2Mcs<Controlled>>::new(*asked));
        let one = |number: usize| -> Body {
            let system = system.clone();
            Box::new(move || {
                if number == 0 {
                    system.fill();
                }
                system.process(number);
            })
        };
        ((0..asked.processors).map(one).collect(), system.clone())
    })?;
    let requests = system.requests.get();
    Ok(Seen { mean: system.times.get() as f64 / requests.max(1) as f64, requests, stats: system.table.stats() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(asked: Asked) -> Seen {
        run(&Costs::preset("hector").unwrap(), &asked).unwrap()
    }

    #[test]
    fn each_load_ends_and_is_replayed() {
        for load in LOADS {
            let asked = Asked { load, turns: 5, processors: 8, ..Asked::default() };
            let first = seen(asked);
            assert_eq!(first, seen(asked), "{load:?}");
            assert_eq!(first.requests, 40);
            assert!(first.mean >= asked.work as f64, "{first:?}");
        }
        let nothing = Asked { cluster: 0, ..Asked::default() };
        assert!(run(&Costs::preset("hector").unwrap(), &nothing).is_err());
    }
}
