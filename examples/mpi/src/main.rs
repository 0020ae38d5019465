//! A stencil over the ranks: so many tiles a rank, a thread each. Tiles exchange their edges with those above and below
//! by blocking calls, on the same rank or not.
//!
//! ```text
//! cargo build --release
//! mpirun -n 2 raddle run --mpi -- target/release/raddle-example-mpi TILES ROWS COLUMNS STEPS
//! ```
//!
//! Prints a hash of all cells, which depends on the size and the steps alone: `examples/c/stencil.c` prints the same.
//! The time of a step goes to standard error.

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::traits::*;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// What all tiles are dealt out of.
#[derive(Clone, Copy)]
struct Shape {
    ranks: usize,
    tiles: usize,
    rows: usize,
    columns: usize,
    steps: usize,
}

impl Shape {
    /// Rows are dealt out to all tiles as evenly as can be.
    fn first_row(&self, tile: usize) -> usize {
        self.rows * tile / (self.ranks * self.tiles)
    }
}

fn main() {
    let words: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let &[tiles, rows, columns, steps] = words.as_slice() else { panic!("usage: TILES ROWS COLUMNS STEPS") };
    let (universe, threading) = mpi::initialize_with_threading(Threading::Multiple).expect("MPI begins");
    assert_eq!(threading, Threading::Multiple);
    let world = universe.world();
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let shape = Shape { ranks, tiles, rows, columns, steps };
    assert!(rows >= ranks * tiles && ranks * tiles < 10_000);
    let universe = Arc::new(universe);
    world.barrier();
    let began = Instant::now();
    let threads: Vec<_> = (rank * tiles..(rank + 1) * tiles)
        .map(|tile| {
            let universe = universe.clone();
            thread::spawn(move || work(&universe.world(), shape, tile))
        })
        .collect();
    let mut hashes = vec![0u64; rows];
    for (tile, thread) in (rank * tiles..).zip(threads) {
        let of_tile = thread.join().expect("a tile's thread returns");
        hashes[shape.first_row(tile)..shape.first_row(tile + 1)].copy_from_slice(&of_tile);
    }
    let root = world.process_at_rank(0);
    if rank == 0 {
        let mut all = vec![0u64; rows];
        root.reduce_into_root(&hashes, &mut all, SystemOperation::bitwise_or());
        let micros = began.elapsed().as_secs_f64() * 1e6;
        eprintln!("T={tiles}: {:.2} us a step", micros / steps as f64);
        println!("{:016x}", all.iter().fold(0u64, |hash, row| hash.wrapping_mul(31).wrapping_add(*row)));
    } else {
        root.reduce_into(&hashes, SystemOperation::bitwise_or());
    }
}

/// All steps of one tile; the answer is a hash of each of its rows.
fn work(world: &impl Communicator, shape: Shape, tile: usize) -> Vec<u64> {
    let Shape { ranks, tiles, columns, steps, .. } = shape;
    let first = shape.first_row(tile);
    let height = shape.first_row(tile + 1) - first;
    let above = (tile > 0).then(|| world.process_at_rank(((tile - 1) / tiles) as i32));
    let below = (tile + 1 < ranks * tiles).then(|| world.process_at_rank(((tile + 1) / tiles) as i32));
    // A message upwards has its receiver's number, one downwards its sender's and a mark.
    let (up, down) = (|receiver: usize| receiver as i32, |sender: usize| 10_000 + sender as i32);
    let mut now = vec![0f64; (height + 2) * columns];
    for (row, cells) in now.chunks_mut(columns).enumerate().skip(1).take(height) {
        for (column, cell) in cells.iter_mut().enumerate() {
            *cell = ((first + row) * 31 % 17 + column * 7 % 13) as f64;
        }
    }
    let mut next = now.clone();
    for _ in 0..steps {
        let (lowest, edge) = (height * columns, (height + 1) * columns);
        // Edges go up, then down. The tile at the end of a column only receives, so no circle waits.
        if let Some(above) = &above {
            above.send_with_tag(&now[columns..2 * columns], up(tile - 1));
        }
        if let Some(below) = &below {
            below.receive_into_with_tag(&mut now[edge..], up(tile));
            below.send_with_tag(&now[lowest..edge], down(tile));
        }
        if let Some(above) = &above {
            above.receive_into_with_tag(&mut now[..columns], down(tile - 1));
        }
        next.copy_from_slice(&now);
        for row in 1..=height {
            for at in row * columns + 1..(row + 1) * columns - 1 {
                next[at] = 0.5 * now[at] + 0.125 * (now[at - columns] + now[at + columns] + now[at - 1] + now[at + 1]);
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    now.chunks(columns).skip(1).take(height).map(hash).collect()
}

/// FNV-1a of a row's bytes.
fn hash(row: &[f64]) -> u64 {
    let bytes = row.iter().flat_map(|cell| cell.to_ne_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
