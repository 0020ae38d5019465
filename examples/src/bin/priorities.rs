//! Priorities: a pool's policy is an expression, and a thread of a higher priority runs before all that wait in a lower
//! one.
#![forbid(unsafe_code)]

use raddle::sync::Mutex;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = raddle::Builder::new().processors(1).policy("priority(3, fifo)").build()?;
    let order = Arc::new(Mutex::new(Vec::new()));
    pool.run(|| {
        let threads: Vec<_> = [(2, "cleaning up"), (1, "a report"), (0, "a request"), (1, "another report")]
            .into_iter()
            .map(|(priority, work)| {
                let order = order.clone();
                let thread = raddle::thread::Builder::new().priority(priority);
                thread.spawn(move || order.lock().unwrap().push(work)).expect("three priorities, 0 the highest")
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    println!("{}", order.lock().unwrap().join(", "));
    Ok(())
}
