//! Random operation sequences against sequential models. A failure prints the smallest sequence that shows it.

use proptest::prelude::*;
use raddle_machine::Real;
use raddle_queues::fifo_ring::{FifoRing, Steal};
use raddle_queues::inbox::{Inbox, Link};
use raddle_queues::lifo_ring::LifoRing;
use raddle_queues::slab::Slab;
use raddle_queues::spsc::Spsc;
use raddle_queues::tickets::Tickets;
use raddle_queues::unbounded::{Hazards, Item, Unbounded};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// What random sequences consist of; the queues read the numbers as they need.
#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    Pop(usize),
    Steal(usize),
    StealInto(usize),
    Publish(usize),
    Oldest,
    Tune(u64, u64),
}

/// How long a sequence and a burst may get: Miri gets shorter ones.
const LONGEST: usize = if cfg!(miri) { 16 } else { 120 };
const BURST: usize = if cfg!(miri) { 8 } else { 40 };

fn operations() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1..BURST).prop_map(Op::Push),
        4 => (1..BURST).prop_map(Op::Pop),
        1 => (1..9usize).prop_map(Op::Steal),
        1 => (1..9usize).prop_map(Op::StealInto),
        2 => (0..9usize).prop_map(Op::Publish),
        1 => Just(Op::Oldest),
        1 => (1..20u64, 0..5u64).prop_map(|(batch, window)| Op::Tune(batch, window)),
    ];
    prop::collection::vec(op, 1..LONGEST)
}

/// The items that a thief should get from a stealable part.
fn half(public: &mut VecDeque<usize>, max: usize) -> Vec<usize> {
    let n = public.len().div_ceil(2).min(max);
    public.drain(..n).collect()
}

fn check_steal(got: Steal, rest: impl IntoIterator<Item = usize>, expected: &[usize]) -> Result<(), TestCaseError> {
    match got {
        Steal::Empty => prop_assert!(expected.is_empty()),
        Steal::Lost => prop_assert!(false, "nobody else is here"),
        Steal::Taken { first, more } => {
            prop_assert_eq!((first, more), (expected[0], expected.len() - 1));
            prop_assert_eq!(rest.into_iter().collect::<Vec<_>>(), &expected[1..]);
        }
    }
    Ok(())
}

#[derive(Default)]
struct FifoModel {
    private: VecDeque<usize>,
    /// How many coming pushes are private.
    window: usize,
    public: VecDeque<usize>,
    /// A thief has taken what came after the batch.
    passed: bool,
    batch: usize,
    tuned_window: usize,
}

impl FifoModel {
    fn push(&mut self, item: usize) {
        if self.window > 0 {
            self.window -= 1;
            self.private.push_back(item);
        } else {
            self.public.push_back(item);
        }
    }

    fn pop(&mut self) -> Option<usize> {
        if self.private.is_empty() && self.window == 0 && !self.public.is_empty() {
            let n = self.public.len().div_ceil(2).min(self.batch).max(self.tuned_window);
            let taken = n.min(self.public.len());
            self.private = self.public.drain(..taken).collect();
            (self.window, self.passed) = (n - taken, false);
        }
        self.private.pop_front()
    }

    fn steal(&mut self, max: usize) -> Vec<usize> {
        let taken = half(&mut self.public, max);
        self.passed |= !taken.is_empty();
        taken
    }

    fn unclaim(&mut self) -> bool {
        if self.private.is_empty() && self.window == 0 {
            return true;
        }
        if !self.passed {
            self.window = 0;
            self.public = self.private.drain(..).chain(self.public.drain(..)).collect();
        }
        !self.passed
    }
}

proptest! {
    #[test]
    fn the_fifo_ring_is_a_batch_and_a_queue(ops in operations()) {
        let (ring, mut owner) = FifoRing::<Real>::new(8).unwrap();
        let mut model = FifoModel { batch: 64, ..FifoModel::default() };
        let mut fresh = 0..;
        for op in ops {
            match op {
                Op::Push(1) => {
                    let item = fresh.next().unwrap() + 1;
                    owner.push(item).unwrap();
                    model.push(item);
                }
                Op::Push(n) => {
                    let items: Vec<usize> = fresh.by_ref().take(n).map(|i| i + 1).collect();
                    owner.push_batch(&items).unwrap();
                    items.iter().for_each(|&item| model.push(item));
                }
                Op::Pop(n) => for _ in 0..n {
                    prop_assert_eq!(owner.pop(), model.pop());
                },
                Op::Steal(max) => {
                    let mut out = [0; 8];
                    let got = ring.steal(&mut out[..max]);
                    let expected = model.steal(max);
                    check_steal(got, out.into_iter().take(expected.len()).skip(1), &expected)?;
                }
                Op::StealInto(max) => {
                    let (_, mut thief) = FifoRing::<Real>::new(2).unwrap();
                    let got = thief.steal_from(&ring, max as u64);
                    check_steal(got, std::iter::from_fn(|| thief.pop()), &model.steal(max))?;
                }
                Op::Publish(0..5) => prop_assert_eq!(owner.unclaim(), model.unclaim()),
                Op::Publish(_) => {
                    owner.publish_all().unwrap();
                    if !model.unclaim() {
                        let late: Vec<_> = model.private.drain(..).collect();
                        model.public.extend(late);
                    }
                }
                Op::Oldest => (),
                Op::Tune(batch, window) => {
                    owner.set_batch(batch);
                    owner.set_window(window);
                    (model.batch, model.tuned_window) = (batch as usize, window as usize);
                }
            }
            prop_assert_eq!(owner.private_len(), model.private.len() as u64);
            prop_assert_eq!(ring.len(), model.public.len() as u64);
        }
    }

    #[test]
    fn the_lifo_ring_is_a_stack_and_a_queue(ops in operations()) {
        let (ring, mut owner) = LifoRing::<Real>::new(8).unwrap();
        let (mut private, mut public) = (VecDeque::new(), VecDeque::new());
        let mut fresh = 0..;
        for op in ops {
            match op {
                Op::Push(n) => {
                    let items: Vec<usize> = fresh.by_ref().take(n).map(|i| i + 1).collect();
                    owner.push_batch(&items).unwrap();
                    private.extend(items);
                }
                Op::Pop(n) => for _ in 0..n {
                    if private.is_empty() {
                        private = public.split_off(public.len() / 2);
                    }
                    prop_assert_eq!(owner.pop(), private.pop_back());
                },
                Op::Steal(max) => {
                    let mut out = [0; 8];
                    let got = ring.steal(&mut out[..max]);
                    let expected = half(&mut public, max);
                    check_steal(got, out.into_iter().take(expected.len()).skip(1), &expected)?;
                }
                Op::StealInto(max) => {
                    let (_, mut thief) = LifoRing::<Real>::new(2).unwrap();
                    let got = thief.steal_from(&ring, max as u64);
                    check_steal(got, std::iter::from_fn(|| thief.pop_oldest()), &half(&mut public, max))?;
                }
                Op::Publish(keep) => {
                    owner.publish(keep as u64);
                    public.extend(private.drain(..private.len().saturating_sub(keep)));
                }
                Op::Oldest => {
                    let expected = public.pop_front().or_else(|| private.pop_front());
                    prop_assert_eq!(owner.pop_oldest(), expected);
                }
                Op::Tune(..) => (),
            }
            prop_assert_eq!((owner.private_len(), ring.len()), (private.len() as u64, public.len() as u64));
        }
    }

    #[test]
    fn the_single_producer_queue_is_a_queue(ops in operations()) {
        let (mut producer, mut consumer) = Spsc::<Real>::new().unwrap();
        let mut model = VecDeque::new();
        let mut fresh = 0..;
        for op in ops {
            match op {
                Op::Push(1) => {
                    let item = fresh.next().unwrap() + 1;
                    producer.push(item).unwrap();
                    model.push_back(item);
                }
                Op::Push(n) => {
                    let items: Vec<usize> = fresh.by_ref().take(n).map(|i| i + 1).collect();
                    producer.push_batch(&items).unwrap();
                    model.extend(items);
                }
                Op::Publish(_) => {
                    let mut all = Vec::new();
                    prop_assert_eq!(consumer.take_all(|item| all.push(item)), model.len() as u64);
                    prop_assert_eq!(all, model.drain(..).collect::<Vec<_>>());
                }
                Op::Pop(n) | Op::Steal(n) => for _ in 0..n {
                    prop_assert_eq!(consumer.pop(), model.pop_front());
                },
                _ => (),
            }
            prop_assert_eq!(producer.queue().len(), model.len() as u64);
        }
    }

    #[test]
    fn the_inbox_is_a_queue_that_is_emptied(ops in operations()) {
        let links: Vec<Link<Real>> = (0..LONGEST * BURST).map(|_| Link::new()).collect();
        let inbox = Inbox::new();
        let mut model = Vec::new();
        let mut fresh = links.iter().map(NonNull::from);
        for op in ops {
            match op {
                Op::Push(n) => for link in fresh.by_ref().take(n) {
                    // SAFETY: `links` outlives the inbox's use of it; each is pushed once.
                    prop_assert_eq!(unsafe { inbox.push(link) }, model.is_empty());
                    model.push(link);
                },
                _ => prop_assert_eq!(inbox.take_all().collect::<Vec<_>>(), std::mem::take(&mut model)),
            }
        }
    }

    #[test]
    fn the_unbounded_queue_is_a_queue(ops in operations()) {
        let domain = Hazards::<Real>::new(2).unwrap();
        let queues = [Unbounded::new(&domain).unwrap(), Unbounded::new(&domain).unwrap()];
        let mut models = [VecDeque::new(), VecDeque::new()];
        let mut seats = [domain.seat(0).unwrap(), domain.seat(1).unwrap()];
        let items: Vec<Item<Real>> = (0..50).map(|_| Item::new().unwrap()).collect();
        let mut free: Vec<NonNull<Item<Real>>> = items.iter().map(NonNull::from).collect();
        for op in ops {
            match op {
                Op::Push(n) => for _ in 0..n {
                    let Some(item) = free.pop() else { break };
                    // SAFETY: `items` outlives the queues' use of it; a free item is in neither.
                    unsafe { queues[n % 2].enqueue(&mut seats[n / 2 % 2], item) };
                    models[n % 2].push_back(item);
                },
                Op::Pop(n) | Op::Steal(n) | Op::Publish(n) => for _ in 0..n {
                    let expected = models[n % 2].pop_front();
                    prop_assert_eq!(queues[n % 2].dequeue(&mut seats[n / 2 % 2]), expected);
                    free.extend(expected);
                },
                _ => for (queue, model) in queues.iter().zip(&models) {
                    prop_assert_eq!(queue.is_empty(), model.is_empty());
                },
            }
        }
        for (queue, _) in queues.iter().zip(&models) {
            while queue.dequeue(&mut seats[0]).is_some() {}
        }
        for item in &items {
            // SAFETY: in no queue any more.
            unsafe { seats[0].release(item) };
        }
    }

    #[test]
    fn the_queue_of_tickets_is_a_bounded_queue(ops in operations()) {
        const ROOM: usize = 16;
        let queue = Tickets::<Real>::new(ROOM).unwrap();
        let mut model = VecDeque::new();
        let mut fresh = 0..;
        for op in ops {
            match op {
                Op::Push(n) => for number in fresh.by_ref().take(n) {
                    let room = model.len() < ROOM;
                    prop_assert_eq!(queue.enqueue(number).is_ok(), room);
                    model.extend(room.then_some(number));
                },
                Op::Pop(n) | Op::Steal(n) => for _ in 0..n {
                    prop_assert_eq!(queue.dequeue(), model.pop_front());
                },
                _ => prop_assert_eq!(queue.is_empty(), model.is_empty()),
            }
        }
    }

    #[test]
    fn the_slab_gives_each_object_to_one_and_makes_no_more_than_needed(ops in operations()) {
        let slab = Slab::<u32, Real, 4, 16>::new(|index| index);
        let mut caches = [slab.cache(), slab.cache()];
        let mut used = VecDeque::new();
        let mut most = 0;
        for op in ops {
            match op {
                Op::Push(n) => for _ in 0..n {
                    let object = caches[n % 2].allocate().unwrap();
                    prop_assert!(!used.contains(&object));
                    used.push_back(object);
                },
                Op::Pop(n) | Op::Steal(n) => for object in used.drain(..n.min(used.len())) {
                    // SAFETY: allocated from this slab, freed once.
                    unsafe { caches[n % 2].free(object) };
                },
                _ => caches[0].give_back(),
            }
            most = most.max(used.len());
            // Two caches withhold at most two groups each, and the last group may be broken into.
            prop_assert!(slab.created() as usize <= most + 5 * 4);
            prop_assert_eq!(slab.iterate().count(), slab.created() as usize);
        }
    }
}
