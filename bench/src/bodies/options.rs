//! `options`: the price of an American put in a binomial lattice, in blocks whose threads await the promises of their
//! predecessors.
//!
//! Level l of the lattice has the nodes 0 to l; the value of a node follows from those of the nodes with its number and
//! the next one at the level below. A block is `block` levels times `block` nodes; it takes the row below it (with one
//! value more) from one predecessor and the left edge of the block to its right from the other, and gives its uppermost
//! row and its own left edge.

use super::Api;
use crate::args::Args;
use crate::program::{Outcome, Request};
use std::time::{Duration, Instant};

const SPOT: f64 = 100.0;
const STRIKE: f64 = 105.0;
const RATE: f64 = 0.05;
const VOLATILITY: f64 = 0.2;
const YEARS: f64 = 1.0;

/// The values of a block's row, or of its left edge.
pub type Values = Vec<f64>;

/// What all blocks share.
#[derive(Debug)]
pub struct Lattice {
    levels: usize,
    block: usize,
    /// What exercising gains at the even and at the odd powers of the factor up, from the lowest.
    gains: [Values; 2],
    up: f64,
    down: f64,
}

impl Lattice {
    /// The lattice of a request.
    pub fn new(args: &Args) -> Result<Lattice, String> {
        let size = |key: &str| args.number(key).map(|n| n as usize);
        let (levels, block) = (size("n")?, size("B")?);
        if block == 0 || levels == 0 || !levels.is_multiple_of(2 * block) || levels > 1 << 20 {
            return Err(format!("n={levels} is not an even multiple of B={block} up to a million"));
        }
        let step = YEARS / levels as f64;
        let factor = (VOLATILITY * step.sqrt()).exp();
        let growth = (RATE * step).exp();
        let probability = (growth - 1.0 / factor) / (factor - 1.0 / factor);
        let half = levels as i64 / 2;
        let gains = [0, 1].map(|odd| {
            let gain = |k: i64| STRIKE - SPOT * (VOLATILITY * step.sqrt() * (2 * k + odd) as f64).exp();
            (-half - 1..=half).map(gain).collect()
        });
        Ok(Lattice { levels, block, gains, up: probability / growth, down: (1.0 - probability) / growth })
    }

    /// How many rows of blocks there are; row r has r + 1.
    pub fn rows(&self) -> usize {
        self.levels / self.block
    }

    /// All blocks, row and column, in an order in which those that can be computed at the same time come together.
    pub fn wavefront(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let last = self.rows() - 1;
        (0..=2 * last).flat_map(move |wave| {
            let rows = (last.saturating_sub(wave)..=last).rev();
            rows.filter_map(move |row| {
                Some((row, (2 * last).checked_sub(wave + row)?)).filter(|(row, column)| column <= row)
            })
        })
    }

    /// What exercising gains at a level, from this node on.
    #[inline]
    fn gains(&self, level: usize, node: usize) -> &[f64] {
        let lowest = self.levels / 2 + 1 - level.div_ceil(2);
        &self.gains[level % 2][lowest + node..]
    }

    #[inline]
    fn step(&self, row: &mut [f64], level: usize, node: usize, width: usize) {
        let gains = &self.gains(level, node)[..width];
        let row = &mut row[..width + 1];
        for (at, &gain) in gains.iter().enumerate() {
            let kept = self.up * row[at + 1] + self.down * row[at];
            row[at] = if kept > gain { kept } else { gain };
        }
    }

    /// The row below the lowest blocks.
    pub fn leaves(&self, column: usize) -> Values {
        let gains = self.gains(self.levels, column * self.block);
        gains[..=self.block].iter().map(|&gain| gain.max(0.0)).collect()
    }

    /// Computes a block; `right` is there for all but the last of a row. Gives its uppermost row and its left edge.
    pub fn block(&self, row: usize, column: usize, below: Values, right: Option<&[f64]>) -> (Values, Values) {
        let mut values = below;
        let mut left = Vec::with_capacity(self.block);
        for step in 0..self.block {
            let level = (row + 1) * self.block - 1 - step;
            let width = if right.is_some() { self.block } else { self.block - step };
            self.step(&mut values, level, column * self.block, width);
            left.push(values[0]);
            if let Some(right) = right {
                values[self.block] = right[step];
            }
        }
        (values, left)
    }

    /// Level by level, without blocks.
    pub fn by_levels(&self) -> f64 {
        let mut values: Values = self.gains(self.levels, 0)[..=self.levels].iter().map(|&gain| gain.max(0.0)).collect();
        for level in (0..self.levels).rev() {
            self.step(&mut values, level, 0, level + 1);
        }
        values[0]
    }

    /// Block by block, on one thread.
    pub fn by_blocks(&self) -> f64 {
        let mut rows: Vec<Values> = (0..self.rows()).map(|column| self.leaves(column)).collect();
        for row in (0..self.rows()).rev() {
            let mut edge = None;
            for column in (0..=row).rev() {
                let below = std::mem::take(&mut rows[column]);
                let (top, left) = self.block(row, column, below, edge.as_deref());
                rows[column] = top;
                edge = Some(left);
            }
        }
        rows[0][0]
    }

    /// The time of as many sequential programs as there are processors, each on a kernel thread of its own, side by
    /// side.
    fn side_by_side(&self, processors: usize) -> Duration {
        let start = Instant::now();
        std::thread::scope(|scope| {
            (0..processors).for_each(|_| drop(scope.spawn(|| std::hint::black_box(self.by_levels()))));
        });
        start.elapsed()
    }

    /// Holds the price against the sequential program's, and says how much faster it was found than by the better of
    /// the two sequential ways. The ceiling is how much faster than one by one the processors run sequential programs
    /// that have nothing to do with each other: where cores share what computes, it is less than their number, and no
    /// runtime can do better by much.
    pub fn outcome(&self, price: f64, time: Duration, processors: usize) -> Result<Outcome, String> {
        let timed = |way: &dyn Fn() -> f64| {
            let start = Instant::now();
            (way(), start.elapsed())
        };
        let (by_levels, by_blocks) = (timed(&|| self.by_levels()), timed(&|| self.by_blocks()));
        let sequential = by_levels.1.min(by_blocks.1);
        for other in [by_levels.0, by_blocks.0] {
            if (price - other).abs() > 1e-9 || !price.is_finite() {
                return Err(format!("the price is {price}, but {other} is right"));
            }
        }
        let times_faster = |time: Duration| sequential.as_secs_f64() / time.as_secs_f64();
        Ok(Outcome::new(1, time, millionths(price))
            .with("speed_up", times_faster(time))
            .with("ceiling", processors as f64 * times_faster(self.side_by_side(processors)))
            .with("by_levels_ns", by_levels.1.as_nanos() as u64)
            .with("by_blocks_ns", by_blocks.1.as_nanos() as u64))
    }
}

fn millionths(price: f64) -> u64 {
    (price * 1e6).round() as u64
}

/// The price in millionths, by the sequential program.
pub(crate) fn expected(args: &Args) -> Option<u64> {
    Some(millionths(Lattice::new(args).ok()?.by_levels()))
}

/// The sequential way, as a runtime of its own.
pub fn sequential(request: &Request) -> Result<Outcome, String> {
    let lattice = Lattice::new(&request.args)?;
    let start = Instant::now();
    let price = lattice.by_levels();
    lattice.outcome(price, start.elapsed(), request.processors)
}

/// For each row or column what its last block will give, if that has been spawned.
type Awaited<A> = Vec<Option<<A as Api>::Future<Values>>>;

pub(super) fn run<A: Api>(request: &Request) -> Result<Outcome, String> {
    let lattice: std::sync::Arc<Lattice> = Lattice::new(&request.args)?.into();
    let start = Instant::now();
    // By column: what the block above takes from below; by row: what the block to the left takes from its right.
    let none = || (0..lattice.rows()).map(|_| None).collect();
    let (mut below, mut right): (Awaited<A>, Awaited<A>) = (none(), none());
    let mut threads = Vec::with_capacity(lattice.rows() * (lattice.rows() + 1) / 2);
    for (row, column) in lattice.wavefront() {
        let (top_promise, top) = A::promise();
        let (left_promise, left) = A::promise();
        let (below, right) = (below[column].replace(top), right[row].replace(left));
        let lattice = lattice.clone();
        threads.push(A::spawn(move || {
            let below = below.map_or_else(|| lattice.leaves(column), A::get);
            let right = right.map(A::get);
            let (top, left) = lattice.block(row, column, below, right.as_deref());
            A::set(top_promise, top);
            A::set(left_promise, left);
        }));
    }
    threads.into_iter().for_each(A::join);
    let time = start.elapsed();
    let root = below[0].take().map(A::get);
    root.map_or(Err("there is no block".into()), |root| lattice.outcome(root[0], time, request.processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice(n: &str, block: &str) -> Lattice {
        Lattice::new(&Args::parse([n, block]).unwrap()).unwrap()
    }

    #[test]
    fn blocks_of_any_size_give_the_price_by_levels() {
        for (n, block) in [("n=64", "B=1"), ("n=64", "B=8"), ("n=64", "B=32"), ("n=512", "B=128")] {
            let lattice = lattice(n, block);
            assert!((lattice.by_levels() - lattice.by_blocks()).abs() < 1e-12, "{n} {block}");
        }
    }

    #[test]
    fn the_price_is_that_of_the_literal_recursion() {
        fn value(level: i32, node: i32, levels: i32) -> f64 {
            let step = YEARS / f64::from(levels);
            let factor = (VOLATILITY * step.sqrt()).exp();
            let gain = STRIKE - SPOT * factor.powi(2 * node - level);
            if level == levels {
                return gain.max(0.0);
            }
            let probability = ((RATE * step).exp() - 1.0 / factor) / (factor - 1.0 / factor);
            let up = value(level + 1, node + 1, levels);
            let down = value(level + 1, node, levels);
            gain.max((-RATE * step).exp() * (probability * up + (1.0 - probability) * down))
        }
        assert!((lattice("n=12", "B=3").by_blocks() - value(0, 0, 12)).abs() < 1e-9);
    }

    #[test]
    fn the_wavefront_has_each_block_once_and_behind_its_predecessors() {
        let lattice = lattice("n=80", "B=8");
        let order: Vec<_> = lattice.wavefront().collect();
        let place = |block| order.iter().position(|&other| other == block);
        assert_eq!(order.len(), 55);
        for row in 0..10 {
            for column in 0..=row {
                let here = place((row, column)).unwrap();
                assert!(row == 9 || place((row + 1, column)).unwrap() < here);
                assert!(column == row || place((row, column + 1)).unwrap() < here);
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for (n, block) in [("n=64", "B=0"), ("n=0", "B=1"), ("n=65", "B=8"), ("n=8", "B=8")] {
            assert!(Lattice::new(&Args::parse([n, block]).unwrap()).is_err(), "{n} {block}");
        }
    }
}
