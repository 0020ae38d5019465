//! `nbody`: Barnes-Hut on threads of a few bodies each, with a tree behind one lock and a buffer cache whose misses
//! block in the kernel where nothing tells the runtime.
//!
//! Sources: J. Barnes and P. Hut, *A Hierarchical O(N log N) Force-Calculation Algorithm*, 1986; the load is that of
//! T. E. Anderson et al., "Scheduler Activations" (1991), section 5.3. Places are whole numbers, so that sums do not
//! depend on the order in which bodies come into the tree, and all runtimes end with the same places.

use super::Api;
use crate::args::Args;
use crate::program::Outcome;
use rustix::thread::{NanosleepRelativeResult, Timespec, nanosleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ANGLE: f64 = 0.8;
const TIME_STEP: f64 = 0.05;
/// Keeps forces finite.
const SOFTENING: f64 = 1e-3;
/// The cube of all bodies reaches so far from its middle.
const HALF: i64 = 1 << 30;
const UNIT: f64 = HALF as f64;
const DEEPEST: u32 = 24;
const NONE: u32 = u32::MAX;

type Place = [i64; 3];

#[derive(Clone, Copy)]
struct Cell {
    bodies: i64,
    /// The sum of their places.
    moment: Place,
    /// The only one.
    body: u32,
    children: [u32; 8],
}

const EMPTY: Cell = Cell { bodies: 0, moment: [0; 3], body: NONE, children: [NONE; 8] };

/// The bodies' tree: a cell is a cube.
struct Tree(Vec<Cell>);

impl Tree {
    fn new() -> Self {
        Self(vec![EMPTY])
    }

    fn child(&mut self, cell: usize, octant: usize) -> usize {
        if self.0[cell].children[octant] == NONE {
            self.0[cell].children[octant] = self.0.len() as u32;
            self.0.push(EMPTY);
        }
        self.0[cell].children[octant] as usize
    }

    fn insert(&mut self, body: u32, places: &[Place]) {
        let place = places[body as usize];
        let (mut cell, mut centre, mut half) = (0, [0; 3], HALF);
        for depth in 0.. {
            let at = &mut self.0[cell];
            at.bodies += 1;
            (0..3).for_each(|axis| at.moment[axis] += place[axis]);
            if at.bodies == 1 {
                at.body = body;
            }
            if at.bodies == 1 || depth == DEEPEST {
                if at.bodies > 1 {
                    at.body = NONE;
                }
                return;
            }
            let other = std::mem::replace(&mut at.body, NONE);
            if other != NONE {
                // The one that was alone here goes one down.
                let place = places[other as usize];
                let down = self.child(cell, octant(centre, place));
                self.0[down] = Cell { bodies: 1, moment: place, body: other, ..EMPTY };
            }
            let octant = octant(centre, place);
            cell = self.child(cell, octant);
            half /= 2;
            (0..3).for_each(|axis| centre[axis] += if octant >> axis & 1 == 1 { half } else { -half });
        }
    }

    /// The force on a body; `near` is told of each other body that it was computed for alone.
    fn force(&self, body: u32, places: &[Place], near: &mut dyn FnMut(u32)) -> [f64; 3] {
        let place = places[body as usize];
        let mut sum = [0.0; 3];
        let mut open = vec![(0usize, 2.0)];
        while let Some((number, size)) = open.pop() {
            let cell = &self.0[number];
            if cell.body == body {
                continue;
            }
            let count = cell.bodies as f64;
            let away = [0, 1, 2].map(|axis| (cell.moment[axis] as f64 / count - place[axis] as f64) / UNIT);
            let square = away.iter().map(|d| d * d).sum::<f64>() + SOFTENING;
            let leaf = cell.body != NONE || cell.children == [NONE; 8];
            if !leaf && size * size >= ANGLE * ANGLE * square {
                let children = cell.children.iter().filter(|&&child| child != NONE);
                open.extend(children.map(|&child| (child as usize, size / 2.0)));
                continue;
            }
            if cell.body != NONE {
                near(cell.body);
            }
            let pull = count / (square * square.sqrt());
            (0..3).for_each(|axis| sum[axis] += away[axis] * pull);
        }
        sum
    }
}

fn octant(centre: Place, place: Place) -> usize {
    (0..3).map(|axis| usize::from(place[axis] > centre[axis]) << axis).sum()
}

/// Where the bodies are at first: dense in the middle, near ones with near numbers, so that blocks are places.
fn beginning(count: usize) -> Vec<Place> {
    let mut word = 7u64;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let mut place = || {
        let direction = [next(), next(), next()];
        let far = next();
        direction.map(|d| (d * far * far * 0.9 * UNIT) as i64)
    };
    let mut places: Vec<Place> = (0..count).map(|_| place()).collect();
    let key = |place: &Place| {
        (0..10).fold(0u64, |key, bit| {
            (0..3).fold(key, |key, axis| key << 1 | ((place[axis] + HALF) >> (30 - bit)) as u64 & 1)
        })
    };
    places.sort_by_key(key);
    places
}

/// Where a body is after a step.
fn moved(place: Place, speed: &mut [f64; 3], force: [f64; 3], count: usize) -> Place {
    let mut one = |axis: usize| {
        speed[axis] += force[axis] / count as f64 * TIME_STEP;
        let to = place[axis] as f64 + speed[axis] * TIME_STEP * UNIT;
        to.clamp(-UNIT + 1.0, UNIT - 1.0) as i64
    };
    let mut to = [0; 3];
    (0..3).for_each(|axis| to[axis] = one(axis));
    to
}

fn sum_of(places: &[Place]) -> u64 {
    places.iter().flatten().fold(0u64, |sum, &place| sum.wrapping_mul(31).wrapping_add(place as u64))
}

/// Without threads and without misses: the checksum.
pub fn sequential(count: u64, steps: u64) -> Option<u64> {
    // Beyond this nobody runs it.
    let count = usize::try_from(count).ok().filter(|count| *count <= 200_000 && steps <= 100)?;
    let (mut places, mut speeds) = (beginning(count), vec![[0.0; 3]; count]);
    for _ in 0..steps {
        let mut tree = Tree::new();
        (0..count as u32).for_each(|body| tree.insert(body, &places));
        let forces: Vec<_> = (0..count as u32).map(|body| tree.force(body, &places, &mut |_| ())).collect();
        for (body, force) in forces.into_iter().enumerate() {
            places[body] = moved(places[body], &mut speeds[body], force, count);
        }
    }
    Some(sum_of(&places))
}

/// Which blocks of bodies are in memory.
struct Cache {
    /// When each is there; `None` if nobody has asked for it.
    there: Vec<Option<Instant>>,
    held: Vec<usize>,
    room: usize,
    random: u64,
}

impl Cache {
    fn new(blocks: usize, percent: u64) -> Self {
        let room = (blocks as u64 * percent.min(100)).div_ceil(100).max(1) as usize;
        let now = Instant::now();
        let there = (0..blocks).map(|block| (block < room).then_some(now)).collect();
        Self { there, held: (0..room.min(blocks)).collect(), room, random: 1 }
    }

    /// How long the caller is to wait for a block, and whether it was a miss.
    fn ask(&mut self, block: usize, miss: Duration) -> (Duration, bool) {
        let now = Instant::now();
        if let Some(there) = self.there[block] {
            return (there.saturating_duration_since(now), false);
        }
        while self.held.len() >= self.room {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let out = (self.random >> 33) as usize % self.held.len();
            let out = self.held.swap_remove(out);
            self.there[out] = None;
        }
        self.held.push(block);
        self.there[block] = Some(now + miss);
        (miss, true)
    }
}

/// A system call that neither the C library nor the runtime sees.
fn block_in_the_kernel(time: Duration) {
    let mut left = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    while let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left) {
        left = rest;
    }
}

/// What all threads share.
struct Shared<A: Api> {
    cache: A::Mutex<Cache>,
    block: usize,
    miss: Duration,
    misses: AtomicU64,
    /// Nanoseconds that threads were blocked.
    blocked: AtomicU64,
    again: u64,
}

impl<A: Api> Shared<A> {
    fn need(&self, body: u32) {
        let (wait, missed) = A::lock(&self.cache).ask(body as usize / self.block, self.miss);
        if missed {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        if !wait.is_zero() {
            block_in_the_kernel(wait);
            self.blocked.fetch_add(wait.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// Threads of `chunk` bodies each, and what they return.
fn each_chunk<A: Api, T: Send + 'static>(
    count: usize,
    chunk: usize,
    of: impl Fn(std::ops::Range<u32>) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = (0..count.div_ceil(chunk))
        .map(|part| {
            let (of, bodies) = (of.clone(), (part * chunk) as u32..count.min((part + 1) * chunk) as u32);
            A::spawn(move || of(bodies))
        })
        .collect();
    threads.into_iter().map(A::join).collect()
}

pub(super) fn run<A: Api>(args: &Args) -> Result<Outcome, String> {
    let size = |key: &str| args.number(key).and_then(|n| usize::try_from(n).map_err(|e| format!("{key}={n}: {e}")));
    let (count, steps, chunk, block) = (size("N")?, size("steps")?, size("chunk")?, size("block")?);
    if [count, chunk, block].contains(&0) || count > NONE as usize {
        return Err("N, chunk and block are at least 1".into());
    }
    let blocks = count.div_ceil(block);
    let shared = Arc::new(Shared::<A> {
        cache: A::mutex(Cache::new(blocks, args.number("memory")?)),
        block,
        miss: Duration::from_micros(args.number("miss_us")?),
        misses: AtomicU64::new(0),
        blocked: AtomicU64::new(0),
        again: args.number("again")?,
    });
    let (mut places, mut speeds) = (Arc::new(beginning(count)), vec![[0.0; 3]; count]);
    let start = Instant::now();
    for _ in 0..steps {
        let tree = Arc::new(A::mutex(Tree::new()));
        let build = {
            let (tree, places, shared) = (tree.clone(), places.clone(), shared.clone());
            move |bodies: std::ops::Range<u32>| {
                for body in bodies {
                    shared.need(body);
                    A::lock(&tree).insert(body, &places);
                }
            }
        };
        each_chunk::<A, ()>(count, chunk, build);
        let tree = Arc::new(std::mem::replace(&mut *A::lock(&tree), Tree::new()));
        let pull = {
            let (tree, places, shared) = (tree, places.clone(), shared.clone());
            move |bodies: std::ops::Range<u32>| -> Vec<[f64; 3]> {
                bodies.map(|body| pulled(&tree, body, &places, &shared)).collect()
            }
        };
        let forces = each_chunk::<A, _>(count, chunk, pull).concat();
        let next = (0..count).map(|body| moved(places[body], &mut speeds[body], forces[body], count)).collect();
        places = Arc::new(next);
    }
    let time = start.elapsed();
    let in_kernel = shared.blocked.load(Ordering::Relaxed) as f64;
    Ok(Outcome::new(1, time, sum_of(&places))
        .with("misses", shared.misses.load(Ordering::Relaxed))
        .with("overlap", in_kernel / time.as_nanos() as f64))
}

/// The force on a body, with its data and that of those near it in memory.
fn pulled<A: Api>(tree: &Tree, body: u32, places: &[Place], shared: &Shared<A>) -> [f64; 3] {
    shared.need(body);
    let mut seen = vec![body as usize / shared.block];
    let force = tree.force(body, places, &mut |near| {
        let block = near as usize / shared.block;
        if !seen.contains(&block) {
            seen.push(block);
            shared.need(near);
        }
    });
    for _ in 0..shared.again {
        std::hint::black_box(tree.force(std::hint::black_box(body), places, &mut |_| ()));
    }
    force
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_does_not_depend_on_the_order_and_its_forces_are_nearly_those_of_all() {
        let places = beginning(400);
        let [mut one, mut other] = [Tree::new(), Tree::new()];
        (0..400).for_each(|body| one.insert(body, &places));
        (0..400).rev().for_each(|body| other.insert(body, &places));
        let mut wrong = Vec::new();
        for body in 0..400 {
            let force = one.force(body, &places, &mut |_| ());
            assert_eq!(force, other.force(body, &places, &mut |_| ()));
            let mut all = [0.0; 3];
            for place in places.iter().filter(|place| **place != places[body as usize]) {
                let away = [0, 1, 2].map(|axis| (place[axis] - places[body as usize][axis]) as f64 / UNIT);
                let square = away.iter().map(|d| d * d).sum::<f64>() + SOFTENING;
                (0..3).for_each(|axis| all[axis] += away[axis] / (square * square.sqrt()));
            }
            let size = |point: [f64; 3]| point.iter().map(|d| d * d).sum::<f64>().sqrt();
            wrong.push(size([0, 1, 2].map(|axis| force[axis] - all[axis])) / size(all));
        }
        wrong.sort_by(f64::total_cmp);
        assert!(wrong[200] < 0.05, "{}", wrong[200]);
    }

    #[test]
    fn a_cache_misses_what_it_does_not_hold() {
        let mut cache = Cache::new(4, 50);
        let miss = Duration::from_secs(9);
        assert_eq!([cache.ask(0, miss).1, cache.ask(1, miss).1], [false, false]);
        assert_eq!(cache.ask(3, miss), (miss, true));
        let (wait, missed) = cache.ask(3, miss);
        assert!(!missed && wait > Duration::from_secs(5), "the second one waits with the first: {wait:?}");
        assert_eq!(cache.held.len(), 2);
    }
}
