//! The attribute in real programs: the examples of this package, built with it.

use std::path::PathBuf;
use std::process::{Command, Output};

fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    deps.parent().unwrap().parent().unwrap().join("examples").join(name)
}

fn run(name: &str, argument: &str) -> Output {
    Command::new(example(name)).arg(argument).output().unwrap()
}

#[test]
fn std_threads_and_sockets_are_lightweight() {
    let output = run("echo", "200");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[0], 2000, "{text}");
    assert!(numbers[1] < 100, "std's threads were not taken over: {text}");
}

#[test]
fn a_program_ends_as_without_the_attribute() {
    let code = |argument| run("ends", argument).status.code();
    assert_eq!(code("ok"), Some(0));
    assert_eq!(code("thread"), Some(0));
    assert_eq!(code("exit"), Some(7));
    assert_eq!(code("code"), Some(9));
    let error = run("ends", "error");
    assert_eq!((error.status.code(), error.stderr), (Some(1), b"Error: \"on purpose\"\n".to_vec()));
    let panicked = run("ends", "panic");
    assert_eq!(panicked.status.code(), Some(101));
    let said = String::from_utf8_lossy(&panicked.stderr);
    assert!(said.contains("thread 'main'") && said.contains("on purpose"), "{said}");
}
