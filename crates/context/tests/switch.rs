//! The switch: values, floating-point modes, backtraces, the way without FSGSBASE.

mod common;

use common::{Fiber, arena, rerun};
use std::backtrace::Backtrace;

#[test]
fn values_pass_both_ways() {
    let mut fiber = Fiber::new(arena(4), |to| {
        let mut sum = 0;
        loop {
            match to.pause(sum) {
                0 => break,
                n => sum += n,
            }
        }
    });
    assert_eq!(fiber.resume(0), 0);
    let mut expected = 0;
    for n in 1..=100_000 {
        expected += n;
        assert_eq!(fiber.resume(n), expected);
    }
    fiber.resume(0);
    assert!(fiber.done());
}

#[test]
fn registers_survive() {
    // More live values than registers, integers and floating point, in both contexts.
    fn churn(seed: u64, mut step: impl FnMut()) -> (u64, f64) {
        let mut a: [u64; 12] = core::array::from_fn(|i| seed + i as u64);
        let mut f: [f64; 20] = core::array::from_fn(|i| (seed + i as u64) as f64);
        for round in 0..200u64 {
            for i in 0..12 {
                a[i] = a[i].rotate_left(5) ^ a[(i + 1) % 12].wrapping_add(round);
            }
            for i in 0..20 {
                f[i] = f[i] * 0.5 + f[(i + 1) % 20];
            }
            step();
        }
        (a.iter().fold(0, |x, y| x ^ y), f.iter().sum())
    }
    let wanted = (churn(3, || ()), churn(77, || ()));
    let got = std::rc::Rc::new(std::cell::Cell::new((0, 0.0)));
    let mut fiber = Fiber::new(arena(4), {
        let got = got.clone();
        move |to| {
            got.set(churn(3, || {
                to.pause(0);
            }))
        }
    });
    fiber.resume(0);
    let mine = churn(77, || {
        fiber.resume(0);
    });
    fiber.finish();
    assert_eq!((got.get(), mine), wanted);
}

#[cfg(target_arch = "x86_64")]
mod modes {
    use core::arch::asm;

    pub fn get() -> (u32, u16) {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: stores two words.
        unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87) };
        (mxcsr & 0xffc0, x87)
    }

    pub fn set(mxcsr: u32, x87: u16) {
        // SAFETY: changes rounding only, and the caller sets it back.
        unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87) };
    }

    pub const DEFAULT: (u32, u16) = (0x1f80, 0x37f);
    pub const OTHER: (u32, u16) = (0x7f80, 0xf7f);
}

#[cfg(target_arch = "aarch64")]
mod modes {
    use core::arch::asm;

    pub fn get() -> (u32, u16) {
        let fpcr: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr) };
        (fpcr as u32, 0)
    }

    pub fn set(fpcr: u32, _: u16) {
        // SAFETY: changes rounding only, and the caller sets it back.
        unsafe { asm!("msr fpcr, {}", in(reg) u64::from(fpcr)) };
    }

    pub const DEFAULT: (u32, u16) = (0, 0);
    pub const OTHER: (u32, u16) = (0x00c0_0000, 0);
}

#[test]
fn floating_point_modes_belong_to_the_context() {
    assert_eq!(modes::get(), modes::DEFAULT);
    let mut fiber = Fiber::new(arena(4), |to| {
        assert_eq!(modes::get(), modes::DEFAULT, "a new context starts in the default modes");
        modes::set(modes::OTHER.0, modes::OTHER.1);
        to.pause(0);
        let kept = modes::get();
        modes::set(modes::DEFAULT.0, modes::DEFAULT.1);
        assert_eq!(kept, modes::OTHER, "modes are kept across a switch");
    });
    fiber.resume(0);
    assert_eq!(modes::get(), modes::DEFAULT, "modes do not leak into the resumer");
    fiber.finish();
    assert_eq!(modes::get(), modes::DEFAULT);
}

#[inline(never)]
fn where_am_i() -> String {
    Backtrace::force_capture().to_string()
}

#[test]
fn a_backtrace_ends_at_the_entry() {
    let trace = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
    let fiber = Fiber::new(arena(4), {
        let trace = trace.clone();
        move |_| *trace.borrow_mut() = where_am_i()
    });
    fiber.finish();
    let trace = trace.take();
    assert!(trace.contains("where_am_i"), "{trace}");
    assert!(trace.contains("common::enter"), "{trace}");
    assert!(!trace.contains("a_backtrace_ends_at_the_entry::test"), "{trace}");
    assert!(!trace.contains("libc_start"), "the walk left the context: {trace}");
}

#[inline(never)]
fn waits_here(to: &common::Yielder) {
    for value in 1..4 {
        assert_eq!(to.pause(value), value * 10);
    }
    std::hint::black_box(to);
}

#[test]
fn a_visitor_sees_where_a_context_is_suspended() {
    let mut fiber = Fiber::new(arena(4), waits_here);
    let unstarted = fiber.backtrace().to_string();
    assert!(!unstarted.contains("waits_here") && !unstarted.contains("libc_start"), "{unstarted}");
    assert_eq!(fiber.resume(0), 1);
    for value in 1..4 {
        for _ in 0..3 {
            let trace = fiber.backtrace().to_string();
            assert!(trace.contains("waits_here") && trace.contains("common::enter"), "{trace}");
            assert!(!trace.contains("libc_start"), "the walk left the context: {trace}");
        }
        fiber.resume(value * 10);
    }
    assert!(fiber.done());
}

#[test]
fn panics_are_caught_with_others_suspended_in_theirs() {
    // A context suspended while it unwinds must not make another's panic a double one.
    struct PauseOnDrop<'a>(&'a common::Yielder);
    impl Drop for PauseOnDrop<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.pause(1);
            assert!(std::thread::panicking());
        }
    }
    let arena = arena(4);
    let mut first = Fiber::new(arena, |to| {
        let _guard = PauseOnDrop(to);
        std::panic::resume_unwind(Box::new("first"));
    });
    assert_eq!(first.resume(0), 1);
    assert!(!std::thread::panicking(), "the panic count belongs to the context");
    let mut second = Fiber::new(arena, |_| std::panic::resume_unwind(Box::new("second")));
    second.resume(0);
    assert_eq!(second.take_panic().expect("a panic").downcast_ref(), Some(&"second"));
    first.resume(0);
    assert!(first.done());
    assert_eq!(first.take_panic().expect("a panic").downcast_ref(), Some(&"first"));
}

#[test]
fn the_slow_way_to_set_the_thread_pointer() {
    if std::env::var_os("SLOW_FS").is_none() {
        let output = rerun("the_slow_way_to_set_the_thread_pointer", "SLOW_FS", "1");
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let arena = arena(4);
    raddle_context::switch::detect(true);
    #[cfg(target_arch = "x86_64")]
    assert!(raddle_context::switch::fs_method().starts_with("arch_prctl"));
    let mut fiber = Fiber::new(arena, |to| {
        for i in 0.. {
            if to.pause(i * 7) == 1 {
                break;
            }
        }
    });
    for i in 0..10_000 {
        assert_eq!(fiber.resume(0), i * 7);
    }
    fiber.resume(1);
    assert!(fiber.done());
}

#[test]
fn a_suspended_context_tells_where_it_is() {
    let mut fiber = Fiber::new(arena(4), |to| {
        to.pause(0);
    });
    fiber.resume(0);
    // SAFETY: suspended, and nobody resumes it meanwhile.
    let frame = unsafe { fiber.context().frame() };
    assert!(frame.pc != 0);
    assert!((fiber.slot().limit().addr()..fiber.slot().top().addr()).contains(&frame.sp));
    assert!(
        fiber.slot().top().addr() - frame.sp < 1536,
        "a parked context uses {} bytes",
        fiber.slot().top().addr() - frame.sp
    );
    fiber.finish();
}
