//! A dead-lock is reported with who waits for what; whatever somebody could still end is not called one.

use raddle::sync::{Mutex, channel};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;

const CASE: &str = "RADDLE_TEST_DEADLOCK";

/// In a child, since nothing ends it but its parent.
fn child(case: &str) {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let named = |name: &str| raddle::thread::Builder::new().name(name);
    match case {
        "crossed" => {
            let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (l, r) = (left.clone(), right.clone());
            let (has_left, left_taken) = channel::bounded(1);
            let (has_right, right_taken) = channel::bounded(1);
            let one = named("philosopher one")
                .spawn_into(&pool, move || {
                    let _left = l.lock().unwrap();
                    has_left.send(()).unwrap();
                    right_taken.recv().unwrap();
                    drop(r.lock().unwrap());
                })
                .unwrap();
            let two = named("philosopher two")
                .spawn_into(&pool, move || {
                    let _right = right.lock().unwrap();
                    has_right.send(()).unwrap();
                    left_taken.recv().unwrap();
                    drop(left.lock().unwrap());
                })
                .unwrap();
            one.join().unwrap();
            two.join().unwrap();
        }
        "sleeper" => {
            let (sender, receiver) = channel::bounded::<()>(1);
            pool.spawn(move || receiver.recv().unwrap());
            pool.run(|| raddle::sleep(std::time::Duration::from_millis(300)));
            eprintln!("woke up");
            drop(sender);
        }
        _ => unreachable!("an unknown case"),
    }
}

fn run(case: &str, until: &[&str]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CASE, case)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !until.iter().all(|u| String::from_utf8_lossy(&text).contains(u)) {
        let n = stderr.read(&mut piece).unwrap();
        if n == 0 {
            break;
        }
        text.extend_from_slice(&piece[..n]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

// No test harness: its kernel threads, of which the library knows nothing, could wake a thread for all it can tell.
fn main() {
    if let Ok(case) = std::env::var(CASE) {
        return child(&case);
    }
    let names = [
        "raddle: dead-lock: 2 threads wait",
        "\"philosopher one\" waits for a mutex",
        "\"philosopher two\" waits for a mutex",
    ];
    let text = run("crossed", &names);
    for name in names {
        assert!(text.contains(name), "{text}");
    }
    // While somebody sleeps, it is none.
    let text = run("sleeper", &["woke up"]);
    assert!(text.contains("woke up") && !text.contains("dead-lock"), "{text}");
    println!("test a_dead_lock_is_diagnosed ... ok");
}
