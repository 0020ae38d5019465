//! The seven programs as tasks.

use super::{all, joined};
use raddle_bench::bodies::shared::{mandelbrot_row, matrix_factors, matrix_row};
use raddle_bench::program::Outcome;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc};

async fn take(semaphore: &Semaphore) {
    semaphore.acquire().await.unwrap().forget();
}

pub async fn city(houses: u64, units: u64, store: usize) -> Result<Outcome, String> {
    let start = Instant::now();
    struct Stores {
        water: Semaphore,
        energy: Semaphore,
        room: Semaphore,
    }
    let stores = Arc::new(Stores { water: Semaphore::new(0), energy: Semaphore::new(0), room: Semaphore::new(store) });
    let needed = houses * units;
    let river = stores.clone();
    let river = tokio::spawn(async move { (0..2 * needed).for_each(|_| river.water.add_permits(1)) });
    let plant = stores.clone();
    let plant = tokio::spawn(async move {
        for _ in 0..needed {
            take(&plant.room).await;
            take(&plant.water).await;
            plant.energy.add_permits(1);
        }
    });
    let houses = (0..houses)
        .map(|_| {
            let stores = stores.clone();
            tokio::spawn(async move {
                let (mut electricity, mut water) = (0, 0);
                for _ in 0..units {
                    take(&stores.energy).await;
                    stores.room.add_permits(1);
                    electricity += 1;
                    take(&stores.water).await;
                    water += 1;
                }
                (electricity, water)
            })
        })
        .collect();
    let used = all(houses).await.into_iter().fold((0, 0), |(e, w), (e1, w1)| (e + e1, w + w1));
    joined(plant).await;
    joined(river).await;
    let time = start.elapsed();
    if used.0 == used.1 {
        Ok(Outcome::new(1, time, used.0))
    } else {
        Err(format!("{} units of electricity but {} of water were used", used.0, used.1))
    }
}

fn stage(mut input: mpsc::Receiver<u64>) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        let prime = input.recv().await.unwrap();
        if prime == 0 {
            return 0;
        }
        let (output, next) = mpsc::channel(16);
        let next = tokio::spawn(stage(next));
        loop {
            let number = input.recv().await.unwrap();
            if number == 0 || number % prime != 0 {
                output.send(number).await.unwrap();
            }
            if number == 0 {
                return prime + joined(next).await;
            }
        }
    })
}

pub async fn eratosthenes(limit: u64) -> Outcome {
    let start = Instant::now();
    let (output, first) = mpsc::channel(16);
    let first = tokio::spawn(stage(first));
    let generator = tokio::spawn(async move {
        for number in 2..=limit {
            output.send(number).await.unwrap();
        }
        output.send(0).await.unwrap();
    });
    joined(generator).await;
    let sum = joined(first).await;
    Outcome::new(1, start.elapsed(), sum)
}

pub async fn mandelbrot(rows: u64, columns: u64, limit: u64) -> Outcome {
    let start = Instant::now();
    let tasks = (0..rows).map(|row| tokio::spawn(async move { mandelbrot_row(row, rows, columns, limit) })).collect();
    let sum = all(tasks).await.iter().sum();
    Outcome::new(1, start.elapsed(), sum)
}

pub async fn matrix(n: usize, tasks: usize) -> Outcome {
    let factors = Arc::new(matrix_factors(n));
    let start = Instant::now();
    let tasks = (0..tasks)
        .map(|first| {
            let factors = factors.clone();
            tokio::spawn(async move {
                let rows = (first..n).step_by(tasks).map(|i| matrix_row(&factors.0, &factors.1, n, i));
                rows.collect::<Vec<_>>()
            })
        })
        .collect();
    let rows = all(tasks).await;
    let time = start.elapsed();
    let sum: f64 = rows.iter().flatten().flatten().sum();
    Outcome::new(1, time, sum as u64)
}

struct Board {
    item: u64,
    published: u64,
    unread: u64,
}

pub async fn news(customers: u64, reporters: u64, items: u64) -> Outcome {
    let start = Instant::now();
    let board = Mutex::new(Board { item: 0, published: 0, unread: 0 });
    let board = Arc::new((board, Notify::new(), Notify::new()));
    let readers = (0..customers)
        .map(|_| {
            let board = board.clone();
            tokio::spawn(async move {
                let (board, fresh, all_read) = &*board;
                let mut sum = 0;
                for seen in 0..reporters * items {
                    loop {
                        let published = fresh.notified();
                        let mut board = board.lock().await;
                        if board.published != seen {
                            sum += board.item;
                            board.unread -= 1;
                            if board.unread == 0 {
                                drop(board);
                                all_read.notify_one();
                            }
                            break;
                        }
                        drop(board);
                        published.await;
                    }
                }
                sum
            })
        })
        .collect();
    let writers = (0..reporters)
        .map(|reporter| {
            let board = board.clone();
            tokio::spawn(async move {
                let (board, fresh, all_read) = &*board;
                for item in 0..items {
                    loop {
                        let mut board = board.lock().await;
                        if board.unread == 0 {
                            board.item = reporter * items + item;
                            board.published += 1;
                            board.unread = customers;
                            drop(board);
                            fresh.notify_waiters();
                            break;
                        }
                        drop(board);
                        all_read.notified().await;
                    }
                }
            })
        })
        .collect();
    all(writers).await;
    let sum = all(readers).await.iter().sum();
    Outcome::new(1, start.elapsed(), sum)
}

/// tokio's own channels have one receiver; async-channel is what its users take for several.
pub async fn producer(pairs: u64, slots: usize, each: u64) -> Outcome {
    let start = Instant::now();
    let (sender, receiver) = async_channel::bounded::<u64>(slots);
    let mut producers = Vec::new();
    let mut consumers = Vec::new();
    for _ in 0..pairs {
        let receiver = receiver.clone();
        consumers.push(tokio::spawn(async move {
            let mut sum = 0;
            for _ in 0..each {
                sum += receiver.recv().await.unwrap();
            }
            sum
        }));
        let sender = sender.clone();
        producers.push(tokio::spawn(async move {
            for value in 0..each {
                sender.send(value).await.unwrap();
            }
        }));
    }
    all(producers).await;
    let sum = all(consumers).await.iter().sum();
    Outcome::new(pairs * each, start.elapsed(), sum)
}

pub async fn tokenring(tasks: usize, rounds: u64) -> Outcome {
    let start = Instant::now();
    let (mut outputs, inputs): (Vec<_>, Vec<_>) = (0..tasks).map(|_| mpsc::channel::<u64>(1)).unzip();
    outputs[0].send(0).await.unwrap();
    outputs.rotate_left(1);
    let ring = inputs
        .into_iter()
        .zip(outputs)
        .enumerate()
        .map(|(i, (mut input, output))| {
            tokio::spawn(async move {
                let mut token = 0;
                for round in 1..=rounds {
                    token = input.recv().await.unwrap() + 1;
                    // The token's last hop is its value in the end: nobody would take it from the slot.
                    if round < rounds || i + 1 < tasks {
                        output.send(token).await.unwrap();
                    }
                }
                (token, input, output)
            })
        })
        .collect();
    let ends = all(ring).await;
    let token = ends.last().map_or(0, |end| end.0);
    Outcome::new(tasks as u64 * rounds, start.elapsed(), token)
}
