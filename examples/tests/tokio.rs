//! Tokio and this library in one program: tokio's tasks wait for lightweight threads, and the other way round. Tokio as
//! it is; since this package links the entry points, its own worker threads are lightweight, too.

use raddle::future;
use raddle::sync::{Mutex, Semaphore, channel, oneshot};
use std::sync::Arc;
use std::time::Duration;

const MESSAGES: u64 = 500;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// A wait is given up now and then, as tokio's timer comes first: none takes a message, the lock or a permit along.
#[test]
fn tasks_that_give_up_waiting_lose_nothing() {
    static LOCK: Mutex<u64> = Mutex::new(0);
    let runtime = runtime();
    let (sender, receiver) = channel::bounded::<u64>(1);
    let permits = Arc::new(Semaphore::new(1));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (receiver, permits) = (receiver.clone(), permits.clone());
            runtime.spawn(async move {
                let (mut sum, mut given_up) = (0, 0);
                loop {
                    // A task that may go to another worker: it holds no guard across an `await`.
                    match tokio::time::timeout(Duration::from_millis(1), future::receive(&receiver)).await {
                        Ok(Ok(number)) => sum += number,
                        Ok(Err(_)) => return (sum, given_up),
                        Err(_) => given_up += 1,
                    }
                    let add = async { *future::lock(&&LOCK).await.unwrap() += 1 };
                    let _ = tokio::time::timeout(Duration::from_millis(1), add).await;
                    if tokio::time::timeout(Duration::from_millis(1), future::acquire(&permits, 1)).await.is_ok() {
                        tokio::task::yield_now().await;
                        permits.release(1);
                    }
                }
            })
        })
        .collect();
    drop(receiver);
    let sending = raddle::spawn(move || {
        for number in 1..=MESSAGES {
            let held = LOCK.lock().unwrap();
            raddle::sleep(Duration::from_micros(if number % 16 == 0 { 5000 } else { 50 }));
            drop(held);
            sender.send(number).unwrap();
        }
    });
    let (sum, given_up) = runtime.block_on(async {
        let (mut sum, mut given_up) = (0, 0);
        for task in tasks {
            let (its_sum, its_given_up) = task.await.unwrap();
            sum += its_sum;
            given_up += its_given_up;
        }
        (sum, given_up)
    });
    sending.join().unwrap();
    assert_eq!(sum, MESSAGES * (MESSAGES + 1) / 2);
    assert!(given_up > 0, "no wait was given up, so nothing was tried");
    // The lock and the permit are nobody's.
    drop(LOCK.lock().unwrap());
    permits.acquire(1);
}

#[test]
fn tasks_wait_for_threads_and_their_promises() {
    let sum: u64 = runtime().block_on(async {
        let (promises, answers): (Vec<_>, Vec<_>) = (0..100).map(|_| oneshot::channel::<u64>()).unzip();
        let keeping = promises.into_iter().zip(0..).map(|(promise, number)| raddle::spawn(move || promise.set(number)));
        let keeping: Vec<_> = keeping.collect();
        // Blocking code in place of `spawn_blocking`, a thousand at a time.
        let blocking: Vec<_> = (0..1000)
            .map(|number| {
                future::run(move || {
                    std::thread::sleep(Duration::from_millis(10));
                    number
                })
            })
            .collect();
        let mut sum = 0;
        for answer in answers {
            sum += tokio::spawn(future::value(answer)).await.unwrap().unwrap();
        }
        for one in blocking {
            sum += one.await;
        }
        for thread in keeping {
            thread.await.unwrap().unwrap();
        }
        sum
    });
    assert_eq!(sum, 99 * 100 / 2 + 999 * 1000 / 2);
}

#[test]
fn threads_wait_for_what_needs_tokios_reactor() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    let slept = raddle::spawn(move || {
        let _guard = handle.enter();
        let begun = std::time::Instant::now();
        raddle::block_on(tokio::time::sleep(Duration::from_millis(5)));
        begun.elapsed()
    });
    assert!(slept.join().unwrap() >= Duration::from_millis(5));
}
