//! One operation in a loop, for profilers: `yield_only THREADS PROCESSORS YIELDS`.
fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let (threads, processors, total) =
        (args.next().unwrap_or(2), args.next().unwrap_or(1), args.next().unwrap_or(20_000_000));
    let pool = raddle::Builder::new().processors(processors as usize).build().expect("a pool");
    let start = std::time::Instant::now();
    pool.run(|| {
        let each = total / threads;
        let handles: Vec<_> =
            (0..threads).map(|_| raddle::spawn(move || (0..each).for_each(|_| raddle::yield_now()))).collect();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    println!("{:.1} ns a yield", start.elapsed().as_nanos() as f64 / total as f64);
}
