//! The seven programs of the lock-free scheduler's Table 1.

use super::Api;
use crate::program::Outcome;
use std::sync::Arc;
use std::time::Instant;

/// The river gives as much water as all houses and the plant will use, and never waits.
pub(super) fn city<A: Api>(houses: u64, units: u64, store: usize) -> Result<Outcome, String> {
    let start = Instant::now();
    let water = Arc::new(A::semaphore(0));
    let energy = Arc::new(A::buffer::<()>(store));
    let needed = houses * units;
    let river = water.clone();
    let river = A::spawn(move || (0..2 * needed).for_each(|_| A::release(&river)));
    let (plant_water, plant_energy) = (water.clone(), energy.clone());
    let plant = A::spawn(move || {
        for _ in 0..needed {
            A::acquire(&plant_water);
            A::put(&plant_energy, ());
        }
    });
    let houses: Vec<_> = (0..houses)
        .map(|_| {
            let (water, energy) = (water.clone(), energy.clone());
            A::spawn(move || {
                let (mut electricity_used, mut water_used) = (0, 0);
                for _ in 0..units {
                    A::take(&energy);
                    electricity_used += 1;
                    A::acquire(&water);
                    water_used += 1;
                }
                (electricity_used, water_used)
            })
        })
        .collect();
    let used = houses.into_iter().map(A::join).fold((0, 0), |(e, w), (e1, w1)| (e + e1, w + w1));
    A::join(plant);
    A::join(river);
    let time = start.elapsed();
    if used.0 == used.1 {
        Ok(Outcome::new(1, time, used.0))
    } else {
        Err(format!("{} units of electricity but {} of water were used", used.0, used.1))
    }
}

/// One stage: keeps its first number as its prime and returns the sum of it and of all later stages' primes.
fn stage<A: Api>(input: A::Receiver<u64>) -> u64 {
    let prime = A::recv(&input);
    if prime == 0 {
        return 0;
    }
    let (output, next) = A::channel(16);
    let next = A::spawn(move || stage::<A>(next));
    loop {
        let number = A::recv(&input);
        if number == 0 || number % prime != 0 {
            A::send(&output, number);
        }
        if number == 0 {
            return prime + A::join(next);
        }
    }
}

pub(super) fn eratosthenes<A: Api>(limit: u64) -> Outcome {
    let start = Instant::now();
    let (output, first) = A::channel(16);
    let first = A::spawn(move || stage::<A>(first));
    let generator = A::spawn(move || {
        (2..=limit).for_each(|number| A::send(&output, number));
        A::send(&output, 0);
    });
    A::join(generator);
    let sum = A::join(first);
    Outcome::new(1, start.elapsed(), sum)
}

/// The iterations of one row of the plane.
///
/// ```
/// // The corner of the plane escapes at once; its iterations are counted.
/// assert_eq!(raddle_bench::bodies::shared::mandelbrot_row(0, 100, 1, 5000), 1);
/// ```
pub fn mandelbrot_row(row: u64, rows: u64, columns: u64, limit: u64) -> u64 {
    let ci = -1.25 + 2.5 * row as f64 / rows as f64;
    let mut total = 0;
    for column in 0..columns {
        let cr = -2.0 + 2.5 * column as f64 / columns as f64;
        let (mut re, mut im) = (0.0f64, 0.0f64);
        let mut iterations = 0;
        while iterations < limit {
            let (re2, im2) = (re * re, im * im);
            if re2 + im2 > 4.0 {
                break;
            }
            im = 2.0 * re * im + ci;
            re = re2 - im2 + cr;
            iterations += 1;
        }
        total += iterations;
    }
    total
}

pub(super) fn mandelbrot<A: Api>(rows: u64, columns: u64, limit: u64) -> Outcome {
    let start = Instant::now();
    let threads: Vec<_> = (0..rows).map(|row| A::spawn(move || mandelbrot_row(row, rows, columns, limit))).collect();
    let sum = threads.into_iter().map(A::join).sum();
    Outcome::new(1, start.elapsed(), sum)
}

/// The two factors of `matrix`, row by row.
pub fn matrix_factors(n: usize) -> (Vec<f64>, Vec<f64>) {
    let cells = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let a = cells().map(|(i, j)| ((i + j) % 7) as f64).collect();
    let b = cells().map(|(i, j)| ((i * j) % 5) as f64).collect();
    (a, b)
}

/// One row of the product, in i-j-k order.
pub fn matrix_row(a: &[f64], b: &[f64], n: usize, i: usize) -> Vec<f64> {
    let row = &a[i * n..(i + 1) * n];
    (0..n)
        .map(|j| {
            let mut sum = 0.0;
            for k in 0..n {
                sum += row[k] * b[k * n + j];
            }
            sum
        })
        .collect()
}

pub(super) fn matrix<A: Api>(n: usize, threads: usize) -> Outcome {
    let factors = Arc::new(matrix_factors(n));
    let start = Instant::now();
    let threads: Vec<_> = (0..threads)
        .map(|first| {
            let factors = factors.clone();
            A::spawn(move || -> Vec<_> {
                (first..n).step_by(threads).map(|i| matrix_row(&factors.0, &factors.1, n, i)).collect()
            })
        })
        .collect();
    let rows: Vec<_> = threads.into_iter().flat_map(A::join).collect();
    let time = start.elapsed();
    let sum: f64 = rows.iter().flatten().sum();
    Outcome::new(1, time, sum as u64)
}

struct Board {
    item: u64,
    published: u64,
    /// Customers who have not read the item yet.
    unread: u64,
}

pub(super) fn news<A: Api>(customers: u64, reporters: u64, items: u64) -> Outcome {
    let start = Instant::now();
    let board = A::mutex(Board { item: 0, published: 0, unread: 0 });
    let board = Arc::new((board, A::condvar(), A::condvar()));
    let readers: Vec<_> = (0..customers)
        .map(|_| {
            let board = board.clone();
            A::spawn(move || {
                let (board, fresh, all_read) = &*board;
                let mut sum = 0;
                for seen in 0..reporters * items {
                    let mut board = A::lock(board);
                    while board.published == seen {
                        board = A::wait(fresh, board);
                    }
                    sum += board.item;
                    board.unread -= 1;
                    if board.unread == 0 {
                        drop(board);
                        A::notify_one(all_read);
                    }
                }
                sum
            })
        })
        .collect();
    let writers: Vec<_> = (0..reporters)
        .map(|reporter| {
            let board = board.clone();
            A::spawn(move || {
                let (board, fresh, all_read) = &*board;
                for item in 0..items {
                    let mut board = A::lock(board);
                    while board.unread > 0 {
                        board = A::wait(all_read, board);
                    }
                    board.item = reporter * items + item;
                    board.published += 1;
                    board.unread = customers;
                    drop(board);
                    A::notify_all(fresh);
                }
            })
        })
        .collect();
    writers.into_iter().for_each(A::join);
    let sum = readers.into_iter().map(A::join).sum();
    Outcome::new(1, start.elapsed(), sum)
}

pub(super) fn producer<A: Api>(pairs: u64, slots: usize, each: u64) -> Outcome {
    let start = Instant::now();
    let buffer = Arc::new(A::buffer::<u64>(slots));
    let mut producers = Vec::new();
    let mut consumers = Vec::new();
    for _ in 0..pairs {
        let source = buffer.clone();
        consumers.push(A::spawn(move || (0..each).map(|_| A::take(&source)).sum::<u64>()));
        let sink = buffer.clone();
        producers.push(A::spawn(move || (0..each).for_each(|value| A::put(&sink, value))));
    }
    producers.into_iter().for_each(A::join);
    let sum = consumers.into_iter().map(A::join).sum();
    Outcome::new(pairs * each, start.elapsed(), sum)
}

pub(super) fn tokenring<A: Api>(threads: usize, rounds: u64) -> Outcome {
    let start = Instant::now();
    let (slots_in, slots_out): (Vec<_>, Vec<_>) = (0..threads).map(|_| A::channel::<u64>(1)).unzip();
    A::send(&slots_in[0], 0);
    // Thread i writes the slot of thread i + 1; the last one writes the first slot.
    let mut outputs = slots_in;
    outputs.rotate_left(1);
    let ring: Vec<_> = slots_out
        .into_iter()
        .zip(outputs)
        .enumerate()
        .map(|(i, (input, output))| {
            A::spawn(move || {
                let mut token = 0;
                for round in 1..=rounds {
                    token = A::recv(&input) + 1;
                    // The token's last hop is its value in the end: nobody would take it from the slot.
                    if round < rounds || i + 1 < threads {
                        A::send(&output, token);
                    }
                }
                (token, input, output)
            })
        })
        .collect();
    // A thread's ends of the channels outlive it, so that a late sender does not meet a closed channel.
    let ends: Vec<_> = ring.into_iter().map(A::join).collect();
    let token = ends.last().map_or(0, |end| end.0);
    Outcome::new(threads as u64 * rounds, start.elapsed(), token)
}
