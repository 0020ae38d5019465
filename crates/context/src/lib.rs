//! Stacks, guard pages, thread-local storage blocks and the switch between contexts.
//!
//! A *context* is what a processor needs to go on with a lightweight thread: its stack pointer and its thread pointer
//! (FS base on x86-64, TPIDR_EL0 on aarch64). Because the thread pointer is switched with the stack, each lightweight
//! thread has its own `errno`, `thread_local!`s, `std::thread::current()` and C `__thread` variables, and keeps them on
//! whichever kernel thread it runs.
//!
//! * [`switch`]: the symmetric switch; one file per architecture.
//! * [`stack`]: arenas of stack slots: reservation, guards, colouring, recycling.
//! * [`tls`]: the block of thread-local storage at the top of each slot: how it is built, renewed, and torn down.
//! * [`overflow`]: a stack overflow reported with the thread's name.
//!
//! Architecture invariant: nothing here knows what a scheduler or a policy is, and nothing here blocks.
//!
//! # Example
//! ```
//! use raddle_context::{stack::Arena, switch::{switch, Context}, tls};
//!
//! static mut MAIN: Context = Context::empty();
//! static mut CHILD: Context = Context::empty();
//!
//! unsafe extern "C" fn child(first: usize) -> ! {
//!     let mut got = first;
//!     loop {
//!         // SAFETY: MAIN was saved by the switch that came here; both contexts stay on one kernel thread.
//!         got = unsafe { switch(&raw mut CHILD, &raw const MAIN, got * 2) };
//!     }
//! }
//!
//! let tls = tls::init().expect("this C library is supported");
//! let arena = Arena::new(64 << 10, 16).expect("address space");
//! arena.reserve().expect("a free slot");
//! let slot = arena.take();
//! let native = raddle_context::switch::current_fs();
//! // SAFETY: the slot is ours, its block is prepared, and CHILD is only entered below.
//! let answer = unsafe {
//!     (*&raw mut CHILD).prepare(slot.top(), slot.fs(), child);
//!     tls::move_malloc_words(native, slot.fs());
//!     let answer = switch(&raw mut MAIN, &raw const CHILD, 21);
//!     tls::move_malloc_words(slot.fs(), native);
//!     answer
//! };
//! assert_eq!(answer, 42);
//! assert!(tls.block_size() > 0);
//! ```

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("raddle-context supports 64-bit Linux with glibc: build for a target that ends in -linux-gnu");

#[cfg(all(raddle_tsan, not(target_arch = "x86_64")))]
compile_error!("the runtime under ThreadSanitizer is written for x86-64");

pub mod interlude;
pub mod overflow;
pub mod stack;
pub mod switch;
pub mod tls;
#[cfg(raddle_tsan)]
mod tsan;
