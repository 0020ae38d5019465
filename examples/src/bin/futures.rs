//! Async code and lightweight threads: a thread waits for a future, and a future for a thread.
#![forbid(unsafe_code)]

use std::future::ready;

async fn twice(number: u32) -> u32 {
    ready(number).await * 2
}

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    let answer = pool.run(|| {
        // The thread is parked while the future waits; its processor runs others.
        let twenty = raddle::block_on(twice(10));
        // A handle can be awaited by any executor.
        raddle::block_on(async move { twenty + raddle::spawn(|| 22).await.unwrap() })
    });
    println!("{answer}");
    Ok(())
}
