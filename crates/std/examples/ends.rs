//! How a program with the attribute ends: as one without (`ends ok|error|panic|exit|code|thread`).
use raddle_std as raddle;

use std::process::ExitCode;

#[raddle::main]
fn main() -> Result<ExitCode, String> {
    assert_eq!(std::thread::current().name(), Some("main"));
    match std::env::args().nth(1).as_deref() {
        Some("error") => Err("on purpose".into()),
        Some("panic") => panic!("on purpose"),
        Some("exit") => std::process::exit(7),
        Some("code") => Ok(ExitCode::from(9)),
        // Threads that still run when `main` returns end with the program.
        Some("thread") => {
            std::thread::spawn(|| {
                loop {
                    std::thread::sleep(std::time::Duration::from_secs(1))
                }
            });
            Ok(ExitCode::SUCCESS)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
