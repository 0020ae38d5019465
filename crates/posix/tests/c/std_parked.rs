//! So many parked threads of the standard library, and what each takes; it knows nothing of the drop-in.
//! Prints the number of kernel threads, and the bytes of memory and of page tables for each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A line of the process's status, in bytes or as a number.
fn status(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    let number: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    if line.ends_with("kB") { number << 10 } else { number }
}

fn main() {
    let many: usize = std::env::args().nth(1).expect("how many threads").parse().unwrap();
    let parked = Arc::new(AtomicUsize::new(0));
    let open = Arc::new(AtomicBool::new(false));
    // The first thread brings up what all share.
    thread::spawn(|| {}).join().unwrap();
    let (memory, tables) = (status("VmRSS"), status("VmPTE"));
    let mut threads = Vec::with_capacity(many);
    for number in 0..many {
        let (parked, open) = (parked.clone(), open.clone());
        let spawned = thread::Builder::new().spawn(move || {
            parked.fetch_add(1, Ordering::SeqCst);
            while !open.load(Ordering::SeqCst) {
                thread::park();
            }
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                println!("no more after {number}: {error}");
                std::process::exit(1);
            }
        }
    }
    while parked.load(Ordering::SeqCst) < many {
        thread::yield_now();
    }
    let each = |name, before| status(name).saturating_sub(before) / many;
    println!("{} {} {}", status("Threads"), each("VmRSS", memory), each("VmPTE", tables));
    open.store(true, Ordering::SeqCst);
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
