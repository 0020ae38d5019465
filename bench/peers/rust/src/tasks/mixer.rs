//! `mixer` as tasks.

use super::{all, joined};
use raddle_bench::bodies::shared::{Frame, Hall, Heard, Search, latency_bucket};
use raddle_bench::program::Outcome;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// Runs a leg: `exchange` gives the decoded frame to the conference and waits for the mixed one.
async fn leg<F: Future<Output = Frame>>(
    hall: &Hall,
    conference: usize,
    leg: usize,
    start: Instant,
    mut exchange: impl FnMut(usize, Frame) -> F,
) -> Heard {
    let mut line = [0; 160];
    let mut frame: Frame = [0; 160].into();
    let mut heard = (0, Vec::with_capacity(hall.ticks));
    for tick in 0..hall.ticks {
        let due = hall.due(start, conference, tick);
        if let Some(due) = due {
            tokio::time::sleep_until(due.into()).await;
        }
        let since = due.unwrap_or_else(Instant::now);
        hall.decode(conference, leg, tick, &mut frame);
        frame = exchange(tick, frame).await;
        heard.0 += hall.write(leg, &frame, std::hint::black_box(&mut line));
        heard.1.push(latency_bucket(since.elapsed().as_nanos() as u64));
    }
    heard
}

async fn by_promise(hall: Arc<Hall>) -> Outcome {
    let start = Instant::now();
    let (mut legs, mut rooms) = (Vec::new(), Vec::new());
    for conference in 0..hall.conferences {
        let mut inputs = Vec::with_capacity(hall.legs);
        for place in 0..hall.legs {
            let (frames, input) = mpsc::channel::<(Frame, oneshot::Sender<Frame>)>(1);
            inputs.push(input);
            let hall = hall.clone();
            legs.push(tokio::spawn(async move {
                leg(&hall, conference, place, start, |_, frame| {
                    let frames = frames.clone();
                    async move {
                        let (promise, mixed) = oneshot::channel();
                        assert!(frames.send((frame, promise)).await.is_ok(), "the conference is gone");
                        mixed.await.unwrap()
                    }
                })
                .await
            }));
        }
        let hall = hall.clone();
        rooms.push(tokio::spawn(async move {
            let (mut frames, mut promises) = (Vec::with_capacity(hall.legs), Vec::with_capacity(hall.legs));
            for _ in 0..hall.ticks {
                for input in &mut inputs {
                    let (frame, promise) = input.recv().await.unwrap();
                    frames.push(frame);
                    promises.push(promise);
                }
                hall.mix(&mut frames);
                for (promise, frame) in promises.drain(..).zip(frames.drain(..)) {
                    // The leg waits for it.
                    let _ = promise.send(frame);
                }
            }
        }));
    }
    finish(&hall, start, legs, rooms).await
}

/// A leg's part of a conference that is waited for by yields; the owner of the turn is its state's parity.
struct Seat {
    state: AtomicU64,
    frame: Mutex<Option<Frame>>,
}

impl Seat {
    async fn reach(&self, state: usize) {
        while self.state.load(Ordering::Acquire) != state as u64 {
            tokio::task::yield_now().await;
        }
    }
}

async fn by_yield(hall: Arc<Hall>) -> Outcome {
    let start = Instant::now();
    let (mut legs, mut rooms) = (Vec::new(), Vec::new());
    for conference in 0..hall.conferences {
        let seat = |_| Seat { state: AtomicU64::new(0), frame: Mutex::new(None) };
        let seats: Arc<[Seat]> = (0..hall.legs).map(seat).collect();
        for place in 0..hall.legs {
            let (hall, seats) = (hall.clone(), seats.clone());
            legs.push(tokio::spawn(async move {
                let seat = &seats[place];
                leg(&hall, conference, place, start, |tick, frame| async move {
                    *seat.frame.lock().unwrap() = Some(frame);
                    seat.state.store(2 * tick as u64 + 1, Ordering::Release);
                    seat.reach(2 * tick + 2).await;
                    seat.frame.lock().unwrap().take().unwrap()
                })
                .await
            }));
        }
        let hall = hall.clone();
        rooms.push(tokio::spawn(async move {
            for tick in 0..hall.ticks {
                for seat in seats.iter() {
                    seat.reach(2 * tick + 1).await;
                }
                let mut frames: Vec<Frame> =
                    seats.iter().map(|seat| seat.frame.lock().unwrap().take().unwrap()).collect();
                hall.mix(&mut frames);
                for (seat, frame) in seats.iter().zip(frames) {
                    *seat.frame.lock().unwrap() = Some(frame);
                    seat.state.store(2 * tick as u64 + 2, Ordering::Release);
                }
            }
        }));
    }
    finish(&hall, start, legs, rooms).await
}

async fn finish(
    hall: &Hall,
    start: Instant,
    legs: Vec<tokio::task::JoinHandle<Heard>>,
    rooms: Vec<tokio::task::JoinHandle<()>>,
) -> Outcome {
    let heard = all(legs).await;
    for room in rooms {
        joined(room).await;
    }
    hall.outcome(start.elapsed(), heard.into_iter())
}

pub async fn run(hall: Hall, by: &str) -> Outcome {
    if by == "yield" { by_yield(hall.into()).await } else { by_promise(hall.into()).await }
}

pub async fn largest(first: Hall, by: &str) -> Result<Outcome, String> {
    let mut search = Search::new(first.conferences);
    while let Some(conferences) = search.next() {
        let hall = first.with(conferences);
        search.told(&hall, run(first.with(conferences), by).await)?;
    }
    Ok(search.outcome())
}
