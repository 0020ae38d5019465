//! Thread-local storage is a thread's own, wherever it runs: what libraries keep there, `errno` and `Rc` are right.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;

thread_local! {
    static REQUEST: Cell<u32> = const { Cell::new(0) };
}

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    let right = pool.run(|| {
        let threads: Vec<_> = (0..1000)
            .map(|number| {
                raddle::spawn(move || {
                    REQUEST.set(number);
                    let shared = Rc::new(number);
                    let copies: Vec<_> = (0..10).map(|_| shared.clone()).collect();
                    for _ in 0..10 {
                        // It may go on on another core.
                        raddle::yield_now();
                    }
                    u32::from(REQUEST.get() == number && Rc::strong_count(&shared) == copies.len() + 1)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    println!("{right} of 1000 threads found what they had left");
    Ok(())
}
