//! `options` as tasks; a promise is a oneshot channel.

use super::all;
use raddle_bench::bodies::shared::{Lattice, Values};
use raddle_bench::program::{Outcome, Request};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot::{self, Receiver};

/// For each row or column what its last block will give, if that has been spawned.
type Awaited = Vec<Option<Receiver<Values>>>;

pub async fn run(request: &Request) -> Result<Outcome, String> {
    let lattice = Arc::new(Lattice::new(&request.args)?);
    let start = Instant::now();
    // By column: what the block above takes from below; by row: what the block to the left takes from its right.
    let none = || (0..lattice.rows()).map(|_| None).collect();
    let (mut below, mut right): (Awaited, Awaited) = (none(), none());
    let mut tasks = Vec::with_capacity(lattice.rows() * (lattice.rows() + 1) / 2);
    for (row, column) in lattice.wavefront() {
        let (top_promise, top) = oneshot::channel();
        let (left_promise, left) = oneshot::channel();
        let (below, right) = (below[column].replace(top), right[row].replace(left));
        let lattice = lattice.clone();
        tasks.push(tokio::spawn(async move {
            let below = match below {
                Some(below) => below.await.unwrap(),
                None => lattice.leaves(column),
            };
            let right = match right {
                Some(right) => Some(right.await.unwrap()),
                None => None,
            };
            let (top, left) = lattice.block(row, column, below, right.as_deref());
            // Nobody wants the edges of the first column, nor the uppermost row's end.
            let _ = (top_promise.send(top), left_promise.send(left));
        }));
    }
    all(tasks).await;
    let time = start.elapsed();
    let root = below[0].take().ok_or("there is no block")?.await.map_err(|error| error.to_string())?;
    lattice.outcome(root[0], time, request.processors)
}
