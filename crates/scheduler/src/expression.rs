//! Policies as text: `steal(victims=neighbours(4), batch=min(8))`, `priority(3, steal, aging=64)`.
//!
//! One grammar for the library, the commands and the documentation:
//!
//! ```text
//! policy   = name [ "(" argument { "," argument } ")" ]
//! argument = [ name "=" ] ( number | policy )
//! ```
//! A text is read in two steps: `syntax` makes a tree with positions, then each name checks its own arguments. Every
//! error points at the column, says what was expected and, where a name is nearly right, which one was probably meant.
//!
//! # Example
//! ```
//! use raddle_scheduler::expression::Expression;
//! let policy: Expression = "priority(3, steal(batch=one))".parse().unwrap();
//! assert_eq!(policy.to_string(), "priority(3, steal(batch=one))");
//! let error = "priority(3, steel)".parse::<Expression>().unwrap_err();
//! assert_eq!(error.column(), 13);
//! assert!(error.to_string().contains("did you mean `steal`?"));
//! ```
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

mod reader;
mod syntax;

pub use syntax::nearest;

/// One of so many selections begins with threads that have not started.
pub const TURN: u32 = 64;
/// The most levels that `priority(n, P)` may have.
pub const MAX_PRIORITIES: u8 = 64;
/// The most victims that `neighbours(k)` may name.
pub const MAX_NEIGHBOURS: u32 = 4096;
/// The largest `min(k)`.
pub const MAX_BATCH: u32 = 65_536;
/// The rarest aging: once in so many selections.
pub const MAX_AGING: u32 = 1_000_000;
/// The rarest change of ends in `alternate(n)` and `reverse(n)`.
pub const MAX_TURN: u32 = 1_000_000;
/// The largest queue of a processor under `local`.
pub const MAX_CAPACITY: u32 = 65_536;
/// The most shards of an overflow queue.
pub const MAX_SHARDS: u32 = 1024;
/// The most rounds that `min(k, rare=r)` waits.
pub const MAX_ROUNDS: u32 = 1000;
/// The most queues a processor that `multiqueue(c)` may have.
pub const MAX_QUEUES: u32 = 64;
/// The largest cluster.
pub const MAX_CLUSTER: u32 = 4096;

/// A policy, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// One global first-in first-out queue.
    Fifo,
    /// The newest first.
    Lifo,
    /// Lesser Bear's ring of Protect and Waiver queues.
    Rotator,
    /// The rotator's predecessor: Waiver queues that anybody takes from, under a lock.
    Waiver,
    /// One global queue of which both ends are taken from.
    Hybrid(Mix),
    /// Several global queues a processor, of which the better of two random ones is taken from.
    Multiqueue(u32),
    /// Local queues and work stealing: the default.
    Steal(Stealing),
    /// Bounded local queues, an overflow queue, and work stealing: what `steal` was tuned from.
    Local(LocalQueues),
    /// The same, with processors that ask others to come and steal.
    Request(Requests, LocalQueues),
    /// Strict priorities, `levels` policies of the inner kind.
    Priority {
        /// How many priorities: 0 (the highest) to `levels - 1`.
        levels: u8,
        /// What orders threads of equal priority.
        inner: Box<Expression>,
        /// One selection in so many begins at the lowest priority. None: strict, low priorities may starve.
        aging: Option<u32>,
    },
    /// A policy for threads that have run, and one for those that have not started.
    Apart {
        /// What orders threads that have run.
        started: Box<Expression>,
        /// What orders threads that have not started.
        new: Box<Expression>,
        /// One selection in so many begins with those that have not started.
        turn: u32,
    },
    /// A policy of the inner kind for each cluster of processors; who finds nothing in its own looks into the others.
    Clustered {
        /// How many processors a cluster has; without a number as many as the machine groups
        /// ([`Expression::in_clusters_of`]).
        size: Option<u32>,
        /// What orders the threads of a cluster.
        inner: Box<Expression>,
    },
}

/// Which end of the queue a hybrid takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// So many selections of 100, by chance, take the newest thread, the others the oldest.
    Stochastic(u32),
    /// So many selections the newest, as many the oldest, in turn.
    Alternate(u32),
    /// The newest; after so many selections the stack is turned over.
    Reverse(u32),
}

impl Expression {
    /// With clusters of so many processors where none are told: what the machine groups.
    ///
    /// ```
    /// use raddle_scheduler::expression::Expression;
    /// let expression: Expression = "priority(2, clustered(steal))".parse().unwrap();
    /// assert_eq!(expression.in_clusters_of(&|| 8).to_string(), "priority(2, clustered(8, steal))");
    /// ```
    pub fn in_clusters_of(self, machine: &dyn Fn() -> u32) -> Self {
        let inside = |inner: Box<Self>| Box::new(inner.in_clusters_of(machine));
        match self {
            Self::Clustered { size, inner } => {
                Self::Clustered { size: size.or_else(|| Some(machine().max(1))), inner: inside(inner) }
            }
            Self::Priority { levels, inner, aging } => Self::Priority { levels, inner: inside(inner), aging },
            Self::Apart { started, new, turn } => Self::Apart { started: inside(started), new: inside(new), turn },
            other => other,
        }
    }
}

impl Default for Expression {
    fn default() -> Self {
        Expression::Steal(Stealing::default())
    }
}

/// The options of `steal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stealing {
    /// How threads that have not started are taken.
    pub order: Order,
    /// Whom a thief asks first.
    pub victims: Victims,
    /// How much it takes.
    pub batch: Batch,
}

/// The options of `local`, and of `request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalQueues {
    /// Which thread of its own queue a processor selects, whom it steals from, and how much.
    pub stealing: Stealing,
    /// How many threads the queue holds.
    pub capacity: u32,
    /// Where threads go that find it full.
    pub overflow: Overflow,
    /// Of 100 new threads so many go there in any case.
    pub share: u32,
    /// How the queue grows instead, if it does.
    pub growth: Option<Growth>,
    /// Whether the thread that became ready last runs next.
    pub slot: bool,
}

impl Default for LocalQueues {
    fn default() -> Self {
        let stealing = Stealing { order: Order::Fifo, ..Stealing::default() };
        Self { stealing, capacity: 128, overflow: Overflow::LockFree, share: 0, growth: None, slot: false }
    }
}

/// Where threads go that find the local queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Into one lock-free queue for all.
    #[default]
    LockFree,
    /// Into one locked queue for all.
    Locked,
    /// Into k lock-free queues for all, in turn.
    Sharded(u32),
    /// Into one bounded queue for all, by fetch-and-add and compare-and-exchange.
    Tickets,
    /// Nowhere: the spawner is asked to let others run first.
    Retry,
}

/// How a local queue grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// By a larger array.
    Vertical,
    /// By more arrays.
    Horizontal,
}

/// How a processor that has too much asks others to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// One by chance, who has to steal once.
    Naive,
    /// One by chance, who has to steal and comes again until somebody else asks.
    Sticky,
    /// Whoever looks for work, by a ticket for all to see.
    Ticket,
}

/// Where `steal` keeps threads that have not started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Newest first: fork-join trees are walked in depth and stay small.
    #[default]
    Lifo,
    /// Oldest first, among all other ready threads.
    Fifo,
}

/// Whom a thief asks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victims {
    /// All others, cyclically from a random one.
    #[default]
    Random,
    /// The next k processors; the others only when none of these has work.
    Neighbours(u32),
    /// Those of the same cluster of k processors; the others only when none of these has work.
    Clusters(u32),
}

/// How much a thief takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batch {
    /// Half of what the victim offers.
    #[default]
    Half,
    /// One thread.
    One,
    /// Half, from victims that offer at least k; from others only when nobody offers as much.
    Min(u32),
    /// The same, but less only after so many rounds over all victims.
    MinRarely(u32, u32),
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Fifo => f.write_str("fifo"),
            Expression::Lifo => f.write_str("lifo"),
            Expression::Rotator => f.write_str("rotator"),
            Expression::Waiver => f.write_str("waiver"),
            Expression::Hybrid(mix) => mix.fmt(f),
            Expression::Multiqueue(queues) => write!(f, "multiqueue({queues})"),
            Expression::Steal(options) => options.fmt(f),
            Expression::Local(queues) => queues.fmt(f),
            Expression::Request(how, queues) => request(f, *how, queues),
            Expression::Apart { started, new, turn: TURN } => write!(f, "apart({started}, {new})"),
            Expression::Apart { started, new, turn } => write!(f, "apart({started}, {new}, turn={turn})"),
            Expression::Clustered { size: None, inner } => write!(f, "clustered({inner})"),
            Expression::Clustered { size: Some(size), inner } => write!(f, "clustered({size}, {inner})"),
            Expression::Priority { levels, inner, aging: None } => write!(f, "priority({levels}, {inner})"),
            Expression::Priority { levels, inner, aging: Some(k) } => {
                write!(f, "priority({levels}, {inner}, aging={k})")
            }
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mix::Stochastic(percent) => write!(f, "stochastic({percent})"),
            Mix::Alternate(n) => write!(f, "alternate({n})"),
            Mix::Reverse(n) => write!(f, "reverse({n})"),
        }
    }
}

impl Stealing {
    /// All options but the order, as written, without those that are the default.
    fn options(&self) -> Vec<String> {
        let victims = match self.victims {
            Victims::Random => None,
            Victims::Neighbours(k) => Some(format!("victims=neighbours({k})")),
            Victims::Clusters(k) => Some(format!("victims=clusters({k})")),
        };
        let batch = match self.batch {
            Batch::Half => None,
            Batch::One => Some("batch=one".to_string()),
            Batch::Min(k) => Some(format!("batch=min({k})")),
            Batch::MinRarely(k, rounds) => Some(format!("batch=min({k}, rare={rounds})")),
        };
        victims.into_iter().chain(batch).collect()
    }
}

/// A name with its options, if it has any.
fn with_options(f: &mut fmt::Formatter<'_>, name: &str, options: &[String]) -> fmt::Result {
    if options.is_empty() { f.write_str(name) } else { write!(f, "{name}({})", options.join(", ")) }
}

impl fmt::Display for Stealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = self.options();
        if self.order == Order::Fifo {
            options.insert(0, "fifo".to_string());
        }
        with_options(f, "steal", &options)
    }
}

impl LocalQueues {
    /// All options but the order, as written.
    fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if self.capacity != Self::default().capacity {
            options.push(format!("capacity={}", self.capacity));
        }
        options.extend(self.stealing.options());
        match self.overflow {
            Overflow::LockFree => {}
            Overflow::Locked => options.push("overflow=locked".to_string()),
            Overflow::Sharded(k) => options.push(format!("overflow=sharded({k})")),
            Overflow::Tickets => options.push("overflow=tickets".to_string()),
            Overflow::Retry => options.push("overflow=retry".to_string()),
        }
        if self.share > 0 {
            options.push(format!("share={}", self.share));
        }
        match self.growth {
            None => {}
            Some(Growth::Vertical) => options.push("grow=vertical".to_string()),
            Some(Growth::Horizontal) => options.push("grow=horizontal".to_string()),
        }
        if self.slot {
            options.push("slot".to_string());
        }
        options
    }
}

impl fmt::Display for LocalQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = self.options();
        if self.stealing.order == Order::Lifo {
            options.insert(0, "lifo".to_string());
        }
        with_options(f, "local", &options)
    }
}

fn request(f: &mut fmt::Formatter<'_>, how: Requests, queues: &LocalQueues) -> fmt::Result {
    let how = match how {
        Requests::Naive => "naive",
        Requests::Sticky => "sticky",
        Requests::Ticket => "ticket",
    };
    let mut options = vec![how.to_string()];
    if queues.stealing.order == Order::Lifo {
        options.push("order=lifo".to_string());
    }
    options.extend(queues.options());
    with_options(f, "request", &options)
}

/// What is wrong with an expression, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct ExpressionError {
    source: String,
    /// Characters before the offending text, and its length.
    start: usize,
    length: usize,
    message: String,
    help: Option<String>,
}

impl ExpressionError {
    /// The column of the offending text, counted in characters from 1.
    pub fn column(&self) -> usize {
        self.start + 1
    }

    /// What is wrong, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead, where that can be guessed.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String = self.source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "policy expression, column {}: {}", self.column(), self.message)?;
        writeln!(f, "  {line}")?;
        write!(f, "  {}{}", " ".repeat(self.start), "^".repeat(self.length.max(1)))?;
        match &self.help {
            Some(help) => write!(f, " {help}"),
            None => Ok(()),
        }
    }
}

/// As it is displayed: an error that `main` returns points at the column.
impl fmt::Debug for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ExpressionError {}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(source: &str) -> Result<Self, ExpressionError> {
        reader::read(source)
    }
}

/// So that whoever takes a policy takes its text as well.
impl TryFrom<&str> for Expression {
    type Error = ExpressionError;

    fn try_from(source: &str) -> Result<Self, ExpressionError> {
        reader::read(source)
    }
}

/// As that of `&str`.
impl TryFrom<&String> for Expression {
    type Error = ExpressionError;

    fn try_from(source: &String) -> Result<Self, ExpressionError> {
        reader::read(source)
    }
}

/// As that of `&str`.
impl TryFrom<String> for Expression {
    type Error = ExpressionError;

    fn try_from(source: String) -> Result<Self, ExpressionError> {
        reader::read(&source)
    }
}
