//! Programs of the lock-free scheduler's table 1, as `raddle bench` has them; the token ring is beside the others in
//! [`super`].
//!
//! Each checks in the end that nothing was lost or doubled on the way. What a program computes by itself takes a time
//! that is a parameter; what it does with others is what the primitives' own accesses cost.

use super::Arguments;
use crate::threads::{Simulated, Spawned, compute, compute_on, compute_within, look_at_quantum, spawn_joined, touch};
use raddle_scheduler::sync::channel::{self, Receiver};
use raddle_scheduler::sync::{Condvar, Mutex, MutexGuard, Semaphore};
use std::cell::Cell;
use std::rc::Rc;

/// A thread's result, for who joins it.
struct Counting(Spawned, Rc<Cell<u64>>);

impl Counting {
    fn start(body: impl FnOnce() -> u64 + 'static) -> Self {
        let result = Rc::new(Cell::new(0));
        let place = result.clone();
        Self(spawn_joined(move || place.set(body())), result)
    }

    fn join(self) -> u64 {
        self.0.join();
        self.1.get()
    }
}

/// The river gives as much water as all houses and the plant will use, and never waits.
pub(super) fn city(arguments: &Arguments) {
    let [houses, units, store] = ["n", "k", "c"].map(|name| arguments.of(name));
    let water = Rc::new(Semaphore::<Simulated>::with_permits(0));
    let (stored, energy) = channel::bounded::<(), Simulated>(store as usize);
    let energy = Rc::new(energy);
    let needed = houses * units;
    let river = water.clone();
    let river = spawn_joined(move || (0..2 * needed).for_each(|_| river.release(1)));
    let plant_water = water.clone();
    let plant = spawn_joined(move || {
        for _ in 0..needed {
            plant_water.acquire(1);
            assert!(stored.send(()).is_ok(), "the houses are gone");
        }
    });
    let house = |_| {
        let (water, energy) = (water.clone(), energy.clone());
        Counting::start(move || {
            for _ in 0..units {
                assert!(energy.recv().is_ok(), "the plant is gone");
                water.acquire(1);
            }
            units
        })
    };
    let houses: Vec<_> = (0..houses).map(house).collect();
    let used: u64 = houses.into_iter().map(Counting::join).sum();
    plant.join();
    river.join();
    assert_eq!((used, water.available()), (needed, 0), "units were lost");
}

/// One stage: keeps its first number as its prime; the sum of it and of all later stages' primes.
fn stage(input: &Receiver<u64, Simulated>, divide: u64) -> u64 {
    let next = || input.recv().unwrap_or_else(|_| panic!("the pipeline is broken"));
    let prime = next();
    if prime == 0 {
        return 0;
    }
    let (output, rest) = channel::bounded(16);
    let rest = Counting::start(move || stage(&rest, divide));
    loop {
        let number = next();
        compute(divide);
        if number == 0 || !number.is_multiple_of(prime) {
            assert!(output.send(number).is_ok(), "the pipeline is broken");
        }
        if number == 0 {
            return prime + rest.join();
        }
    }
}

pub(super) fn eratosthenes(arguments: &Arguments) {
    let [limit, divide] = ["n", "divide"].map(|name| arguments.of(name));
    let (output, first) = channel::bounded(16);
    let first = Counting::start(move || stage(&first, divide));
    let generator = spawn_joined(move || {
        for number in (2..=limit).chain([0]) {
            assert!(output.send(number).is_ok(), "the pipeline is broken");
        }
    });
    generator.join();
    assert_eq!(first.join(), sum_of_primes(limit), "a number was lost");
}

fn sum_of_primes(limit: u64) -> u64 {
    let mut composite = vec![false; limit as usize + 1];
    let mut sum = 0;
    for number in 2..=limit as usize {
        if !composite[number] {
            sum += number as u64;
            composite.iter_mut().skip(number * number).step_by(number).for_each(|composite| *composite = true);
        }
    }
    sum
}

/// The iterations of one row of the plane.
fn row(row: u64, rows: u64, columns: u64, limit: u64) -> u64 {
    let ci = -1.25 + 2.5 * row as f64 / rows as f64;
    let point = |column: u64| {
        let cr = -2.0 + 2.5 * column as f64 / columns as f64;
        let (mut re, mut im) = (0.0f64, 0.0f64);
        (0..limit).position(|_| {
            let escapes = re * re + im * im > 4.0;
            (re, im) = (re * re - im * im + cr, 2.0 * re * im + ci);
            escapes
        })
    };
    (0..columns).map(|column| point(column).map_or(limit, |iterations| iterations as u64)).sum()
}

/// The iterations of each row.
fn rows(arguments: &Arguments) -> Vec<u64> {
    let [rows, columns, limit] = ["n", "c", "k"].map(|name| arguments.of(name));
    let one = |number| {
        crate::watch::tell();
        row(number, rows, columns, limit)
    };
    (0..rows).map(one).collect()
}

/// Nanoseconds that no scheduler of so many cores falls below: of the longest row, or of all rows dealt equally.
pub(crate) fn shortest(arguments: &Arguments, cores: usize) -> f64 {
    let (longest, all) = rows(arguments).iter().fold((0, 0), |(most, all), &row| (row.max(most), all + row));
    (longest as f64).max(all as f64 / cores as f64) * arguments.of("iteration") as f64 / 1e3
}

pub(super) fn mandelbrot(arguments: &Arguments) {
    let [iteration, check, quantum] = ["iteration", "check", "quantum"].map(|name| arguments.of(name));
    let row = move |iterations: u64| compute_within(iterations * (iteration + check) / 1_000, quantum);
    let thread = |iterations: u64| spawn_joined(move || row(iterations));
    let threads: Vec<_> = rows(arguments).into_iter().map(thread).collect();
    threads.into_iter().for_each(Spawned::join);
}

/// For a row of the result the second factor is read as a whole, column by column. Eight columns share their lines,
/// which a core keeps meanwhile; from one row to the next the factor stays only where it is smaller than the cache.
pub(super) fn matrix(arguments: &Arguments) {
    let [size, threads, cache] = ["n", "t", "cache"].map(|name| arguments.of(name));
    let row = size * size * (arguments.of("multiply") + arguments.of("check")) / 1_000;
    let quantum = arguments.of("quantum");
    let parts = if quantum == 0 { 1 } else { row.div_ceil(quantum).max(1) };
    let factor = 8 * size * size;
    let fetched = if factor < cache * 1_024 { 0 } else { factor };
    let thread = |number: u64| {
        let rows = size / threads + u64::from(number < size % threads);
        Counting::start(move || {
            for _ in 0..rows * parts {
                compute_on(row / parts, fetched / parts);
                look_at_quantum(quantum);
            }
            rows
        })
    };
    let all: Vec<_> = (0..threads).map(thread).collect();
    let rows: u64 = all.into_iter().map(Counting::join).sum();
    assert_eq!(rows, size, "a row was lost");
}

/// What is published, under a mutex, and who waits for it to change.
struct Board {
    state: Mutex<State, Simulated>,
    fresh: Condvar<Simulated>,
    all_read: Condvar<Simulated>,
}

#[derive(Default)]
struct State {
    published: u64,
    /// Customers who have not read the item yet.
    unread: u64,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State, Simulated> {
        self.state.lock().unwrap_or_else(|_| panic!("the board is poisoned"))
    }

    /// Waits until that is so.
    fn until(&self, condvar: &Condvar<Simulated>, so: impl Fn(&State) -> bool) -> MutexGuard<'_, State, Simulated> {
        let guard = condvar.wait_while(self.lock(), |state| !so(state));
        touch();
        guard.unwrap_or_else(|_| panic!("the board is poisoned"))
    }
}

/// Who has read looks whether all customers have: by a count that is kept, or by looking at each of them.
pub(super) fn news(arguments: &Arguments) {
    let [customers, reporters, items] = ["n", "m", "k"].map(|name| arguments.of(name));
    let [look, check, quantum] = ["look", "check", "quantum"].map(|name| arguments.of(name));
    let all_looked_at = if look == 0 { 0 } else { customers * (look + check) / 1_000 };
    let board = Rc::new(Board {
        state: Mutex::with_value(State::default()),
        fresh: Condvar::default(),
        all_read: Condvar::default(),
    });
    let customer = |_| {
        let board = board.clone();
        Counting::start(move || {
            for seen in 0..reporters * items {
                let mut state = board.until(&board.fresh, |state| state.published > seen);
                if all_looked_at > 0 {
                    compute_within(all_looked_at, quantum);
                }
                state.unread -= 1;
                if state.unread == 0 {
                    drop(state);
                    board.all_read.notify_one();
                }
            }
            reporters * items
        })
    };
    let readers: Vec<_> = (0..customers).map(customer).collect();
    let reporter = |_| {
        let board = board.clone();
        spawn_joined(move || {
            for _ in 0..items {
                let mut state = board.until(&board.all_read, |state| state.unread == 0);
                state.published += 1;
                state.unread = customers;
                drop(state);
                board.fresh.notify_all();
            }
        })
    };
    let writers: Vec<_> = (0..reporters).map(reporter).collect();
    writers.into_iter().for_each(Spawned::join);
    let read: u64 = readers.into_iter().map(Counting::join).sum();
    assert_eq!(read, customers * reporters * items, "an item was lost");
}

pub(super) fn producer(arguments: &Arguments) {
    let [pairs, slots, each] = ["n", "c", "k"].map(|name| arguments.of(name));
    let (sink, source) = channel::bounded::<u64, Simulated>(slots as usize);
    let (sink, source) = (Rc::new(sink), Rc::new(source));
    let pair = |_| {
        let (sink, source) = (sink.clone(), source.clone());
        let consumer = Counting::start(move || {
            (0..each).map(|_| source.recv().unwrap_or_else(|_| panic!("the producers are gone"))).sum()
        });
        let producer = spawn_joined(move || {
            (0..each).for_each(|value| assert!(sink.send(value).is_ok(), "the consumers are gone"));
        });
        (producer, consumer)
    };
    let (producers, consumers): (Vec<_>, Vec<_>) = (0..pairs).map(pair).unzip();
    producers.into_iter().for_each(Spawned::join);
    let sum: u64 = consumers.into_iter().map(Counting::join).sum();
    assert_eq!(sum, pairs * (each * (each - 1) / 2), "a message was lost");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Workload;

    #[test]
    fn what_is_computed_is_what_the_programs_of_the_benchmark_compute() {
        assert_eq!((sum_of_primes(10), sum_of_primes(10_000)), (17, 5_736_396));
        // The corner of the plane escapes after one iteration.
        assert_eq!(row(0, 100, 1, 5_000), 1);
        let arguments = Workload::find("mandelbrot").unwrap().arguments("n=4:c=50:k=100").unwrap();
        let all = rows(&arguments);
        // Rows above and below the middle are mirrored.
        assert!(all[1] == all[3] && all[2] > all[1] && all[1] > all[0], "{all:?}");
    }
}
