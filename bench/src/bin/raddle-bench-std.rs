//! The workloads on std.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    raddle_bench::of_std::main_of(&std::env::args().skip(1).collect::<Vec<_>>())
}
