//! Arenas: reuse, exhaustion, several kernel threads, memory returned, both ways to make guards.

mod common;

use common::{Fiber, arena, rerun};
use raddle_context::stack::{Arena, GuardMethod, Slot, StackSize, find, guard_method};
use std::collections::HashSet;

#[test]
fn a_million_times_the_same_slot() {
    let arena = arena(8);
    for _ in 0..1_000_000 {
        arena.reserve().unwrap();
        arena.give(arena.take());
        arena.unreserve();
    }
    let stats = arena.stats();
    assert_eq!((stats.touched, stats.reserved, stats.hot), (1, 0, 1));
}

#[test]
fn reservations_run_out_and_come_back() {
    let arena = arena(3);
    for _ in 0..3 {
        arena.reserve().unwrap();
    }
    let why = arena.reserve().unwrap_err().to_string();
    assert!(why.contains("all 3 stack slots") && why.contains("raise the limit"), "{why}");
    let slots: Vec<Slot> = (0..3).map(|_| arena.take()).collect();
    assert_eq!(slots.iter().map(Slot::index).collect::<HashSet<_>>().len(), 3);
    assert_eq!(slots.iter().map(Slot::fs).collect::<HashSet<_>>().len(), 3);
    for slot in slots {
        // The whole stack is ours to write.
        assert_eq!(slot.top().addr() % 64, 0);
        // SAFETY: the first and last usable bytes of a slot of ours.
        unsafe {
            slot.limit().write(1);
            slot.top().sub(1).write(1);
        }
        arena.give(slot);
        arena.unreserve();
    }
    arena.reserve().unwrap();
    arena.unreserve();
}

#[test]
#[should_panic(expected = "another arena")]
fn a_slot_does_not_go_to_another_arena() {
    let (arena, other) = (arena(2), arena(2));
    arena.reserve().unwrap();
    other.give(arena.take());
}

#[test]
#[should_panic(expected = "another arena")]
fn several_slots_do_not_go_to_another_arena() {
    let (arena, other) = (arena(2), arena(2));
    arena.reserve().unwrap();
    other.give_some([arena.take()].into_iter());
}

#[test]
#[should_panic(expected = "given back twice")]
fn a_reservation_is_given_back_once() {
    let arena = arena(2);
    arena.reserve().unwrap();
    arena.unreserve();
    arena.unreserve();
}

#[test]
fn a_slot_is_one_word() {
    let arena = arena(2);
    arena.reserve().unwrap();
    let slot = arena.take();
    let (fs, top) = (slot.fs(), slot.top());
    let raw = slot.into_raw();
    assert_ne!(raw, 0);
    // SAFETY: from `into_raw`, once.
    let slot = unsafe { Slot::from_raw(raw) };
    assert_eq!((slot.fs(), slot.top()), (fs, top));
    assert!(core::ptr::eq(slot.arena(), arena));
    arena.give(slot);
    arena.unreserve();
}

#[test]
fn no_slot_twice_among_kernel_threads() {
    let arena = arena(64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..20_000usize {
                    if arena.reserve().is_err() {
                        continue;
                    }
                    let slot = arena.take();
                    let mark = slot.limit().cast::<usize>();
                    // SAFETY: our slot: nobody else writes here.
                    unsafe {
                        mark.write_volatile(round);
                        std::hint::spin_loop();
                        assert_eq!(mark.read_volatile(), round);
                    }
                    arena.give(slot);
                    arena.unreserve();
                    if round % 1000 == 0 {
                        arena.shrink(1);
                    }
                }
            });
        }
    });
    let stats = arena.stats();
    assert_eq!(stats.reserved, 0);
    assert_eq!(stats.hot + stats.cold, stats.touched);
}

/// Some take and give slots while another one gives back the rest, and what is idle, again and again: who has a right
/// has a slot that is mapped, and nobody else has it.
#[test]
fn whoever_has_a_right_finds_a_mapped_slot_while_space_is_given_back() {
    const TOGETHER: usize = 24;
    for round in 0..20 {
        let arena = arena(1 << 12);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..3)
                .map(|user: usize| {
                    scope.spawn(move || {
                        for step in 0..400 {
                            // Rights first, slots later, as threads have that were made and do not run yet.
                            let count = if step % 3 == 0 {
                                arena.reserve_some(TOGETHER)
                            } else {
                                (0..1 + step % TOGETHER).take_while(|_| arena.reserve().is_ok()).count()
                            };
                            let slots: Vec<Slot> = (0..count).map(|_| arena.take()).collect();
                            for slot in &slots {
                                // SAFETY: our slot: nobody else writes here.
                                unsafe { slot.limit().cast::<usize>().write_volatile(user) };
                            }
                            for slot in slots {
                                // SAFETY: our slot, of which nobody else writes this word.
                                assert_eq!(unsafe { slot.limit().cast::<usize>().read_volatile() }, user);
                                arena.give(slot);
                                arena.unreserve();
                            }
                        }
                    })
                })
                .collect();
            let (stop, wait) = (&stop, round * 50);
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_micros(wait));
                arena.give_back_rest();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    arena.unmap_idle();
                }
            });
            let ended: Vec<_> = users.into_iter().map(|user| user.join()).collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            ended.into_iter().for_each(|result| result.unwrap());
        });
        let limit = arena.stats().limit;
        assert!(arena.is_one_by_one() && limit < 1 << 12, "{limit}");
        assert_eq!(arena.stats().reserved, 0);
        // All that is idle goes, and comes back.
        arena.unmap_idle();
        assert_eq!(arena.unmap_idle(), 0);
        let count = (0..100).take_while(|_| arena.reserve().is_ok()).count();
        assert_eq!(count, 100);
        (0..count).map(|_| arena.take()).collect::<Vec<_>>().into_iter().for_each(|slot| arena.give(slot));
        arena.unreserve_some(count);
    }
}

#[test]
fn rights_without_slots_keep_theirs_when_the_rest_is_given_back() {
    let arena = arena(1000);
    assert_eq!(arena.reserve_some(70), 70);
    let first = arena.take();
    arena.give_back_rest();
    assert_eq!(arena.stats().limit, 500);
    assert_eq!(arena.unmap_idle(), 0);
    let slots: Vec<Slot> = (1..70).map(|_| arena.take()).chain([first]).collect();
    for slot in slots {
        // SAFETY: a slot of ours.
        unsafe { slot.limit().write(1) };
        arena.give(slot);
    }
    arena.unreserve_some(69);
    // All but one, whose right is out.
    assert_eq!(arena.unmap_idle(), 69);
    assert_eq!((1..).take_while(|_| arena.reserve().is_ok()).count(), 499);
}

/// Bytes of the slot's pages that are in memory.
fn resident(slot: &Slot) -> usize {
    let start = slot.limit().addr();
    let length = slot.arena().stats().slot_size - 4096;
    let mut pages = vec![0u8; length / 4096];
    // SAFETY: a mapped range, one byte for each page.
    assert_eq!(unsafe { libc::mincore(start as *mut _, length, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count() * 4096
}

#[test]
fn memory_goes_back() {
    let arena = arena(16);
    let dirty = |slot: &Slot| {
        // SAFETY: all usable bytes of a slot of ours.
        unsafe { core::ptr::write_bytes(slot.limit(), 0xa5, slot.size()) };
    };
    let mut slots = Vec::new();
    for _ in 0..8 {
        arena.reserve().unwrap();
        let slot = arena.take();
        assert!(resident(&slot) <= 2 * 4096, "a fresh slot touches two pages at most");
        dirty(&slot);
        slots.push(slot);
    }
    assert!(resident(&slots[0]) >= 60 << 10);
    for slot in slots {
        arena.give(slot);
        arena.unreserve();
    }
    assert_eq!(arena.shrink(3), 5);
    assert_eq!((arena.stats().hot, arena.stats().cold), (3, 5));
    assert_eq!(arena.shrink(0), 3);
    // They work as before, guard and block included.
    for round in 0..3 {
        let fibers: Vec<Fiber> = (0..8)
            .map(|_| {
                Fiber::new(arena, move |to| {
                    to.pause(round);
                })
            })
            .collect();
        for mut fiber in fibers {
            assert_eq!(fiber.resume(0), round);
            assert!(resident(fiber.slot()) <= 3 * 4096);
            fiber.finish();
        }
        arena.shrink(round);
    }
    assert_eq!(arena.stats().touched, 8);
}

#[test]
fn colours_differ_and_stay_in_two_pages() {
    let arena = arena(64);
    // Two pages, more only where a library brings large TLS.
    let tls = raddle_context::tls::init().unwrap();
    let fixed = tls.block_size() + (64 + tls.table_size()).next_multiple_of(tls.align());
    let hot = (fixed + 1536).next_multiple_of(4096).max(2 * 4096);
    let mut lines = HashSet::new();
    let mut slots = Vec::new();
    for _ in 0..64 {
        arena.reserve().unwrap();
        let slot = arena.take();
        lines.insert(slot.top().addr() % 4096);
        let end = find(slot.fs()).unwrap();
        assert!(end.base + end.slot_size - slot.top().addr() + 1500 <= hot);
        slots.push(slot);
    }
    assert!(hot > 2 * 4096 || lines.len() >= 16, "{} colours", lines.len());
    for slot in slots {
        arena.give(slot);
        arena.unreserve();
    }
}

#[test]
fn places_are_found() {
    let arena = arena(4);
    arena.reserve().unwrap();
    let slot = arena.take();
    let place = find(slot.limit().addr()).unwrap();
    assert_eq!((place.index, place.in_guard, place.stack_size), (slot.index(), false, slot.size()));
    assert!(find(slot.limit().addr() - 1).unwrap().in_guard);
    assert!(find(&raw const place as usize).is_none());
    arena.give(slot);
    arena.unreserve();
}

#[test]
fn sizes_are_checked() {
    for (size, word) in [
        (0, "too small"),
        (1, "too small"),
        (16383, "too small"),
        ((1 << 30) + 1, "too large"),
        (usize::MAX, "too large"),
    ] {
        let why = StackSize::new(size).unwrap_err().to_string();
        assert!(why.contains(word) && why.contains("ask for"), "{why}");
    }
    for text in ["", "K", "64Q", "-1", "6 4K", "1.5M"] {
        assert!(text.parse::<StackSize>().unwrap_err().to_string().contains("is not a stack size"), "{text}");
    }
    assert!("99999999999999999999999G".parse::<StackSize>().unwrap_err().to_string().contains("too large"));
    assert_eq!("64KiB".parse::<StackSize>().unwrap(), StackSize::DEFAULT);
    assert_eq!("65537".parse::<StackSize>().unwrap().slot_size(), 128 << 10);
    assert!(Arena::new(65 << 10, 1).unwrap_err().to_string().contains("power of two"));
    assert!(Arena::new(64 << 10, 0).is_err());
    let why = Arena::new(1 << 30, 1 << 20).unwrap_err().to_string();
    assert!(why.contains("address space"), "{why}");
    // The least and a large size work.
    for size in [16 << 10, 8 << 20] {
        Fiber::new(Arena::new(size, 2).unwrap(), |to| {
            to.pause(0);
        })
        .finish();
    }
}

#[test]
fn guards_by_mprotect() {
    if std::env::var_os("RADDLE_TEST_MPROTECT_GUARDS").is_none() {
        let output = rerun("guards_by_mprotect", "RADDLE_TEST_MPROTECT_GUARDS", "1");
        assert!(output.status.success(), "{output:?}");
        return;
    }
    assert_eq!(guard_method(), GuardMethod::Mprotect);
    let arena = arena(1 << 20);
    // Reservations run out before mappings do, with the cause named.
    let mut reserved = 0;
    let why = loop {
        match arena.reserve() {
            Ok(()) => reserved += 1,
            Err(why) => break why.to_string(),
        }
    };
    assert!(why.contains("vm.max_map_count"), "{why}");
    assert!(reserved > 100 || reserved == 0);
    // Each that was granted can be taken.
    let slots: Vec<Slot> = (0..reserved).map(|_| arena.take()).collect();
    for slot in slots {
        arena.give(slot);
        arena.unreserve();
    }
    // And reserved again, since the guards stay.
    for _ in 0..reserved {
        arena.reserve().unwrap();
    }
}
