//! What the N-body program does, body by body: computed once, and then run on simulated processors.
//!
//! Source: J. Barnes and P. Hut, *A Hierarchical O(N log N) Force-Calculation Algorithm*, 1986: a tree of cubes, each
//! with its centre of mass; a cube whose size over its distance is below the opening angle counts as one body.

/// What one body asks for in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Cells from the root to its leaf.
    pub depth: u64,
    /// Forces that are computed for it: of cells and of bodies.
    pub forces: u64,
    /// The blocks of the bodies among these, each once, its own first.
    pub blocks: Vec<usize>,
}

/// Steps of bodies.
pub struct Trace {
    /// What each body asks for, by step.
    pub steps: Vec<Vec<Visit>>,
    /// How many blocks the bodies lie in.
    pub blocks: usize,
}

const ANGLE: f64 = 0.8;
const TIME_STEP: f64 = 0.01;
/// Keeps forces finite.
const SOFTENING: f64 = 1e-3;
const DEEPEST: u64 = 40;

type Point = [f64; 3];

#[derive(Clone)]
struct Cell {
    centre: Point,
    half: f64,
    mass: f64,
    /// Sum of mass times place.
    moment: Point,
    body: Option<usize>,
    children: [usize; 8],
}

const NONE: usize = usize::MAX;

struct Tree<'a> {
    cells: Vec<Cell>,
    places: &'a [Point],
}

impl Tree<'_> {
    fn cell(centre: Point, half: f64) -> Cell {
        Cell { centre, half, mass: 0.0, moment: [0.0; 3], body: None, children: [NONE; 8] }
    }

    fn octant(cell: &Cell, place: Point) -> usize {
        (0..3).map(|axis| usize::from(place[axis] > cell.centre[axis]) << axis).sum()
    }

    fn child(&mut self, cell: usize, octant: usize) -> usize {
        let known = self.cells[cell].children[octant];
        if known != NONE {
            return known;
        }
        let half = self.cells[cell].half / 2.0;
        let side = |axis: usize| if octant >> axis & 1 == 1 { half } else { -half };
        let of = self.cells[cell].centre;
        self.cells.push(Self::cell([0, 1, 2].map(|axis| of[axis] + side(axis)), half));
        let new = self.cells.len() - 1;
        self.cells[cell].children[octant] = new;
        new
    }

    /// Puts a body in; how deep it came.
    fn insert(&mut self, body: usize) -> u64 {
        let place = self.places[body];
        let (mut cell, mut depth) = (0, 1);
        loop {
            let at = &mut self.cells[cell];
            let was_empty = at.mass == 0.0;
            at.mass += 1.0;
            (0..3).for_each(|axis| at.moment[axis] += place[axis]);
            if was_empty || depth == DEEPEST {
                at.body = Some(body);
                return depth;
            }
            if let Some(other) = at.body.take() {
                // The one that was alone here goes one down.
                let octant = Self::octant(at, self.places[other]);
                let down = self.child(cell, octant);
                let below = &mut self.cells[down];
                below.mass = 1.0;
                below.moment = self.places[other];
                below.body = Some(other);
            }
            let octant = Self::octant(&self.cells[cell], place);
            cell = self.child(cell, octant);
            depth += 1;
        }
    }

    /// The force on a body, how many were computed for it, and of which bodies.
    fn force(&self, body: usize) -> (Point, u64, Vec<usize>) {
        let place = self.places[body];
        let (mut sum, mut count, mut near) = ([0.0; 3], 0, Vec::new());
        let mut open = vec![0];
        while let Some(cell) = open.pop() {
            let cell = &self.cells[cell];
            if cell.body == Some(body) {
                continue;
            }
            let away = [0, 1, 2].map(|axis| cell.moment[axis] / cell.mass - place[axis]);
            let square = away.iter().map(|d| d * d).sum::<f64>() + SOFTENING;
            if cell.body.is_none() && 4.0 * cell.half * cell.half >= ANGLE * ANGLE * square {
                open.extend(cell.children.iter().copied().filter(|&child| child != NONE));
                continue;
            }
            near.extend(cell.body);
            count += 1;
            let pull = cell.mass / (square * square.sqrt());
            (0..3).for_each(|axis| sum[axis] += away[axis] * pull);
        }
        (sum, count, near)
    }
}

/// A word after another one, equally likely.
struct Random(u64);

impl Random {
    /// From -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Where the bodies are: dense in the middle, near ones with near numbers, so that blocks are places.
fn bodies(count: usize) -> Vec<Point> {
    let mut random = Random(7);
    let mut places: Vec<Point> = (0..count)
        .map(|_| {
            let direction = [(); 3].map(|()| random.next());
            let far = random.next();
            direction.map(|d| d * far * far)
        })
        .collect();
    // By the bits of the coordinates in turns, the highest first.
    let key = |place: &Point| {
        let whole = place.map(|d| ((d + 1.0) / 2.0 * 1023.0) as u64);
        (0..10).rev().fold(0u64, |key, bit| (0..3).fold(key, |key, axis| key << 1 | whole[axis] >> bit & 1))
    };
    places.sort_by_key(key);
    places
}

/// So many bodies in blocks of `block`, for so many steps.
pub fn trace(count: usize, block: usize, steps: usize) -> Trace {
    let mut places = bodies(count);
    let mut speeds = vec![[0.0; 3]; count];
    let mut all = Vec::new();
    for _ in 0..steps {
        let half = places.iter().flatten().fold(1.0f64, |most, d| most.max(d.abs()));
        let mut tree = Tree { cells: vec![Tree::cell([0.0; 3], half)], places: &places };
        let depths: Vec<u64> = (0..count).map(|body| tree.insert(body)).collect();
        let pulled: Vec<_> = (0..count).map(|body| tree.force(body)).collect();
        let visit = |(body, (_, forces, near)): (usize, &(Point, u64, Vec<usize>))| {
            let mut blocks = vec![body / block];
            for near in near {
                if !blocks.contains(&(near / block)) {
                    blocks.push(near / block);
                }
            }
            Visit { depth: depths[body], forces: *forces, blocks }
        };
        all.push(pulled.iter().enumerate().map(visit).collect());
        for (body, (force, ..)) in pulled.iter().enumerate() {
            for axis in 0..3 {
                speeds[body][axis] += force[axis] / count as f64 * TIME_STEP;
                places[body][axis] += speeds[body][axis] * TIME_STEP;
            }
        }
    }
    Trace { steps: all, blocks: count.div_ceil(block) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_bodies_are_taken_together_and_the_force_is_nearly_that_of_all() {
        let places = bodies(500);
        let mut tree = Tree { cells: vec![Tree::cell([0.0; 3], 1.0)], places: &places };
        (0..500).for_each(|body| _ = tree.insert(body));
        assert_eq!(tree.cells[0].mass, 500.0);
        let mut wrong: Vec<f64> = (0..500)
            .map(|body| {
                let (force, count, _) = tree.force(body);
                assert!(count < 400, "{count}");
                let mut all = [0.0; 3];
                for (other, place) in places.iter().enumerate().filter(|(other, _)| *other != body) {
                    let away = [0, 1, 2].map(|axis| place[axis] - places[body][axis]);
                    let square = away.iter().map(|d| d * d).sum::<f64>() + SOFTENING;
                    let _ = other;
                    (0..3).for_each(|axis| all[axis] += away[axis] / (square * square.sqrt()));
                }
                let size = |point: Point| point.iter().map(|d| d * d).sum::<f64>().sqrt();
                size([0, 1, 2].map(|axis| force[axis] - all[axis])) / size(all)
            })
            .collect();
        wrong.sort_by(f64::total_cmp);
        assert!(wrong[250] < 0.03, "{}", wrong[250]);
    }

    #[test]
    fn blocks_are_places() {
        let trace = trace(1_024, 16, 1);
        let blocks: usize = trace.steps[0].iter().map(|visit| visit.blocks.len()).sum();
        // Far fewer than all 64.
        assert!(blocks / 1_024 < 25, "{}", blocks / 1_024);
    }
}
