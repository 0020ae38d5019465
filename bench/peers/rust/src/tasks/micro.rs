//! The micro-benchmarks as tasks. Locks held across an await are tokio's; those of `lock_local` and `lock_global` are
//! too, since a task that blocked its worker would be no task.

use super::{all, joined};
use raddle_bench::bodies::shared::{Sleepers, late_ns, share};
use raddle_bench::memory::Memory;
use raddle_bench::program::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify, mpsc};

pub async fn create(n: u64) -> Outcome {
    let start = Instant::now();
    let handles: Vec<_> = (0..n).map(|_| tokio::spawn(async {})).collect();
    let mut sum = 0;
    for handle in handles {
        joined(handle).await;
        sum += 1;
    }
    Outcome::new(n, start.elapsed(), sum)
}

pub async fn null_fork(n: u64) -> Outcome {
    let start = Instant::now();
    let mut sum = 0;
    for _ in 0..n {
        sum += joined(tokio::spawn(async { 1u64 })).await;
    }
    Outcome::new(n, start.elapsed(), sum)
}

pub async fn signal_wait(n: u64) -> Outcome {
    let bells = Arc::new([tokio::sync::Semaphore::new(0), tokio::sync::Semaphore::new(0)]);
    let player = |me: usize| {
        let bells = bells.clone();
        let take = async move |bell: &tokio::sync::Semaphore| bell.acquire().await.unwrap().forget();
        tokio::spawn(async move {
            for _ in 0..n {
                if me == 0 {
                    bells[1].add_permits(1);
                    take(&bells[0]).await;
                } else {
                    take(&bells[1]).await;
                    bells[0].add_permits(1);
                }
            }
            n
        })
    };
    let start = Instant::now();
    let players = [player(0), player(1)];
    let mut sum = 0;
    for one in players {
        sum += joined(one).await;
    }
    Outcome::new(2 * n, start.elapsed(), sum)
}

struct Gate {
    inside: AtomicU64,
    full: Notify,
    opened: Notify,
}

pub async fn park(n: u64, baseline: Memory) -> Outcome {
    let start = Instant::now();
    let gate = Arc::new(Gate { inside: AtomicU64::new(0), full: Notify::new(), opened: Notify::new() });
    let handles: Vec<_> = (0..n)
        .map(|_| {
            let gate = gate.clone();
            tokio::spawn(async move {
                let opened = gate.opened.notified();
                // From its creation on it takes part in `notify_waiters`, so counting in before the await is no race.
                if gate.inside.fetch_add(1, Ordering::AcqRel) + 1 == n {
                    gate.full.notify_one();
                }
                opened.await;
                1
            })
        })
        .collect();
    gate.full.notified().await;
    let blocked = start.elapsed();
    let now = Memory::now();
    let release = Instant::now();
    gate.opened.notify_waiters();
    let mut sum = 0;
    for handle in handles {
        sum += joined(handle).await;
    }
    let released = release.elapsed();
    let each = |total: f64| total / n.max(1) as f64;
    let growth = |now: u64, before: u64| each(now.saturating_sub(before) as f64 * 1024.0);
    Outcome::new(n, start.elapsed(), sum)
        .with("rss_per_thread", growth(now.rss_kib, baseline.rss_kib))
        .with("page_tables_per_thread", growth(now.page_tables_kib, baseline.page_tables_kib))
        .with("block_ns_per_thread", each(blocked.as_nanos() as f64))
        .with("release_ns_per_thread", each(released.as_nanos() as f64))
}

pub async fn sleepers(tasks: u64, ms: u64, turns: u64, baseline: Memory) -> Outcome {
    let asked = Duration::from_millis(ms);
    let mut sleepers = Sleepers::begin(tasks, turns, baseline);
    let body = move || async move {
        let mut latest = 0;
        for _ in 0..turns {
            let start = Instant::now();
            tokio::time::sleep(asked).await;
            latest = latest.max(late_ns(start, asked));
        }
        latest
    };
    let handles: Vec<_> = (0..tasks).map(|_| tokio::spawn(body())).collect();
    sleepers.all_made();
    let mut late = Vec::with_capacity(handles.len());
    for handle in handles {
        late.push(joined(handle).await);
    }
    sleepers.end(late)
}

pub async fn yields(tasks: u64, total: u64) -> Result<Outcome, String> {
    let each = share(total, tasks)?;
    let start = Instant::now();
    let body = move || async move {
        for _ in 0..each {
            tokio::task::yield_now().await;
        }
        each
    };
    let handles = (0..tasks).map(|_| tokio::spawn(body())).collect();
    let sum = all(handles).await.iter().sum();
    Ok(Outcome::new(total, start.elapsed(), sum))
}

pub async fn pp_chan(n: u64) -> Outcome {
    let start = Instant::now();
    let (ping, mut pinged) = mpsc::channel::<u64>(1);
    let (pong, mut ponged) = mpsc::channel::<u64>(1);
    let far = tokio::spawn(async move {
        while let Some(i) = pinged.recv().await {
            if pong.send(i + 1).await.is_err() {
                break;
            }
        }
    });
    let near = tokio::spawn(async move {
        let mut sum = 0;
        for i in 0..n {
            ping.send(i).await.unwrap();
            sum += ponged.recv().await.unwrap();
        }
        sum
    });
    let sum = joined(near).await;
    joined(far).await;
    Outcome::new(n, start.elapsed(), sum)
}

/// tokio has no condition variable; `Notify` with a turn under a mutex is what its users write.
pub async fn pp_cond(n: u64) -> Outcome {
    let start = Instant::now();
    let table = Arc::new((Mutex::new(0usize), [Notify::new(), Notify::new()]));
    let player = |me: usize| {
        let table = table.clone();
        tokio::spawn(async move {
            let (turn, conditions) = &*table;
            let mut turns = 0;
            for _ in 0..n {
                loop {
                    let mut turn = turn.lock().await;
                    if *turn == me {
                        *turn = 1 - me;
                        break;
                    }
                    drop(turn);
                    // A notification that came since is kept as a permit.
                    conditions[me].notified().await;
                }
                turns += 1;
                conditions[1 - me].notify_one();
            }
            turns
        })
    };
    let (first, second) = (player(0), player(1));
    let sum = joined(first).await + joined(second).await;
    Outcome::new(n, start.elapsed(), sum)
}

#[repr(align(128))]
struct Padded<T>(T);

pub async fn lock_local(tasks: u64, total: u64) -> Result<Outcome, String> {
    let each = share(total, tasks)?;
    let start = Instant::now();
    let body = move || async move {
        let counter = Box::new(Padded(Mutex::new(0u64)));
        let counter = std::hint::black_box(&counter);
        for _ in 0..each {
            *counter.0.lock().await += 1;
        }
        *counter.0.lock().await
    };
    let handles = (0..tasks).map(|_| tokio::spawn(body())).collect();
    let sum = all(handles).await.iter().sum();
    Ok(Outcome::new(total, start.elapsed(), sum))
}

pub async fn lock_global(tasks: u64, total: u64, block: bool) -> Result<Outcome, String> {
    let each = share(total, tasks)?;
    let start = Instant::now();
    let counter = Arc::new(Padded(Mutex::new(0u64)));
    let handles = (0..tasks)
        .map(|_| {
            let counter = counter.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    let mut count = counter.0.lock().await;
                    *count += 1;
                    if block {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    all(handles).await;
    let sum = *counter.0.lock().await;
    Ok(Outcome::new(total, start.elapsed(), sum))
}

/// The waker is on the blocking pool: a task that a worker wakes lies in that worker's own slot, which no other worker
/// takes from, so a waker that keeps its worker would wait for ever.
pub async fn wake_remote(n: u64, gap_us: u64) -> Outcome {
    struct Bell {
        ring: Notify,
        awake: AtomicBool,
        awake_at: AtomicU64,
    }
    let start = Instant::now();
    let bell = Arc::new(Bell { ring: Notify::new(), awake: AtomicBool::new(false), awake_at: AtomicU64::new(0) });
    let sleeping = bell.clone();
    let sleeper = tokio::spawn(async move {
        for _ in 0..n {
            sleeping.ring.notified().await;
            let now = start.elapsed().as_nanos() as u64;
            sleeping.awake_at.store(now, Ordering::Relaxed);
            sleeping.awake.store(true, Ordering::Release);
        }
    });
    let waker = tokio::task::spawn_blocking(move || {
        let gap = Duration::from_micros(gap_us);
        let (mut waited, mut wakes) = (0, 0);
        for _ in 0..n {
            let pause = Instant::now();
            while pause.elapsed() < gap {
                std::hint::spin_loop();
            }
            let rung_at = start.elapsed().as_nanos() as u64;
            bell.ring.notify_one();
            while !bell.awake.swap(false, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            waited += bell.awake_at.load(Ordering::Relaxed).saturating_sub(rung_at);
            wakes += 1;
        }
        (waited, wakes)
    });
    let (waited, wakes) = joined(waker).await;
    joined(sleeper).await;
    Outcome::new(n, Duration::from_nanos(waited), wakes).with("gap_us", gap_us).with("waker", "blocking pool")
}
