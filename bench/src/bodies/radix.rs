//! Lesser Bear's radix sort: least significant digit first, two generations of threads per pass, a join as the barrier.

use super::Api;
use crate::program::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Marsaglia's 32-bit xorshift generator.
///
/// ```
/// let keys: Vec<u32> = raddle_bench::bodies::shared::xorshift_keys().take(2).collect();
/// assert_ne!(keys[0], keys[1]);
/// ```
pub fn xorshift_keys() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(2_463_534_242u32), |&x| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 17);
        Some(x ^ (x << 5))
    })
    .skip(1)
}

/// The keys are atomics since several threads scatter into one array; relaxed loads and stores are plain moves.
pub type Keys = Arc<Vec<AtomicU32>>;

fn digit(key: u32, shift: u32, bits: u32) -> usize {
    ((key >> shift) & ((1 << bits) - 1)) as usize
}

/// How often each digit occurs in a part of the keys.
pub fn histogram(keys: &[AtomicU32], shift: u32, bits: u32) -> Vec<u32> {
    let mut counts = vec![0; 1 << bits];
    for key in keys {
        counts[digit(key.load(Ordering::Relaxed), shift, bits)] += 1;
    }
    counts
}

/// Turns the histograms into the place of each part's first key of each digit.
pub fn prefix_sums(histograms: &mut [Vec<u32>]) {
    let mut place = 0;
    for digit in 0..histograms.first().map_or(0, Vec::len) {
        for counts in histograms.iter_mut() {
            place += std::mem::replace(&mut counts[digit], place);
        }
    }
}

/// Moves a part of the keys to their places.
pub fn permute(keys: &[AtomicU32], to: &[AtomicU32], places: &mut [u32], shift: u32, bits: u32) {
    for key in keys {
        let key = key.load(Ordering::Relaxed);
        let place = &mut places[digit(key, shift, bits)];
        to[*place as usize].store(key, Ordering::Relaxed);
        *place += 1;
    }
}

/// The checksum of sorted keys, or what is wrong with them.
pub fn check_sorted(keys: &[AtomicU32]) -> Result<u64, String> {
    let keys = keys.iter().map(|key| key.load(Ordering::Relaxed));
    if !keys.clone().is_sorted() {
        return Err("the keys are not sorted".into());
    }
    Ok(keys.fold(0u32, |sum, key| sum.wrapping_mul(31).wrapping_add(key)).into())
}

/// Checks the arguments and gives the keys, a second array and the length of a part.
pub fn prepare(n: usize, threads: usize, bits: u64) -> Result<(Keys, Keys, usize), String> {
    if !(1..=16).contains(&bits) {
        return Err(format!("r={bits}: pass 1 to 16 bits"));
    }
    if threads == 0 || n == 0 || !n.is_multiple_of(threads) {
        return Err(format!("T={threads} does not divide N={n} into equal parts"));
    }
    let keys = xorshift_keys().take(n).map(AtomicU32::new).collect();
    let other = std::iter::repeat_with(AtomicU32::default).take(n).collect();
    Ok((Arc::new(keys), Arc::new(other), n / threads))
}

pub(super) fn radix<A: Api>(n: usize, threads: usize, bits: u64) -> Result<Outcome, String> {
    let generation = Instant::now();
    let (mut from, mut to, part) = prepare(n, threads, bits)?;
    let generation = generation.elapsed();
    let bits = bits as u32;
    let start = Instant::now();
    for shift in (0..32).step_by(bits as usize) {
        let counters: Vec<_> = (0..threads)
            .map(|t| {
                let from = from.clone();
                A::spawn(move || histogram(&from[t * part..(t + 1) * part], shift, bits))
            })
            .collect();
        let mut places: Vec<_> = counters.into_iter().map(A::join).collect();
        prefix_sums(&mut places);
        let movers: Vec<_> = places
            .into_iter()
            .enumerate()
            .map(|(t, mut places)| {
                let (from, to) = (from.clone(), to.clone());
                A::spawn(move || permute(&from[t * part..(t + 1) * part], &to, &mut places, shift, bits))
            })
            .collect();
        movers.into_iter().for_each(A::join);
        std::mem::swap(&mut from, &mut to);
    }
    let time = start.elapsed();
    let checksum = check_sorted(&from)?;
    Ok(Outcome::new(1, time, checksum).with("generation_ns", generation.as_nanos() as u64))
}
