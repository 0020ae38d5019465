//! A quick look at the costs of the basic operations: `cargo run --release -p raddle --example quick [PROCESSORS]`.
//! Figures to compare with come from `raddle bench`.

use std::time::Instant;

fn time(name: &str, operations: u64, f: impl Fn() + Send + Sync) {
    f();
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    println!("{name:24} {best:8.1} ns");
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = raddle::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn main() {
    let processors = std::env::args().nth(1).map_or(2, |a| a.parse().expect("a number of processors"));
    let policy = std::env::args().nth(2).unwrap_or_else(|| "steal(lifo)".into());
    let pool = raddle::Builder::new().processors(processors).policy(policy).build().expect("a pool");
    println!("{processors} processors, {}", pool.policy());
    pool.run(|| {
        for count in [1_000u64, 100_000, 1_000_000] {
            time(&format!("create {count}"), count, || {
                let handles: Vec<_> = (0..count).map(|_| raddle::spawn(|| ())).collect();
                handles.into_iter().for_each(|h| h.join().unwrap());
            });
        }
        for threads in [1u64, 2, 64, 1000, 10_000] {
            let each = 2_000_000 / threads;
            time(&format!("yield T={threads}"), threads * each, || {
                let handles: Vec<_> =
                    (0..threads).map(|_| raddle::spawn(move || (0..each).for_each(|_| raddle::yield_now()))).collect();
                handles.into_iter().for_each(|h| h.join().unwrap());
            });
        }
        time("join of fib(25)", 242_785, || {
            assert_eq!(fib(25), 75025);
        });
    });
    println!("{:?}", raddle::info::stats());
}
