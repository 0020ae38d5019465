//! What a scheduler knows that does not touch the operating system: thread states, the park protocol, idle and wake-up,
//! takeover, the policy trait with its policies, and the synchronisation primitives. Generic over the machine.
//!
//! Architecture invariant: no system call, no `std::sync::atomic`, no time but through [`raddle_machine::Machine`].
//!
//! Reading order: [`thread`] (the wait word), [`runtime`] (what a primitive asks of whoever runs threads), [`ready`]
//! (the token), [`policy`], [`tokens`] and [`policies`], [`dispatch`] (the loop round the policy), [`govern`] (what
//! adapts), [`idle`], [`takeover`], [`sync`], [`lock`], [`readiness`], [`lives`], [`batch`], [`doorbell`], [`members`],
//! [`countdown`], [`parker`], [`watchman`], [`counted`], [`discard`], [`standby`], [`standing`], [`whereabouts`],
//! [`turn`], [`keeper`], [`join`], [`spares`], [`bedside`], [`words`],
//! [`notices`], [`once_box`], [`one_at_a_time`], [`handover`], [`code_of_program`].

pub mod batch;
pub mod bedside;
pub mod code_of_program;
pub mod countdown;
pub mod counted;
pub mod discard;
pub mod dispatch;
pub mod doorbell;
pub mod expression;
pub mod govern;
pub mod handover;
pub mod idle;
pub mod join;
pub mod keeper;
pub mod lives;
pub mod lock;
pub mod members;
pub mod notices;
pub mod once_box;
pub mod one_at_a_time;
pub mod parker;
pub mod policies;
pub mod policy;
pub mod readiness;
pub mod ready;
pub mod runtime;
pub mod spares;
pub mod standby;
pub mod standing;
pub mod sync;
pub mod takeover;
pub mod thread;
pub mod tokens;
pub mod turn;
pub mod watchman;
pub mod whereabouts;
pub mod words;

pub use policy::{Cause, Local, Notify, Policy};
pub use ready::{Ready, Upcoming};
pub use runtime::{Runtime, Word};
pub use thread::{Claim, Epoch, Thread, Wake};
