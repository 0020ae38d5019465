//! Communicators that have a number, alike in all of their ranks, and their ranks in MPI_COMM_WORLD.
//!
//! A handle says nothing to other ranks. A communicator gets its number from the call that made it, in which its ranks
//! take part: one that they have agreed upon ([`turns`](crate::turns)), or, of a duplicate, that of what was duplicated
//! and how many were before it, since all ranks duplicate a communicator in the same order. Others have none:
//! those that were made by calls that are not taken over, or between groups, and what is made of them. All ranks of a
//! communicator know this alike.

use crate::abi::{self, SUCCESS, UNDEFINED, Word, abi, pmpi, word};
use crate::channel::{self, Members};
use crate::entries::profiled;
use crate::lengths::handle;
use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

/// Of the numbers of duplicates; those that were agreed upon are less.
const DUPLICATE: u64 = 1 << 63;

struct Known {
    number: u64,
    duplicates: u64,
    /// Once they have been asked for.
    members: Option<Arc<Members>>,
}

static KNOWN: Mutex<Option<HashMap<u64, Known>>> = Mutex::new(None);
/// The group of MPI_COMM_WORLD.
static WORLD: OnceLock<Word> = OnceLock::new();

fn with<T>(f: impl FnOnce(&mut HashMap<u64, Known>) -> T) -> T {
    f(KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert_default())
}

fn key(comm: Word) -> u64 {
    abi().handle(comm) as u64
}

/// Numbers MPI_COMM_WORLD.
fn begin() {
    let Some(own) = channel::begin() else { return };
    let mut group: Word = 0;
    // SAFETY: a communicator of ours, and a place for the answer.
    if unsafe { pmpi!(Comm_group: fn(Word, Word))(own, word(&raw mut group)) } == SUCCESS {
        // Set once: MPI begins once.
        _ = WORLD.set(group);
        with(|known| known.insert(key(abi::comm_world()), Known { number: 0, duplicates: 0, members: None }));
    }
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Init(count: Word, words: Word) -> c_int {
    // SAFETY: the caller's arguments.
    let code = unsafe { pmpi!(Init: fn(Word, Word))(count, words) };
    if code == SUCCESS {
        begin();
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Init_thread(count: Word, words: Word, asked: Word, provided: Word) -> c_int {
    // SAFETY: the caller's arguments.
    let code = unsafe { pmpi!(Init_thread: fn(Word, Word, Word, Word))(count, words, asked, provided) };
    if code == SUCCESS {
        begin();
    }
    code
}

profiled! {
    MPI_Init(count, words);
    MPI_Init_thread(count, words, asked, provided);
}

/// The call that has made a communicator at that place, if it has, has given it this number.
pub fn made(place: Word, number: u64) {
    let made = handle(place);
    if made != key(abi::comm_null()) {
        with(|known| known.insert(made, Known { number, duplicates: 0, members: None }));
    }
}

/// The number of the duplicate that is about to be made.
pub fn next_duplicate(comm: Word) -> Option<u64> {
    with(|known| {
        let known = known.get(&key(comm))?;
        // The same in all ranks: the keys of this one are constants.
        let mut hasher = DefaultHasher::new();
        (known.number, known.duplicates + 1).hash(&mut hasher);
        Some(hasher.finish() | DUPLICATE)
    })
}

/// It has been made, at that place. (One that was refused is not counted: other ranks may not have asked for it.)
pub fn duplicated(comm: Word, place: Word, number: u64) {
    with(|known| known.get_mut(&key(comm)).map(|known| known.duplicates += 1));
    made(place, number);
}

/// Its number and its ranks, if it has one.
pub fn of(comm: Word) -> Option<(u64, Arc<Members>)> {
    let world = *WORLD.get()?;
    let (number, members) = with(|known| known.get(&key(comm)).map(|known| (known.number, known.members.clone())))?;
    if let Some(members) = members {
        return Some((number, members));
    }
    let group = Group::of(comm)?;
    let members = Arc::new(group.within(world)?);
    with(|known| known.get_mut(&key(comm)).map(|known| known.members = Some(members.clone())));
    Some((number, members))
}

/// Whether a communicator is none.
pub fn is_none(comm: Word) -> bool {
    key(comm) == abi().handle(abi::comm_null()) as u64
}

/// Whether a group's ranks are all among a communicator's; so too, if that cannot be told.
pub fn has_all_of(comm: Word, group: Word) -> bool {
    // Of the program's: not ours to free.
    let group = std::mem::ManuallyDrop::new(Group(group));
    Group::of(comm).and_then(|all| group.ranks_in(all.0)).is_none_or(|ranks| !ranks.contains(&UNDEFINED))
}

/// The number of a communicator and the ranks of a group of some of its ranks, this one among them.
pub fn of_group(comm: Word, group: Word) -> Option<(u64, Members)> {
    // What is no group the call itself refuses.
    if [abi::group_null(), 0].contains(&abi().handle(group)) {
        return None;
    }
    let (number, all) = of(comm)?;
    let ranks = Group::of(comm)?;
    // Of the program's: not ours to free.
    let mut members = std::mem::ManuallyDrop::new(Group(group)).within(ranks.0)?;
    members.world.iter_mut().for_each(|rank| *rank = all.world[*rank as usize]);
    Some((number, members))
}

/// A group of ours.
struct Group(Word);

impl Group {
    fn of(comm: Word) -> Option<Group> {
        let mut group: Word = 0;
        // SAFETY: a communicator that is known, and a place for the answer.
        let code = unsafe { pmpi!(Comm_group: fn(Word, Word))(comm, word(&raw mut group)) };
        (code == SUCCESS).then_some(Group(group))
    }

    /// Which ranks these are in another group; none if one is not, or if this one is not among them.
    fn within(&self, other: Word) -> Option<Members> {
        let mut me: c_int = UNDEFINED;
        // SAFETY: a group, and a place for the answer.
        if unsafe { pmpi!(Group_rank: fn(Word, Word))(self.0, word(&raw mut me)) } != SUCCESS {
            return None;
        }
        let (me, world) = (usize::try_from(me).ok()?, self.ranks_in(other)?);
        (!world.contains(&UNDEFINED)).then_some(Members { world, me })
    }

    /// Which rank each is in another group, [`UNDEFINED`] where it is not there.
    fn ranks_in(&self, other: Word) -> Option<Vec<c_int>> {
        let mut size: c_int = 0;
        // SAFETY: a group, and a place for the answer.
        if unsafe { pmpi!(Group_size: fn(Word, Word))(self.0, word(&raw mut size)) } != SUCCESS {
            return None;
        }
        let ranks: Vec<c_int> = (0..size).collect();
        let mut there = vec![UNDEFINED; ranks.len()];
        let translate = pmpi!(Group_translate_ranks: fn(Word, Word, Word, Word, Word));
        // SAFETY: groups, so many ranks of the first, and room for as many.
        let code = unsafe { translate(self.0, ranks.len(), word(ranks.as_ptr()), other, word(there.as_mut_ptr())) };
        (code == SUCCESS).then_some(there)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: a group of ours, which nobody uses any more.
        unsafe { pmpi!(Group_free: fn(Word))(word(&raw mut self.0)) };
    }
}

/// Forgets a communicator before its handle is another's, by a call that ends it; one that is refused stays known.
fn ending(place: Word, end: impl FnOnce() -> c_int) -> c_int {
    let gone = (place != 0).then(|| handle(place));
    let known = gone.and_then(|gone| Some((gone, with(|known| known.remove(&gone))?)));
    let code = end();
    if code != SUCCESS
        && let Some((gone, one)) = known
    {
        with(|known| known.insert(gone, one));
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_free(comm: Word) -> c_int {
    // SAFETY: the caller's argument.
    ending(comm, || unsafe { pmpi!(Comm_free: fn(Word))(comm) })
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_disconnect(comm: Word) -> c_int {
    // SAFETY: the caller's argument.
    ending(comm, || unsafe { pmpi!(Comm_disconnect: fn(Word))(comm) })
}

profiled! {
    MPI_Comm_free(comm);
    MPI_Comm_disconnect(comm);
}
