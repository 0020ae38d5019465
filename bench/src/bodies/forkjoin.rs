//! Fork-join: a thread per node (`by=spawn`), a fork per node (`by=join`), or a scope per node with a piece of work per
//! child (`by=scope`).

use super::Api;
use crate::program::Outcome;
use std::time::Instant;

fn either(
    by: &str,
    spawn: impl FnOnce() -> u64,
    join: impl FnOnce() -> u64,
    scope: impl FnOnce() -> u64,
) -> Result<Outcome, String> {
    let start = Instant::now();
    let result = match by {
        "spawn" => spawn(),
        "join" => join(),
        "scope" => scope(),
        other => return Err(format!("by={other}: pass by=spawn, by=join or by=scope")),
    };
    Ok(Outcome::new(1, start.elapsed(), result))
}

pub(super) fn skynet<A: Api>(leaves: u64, by: &str) -> Result<Outcome, String> {
    let spawn = || A::join(A::spawn(move || skynet_spawn::<A>(0, leaves)));
    either(by, spawn, || skynet_join::<A>(0, leaves), || skynet_scope::<A>(0, leaves))
}

fn skynet_spawn<A: Api>(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    let part = leaves / 10;
    let children: Vec<_> =
        (0..10).map(|child| A::spawn(move || skynet_spawn::<A>(first + child * part, part))).collect();
    children.into_iter().map(A::join).sum()
}

fn skynet_join<A: Api>(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    children_join::<A>(first, leaves / 10, 10)
}

/// Halves the children until one is left, as a parallel iterator does.
fn children_join<A: Api>(first: u64, part: u64, children: u64) -> u64 {
    if children == 1 {
        return skynet_join::<A>(first, part);
    }
    let left = children / 2;
    let (a, b) = A::fork(
        || children_join::<A>(first, part, left),
        || children_join::<A>(first + left * part, part, children - left),
    );
    a + b
}

fn skynet_scope<A: Api>(first: u64, leaves: u64) -> u64 {
    if leaves <= 1 {
        return first;
    }
    let part = leaves / 10;
    let mut sums = [0; 10];
    let children = (0..).zip(&mut sums);
    A::scope(children, |(child, sum): (u64, &mut u64)| *sum = skynet_scope::<A>(first + child * part, part));
    sums.iter().sum()
}

pub(super) fn fib<A: Api>(n: u64, by: &str) -> Result<Outcome, String> {
    either(by, || fib_spawn::<A>(n), || fib_join::<A>(n), || fib_scope::<A>(n))
}

fn fib_spawn<A: Api>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = A::spawn(move || fib_spawn::<A>(n - 1));
    let right = fib_spawn::<A>(n - 2);
    A::join(left) + right
}

fn fib_join<A: Api>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = A::fork(|| fib_join::<A>(n - 1), || fib_join::<A>(n - 2));
    a + b
}

fn fib_scope<A: Api>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (mut left, mut right) = (0, 0);
    A::scope_beside(|| left = fib_scope::<A>(n - 1), || right = fib_scope::<A>(n - 2));
    left + right
}

/// The queens placed so far, as the columns and diagonals they attack in the next row.
///
/// ```
/// use raddle_bench::bodies::shared::Queens;
/// let first = Queens::none(4);
/// assert_eq!(first.safe(), 0b1111);
/// assert_eq!(first.place(0b0001).safe(), 0b1100);
/// ```
#[derive(Clone, Copy)]
pub struct Queens {
    board: u32,
    columns: u32,
    left: u32,
    right: u32,
}

impl Queens {
    /// The empty board of `n` rows and columns, at most 31.
    pub fn none(n: u64) -> Queens {
        Queens { board: (1 << n.min(31)) - 1, columns: 0, left: 0, right: 0 }
    }

    /// The columns of the next row that no queen attacks, one bit each.
    pub fn safe(self) -> u32 {
        self.board & !(self.columns | self.left | self.right)
    }

    /// All queens are placed.
    pub fn done(self) -> bool {
        self.columns == self.board
    }

    /// With a queen in the column of `bit`.
    #[must_use]
    pub fn place(self, bit: u32) -> Queens {
        Queens { columns: self.columns | bit, left: (self.left | bit) << 1, right: (self.right | bit) >> 1, ..self }
    }
}

/// Takes the lowest bit out of `bits`.
pub fn lowest_bit(bits: &mut u32) -> Option<u32> {
    let bit = *bits & bits.wrapping_neg();
    *bits &= !bit;
    (bit != 0).then_some(bit)
}

pub(super) fn nqueens<A: Api>(n: u64, by: &str) -> Result<Outcome, String> {
    let none = Queens::none(n);
    let join = || nqueens_join::<A>(none, none.safe());
    either(by, || nqueens_spawn::<A>(none), join, || nqueens_scope::<A>(none))
}

fn nqueens_spawn<A: Api>(queens: Queens) -> u64 {
    if queens.done() {
        return 1;
    }
    let mut safe = queens.safe();
    let threads: Vec<_> = std::iter::from_fn(|| lowest_bit(&mut safe))
        .map(|bit| A::spawn(move || nqueens_spawn::<A>(queens.place(bit))))
        .collect();
    threads.into_iter().map(A::join).sum()
}

fn nqueens_scope<A: Api>(queens: Queens) -> u64 {
    if queens.done() {
        return 1;
    }
    let mut safe = queens.safe();
    let mut sums = vec![0; safe.count_ones() as usize];
    let children = sums.iter_mut().zip(std::iter::from_fn(|| lowest_bit(&mut safe)));
    A::scope(children, |(sum, bit)| *sum = nqueens_scope::<A>(queens.place(bit)));
    sums.iter().sum()
}

/// The solutions below the safe placements `safe` of `queens`; halves them until one is left.
fn nqueens_join<A: Api>(queens: Queens, safe: u32) -> u64 {
    if queens.done() {
        return 1;
    }
    match safe.count_ones() {
        0 => 0,
        1 => {
            let next = queens.place(safe);
            nqueens_join::<A>(next, next.safe())
        }
        count => {
            let mut right = safe;
            let mut left = 0;
            for _ in 0..count / 2 {
                left |= lowest_bit(&mut right).unwrap_or(0);
            }
            let (a, b) = A::fork(|| nqueens_join::<A>(queens, left), || nqueens_join::<A>(queens, right));
            a + b
        }
    }
}
