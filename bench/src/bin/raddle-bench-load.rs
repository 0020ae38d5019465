//! The load generator: starts a server, keeps it busy over many connections, and reports as the other programs do.
//!
//! `raddle-bench-load echo C=1000 warm_ms=1000 ms=3000 --processors N -- SERVER WORDS...`
#![forbid(unsafe_code)]

use raddle_bench::{load, program};

fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    let own: Vec<String> = words.by_ref().take_while(|word| word != "--").collect();
    let server: Vec<String> = words.collect();
    program::main_of(own, |request| Ok((load::run(request, &server)?, String::new())))
}
