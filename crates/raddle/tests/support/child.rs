//! A test that runs again, alone in a process of its own: what it changes there is the process's (limits, signals,
//! variables), or ends it.
#![allow(dead_code, reason = "each test program uses what it needs")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Set in such a child. A test may say more by its value.
pub const CHILD: &str = "RADDLE_TEST_CHILD";

/// No test takes long: what lasts so long stands still, on a slow machine with other load, too.
const LIMIT: Duration = Duration::from_secs(300);

/// In the parent: a command that runs the test `name` of this program alone. `None`: this is the child.
pub fn again(name: &str) -> Option<Command> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"]).env(CHILD, "1");
    Some(command)
}

/// Runs it to its end.
pub fn run(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let waiter = std::thread::spawn(move || child.wait_with_output().unwrap());
    let begun = Instant::now();
    while !waiter.is_finished() {
        if begun.elapsed() > LIMIT {
            let _ = Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status();
            panic!("{command:?} stands still:\n{}", said(&waiter.join().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    waiter.join().unwrap()
}

/// All that it said.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs it, and demands that the test passes.
pub fn must_pass(command: Command) -> String {
    let output = run(command);
    let said = said(&output);
    assert!(output.status.success() && said.contains("1 passed"), "{:?}\n{said}", output.status);
    said
}

/// In the parent: the test `name` has passed in a child. True in the child.
pub fn in_child(name: &str) -> bool {
    again(name).map(|command| print!("{}", must_pass(command))).is_none()
}
