//! Sends that several threads of a processor make at about the same time are carried out in one system call.
//!
//! Each send on the same machine wakes somebody (a client, a database), who takes the core from the sender, finds one
//! message, answers it, and sleeps again. Sends that reach the kernel together wake each receiver once for all that is
//! there, and the sender is interrupted once, since the kernel lets nobody else in before the call returns. So a thread
//! that sends while others of its processor are ready *leads*: it lets these run first, who add their sends to the
//! processor's batch and wait; when its turn comes again it has the kernel carry them all out through a ring
//! ([`crate::os::ring`]), and wakes them. (Figures: decision 0021.)
//!
//! What it costs: a send waits for one round of the ready threads. So this is done only where rounds are short (the
//! processor looked for events twice within a millisecond), under a policy without priorities, where no processor of
//! the pool is idle, and for little data (`MOST`): to copy more takes longer than a wake-up, and data that has to come
//! from a disk would hold up all others. Everywhere else the caller sends by itself, as without this.
//!
//! A leader may hold a lock that others spin for, or that they need before they send; or a thread may begin to compute.
//! So a round that took long is followed by many times its length without ([`raddle_scheduler::govern::sends`]), and a
//! batch in which the leader stayed alone by sends without, twice as many each time.
//!
//! The protocol is [`raddle_scheduler::batch`]. From before a thread adds its send until that is carried out, the
//! thread is in a wait: signals and interruptions are put off, so no handler can leave by a jump and take the data's
//! memory with it.
//!
//! Progress: the leader stays ready, so it can be stolen as any other; a thread that is frozen while it leads delays
//! the sends of its batch, not of others.

use crate::Host;
use crate::carry::descriptor::Descriptor;
use crate::carry::events::table;
use crate::carry::processor::Processor;
use crate::carry::sends::{Batch, OFF, Post, REFUSED, Sends};
use crate::carry::switching::{activation_of, current, enter, park, yield_now};
use crate::os::ring::{NOTHING, ROOM, Send, UNASKED};
use raddle_machine::{Machine, Real};
use raddle_queues::pad::Padded;
use raddle_scheduler::batch::Outcome;
use raddle_scheduler::runtime::wake;
use raddle_scheduler::{Claim, Epoch, Wake};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a send.
const MOST: usize = 8192;

/// Sends that were carried out together, and calls that did it. Counters only.
static TOGETHER: Padded<[AtomicU64; 2]> = Padded([AtomicU64::new(0), AtomicU64::new(0)]);

/// Sends that were carried out together, calls that did it, and whether the kernel has refused to.
#[doc(hidden)]
pub fn sent_together() -> (u64, u64, bool) {
    let [sends, calls] = TOGETHER.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    (sends, calls, REFUSED.load(Ordering::Relaxed))
}

/// `send(descriptor, data, size, flags)`, where `flags` say MSG_DONTWAIT, together with those of other threads: what it
/// would return, or a negated error number. SIGPIPE is not raised. `None` where the caller has to send by itself,
/// nothing having been done.
///
/// # Safety
/// So many bytes can be read at `data`, or it is for the kernel to find out that they cannot; nobody changes them
/// meanwhile.
#[doc(hidden)]
#[inline]
pub unsafe fn send_together(descriptor: i32, data: *const u8, size: usize, flags: i32) -> Option<isize> {
    let me = current()?;
    let activation = activation_of(me);
    let processor = activation.processor();
    let sends = &processor.sends;
    let may = sends.apt.load(Ordering::Relaxed)
        && size <= MOST
        && !processor.pool.idle.hungry()
        && !activation.apart.load(Ordering::Relaxed)
        && !OFF.load(Ordering::Relaxed)
        && !me.thread.is_in_wait()
        && sends.may_lead();
    if !may || !others_are_ready(me) {
        return None;
    }
    let send = Send { descriptor, data, size: size as u32, flags };
    let epoch = me.thread.arm();
    let answer = post(processor, me, epoch, send);
    // The wait is over, whether anybody has ended it or not.
    let (Claim::Lost | Claim::WonArming | Claim::WonParked) = me.thread.claim(epoch, Wake::Itself);
    let _: Wake = me.thread.outcome();
    activation_of(me).open();
    crate::carry::above::poll_interruption();
    answer
}

/// Whether other threads wait for the caller's processor, under a policy without an order among them.
fn others_are_ready(me: &'static Descriptor) -> bool {
    let mut inside = enter(me);
    let ready = inside.processor().pool.lets_go() && inside.owned().dispatcher.has_own();
    inside.leave();
    ready
}

/// Inside the wait `epoch`: adds the send to the processor's batch and sees to it that it is carried out.
fn post(processor: &'static Processor, me: &'static Descriptor, epoch: Epoch, send: Send) -> Option<isize> {
    let sends = &processor.sends;
    let mut batch = sends.take()?;
    if batch.posts.len() >= ROOM {
        sends.put(batch);
        return None;
    }
    let outcome = Outcome::default();
    let leads = batch.posts.is_empty();
    let life = table::life(send.descriptor);
    batch.posts.push(Post { send, life, thread: me.record(), epoch, outcome: &raw const outcome });
    sends.put(batch);
    crate::carry::note::note_wait("a send, with others", send.descriptor as usize, None);
    if leads {
        let began = Real::now();
        yield_now(me);
        let mut batch = loop {
            // Who adds to it has it for an instant.
            match sends.take() {
                Some(batch) => break batch,
                None => _ = yield_now(me),
            }
        };
        sends.led(began, batch.posts.len());
        carry_out(sends, &mut batch, me);
        sends.put(batch);
    } else {
        park(me, epoch, None);
        // Whoever interrupts a thread ends its wait, and the leader is on its way.
        while outcome.get().is_none() {
            yield_now(me);
        }
    }
    outcome.get().filter(|answer| *answer != UNASKED)
}

/// Has the kernel do it, and tells those who wait. What it was not asked its sender does alone.
fn carry_out(sends: &Sends, batch: &mut Batch, me: &'static Descriptor) {
    if let Some(ring) = batch.ring.take_if(|ring| ring.is_doubtful()) {
        ring.abandon();
    }
    if batch.ring.is_none() && !OFF.load(Ordering::Relaxed) {
        batch.ring = sends.ring();
    }
    let count = batch.posts.len();
    let mut list = [NOTHING; ROOM];
    let mut answers = [UNASKED; ROOM];
    for (place, post) in list.iter_mut().zip(&batch.posts) {
        // Of another life the number may stand for something else.
        if table::life(post.send.descriptor) == post.life {
            *place = post.send;
        }
    }
    if count > 1
        && !OFF.load(Ordering::Relaxed)
        && let Some(ring) = &mut batch.ring
    {
        // SAFETY: who posted the data waits for the outcome, and promised the rest.
        let well = unsafe { ring.send_all(&list[..count], &mut answers[..count]) };
        if !well && let Some(ring) = batch.ring.take() {
            // The program has closed it, for one.
            ring.abandon();
        }
        TOGETHER[0].fetch_add(count as u64, Ordering::Relaxed);
        TOGETHER[1].fetch_add(1, Ordering::Relaxed);
    }
    for (index, post) in batch.posts.drain(..).enumerate() {
        let Post { thread, epoch, outcome, .. } = post;
        let answer = if list[index].descriptor == NOTHING.descriptor { UNASKED } else { answers[index] };
        // SAFETY: it stays until it is set, which is the last that is done to it here.
        unsafe { (*outcome).set(answer) };
        if !std::ptr::eq(thread, me.record()) {
            // False if somebody has interrupted it: then it looks by itself.
            let _: bool = wake::<Host>(thread, epoch, Wake::Signalled);
        }
    }
}
