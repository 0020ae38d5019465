//! The least that runs closures on slots: a fiber is resumed by whoever owns it and yields back to it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use raddle_context::stack::{Arena, Slot};
use raddle_context::switch::{Context, current_fs, switch, switch_away};
use raddle_context::tls::{self, move_malloc_words};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Body = Box<dyn FnOnce(&Yielder)>;

struct State {
    own: Context,
    home: Context,
    body: Option<Body>,
    done: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// A closure on a slot of its own.
pub struct Fiber {
    slot: Option<Slot>,
    state: Box<State>,
}

// SAFETY: fibers move between kernel threads: that is what the tests are about.
unsafe impl Send for Fiber {}

/// What a fiber's body yields with.
pub struct Yielder(*mut State);

impl Yielder {
    /// Back to whoever resumed the fiber; returns what the next resume passes.
    pub fn pause(&self, value: usize) -> usize {
        // SAFETY: called on the fiber, whose resumer is suspended.
        unsafe {
            let state = self.0;
            move_malloc_words(current_fs(), (*state).home.fs());
            switch(&raw mut (*state).own, &raw const (*state).home, value)
        }
    }
}

unsafe extern "C" fn enter(state: usize) -> ! {
    let state = state as *mut State;
    // SAFETY: the resumer keeps the state until the fiber is done.
    unsafe {
        let tls = tls::init().expect("tls");
        tls.begin(current_fs());
        let body = (*state).body.take().expect("a body");
        (*state).panic = catch_unwind(AssertUnwindSafe(|| body(&Yielder(state)))).err();
        tls.run_destructors();
        (*state).done = true;
        move_malloc_words(current_fs(), (*state).home.fs());
        switch_away(&raw const (*state).home, 0)
    }
}

impl Fiber {
    pub fn new(arena: &'static Arena, body: impl FnOnce(&Yielder) + 'static) -> Fiber {
        arena.reserve().expect("a slot");
        let slot = arena.take();
        let state = Box::new(State {
            own: Context::empty(),
            home: Context::empty(),
            body: Some(Box::new(body)),
            done: false,
            panic: None,
        });
        // SAFETY: the slot is ours and fresh.
        unsafe { state.own.prepare(slot.top(), slot.fs(), enter) };
        Fiber { slot: Some(slot), state }
    }

    /// Runs the fiber until it yields or ends. The first value is not seen by the body.
    pub fn resume(&mut self, value: usize) -> usize {
        assert!(!self.state.done, "the fiber is done");
        let state = &raw mut *self.state;
        // SAFETY: the fiber is suspended or new; the malloc words are moved with no allocation in between.
        unsafe {
            let value = if (*state).body.is_some() { state.addr() } else { value };
            move_malloc_words(current_fs(), (*state).own.fs());
            switch(&raw mut (*state).home, &raw const (*state).own, value)
        }
    }

    /// A backtrace of the suspended fiber, taken on its own stack.
    pub fn backtrace(&mut self) -> std::backtrace::Backtrace {
        struct Visit {
            home: Context,
            trace: Option<std::backtrace::Backtrace>,
        }
        unsafe extern "C" fn take_trace(visit: usize) -> ! {
            let visit = visit as *mut Visit;
            // SAFETY: the visit outlives the visitor; its home is suspended.
            unsafe {
                (*visit).trace = Some(std::backtrace::Backtrace::force_capture());
                move_malloc_words(current_fs(), (*visit).home.fs());
                switch_away(&raw const (*visit).home, 0)
            }
        }
        let mut visit = Visit { home: Context::empty(), trace: None };
        let here = &raw mut visit;
        // SAFETY: the fiber is suspended and ours; its stack has room.
        unsafe {
            let visitor = self.state.own.visited_by(take_trace);
            move_malloc_words(current_fs(), visitor.fs());
            switch(&raw mut (*here).home, &visitor, here.addr());
        }
        visit.trace.expect("the visitor ran")
    }

    pub fn done(&self) -> bool {
        self.state.done
    }

    pub fn fs(&self) -> usize {
        self.slot.as_ref().expect("a slot").fs()
    }

    pub fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a slot")
    }

    pub fn context(&self) -> &Context {
        &self.state.own
    }

    pub fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.state.panic.take()
    }

    /// Runs the fiber to its end and passes its panic on.
    pub fn finish(mut self) {
        while !self.done() {
            self.resume(0);
        }
        if let Some(panic) = self.take_panic() {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.state.done || self.state.body.is_some() {
            let slot = self.slot.take().expect("a slot");
            let arena = slot.arena();
            arena.give(slot);
            arena.unreserve();
        }
    }
}

/// An arena of default slots for a test.
pub fn arena(slots: usize) -> &'static Arena {
    Arena::new(64 << 10, slots).expect("address space")
}

/// The harness's first thread takes memory to wait for the test that runs, and may come to that late.
pub fn until_the_harness_sleeps() {
    let first = std::process::id();
    let state = format!("/proc/self/task/{first}/stat");
    let sleeps = || std::fs::read_to_string(&state).unwrap().rsplit(") ").next().unwrap().starts_with('S');
    // SAFETY: takes nothing.
    while unsafe { libc::gettid() } != first as i32 && !sleeps() {
        std::thread::yield_now();
    }
}

/// Runs this test binary again with only `test` and an environment variable set; its output. Where the binary needs an
/// emulator, `TEST_RUNNER` names it.
pub fn rerun(test: &str, variable: &str, value: &str) -> std::process::Output {
    // Not current_exe: that is the emulator or loader, when there is one.
    let own = std::env::args_os().next().expect("own path");
    let mut command = match std::env::var_os("TEST_RUNNER") {
        Some(runner) => {
            let mut command = std::process::Command::new(runner);
            command.arg(own);
            command
        }
        None => std::process::Command::new(own),
    };
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(variable, value)
        .output()
        .expect("the test binary runs")
}
