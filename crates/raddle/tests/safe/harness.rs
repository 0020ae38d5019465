//! Runs each case in child processes.

#[path = "../support/child.rs"]
mod child;

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
    let name = path.split_once("::").map_or(path, |(_, rest)| rest);
    if child::again(name).is_none() {
        return body();
    }
    let lightweight = raddle::info::lightweight().is_ok();
    if lightweight && on != On::Kernel {
        check(name, "lightweight", ending);
    }
    if on != On::Lightweight {
        check(name, "kernel", ending);
    }
}

fn check(name: &str, kind: &str, ending: &Ending) {
    let Some(mut command) = child::again(name) else { return };
    match kind {
        "kernel" => command.env("RADDLE_KERNEL_THREADS", "1"),
        _ => command.env_remove("RADDLE_KERNEL_THREADS"),
    };
    let output = child::run(command);
    let said = child::said(&output);
    let shown = || format!("{name} on {kind} threads: {:?}\n{said}", output.status);
    match ending {
        Ending::Passes => assert!(output.status.success() && said.contains("1 passed"), "{}", shown()),
        Ending::Aborts(text) => {
            use std::os::unix::process::ExitStatusExt as _;
            assert!(output.status.signal() == Some(6) && said.contains(text), "{}", shown());
        }
    }
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
