//! The packet workloads as tasks; what a task does with its packet is shared with the programs of threads.

use super::all;
use raddle_bench::bodies::shared::Traffic;
use raddle_bench::program::Outcome;
use std::time::Instant;
use tokio::sync::Notify;

pub async fn run(traffic: &'static Traffic) -> Result<Outcome, String> {
    // Some bytes for each repetition that stay.
    let finished: &'static Notify = Box::leak(Box::new(Notify::new()));
    let start = Instant::now();
    let spawn = move |spawner: u64| async move {
        for (started, number) in (1..).zip(traffic.share(spawner)) {
            let due = traffic.due(start, number);
            while due.is_some_and(|due| Instant::now() < due) {
                tokio::task::yield_now().await;
            }
            let buffer = traffic.take(number);
            let since = due.unwrap_or_else(Instant::now);
            tokio::spawn(async move {
                if traffic.handle(number, since, buffer) {
                    finished.notify_one();
                }
            });
            if !traffic.started(spawner, started) {
                return;
            }
        }
    };
    all((0..traffic.spawners).map(|spawner| tokio::spawn(spawn(spawner))).collect()).await;
    traffic.all_started()?;
    if traffic.share(traffic.spawners - 1).end > 0 {
        finished.notified().await;
    }
    Ok(traffic.outcome(start.elapsed()))
}
