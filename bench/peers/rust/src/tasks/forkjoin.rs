//! Fork-join as a task per node, and radix sort.

use super::{all, joined};
use raddle_bench::bodies::shared::{Queens, check_sorted, histogram, lowest_bit, permute, prefix_sums, prepare};
use raddle_bench::program::Outcome;
use std::pin::Pin;
use std::time::Instant;

/// A task that spawns its like needs a boxed future.
type Node = Pin<Box<dyn Future<Output = u64> + Send>>;

async fn timed(root: Node) -> Outcome {
    let start = Instant::now();
    let sum = joined(tokio::spawn(root)).await;
    Outcome::new(1, start.elapsed(), sum)
}

pub async fn skynet(leaves: u64) -> Outcome {
    timed(skynet_node(0, leaves)).await
}

fn skynet_node(first: u64, leaves: u64) -> Node {
    Box::pin(async move {
        if leaves <= 1 {
            return first;
        }
        let part = leaves / 10;
        let children = (0..10).map(|child| tokio::spawn(skynet_node(first + child * part, part))).collect();
        all(children).await.iter().sum()
    })
}

pub async fn fib(n: u64) -> Outcome {
    timed(fib_node(n)).await
}

fn fib_node(n: u64) -> Node {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let left = tokio::spawn(fib_node(n - 1));
        let right = fib_node(n - 2).await;
        joined(left).await + right
    })
}

pub async fn nqueens(n: u64) -> Outcome {
    timed(nqueens_node(Queens::none(n))).await
}

fn nqueens_node(queens: Queens) -> Node {
    Box::pin(async move {
        if queens.done() {
            return 1;
        }
        let mut safe = queens.safe();
        let children = std::iter::from_fn(|| lowest_bit(&mut safe))
            .map(|bit| tokio::spawn(nqueens_node(queens.place(bit))))
            .collect();
        all(children).await.iter().sum()
    })
}

pub async fn radix(n: usize, tasks: usize, bits: u64) -> Result<Outcome, String> {
    let generation = Instant::now();
    let (mut from, mut to, part) = prepare(n, tasks, bits)?;
    let generation = generation.elapsed();
    let bits = bits as u32;
    let start = Instant::now();
    for shift in (0..32).step_by(bits as usize) {
        let counters = (0..tasks)
            .map(|t| {
                let from = from.clone();
                tokio::spawn(async move { histogram(&from[t * part..(t + 1) * part], shift, bits) })
            })
            .collect();
        let mut places = all(counters).await;
        prefix_sums(&mut places);
        let movers = places
            .into_iter()
            .enumerate()
            .map(|(t, mut places)| {
                let (from, to) = (from.clone(), to.clone());
                tokio::spawn(async move {
                    permute(&from[t * part..(t + 1) * part], &to, &mut places, shift, bits);
                })
            })
            .collect();
        all(movers).await;
        std::mem::swap(&mut from, &mut to);
    }
    let time = start.elapsed();
    Ok(Outcome::new(1, time, check_sorted(&from)?).with("generation_ns", generation.as_nanos() as u64))
}
