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

mod syntax;
use syntax::{Argument, Node, Value};

/// The most levels that `priority(n, P)` may have.
pub const MAX_PRIORITIES: u8 = 64;
/// The most victims that `neighbours(k)` may name.
pub const MAX_NEIGHBOURS: u32 = 4096;
/// The largest `min(k)`.
pub const MAX_BATCH: u32 = 65_536;
/// The rarest aging: once in so many selections.
pub const MAX_AGING: u32 = 1_000_000;

/// A policy, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// One global first-in first-out queue.
    Fifo,
    /// The newest first.
    Lifo,
    /// Lesser Bear's ring of Protect and Waiver queues.
    Rotator,
    /// Local queues and work stealing: the default.
    Steal(Stealing),
    /// Strict priorities, `levels` policies of the inner kind.
    Priority {
        /// How many priorities: 0 (the highest) to `levels - 1`.
        levels: u8,
        /// What orders threads of equal priority.
        inner: Box<Expression>,
        /// One selection in so many begins at the lowest priority. None: strict, low priorities may starve.
        aging: Option<u32>,
    },
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
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Fifo => f.write_str("fifo"),
            Expression::Lifo => f.write_str("lifo"),
            Expression::Rotator => f.write_str("rotator"),
            Expression::Steal(options) => options.fmt(f),
            Expression::Priority { levels, inner, aging: None } => write!(f, "priority({levels}, {inner})"),
            Expression::Priority { levels, inner, aging: Some(k) } => {
                write!(f, "priority({levels}, {inner}, aging={k})")
            }
        }
    }
}

impl fmt::Display for Stealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        if self.order == Order::Fifo {
            options.push("fifo".to_string());
        }
        if let Victims::Neighbours(k) = self.victims {
            options.push(format!("victims=neighbours({k})"));
        }
        match self.batch {
            Batch::Half => {}
            Batch::One => options.push("batch=one".to_string()),
            Batch::Min(k) => options.push(format!("batch=min({k})")),
        }
        if options.is_empty() { f.write_str("steal") } else { write!(f, "steal({})", options.join(", ")) }
    }
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl std::error::Error for ExpressionError {}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(source: &str) -> Result<Self, ExpressionError> {
        let node = syntax::parse(source)?;
        policy(&Reader { source }, &node)
    }
}

const POLICIES: &[&str] = &["fifo", "lifo", "rotator", "steal", "priority"];
const PLANNED_POLICIES: &[&str] = &["multiqueue", "clustered", "stochastic", "alternate", "reverse"];

/// Where errors get their text from.
struct Reader<'a> {
    source: &'a str,
}

type Parsed<T> = Result<T, ExpressionError>;

impl Reader<'_> {
    fn error<T>(&self, at: (usize, usize), message: impl Into<String>, help: Option<String>) -> Parsed<T> {
        Err(ExpressionError {
            source: self.source.to_string(),
            start: at.0,
            length: at.1,
            message: message.into(),
            help,
        })
    }

    /// The error for a name that is none of `known`.
    fn unknown<T>(&self, node: &Node<'_>, what: &str, known: &[&str], planned: &[&str]) -> Parsed<T> {
        let name = node.name;
        if planned.contains(&name) {
            let help = format!("available: {}", known.join(", "));
            return self.error(node.at, format!("{what} `{name}` is not available yet"), Some(help));
        }
        let help = match syntax::nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected one of: {}", known.join(", ")),
        };
        self.error(node.at, format!("unknown {what} `{name}`"), Some(help))
    }

    /// For names that take no arguments.
    fn bare(&self, node: &Node<'_>) -> Parsed<()> {
        match &node.arguments {
            None => Ok(()),
            Some(list) => {
                let at = list.first().map_or(node.at, Argument::at);
                let help = format!("write `{}` alone", node.name);
                self.error(at, format!("`{}` takes no arguments", node.name), Some(help))
            }
        }
    }

    /// The one number of `name(k)`, within `1..=most`.
    fn one_number(&self, node: &Node<'_>, most: u32) -> Parsed<u32> {
        let help = format!("as in `{}(4)`", node.name);
        match node.arguments.as_deref() {
            Some([argument]) if argument.key.is_none() => self.number(argument, most, &help),
            Some([_, extra, ..]) => self.error(extra.at(), format!("`{}` takes one number", node.name), Some(help)),
            _ => self.error(node.at, format!("`{}` takes one number", node.name), Some(help)),
        }
    }

    fn number(&self, argument: &Argument<'_>, most: u32, example: &str) -> Parsed<u32> {
        match &argument.value {
            Value::Number { value, at } if (1..=u128::from(most)).contains(value) => {
                debug_assert!(at.1 > 0);
                Ok(*value as u32)
            }
            Value::Number { at, .. } => self.error(*at, format!("expected a number from 1 to {most}"), None),
            Value::Node(node) => {
                self.error(node.at, format!("expected a number, found `{}`", node.name), Some(example.to_string()))
            }
        }
    }

    /// A name as a value.
    fn name<'n, 's>(&self, argument: &'n Argument<'s>, what: &str) -> Parsed<&'n Node<'s>> {
        match &argument.value {
            Value::Node(node) => Ok(node),
            Value::Number { at, .. } => self.error(*at, format!("expected {what}, found a number"), None),
        }
    }
}

fn policy(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    match node.name {
        "fifo" => reader.bare(node).map(|()| Expression::Fifo),
        "lifo" => reader.bare(node).map(|()| Expression::Lifo),
        "rotator" => reader.bare(node).map(|()| Expression::Rotator),
        "steal" => steal(reader, node).map(Expression::Steal),
        "priority" => priority(reader, node),
        _ => reader.unknown(node, "policy", POLICIES, PLANNED_POLICIES),
    }
}

fn steal(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Stealing> {
    const KEYS: &[&str] = &["order", "victims", "batch", "overflow"];
    let mut options = Stealing::default();
    let mut seen: Vec<&str> = Vec::new();
    for argument in node.arguments.iter().flatten() {
        let (key, key_at) = match &argument.key {
            Some(key) => (key.name, key.at),
            None => ("order", argument.at()),
        };
        if seen.contains(&key) {
            return reader.error(key_at, format!("`{key}` is given twice"), None);
        }
        match key {
            "order" => {
                let value = reader.name(argument, "an order")?;
                options.order = match value.name {
                    "lifo" => Order::Lifo,
                    "fifo" => Order::Fifo,
                    // A key without its value reads like an order that is not known.
                    other if argument.key.is_none() && KEYS.contains(&other) => {
                        let help = format!("write `{other}=...`");
                        return reader.error(value.at, format!("`{other}` needs a value"), Some(help));
                    }
                    _ => return reader.unknown(value, "order", &["lifo", "fifo"], &[]),
                };
                reader.bare(value)?;
            }
            "victims" => {
                let value = reader.name(argument, "the victims")?;
                options.victims = match value.name {
                    "random" => reader.bare(value).map(|()| Victims::Random)?,
                    "neighbours" => Victims::Neighbours(reader.one_number(value, MAX_NEIGHBOURS)?),
                    _ => return reader.unknown(value, "choice of victims", &["random", "neighbours"], &["clusters"]),
                };
            }
            "batch" => {
                let value = reader.name(argument, "a batch")?;
                options.batch = match value.name {
                    "half" => reader.bare(value).map(|()| Batch::Half)?,
                    "one" => reader.bare(value).map(|()| Batch::One)?,
                    "min" => Batch::Min(reader.one_number(value, MAX_BATCH)?),
                    _ => return reader.unknown(value, "batch", &["half", "one", "min"], &[]),
                };
            }
            "overflow" => {
                // The lock-free queue that all processors share is the only one so far, and the default.
                let value = reader.name(argument, "an overflow queue")?;
                match value.name {
                    "lockfree" => reader.bare(value)?,
                    _ => {
                        return reader.unknown(value, "overflow queue", &["lockfree"], &["locked", "sharded", "retry"]);
                    }
                }
            }
            _ => {
                let key = argument.key.as_ref().unwrap_or(node);
                return reader.unknown(key, "option of `steal`", KEYS, &["requests", "growing", "slot", "share"]);
            }
        }
        seen.push(key);
    }
    Ok(options)
}

fn priority(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    let help = || Some("as in `priority(3, steal)`".to_string());
    let arguments = node.arguments.as_deref().unwrap_or(&[]);
    let [levels, inner, rest @ ..] = arguments else {
        let message = "`priority` takes the number of priorities and a policy";
        return reader.error(node.at, message, help());
    };
    for argument in [levels, inner] {
        if let Some(key) = &argument.key {
            let message = format!("`{}=` is not expected here", key.name);
            return reader.error(key.at, message, help());
        }
    }
    let levels = reader.number(levels, MAX_PRIORITIES.into(), "as in `priority(3, steal)`")? as u8;
    let inner_node = reader.name(inner, "a policy")?;
    let inner = policy(reader, inner_node)?;
    if matches!(inner, Expression::Priority { .. }) {
        let message = "a priority within a priority has no effect: equal threads are all that it sees";
        return reader.error(inner_node.at, message, Some("give one `priority` more levels".to_string()));
    }
    let mut aging = None;
    for argument in rest {
        match &argument.key {
            Some(key) if key.name == "aging" && aging.is_none() => {
                aging = Some(reader.number(argument, MAX_AGING, "as in `aging=64`")?);
            }
            Some(key) if key.name == "aging" => return reader.error(key.at, "`aging` is given twice", None),
            Some(key) => return reader.unknown(key, "option of `priority`", &["aging"], &[]),
            None => return reader.error(argument.at(), "`priority` takes one number and one policy", help()),
        }
    }
    Ok(Expression::Priority { levels, inner: Box::new(inner), aging })
}
