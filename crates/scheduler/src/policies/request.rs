//! `request(how, ...)`: who has too much asks others to come and steal, instead of waiting until they look.
//!
//! Source: work shedding and work requesting of the MSc report *Effective parallelism with OCaml schedulers*, sections
//! 4.4.1 and 7.1.1. Under it lies [`local`](super::local) with all its options (its order is `order=...` here); what
//! idle processors steal unasked is the last resort, so that nobody idles while there is something. A processor whose
//! queue holds [`MANY`] threads or more asks once in [`EVERY`] pushes:
//!
//! - `naive`: it writes its number on the door of another processor, chosen by chance, and has it woken if it sleeps.
//!   That one, busy or not, is forced to steal once at its next selection; the wish is then wiped off.
//! - `sticky`: as `naive`, but the wish stays: whoever was asked steals once, and goes there first whenever it looks
//!   for work, until another number stands on its door.
//! - `ticket`: it pins its number on a board for all (once). Who looks for work takes a ticket off before it looks
//!   elsewhere. So busy processors are left in peace.
//!
//! Differs: the board is a set of bits instead of a queue (a processor has one ticket out at a time); a queue that is
//! too long is one of [`MANY`], which the report does not say.
//!
//! Suits: `ticket`: few that spawn much for many that search. Bad at: `naive` with one spawner, to which too many are
//! sent at once, and whose wishes reach processors that have work enough and come late. (The report found the same of
//! `sticky`; here it is not seen, neither on two processors nor on 64 simulated ones.)
//!
//! A frozen processor strands what `local` strands; a wish on its door, or a ticket that it took, is lost, and the next
//! push that counts asks again.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let shape = "request(ticket, capacity=64)".parse().unwrap();
//! let policy = policies::build::<Real>(&shape, 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "request(ticket, capacity=64)");
//! ```
#![forbid(unsafe_code)]

use super::Others;
use super::local::{LocalPart, LocalPolicy};
use crate::expression::{LocalQueues, Requests};
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::{Board, Door};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::Arc;

/// Threads that are too many for one processor. Both numbers at 2, simulated on 16 cores: trees take 19 to 32 %
/// longer, packets of 2 µs 5 to 41 %. Either at 32: packets within 3 %, trees and `fib` from 20 % shorter to 11 %
/// longer, by the kind of request (2026-11-28, docs/constants.md).
pub const MANY: u64 = 8;
/// Pushes of a processor between two requests. As measured there.
pub const EVERY: u32 = 8;

struct Asking<M: Machine> {
    how: Requests,
    doors: Box<[Door<M>]>,
    board: Board<M>,
}

/// The policy.
pub struct Request<M: Machine> {
    inner: LocalPolicy<M>,
    asking: Arc<Asking<M>>,
    options: LocalQueues,
}

impl<M: Machine> Request<M> {
    /// For at most `processors` processors.
    pub fn new(how: Requests, options: LocalQueues, processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let doors = (0..processors).map(|_| Door::default()).collect();
        let asking = Arc::new(Asking { how, doors, board: Board::new(processors) });
        Ok(Self { inner: LocalPolicy::new(options, processors, others)?, asking, options })
    }
}

impl<M: Machine> Policy<M> for Request<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        Box::new(RequestLocal {
            part: self.inner.part(index),
            asking: self.asking.clone(),
            index,
            pushes: 0,
            followed: None,
        })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.inner.submit(thread)
    }

    fn describe(&self) -> String {
        crate::expression::Expression::Request(self.asking.how, self.options).to_string()
    }

    fn offers(&self) -> bool {
        self.inner.offers()
    }

    fn strands(&self) -> &'static str {
        self.inner.strands()
    }
}

struct RequestLocal<M: Machine> {
    part: LocalPart<M>,
    asking: Arc<Asking<M>>,
    index: usize,
    pushes: u32,
    /// The wish that was followed last.
    followed: Option<usize>,
}

impl<M: Machine> RequestLocal<M> {
    #[cold]
    fn ask(&mut self) {
        let count = self.asking.doors.len();
        if self.asking.how == Requests::Ticket {
            // The push says that there is something for anyone; the ticket tells whoever looks where.
            self.asking.board.pin(self.index);
        } else if count > 1 {
            let other = (self.index + 1 + self.part.chance().below(count - 1)) % count;
            self.asking.doors[other].write(self.index);
            self.part.others().wake(Notify::Processor(other));
        }
    }

    /// Follows a wish that has not been followed yet.
    fn follow(&mut self) -> Option<Ready<M>> {
        if self.asking.how == Requests::Ticket {
            return None;
        }
        let door = &self.asking.doors[self.index];
        let who = door.read()?;
        if self.asking.how == Requests::Naive {
            door.wipe();
        } else if self.followed == Some(who) {
            return None;
        }
        self.followed = Some(who);
        self.part.steal_from(who, 1)
    }
}

impl<M: Machine> Local<M> for RequestLocal<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        let notify = self.part.push(thread, cause);
        self.pushes = self.pushes.wrapping_add(1);
        if self.pushes.is_multiple_of(EVERY) && self.part.len() >= MANY {
            self.ask();
        }
        notify
    }

    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        self.follow().or_else(|| self.part.next(floor))
    }

    fn search(&mut self) -> Option<Ready<M>> {
        if let Some(thread) = self.next(u8::MAX) {
            return Some(thread);
        }
        match self.asking.how {
            Requests::Naive => {}
            Requests::Sticky => {
                if let Some(thread) = self.followed.and_then(|who| self.part.steal_from(who, 1)) {
                    return Some(thread);
                }
            }
            Requests::Ticket => {
                // Not for ever: others may pin as fast as we take.
                for _ in 0..self.asking.doors.len() {
                    let Some(who) = self.asking.board.take(self.index) else { break };
                    if let Some(thread) = self.part.steal_from(who, 1) {
                        return Some(thread);
                    }
                }
            }
        }
        self.part.search()
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        self.part.relieve(victim)
    }

    fn has_work(&self) -> bool {
        self.part.has_work()
    }

    fn holds_private(&self) -> bool {
        self.part.holds_private()
    }

    fn crowded(&self) -> bool {
        self.part.crowded()
    }

    fn publish(&mut self) -> Notify {
        self.part.publish()
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.part.drain(out);
    }

    fn steals(&self) -> (u64, u64) {
        self.part.steals()
    }
}
