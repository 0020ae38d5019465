//! `faults`: the two loads of Hurricane's paper in which retries are common, on real processors: page faults that
//! copy on write, and the destruction of a parallel program, whose members all change their parent.
//!
//! An element is what the load keeps for long: a page's descriptor, or a program in the family tree. Which lock stands
//! before it is what differs: [`Coarse`], one lock over all, held throughout; [`Locked`], one lock for the search and
//! one in each element. A runtime may have more.

use super::locks::compute;
use super::{Api, share};
use crate::args::Args;
use crate::program::Outcome;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of a page.
const PAGE: usize = 4096;

/// What there is of a page, or of a program.
#[derive(Clone, Default)]
pub struct Element {
    /// Processes that share the page; children of a program.
    uses: u64,
    /// What a fault copies.
    page: Option<Arc<[u8]>>,
}

/// Elements by number, each of which can be kept.
pub trait Elements: Send + Sync + 'static {
    /// None.
    fn new() -> Self;
    /// Puts one there.
    fn insert(&self, number: u64, element: Element);
    /// Keeps an element while `f` runs; false if there is none.
    fn keep(&self, number: u64, f: impl FnMut(&mut Element)) -> bool;
    /// Keeps two, the first one to be taken out; how often it had to begin again.
    fn end(&self, child: u64, parent: u64, f: impl FnMut(&mut Element)) -> u64;
    /// How many there are.
    fn count(&self) -> usize;
}

/// One lock over all, held as long as an element is used.
pub struct Coarse<A: Api>(A::Mutex<HashMap<u64, Element>>);

impl<A: Api> Elements for Coarse<A> {
    fn new() -> Self {
        Self(A::mutex(HashMap::new()))
    }
    fn insert(&self, number: u64, element: Element) {
        A::lock(&self.0).insert(number, element);
    }
    fn keep(&self, number: u64, f: impl FnMut(&mut Element)) -> bool {
        A::lock(&self.0).get_mut(&number).map(f).is_some()
    }
    fn end(&self, child: u64, parent: u64, f: impl FnMut(&mut Element)) -> u64 {
        let mut all = A::lock(&self.0);
        all.remove(&child);
        _ = all.get_mut(&parent).map(f);
        0
    }
    fn count(&self) -> usize {
        A::lock(&self.0).len()
    }
}

type Many<A> = HashMap<u64, Arc<<A as Api>::Mutex<Element>>>;

/// One lock for the search, and one in each element. Who needs two takes the child's first: a tree has no circles.
pub struct Locked<A: Api>(A::Mutex<Many<A>>);

impl<A: Api> Locked<A> {
    fn find(&self, number: u64) -> Option<Arc<A::Mutex<Element>>> {
        A::lock(&self.0).get(&number).cloned()
    }
}

impl<A: Api> Elements for Locked<A> {
    fn new() -> Self {
        Self(A::mutex(HashMap::new()))
    }
    fn insert(&self, number: u64, element: Element) {
        A::lock(&self.0).insert(number, Arc::new(A::mutex(element)));
    }
    fn keep(&self, number: u64, mut f: impl FnMut(&mut Element)) -> bool {
        self.find(number).map(|element| f(&mut A::lock(&element))).is_some()
    }
    fn end(&self, child: u64, parent: u64, mut f: impl FnMut(&mut Element)) -> u64 {
        if let Some(element) = self.find(child) {
            let _kept = A::lock(&element);
            self.keep(parent, &mut f);
            A::lock(&self.0).remove(&child);
        }
        0
    }
    fn count(&self) -> usize {
        A::lock(&self.0).len()
    }
}

/// What threads do.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    threads: u64,
    each: u64,
    elements: u64,
    hold: u64,
    destroys: bool,
}

impl Faults {
    /// As the arguments say.
    ///
    /// # Errors
    /// If T does not divide `total`, there is no element, or no such load.
    pub fn new(args: &Args) -> Result<Self, String> {
        let (threads, elements, load) = (args.number("T")?, args.number("elements")?, args.number("load")?);
        if elements == 0 || !(1..=2).contains(&load) {
            return Err("elements=0, or a load that is neither 1 (copy on write) nor 2 (programs end)".into());
        }
        Ok(Self {
            threads,
            each: share(args.number("total")?, threads)?,
            elements,
            hold: args.number("hold")?,
            destroys: load == 2,
        })
    }
}

/// A write to a shared page: the last of those who share it keeps it, and it is shared anew; the others copy it.
/// Whether it was copied.
fn fault(element: &mut Element, threads: u64, own: &mut [u8]) -> bool {
    let copies = element.uses > 1;
    if copies {
        if let Some(page) = &element.page {
            own.copy_from_slice(page);
            black_box(&own);
        }
        element.uses -= 1;
    } else {
        element.uses = threads;
    }
    copies
}

/// The time from when all threads are there until the last one has had its turns. Elements are wrong at the end:
/// an error.
pub fn faults<A: Api, E: Elements>(asked: Faults) -> Result<Outcome, String> {
    struct Line<A: Api, E> {
        elements: E,
        inside: AtomicU64,
        copied: AtomicU64,
        again: AtomicU64,
        all_in: A::Gate,
        go: A::Gate,
    }
    let zero = || AtomicU64::new(0);
    let elements = E::new();
    for number in 0..asked.elements {
        let page = (!asked.destroys).then(|| Arc::from(vec![number as u8; PAGE]));
        elements.insert(number, Element { uses: if asked.destroys { 0 } else { asked.threads }, page });
    }
    let (inside, copied, again) = (zero(), zero(), zero());
    let line = Arc::new(Line::<A, E> { elements, inside, copied, again, all_in: A::gate(), go: A::gate() });
    let handles: Vec<_> = (0..asked.threads)
        .map(|number| {
            let line = line.clone();
            A::spawn(move || {
                let (mut own, mut copied, mut again) = (vec![0; PAGE], 0, 0);
                if line.inside.fetch_add(1, Ordering::AcqRel) + 1 == asked.threads {
                    A::open(&line.all_in);
                }
                A::pass(&line.go);
                for turn in 0..asked.each {
                    // All begin with the same one: a fork's pages, a program's members.
                    let element = turn % asked.elements;
                    if asked.destroys {
                        let child = asked.elements + number;
                        line.elements.insert(child, Element::default());
                        line.elements.keep(element, |parent| parent.uses += 1);
                        again += line.elements.end(child, element, |parent| {
                            parent.uses -= 1;
                            compute(asked.hold);
                        });
                    } else {
                        line.elements.keep(element, |page| {
                            copied += u64::from(fault(page, asked.threads, &mut own));
                            compute(asked.hold);
                        });
                    }
                }
                line.copied.fetch_add(copied, Ordering::Relaxed);
                line.again.fetch_add(again, Ordering::Relaxed);
                Instant::now()
            })
        })
        .collect();
    A::pass(&line.all_in);
    let start = Instant::now();
    A::open(&line.go);
    let end = handles.into_iter().fold(start, |end, handle| end.max(A::join(handle)));
    let (copied, again) = (line.copied.load(Ordering::Relaxed), line.again.load(Ordering::Relaxed));
    let mut uses = 0;
    for number in 0..asked.elements {
        line.elements.keep(number, |element| uses += element.uses);
    }
    // Of each page's writes one in so many as there are processes copies nothing, and shares it anew.
    let writes = |page| asked.threads * (asked.each / asked.elements + u64::from(page < asked.each % asked.elements));
    let kept: u64 = (0..asked.elements).map(|page| writes(page) / asked.threads).sum();
    let right = match asked.destroys {
        true => uses == 0 && line.elements.count() as u64 == asked.elements,
        false => copied == asked.threads * asked.each - kept && uses == asked.threads * asked.elements,
    };
    if !right {
        return Err(format!("{} elements, used by {uses}, after {copied} copies", line.elements.count()));
    }
    let outcome = Outcome::new(asked.threads * asked.each, end - start, asked.threads * asked.each);
    Ok(outcome.with("copied", copied).with("again", again))
}
