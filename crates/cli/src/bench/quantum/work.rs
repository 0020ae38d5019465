//! Some 0.2 ms of Rust, nearly all of it within std: a sort, a hash map, formatting.
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_ulong};
use std::fmt::Write;

unsafe extern "C" {
    fn raddle_bench_quantum(
        count: c_int,
        arguments: *const *const c_char,
        work: extern "C" fn(c_ulong) -> c_ulong,
    ) -> c_int;
}

extern "C" fn work(mut seed: c_ulong) -> c_ulong {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    let mut numbers = Vec::new();
    let mut text = String::new();
    for i in 0..1500u64 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        numbers.push(seed >> 33);
        if i % 8 == 0 {
            *counts.entry(seed >> 57).or_default() += 1;
            let _ = write!(text, "{seed:x}");
        }
    }
    numbers.sort_by(|a, b| b.cmp(a));
    seed.wrapping_add(counts.values().sum::<u64>()).wrapping_add(numbers[700]).wrapping_add(text.len() as u64)
}

fn main() {
    let arguments: Vec<CString> = std::env::args().map(|word| CString::new(word).unwrap()).collect();
    let places: Vec<*const c_char> = arguments.iter().map(|word| word.as_ptr()).collect();
    // SAFETY: as many words as are told, which outlive the call.
    std::process::exit(unsafe { raddle_bench_quantum(places.len() as c_int, places.as_ptr(), work) });
}
