//! The workloads of independent and fork-join tasks on rayon; its tasks must not block, so the others are not offered.
#![forbid(unsafe_code)]

use raddle_bench::bodies::shared::{
    Lattice, Queens, Values, check_sorted, histogram, lowest_bit, mandelbrot_row, matrix_factors, matrix_row, permute,
    prefix_sums, prepare, sequential,
};
use raddle_bench::program::{self, Outcome, Request};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn create(n: u64) -> Outcome {
    let start = Instant::now();
    // The scope counts and joins them; rayon has no handles.
    rayon::scope(|scope| (0..n).for_each(|_| scope.spawn(|_| ())));
    Outcome::new(n, start.elapsed(), n)
}

fn skynet_join(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 { first } else { children_join(first, leaves / 10, 10) }
}

fn children_join(first: u64, part: u64, children: u64) -> u64 {
    if children == 1 {
        return skynet_join(first, part);
    }
    let left = children / 2;
    let (a, b) =
        rayon::join(|| children_join(first, part, left), || children_join(first + left * part, part, children - left));
    a + b
}

fn skynet_scope(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    let part = leaves / 10;
    let mut sums = [0; 10];
    rayon::scope(|scope| {
        for (child, sum) in (0..).zip(&mut sums) {
            scope.spawn(move |_| *sum = skynet_scope(first + child * part, part));
        }
    });
    sums.iter().sum()
}

fn fib_join(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| fib_join(n - 1), || fib_join(n - 2));
    a + b
}

fn fib_scope(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let mut left = 0;
    let right = rayon::scope(|scope| {
        scope.spawn(|_| left = fib_scope(n - 1));
        fib_scope(n - 2)
    });
    left + right
}

fn nqueens_join(queens: Queens, safe: u32) -> u64 {
    if queens.done() {
        return 1;
    }
    match safe.count_ones() {
        0 => 0,
        1 => {
            let next = queens.place(safe);
            nqueens_join(next, next.safe())
        }
        count => {
            let mut right = safe;
            let left = (0..count / 2).filter_map(|_| lowest_bit(&mut right)).fold(0, |bits, bit| bits | bit);
            let (a, b) = rayon::join(|| nqueens_join(queens, left), || nqueens_join(queens, right));
            a + b
        }
    }
}

fn nqueens_scope(queens: Queens) -> u64 {
    if queens.done() {
        return 1;
    }
    let mut safe = queens.safe();
    let mut sums = vec![0; safe.count_ones() as usize];
    rayon::scope(|scope| {
        for sum in &mut sums {
            let next = lowest_bit(&mut safe).map(|bit| queens.place(bit));
            scope.spawn(move |_| *sum = next.map_or(0, nqueens_scope));
        }
    });
    sums.iter().sum()
}

fn mandelbrot(rows: u64, columns: u64, limit: u64) -> Outcome {
    let start = Instant::now();
    let sum = AtomicU64::new(0);
    rayon::scope(|scope| {
        for row in 0..rows {
            let sum = &sum;
            scope.spawn(move |_| {
                sum.fetch_add(mandelbrot_row(row, rows, columns, limit), Ordering::Relaxed);
            });
        }
    });
    Outcome::new(1, start.elapsed(), sum.into_inner())
}

fn matrix(n: usize, threads: usize) -> Outcome {
    let (a, b) = matrix_factors(n);
    let start = Instant::now();
    let mut parts: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    rayon::scope(|scope| {
        for (first, part) in parts.iter_mut().enumerate() {
            let (a, b) = (&a, &b);
            scope.spawn(move |_| part.extend((first..n).step_by(threads).map(|i| matrix_row(a, b, n, i))));
        }
    });
    let time = start.elapsed();
    let sum: f64 = parts.iter().flatten().flatten().sum();
    Outcome::new(1, time, sum as u64)
}

fn radix(n: usize, threads: usize, bits: u64) -> Result<Outcome, String> {
    let generation = Instant::now();
    let (mut from, mut to, part) = prepare(n, threads, bits)?;
    let generation = generation.elapsed();
    let bits = bits as u32;
    let start = Instant::now();
    for shift in (0..32).step_by(bits as usize) {
        let mut places: Vec<Vec<u32>> = (0..threads).map(|_| Vec::new()).collect();
        rayon::scope(|scope| {
            for (places, keys) in places.iter_mut().zip(from.chunks(part)) {
                scope.spawn(move |_| *places = histogram(keys, shift, bits));
            }
        });
        prefix_sums(&mut places);
        rayon::scope(|scope| {
            for (places, keys) in places.iter_mut().zip(from.chunks(part)) {
                let to = &to;
                scope.spawn(move |_| permute(keys, to, places, shift, bits));
            }
        });
        std::mem::swap(&mut from, &mut to);
    }
    let time = start.elapsed();
    Ok(Outcome::new(1, time, check_sorted(&from)?).with("generation_ns", generation.as_nanos() as u64))
}

/// The values from below and from the right of a block, as far as they have come.
type Came = (Option<Values>, Option<Values>);

/// The blocks of `options`: rayon has no promises, so whoever gives a block its last predecessor's values spawns it.
struct Blocks<'a> {
    lattice: &'a Lattice,
    /// By row and column.
    waiting: Vec<Vec<Mutex<Came>>>,
    price: Mutex<Option<f64>>,
}

impl Blocks<'_> {
    fn give<'s>(&'s self, scope: &rayon::Scope<'s>, row: usize, column: usize, values: Values, from_below: bool) {
        let mut waiting = self.waiting[row][column].lock().unwrap();
        if from_below {
            waiting.0 = Some(values);
        } else {
            waiting.1 = Some(values);
        }
        if waiting.0.is_some() && (waiting.1.is_some() || column == row) {
            let (below, right) = std::mem::take(&mut *waiting);
            scope.spawn(move |scope| self.compute(scope, row, column, below.unwrap_or_default(), right));
        }
    }

    fn compute<'s>(
        &'s self,
        scope: &rayon::Scope<'s>,
        row: usize,
        column: usize,
        below: Values,
        right: Option<Values>,
    ) {
        let (top, left) = self.lattice.block(row, column, below, right.as_deref());
        if column > 0 {
            self.give(scope, row, column - 1, left, false);
        }
        if row == 0 {
            *self.price.lock().unwrap() = Some(top[0]);
        } else if column < row {
            self.give(scope, row - 1, column, top, true);
        }
    }
}

fn options(request: &Request) -> Result<Outcome, String> {
    let lattice = Lattice::new(&request.args)?;
    let start = Instant::now();
    let waiting = (0..lattice.rows()).map(|row| (0..=row).map(|_| Mutex::default()).collect()).collect();
    let blocks = Blocks { lattice: &lattice, waiting, price: Mutex::new(None) };
    let last = lattice.rows() - 1;
    rayon::scope(|scope| {
        (0..=last).rev().for_each(|column| blocks.give(scope, last, column, lattice.leaves(column), true));
    });
    let time = start.elapsed();
    let price = blocks.price.into_inner().unwrap().ok_or("the first block was not computed")?;
    lattice.outcome(price, time, request.processors)
}

fn run(request: &Request) -> Result<Outcome, String> {
    let number = |key: &str| request.args.number(key);
    let size = |key: &str| number(key).map(|n| n as usize);
    // What one spawns is a piece of a scope: by=spawn and by=scope are the same here.
    let by_scope = || request.args.text("by").map(|by| by != "join");
    let timed = |body: &dyn Fn() -> u64| {
        let start = Instant::now();
        let sum = body();
        Ok(Outcome::new(1, start.elapsed(), sum))
    };
    request.repeat(|| match request.workload.as_str() {
        "create" => Ok(create(number("N")?)),
        "skynet" => match (number("N")?, by_scope()?) {
            (leaves, true) => timed(&|| skynet_scope(0, leaves)),
            (leaves, false) => timed(&|| skynet_join(0, leaves)),
        },
        "fib" => match (number("n")?, by_scope()?) {
            (n, true) => timed(&|| fib_scope(n)),
            (n, false) => timed(&|| fib_join(n)),
        },
        "nqueens" => match (Queens::none(number("n")?), by_scope()?) {
            (none, true) => timed(&|| nqueens_scope(none)),
            (none, false) => timed(&|| nqueens_join(none, none.safe())),
        },
        "mandelbrot" => Ok(mandelbrot(number("N")?, number("C")?, number("K")?)),
        "matrix" => Ok(matrix(size("n")?, size("M")?)),
        "radix" => radix(size("N")?, size("T")?, number("r")?),
        "options" if request.args.text("by")? == "sequential" => sequential(request),
        "options" => options(request),
        _ => Err(request.not_offered("rayon's tasks must not block")),
    })
}

fn main() -> std::process::ExitCode {
    program::main(|request| {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(request.processors);
        let pool = builder.build().map_err(|e| format!("cannot start rayon's pool: {e}"))?;
        let outcome = pool.install(|| run(request))?;
        Ok((outcome, format!("num_threads={}, spawn is scope.spawn", request.processors)))
    })
}
