//! Runs each case in child processes.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Set in a child; its value says which kind of threads it has.
const CHILD: &str = "RADDLE_SAFE_CHILD";
/// No case takes long: what lasts so long stands still.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a case has to end.
pub enum Ending {
    /// Like a test.
    Passes,
    /// With an abort, and this in what it says.
    Aborts(&'static str),
}

/// Which threads a case is run with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    Both,
    Lightweight,
    #[allow(dead_code, reason = "a kind of its own, whether there are cases or not")]
    Kernel,
}

/// `case!(name { body })`: a test that must pass on both kinds of threads; `case!(name, On::Lightweight { body })`: on
/// one; `case!(name, On::Lightweight, aborts "text" { body })`: must abort, and say so.
macro_rules! case {
    ($(#[$meta:meta])* $name:ident $body:block) => {
        case!(@ $(#[$meta])* $name, $crate::harness::On::Both, $crate::harness::Ending::Passes, $body);
    };
    ($(#[$meta:meta])* $name:ident, $on:path, $body:block) => {
        case!(@ $(#[$meta])* $name, $on, $crate::harness::Ending::Passes, $body);
    };
    ($(#[$meta:meta])* $name:ident, $on:path, aborts $text:literal, $body:block) => {
        case!(@ $(#[$meta])* $name, $on, $crate::harness::Ending::Aborts($text), $body);
    };
    (@ $(#[$meta:meta])* $name:ident, $on:path, $ending:expr, $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            $crate::harness::run(concat!(module_path!(), "::", stringify!($name)), $on, &$ending, || $body);
        }
    };
}

/// In the parent: runs the case in children. In a child: its body.
pub fn run(path: &str, on: On, ending: &Ending, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let name = path.split_once("::").map_or(path, |(_, rest)| rest);
    let lightweight = raddle::info::lightweight().is_ok();
    if lightweight && on != On::Kernel {
        check(name, "lightweight", ending);
    }
    if on != On::Lightweight {
        check(name, "kernel", ending);
    }
}

fn check(name: &str, kind: &str, ending: &Ending) {
    let output = child(name, kind);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let shown = || format!("{name} on {kind} threads: {:?}\n{out}\n{err}", output.status);
    match ending {
        Ending::Passes => assert!(output.status.success() && out.contains("1 passed"), "{}", shown()),
        Ending::Aborts(text) => {
            use std::os::unix::process::ExitStatusExt as _;
            assert!(output.status.signal() == Some(6) && (out.contains(text) || err.contains(text)), "{}", shown());
        }
    }
}

fn child(name: &str, kind: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, kind);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match kind {
        "kernel" => command.env("RADDLE_KERNEL_THREADS", "1"),
        _ => command.env_remove("RADDLE_KERNEL_THREADS"),
    };
    let child = command.spawn().unwrap();
    let pid = child.id();
    let waiter = std::thread::spawn(move || child.wait_with_output().unwrap());
    let begun = Instant::now();
    while !waiter.is_finished() {
        if begun.elapsed() > PATIENCE {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            let output = waiter.join().unwrap();
            panic!("{name} on {kind} threads stands still:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    waiter.join().unwrap()
}

/// A pool of so many processors.
pub fn pool(processors: usize) -> raddle::Pool {
    raddle::Builder::new().processors(processors).build().unwrap()
}

/// Silences the reports of panics that a case wants.
pub fn quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

/// A panic payload whose drop panics, as often as it says, with the next one as payload.
pub struct Bomb(pub u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Bomb(self.0 - 1));
        }
    }
}

/// True if `f` panicked. What it panicked with is not dropped: that may panic again.
pub fn panics<T>(f: impl FnOnce() -> T) -> bool {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => false,
        Err(payload) => {
            std::mem::forget(payload);
            true
        }
    }
}
