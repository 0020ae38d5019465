//! A sort by fork and join. The half that nobody has taken is a plain call; a lock may be held across `join`.
#![forbid(unsafe_code)]

use raddle::sync::Mutex;

static CALLS: Mutex<u32> = Mutex::new(0);

fn sort(numbers: &mut [u64]) {
    if numbers.len() <= 32 {
        numbers.sort_unstable();
        return;
    }
    let middle = numbers.len() / 2;
    let (left, right) = numbers.split_at_mut(middle);
    raddle::join(|| sort(left), || sort(right));
    let mut merged = Vec::with_capacity(numbers.len());
    let (mut left, mut right) = (numbers[..middle].iter().peekable(), numbers[middle..].iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        merged.extend(if a <= b { left.next() } else { right.next() });
    }
    merged.extend(left.chain(right));
    numbers.copy_from_slice(&merged);
}

fn main() -> Result<(), raddle::BuildError> {
    let pool = raddle::Builder::new().processors(2).build()?;
    let mut numbers: Vec<u64> = (0..100_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
    pool.run(|| {
        // rayon may run another piece of work, which wants this lock, on top of the thread that holds it. Here that one
        // waits.
        let mut calls = CALLS.lock().unwrap();
        sort(&mut numbers);
        *calls += 1;
    });
    println!("sorted: {}", numbers.is_sorted());
    Ok(())
}
