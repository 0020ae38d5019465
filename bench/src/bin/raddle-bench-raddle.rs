//! The workloads on our own runtime.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    raddle_bench::ours::main_of(&std::env::args().skip(1).collect::<Vec<_>>())
}
