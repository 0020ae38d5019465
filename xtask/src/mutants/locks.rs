//! The faults that `cargo xtask mutants` puts into locks, reservations, clusters and rights to slots, each with the
//! interleaving test that must find it.

use super::faults::{Fault, fault};

const SPIN: &str = "crates/scheduler/src/lock/spin.rs";
const MCS: &str = "crates/scheduler/src/lock/mcs.rs";
const HEMLOCK: &str = "crates/scheduler/src/lock/hemlock.rs";
const CNA: &str = "crates/scheduler/src/lock/cna.rs";
const RECIPROCATING: &str = "crates/scheduler/src/lock/reciprocating.rs";
const TRY: &str = "crates/scheduler/src/lock/try_mcs.rs";
const DEFERRED: &str = "crates/scheduler/src/lock/deferred.rs";
const PARKED: &str = "crates/scheduler/src/lock/parked.rs";
const RESERVE: &str = "crates/scheduler/src/lock/reserve.rs";
const ELEMENT: &str = "crates/scheduler/src/lock/reserve/element.rs";
const CLUSTERED: &str = "crates/scheduler/src/lock/clusters/map.rs";
const CHANGES: &str = "crates/scheduler/src/lock/clusters/map/changes.rs";
const COPIES: &str = "crates/scheduler/src/lock/clusters/map/copies.rs";
const RIGHTS: &str = "crates/queues/src/rights.rs";
const KEPT: &str = "crates/scheduler/src/lock/clusters/map/kept.rs";

/// All of them. No two change the same words.
pub const LOCKS: &[Fault] = &[
    fault(
        "lock-spin-in-two-steps",
        "who finds the lock free takes it in a second step",
        SPIN,
        (
            "",
            "self.held.swap(1, Ordering::Acquire) == 0",
            "self.held.load(Ordering::Acquire) == 0 && { self.held.store(1, Ordering::Relaxed); true }",
        ),
        "loom loom_lock spin_locks_exclude",
    ),
    fault(
        "lock-mcs-granted-at-once",
        "a waiter does not wait",
        MCS,
        ("", "node.state.store(WAITING, Ordering::Relaxed);", "node.state.store(GRANTED, Ordering::Relaxed);"),
        "loom loom_lock mcs_excludes_and_serves_in_order",
    ),
    fault(
        "lock-mcs-forgets-who-comes",
        "an unlock empties the queue whoever has come",
        MCS,
        (
            "        if ",
            "self.tail.compare_exchange(me, null_mut(), Ordering::Release, Ordering::Relaxed).is_err()",
            "{ self.tail.store(null_mut(), Ordering::Release); false }",
        ),
        "loom loom_lock h2_excludes_and_serves_in_order",
    ),
    fault(
        "lock-h1-node-not-renewed",
        "a node that had a successor keeps it",
        MCS,
        ("fn renew(node: &Node<M>) {\n        if ", "!PREPARE", "false"),
        "loom loom_lock h1_excludes_and_serves_in_order",
    ),
    fault(
        "lock-repair-passes-usurpers",
        "a repair tells the first waiter although somebody came between",
        MCS,
        ("let next = Self::successor(node);\n        if ", "usurper.is_null()", "true"),
        "loom loom_lock a_repair_excludes_and_lets_others_overtake",
    ),
    fault(
        "lock-hemlock-leaves-early",
        "an unlock does not wait until its successor has left the node",
        HEMLOCK,
        ("while ", "node.grant.load(Ordering::Acquire) != 0", "false"),
        "loom loom_lock hemlock_excludes_two",
    ),
    fault(
        "lock-cna-forgets-those-aside",
        "who was passed over is not served",
        CNA,
        ("        self.streak.store(0, Ordering::Relaxed);\n        if ", "aside > GRANTED", "false"),
        "loom loom_lock cna_serves_who_was_passed_over",
    ),
    fault(
        "lock-reciprocating-end",
        "the end of a segment is served twice",
        RECIPROCATING,
        ("            if ", "successor == end", "false"),
        "loom loom_lock reciprocating_excludes_two",
    ),
    fault(
        "lock-try-not-collected",
        "a node that was abandoned stays its queue's",
        TRY,
        ("            if ", "!mine", "false"),
        "loom loom_try_mcs a_try_excludes_and_its_node_is_collected",
    ),
    fault(
        "lock-try-is-granted",
        "a try that failed is given the lock",
        TRY,
        ("", "node.state.store(ABANDONED, Ordering::Relaxed);", "node.state.store(WAITING, Ordering::Relaxed);"),
        "loom loom_try_mcs a_waiter_behind_an_abandoned_node_gets_in",
    ),
    fault(
        "lock-left-work-not-seen",
        "work that is left in the last moment is not looked for",
        DEFERRED,
        ("M::fence(Ordering::SeqCst);\n            if ", "self.left.is_empty()", "true"),
        "loom loom_deferred work_that_is_left_is_done_before_all_have_gone",
    ),
    fault(
        "lock-left-without-bound",
        "work is left although there is no room",
        DEFERRED,
        ("while ", "admitted < self.most", "true"),
        "loom loom_deferred who_finds_no_room_keeps_the_work_and_nothing_else_is_lost",
    ),
    fault(
        "lock-left-room-not-given-back",
        "a holder keeps the room of the work that it has done",
        DEFERRED,
        ("self.0.admitted.fetch_sub(", "self.1.get()", "0"),
        "loom loom_deferred who_finds_no_room_keeps_the_work_and_nothing_else_is_lost",
    ),
    fault(
        "lock-parked-not-woken",
        "a waiter that sleeps is granted the lock, and not woken",
        PARKED,
        ("        if ", "published == WAITING", "true"),
        "loom loom_parked threads_exclude_each_other_and_all_are_woken",
    ),
    fault(
        "lock-reserve-not-woken",
        "the end of a reservation wakes nobody",
        RESERVE,
        (
            "Point of no return: the element may be gone.\n            if ",
            "self.word.swap(0, Ordering::Release) & WAITERS != 0",
            "{ self.word.swap(0, Ordering::Release); false }",
        ),
        "loom loom_reserve an_element_is_had_by_one_at_a_time_and_waiters_are_woken",
    ),
    fault(
        "lock-reserve-beside-a-writer",
        "a reader reserves what a writer has",
        RESERVE,
        ("while ", "word & (WAITERS | EXCLUSIVE) == 0", "word & WAITERS == 0"),
        "loom loom_reserve readers_share_and_a_writer_comes_after_them",
    ),
    fault(
        "lock-reserve-last-reader",
        "the last reader wakes no writer",
        RESERVE,
        ("        if ", "before == WAITERS | 1", "before == u32::MAX"),
        "loom loom_reserve the_last_reader_wakes_a_writer",
    ),
    fault(
        "lock-reserve-reader-shut-out",
        "a reader that reads already waits for a writer that waits for it",
        RESERVE,
        ("while ", "word & EXCLUSIVE == 0 && word & !WAITERS != 0", "word & (WAITERS | EXCLUSIVE) == 0"),
        "loom loom_reserve who_reads_reads_again_though_a_writer_waits",
    ),
    fault(
        "lock-reserve-covers-nobody",
        "who was woken and has the element forgets the others who wait",
        RESERVE,
        ("EXCLUSIVE | if ", "covers", "false"),
        "loom loom_reserve all_who_wait_have_their_turn_though_one_is_woken_at_a_time",
    ),
    fault(
        "lock-reserve-reader-wakes-nobody",
        "a reader that was woken wakes no other",
        ELEMENT,
        ("            if ", "kind == Kind::Shared", "false"),
        "loom loom_reserve all_who_wait_have_their_turn_though_one_is_woken_at_a_time",
    ),
    fault(
        "lock-reserve-gone-in-silence",
        "who was woken and finds the element gone wakes no other",
        ELEMENT,
        ("if let Some(element) = ", "self.element.take()", "self.element.take().filter(|_| false)"),
        "loom loom_reserve all_who_wait_have_their_turn_though_one_is_woken_at_a_time",
    ),
    fault(
        "lock-cluster-asks-again",
        "who waited for another's request asks, too",
        CLUSTERED,
        ("            if ", "own.get().value.is_some()", "false"),
        "loom loom_clusters requests_of_a_cluster_are_combined_into_one",
    ),
    fault(
        "lock-cluster-not-noted",
        "the home does not note who has a replica",
        CLUSTERED,
        ("", "home.at_home().note(me.cluster);", "();"),
        "loom loom_clusters nobody_reads_what_was_there_before_a_change",
    ),
    fault(
        "lock-cluster-keeps-and-waits",
        "a request that met a reservation keeps its own while it waits",
        CHANGES,
        (
            "",
            "drop(own);\n                    self.retry(me);\n                    // The pessimist waits there, too: it holds nothing.\n                    drop(self.patient_at(me, at, key));",
            "self.retry(me); drop(self.patient_at(me, at, key)); drop(own);",
        ),
        "loom loom_clusters three_clusters_that_each_change_what_all_have_do_not_dead_lock",
    ),
    fault(
        "lock-cluster-waits-for-itself",
        "a thread that keeps an element waits in another cluster for a change that waits for it",
        KEPT,
        ("if ", "W::me() == 0", "true"),
        "loom loom_clusters who_keeps_a_replica_reads_again_in_another_cluster_though_a_change_waits",
    ),
    fault(
        "lock-cluster-waits-for-a-copy",
        "as that, at its processor's copy",
        COPIES,
        ("own.read_unless(key, || ", "self.kept(me, key)", "None"),
        "loom loom_clusters who_keeps_a_replica_reads_again_in_another_cluster_though_a_change_waits",
    ),
    fault(
        "lock-cluster-looks-at-no-copies",
        "as that, if what it keeps is a processor's copy",
        KEPT,
        ("", "has_copies != 0", "has_copies == 7"),
        "loom loom_clusters who_keeps_a_replica_reads_again_in_another_cluster_though_a_change_waits",
    ),
    fault(
        "lock-cluster-keeps-replicas",
        "a change leaves replicas as they are",
        CHANGES,
        ("            if ", "cluster == at || has_own && cluster == me.cluster", "true"),
        "loom loom_clusters nobody_reads_what_was_there_before_a_change",
    ),
    fault(
        "lock-cluster-takes-what-is-held",
        "what is held elsewhere is taken out as unused",
        CHANGES,
        (".collect();\n        if ", "unused", "false"),
        "loom loom_clusters what_is_held_in_one_cluster_is_not_removed_in_another",
    ),
    fault(
        "lock-cluster-old-home",
        "a move forgets the replica at the old home",
        CHANGES,
        ("", "home.note(at);", "();"),
        "loom loom_clusters a_reader_a_writer_and_a_mover_in_three_clusters_do_not_dead_lock",
    ),
    fault(
        "lock-cluster-copy-not-told",
        "a change in another cluster leaves what processors there have",
        CHANGES,
        ("", "self.take_copies(me, cluster, key, &instance, then, &mut taken);", ""),
        "loom loom_clusters nobody_reads_from_a_processor_s_copy_what_was_there_before_a_change",
    ),
    fault(
        "lock-cluster-copy-not-noted",
        "a copy is made that its cluster's instance does not know of",
        COPIES,
        ("", "instance.copied.fetch_or(bit(member), Ordering::Relaxed);", ""),
        "loom loom_clusters a_copy_that_is_made_while_its_element_goes_is_gone_too",
    ),
    // Rights to slots.
    fault(
        "rights-lowered-late",
        "who unmaps a slot gives its right back first",
        RIGHTS,
        (
            "",
            "self.mapped.fetch_sub(1, Ordering::Relaxed);",
            "self.reserved.fetch_sub(1, Ordering::Release); self.mapped.fetch_sub(1, Ordering::Relaxed); return;",
        ),
        "loom loom_rights who_has_a_right_finds_a_slot_though_idle_ones_are_unmapped",
    ),
    fault(
        "rights-flag-unconditional",
        "slots are mapped one by one however many rights there are by then",
        RIGHTS,
        (
            "let set = ",
            "self.reserved.compare_exchange(now, now | ONE_BY_ONE, Ordering::Release, Ordering::Relaxed)",
            "self.reserved.fetch_or(ONE_BY_ONE, Ordering::Release); Ok::<usize, usize>(now)",
        ),
        "loom loom_rights who_has_a_right_finds_a_slot_though_the_rest_is_given_back",
    ),
    fault(
        "rights-covered-before",
        "an idle taker relies on what was mapped before it added its right",
        RIGHTS,
        ("let covered = ", "word & COUNT < self.mapped()", "true"),
        "loom loom_rights two_unmap_and_one_of_them_reserves",
    ),
    fault(
        "rights-counted-twice",
        "a second limiter counts the slots handed out again",
        RIGHTS,
        (
            "let _ = ",
            "self.mapped.compare_exchange(0, counted, Ordering::Release, Ordering::Relaxed)",
            "Ok::<usize, usize>(self.mapped.swap(counted, Ordering::Release))",
        ),
        "loom loom_rights two_limiters_count_once",
    ),
    fault(
        "rights-none-mapped",
        "who finds all slots in others' hands counts one as mapped",
        RIGHTS,
        (
            "",
            "self.fresh.hand_out_unmapped(|| slots.limit()).ok_or_else(|| slots.refused())?",
            "match self.fresh.hand_out_unmapped(|| slots.limit()) { Some(slot) => slot, None => return Ok(()) }",
        ),
        "loom loom_rights who_finds_all_in_others_hands_is_refused",
    ),
    fault(
        "rights-opened-early",
        "slots are handed out again before the limit is lower",
        RIGHTS,
        ("if ", "self.open.load(Ordering::Acquire) == 0", "false"),
        "loom loom_rights a_slot_above_the_lower_limit_is_not_handed_out",
    ),
];
