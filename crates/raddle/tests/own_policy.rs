//! A pool under a policy that no expression names: the one of docs/write-your-own-policy.md.

#[path = "../../sim/examples/own_policy/policy.rs"]
mod policy;

use policy::Polite;
use std::sync::atomic::{AtomicU64, Ordering};

fn builder() -> raddle::Builder {
    raddle::Builder::new().processors(2).own_policy(|processors, others| Box::new(Polite::new(processors, others)))
}

#[test]
fn threads_run_block_and_yield_under_a_policy_of_ones_own() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let pool = builder().build().unwrap();
    let sum: u64 = pool.run(|| {
        let (sender, receiver) = raddle::sync::channel::bounded(4);
        let threads: Vec<_> = (0..100u64)
            .map(|number| {
                let sender = sender.clone();
                raddle::spawn(move || {
                    raddle::yield_now();
                    COUNT.fetch_add(1, Ordering::Relaxed);
                    sender.send(number).unwrap();
                })
            })
            .collect();
        let sum = (0..100).map(|_| receiver.recv().unwrap()).sum();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        sum
    });
    assert_eq!((sum, COUNT.load(Ordering::Relaxed)), (4950, 100));
}

#[test]
fn an_expression_afterwards_takes_its_place() {
    assert!(format!("{:?}", builder()).contains("own"));
    let pool = builder().policy("fifo").build().unwrap();
    assert_eq!((pool.policy(), builder().build().unwrap().policy()), ("fifo".to_string(), "polite".to_string()));
}
