//! From the tree to the policy: each name checks its own arguments.

use super::syntax::{self, Argument, Node, Value};
use super::{
    Batch, Expression, ExpressionError, Growth, LocalQueues, MAX_AGING, MAX_BATCH, MAX_CAPACITY, MAX_CLUSTER,
    MAX_NEIGHBOURS, MAX_PRIORITIES, MAX_QUEUES, MAX_ROUNDS, MAX_SHARDS, MAX_TURN, Mix, Order, Overflow, Requests,
    Stealing, TURN, Victims,
};

/// Reads an expression.
pub(super) fn read(source: &str) -> Result<Expression, ExpressionError> {
    let node = syntax::parse(source)?;
    policy(&Reader { source }, &node)
}

const POLICIES: &[&str] = &[
    "fifo",
    "lifo",
    "stochastic",
    "alternate",
    "reverse",
    "multiqueue",
    "rotator",
    "waiver",
    "steal",
    "priority",
    "local",
    "request",
    "clustered",
    "apart",
];

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
    fn unknown<T>(&self, node: &Node<'_>, what: &str, known: &[&str]) -> Parsed<T> {
        let name = node.name;
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

    /// The key of an option of `node`, which is one of `keys` and was not there before. Without a key it is
    /// `positional`, if there is such a one.
    fn key<'s>(
        &self,
        node: &Node<'_>,
        argument: &Argument<'s>,
        keys: &'static [&'static str],
        seen: &mut Vec<&'static str>,
        positional: &'static str,
    ) -> Parsed<&'static str> {
        let (name, at) = match &argument.key {
            Some(key) => (key.name, key.at),
            None => (positional, argument.at()),
        };
        let Some(known) = keys.iter().find(|&&key| key == name) else {
            let what = format!("option of `{}`", node.name);
            return match (&argument.key, &argument.value) {
                (Some(key), _) => self.unknown(key, &what, keys),
                (None, Value::Node(value)) if keys.contains(&value.name) => {
                    let help = format!("write `{}=...`", value.name);
                    self.error(at, format!("`{}` needs a value", value.name), Some(help))
                }
                (None, Value::Node(value)) => self.unknown(value, &what, keys),
                (None, Value::Number { .. }) => {
                    self.error(at, "expected an option, found a number", Some("as in `capacity=64`".to_string()))
                }
            };
        };
        if seen.contains(known) {
            return self.error(at, format!("`{known}` is given twice"), None);
        }
        seen.push(known);
        Ok(known)
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
        "waiver" => reader.bare(node).map(|()| Expression::Waiver),
        "stochastic" => reader.one_number(node, 99).map(|percent| Expression::Hybrid(Mix::Stochastic(percent))),
        "alternate" => reader.one_number(node, MAX_TURN).map(|n| Expression::Hybrid(Mix::Alternate(n))),
        "reverse" => reader.one_number(node, MAX_TURN).map(|n| Expression::Hybrid(Mix::Reverse(n))),
        "multiqueue" => reader.one_number(node, MAX_QUEUES).map(Expression::Multiqueue),
        "local" => local(reader, node),
        "request" => request(reader, node),
        "clustered" => clustered(reader, node),
        "apart" => apart(reader, node),
        "steal" => steal(reader, node).map(Expression::Steal),
        "priority" => priority(reader, node),
        _ => reader.unknown(node, "policy", POLICIES),
    }
}

fn steal(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Stealing> {
    const KEYS: &[&str] = &["order", "victims", "batch", "overflow"];
    let mut options = Stealing::default();
    let mut seen: Vec<&str> = Vec::new();
    for argument in node.arguments.iter().flatten() {
        let key = reader.key(node, argument, KEYS, &mut seen, "order")?;
        match key {
            "overflow" => {
                // The lock-free queue that all processors share is the only one here, and the default.
                let value = reader.name(argument, "an overflow queue")?;
                if ["locked", "sharded", "retry"].contains(&value.name) {
                    let help = Some(format!("write `local(overflow={})`", value.name));
                    return reader.error(value.at, "`steal` has no other overflow queue than `lockfree`", help);
                }
                if value.name != "lockfree" {
                    return reader.unknown(value, "overflow queue", &["lockfree"]);
                }
                reader.bare(value)?;
            }
            key => stealing(reader, argument, key, KEYS, &mut options)?,
        }
    }
    Ok(options)
}

/// The options that `steal` and `local` have in common.
fn stealing(
    reader: &Reader<'_>,
    argument: &Argument<'_>,
    key: &str,
    keys: &[&str],
    options: &mut Stealing,
) -> Parsed<()> {
    match key {
        "order" => {
            let value = reader.name(argument, "an order")?;
            options.order = match value.name {
                "lifo" => Order::Lifo,
                "fifo" => Order::Fifo,
                // A key without its value reads like an order that is not known.
                other if argument.key.is_none() && keys.contains(&other) => {
                    let help = format!("write `{other}=...`");
                    return reader.error(value.at, format!("`{other}` needs a value"), Some(help));
                }
                _ => return reader.unknown(value, "order", &["lifo", "fifo"]),
            };
            reader.bare(value)
        }
        "victims" => {
            let value = reader.name(argument, "the victims")?;
            options.victims = match value.name {
                "random" => reader.bare(value).map(|()| Victims::Random)?,
                "neighbours" => Victims::Neighbours(reader.one_number(value, MAX_NEIGHBOURS)?),
                "clusters" => Victims::Clusters(reader.one_number(value, MAX_CLUSTER)?),
                _ => return reader.unknown(value, "choice of victims", &["random", "neighbours", "clusters"]),
            };
            Ok(())
        }
        _ => {
            let value = reader.name(argument, "a batch")?;
            options.batch = match (value.name, value.arguments.as_deref()) {
                ("half", _) => reader.bare(value).map(|()| Batch::Half)?,
                ("one", _) => reader.bare(value).map(|()| Batch::One)?,
                ("min", Some([least, rare]))
                    if least.key.is_none() && rare.key.as_ref().is_some_and(|key| key.name == "rare") =>
                {
                    const EXAMPLE: &str = "as in `min(4, rare=16)`";
                    let least = reader.number(least, MAX_BATCH, EXAMPLE)?;
                    Batch::MinRarely(least, reader.number(rare, MAX_ROUNDS, EXAMPLE)?)
                }
                ("min", _) => Batch::Min(reader.one_number(value, MAX_BATCH)?),
                _ => return reader.unknown(value, "batch", &["half", "one", "min"]),
            };
            Ok(())
        }
    }
}

fn local(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    local_queues(reader, node, node.arguments.as_deref().unwrap_or(&[]), "order").map(Expression::Local)
}

fn request(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    const HOW: &[&str] = &["naive", "sticky", "ticket"];
    let Some([how, rest @ ..]) = node.arguments.as_deref() else {
        let help = Some("as in `request(ticket)`".to_string());
        return reader.error(node.at, "`request` takes the way of asking: naive, sticky or ticket", help);
    };
    if let Some(key) = &how.key {
        let help = Some("as in `request(ticket, capacity=64)`".to_string());
        return reader.error(key.at, "the way of asking comes first: naive, sticky or ticket", help);
    }
    let value = reader.name(how, "the way of asking")?;
    let how = match value.name {
        "naive" => Requests::Naive,
        "sticky" => Requests::Sticky,
        "ticket" => Requests::Ticket,
        _ => return reader.unknown(value, "way of asking", HOW),
    };
    reader.bare(value)?;
    local_queues(reader, node, rest, "").map(|queues| Expression::Request(how, queues))
}

/// The options of `local`. An argument without a key is a value of `positional`, or the `slot`.
fn local_queues(
    reader: &Reader<'_>,
    node: &Node<'_>,
    arguments: &[Argument<'_>],
    positional: &'static str,
) -> Parsed<LocalQueues> {
    const KEYS: &[&str] = &["order", "capacity", "victims", "batch", "overflow", "share", "grow", "slot"];
    let mut options = LocalQueues::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut overflow_at = None;
    for argument in arguments {
        if let (None, Value::Node(value)) = (&argument.key, &argument.value)
            && value.name == "slot"
        {
            if options.slot {
                return reader.error(value.at, "`slot` is given twice", None);
            }
            reader.bare(value)?;
            options.slot = true;
            continue;
        }
        let key = reader.key(node, argument, KEYS, &mut seen, positional)?;
        match key {
            "capacity" => options.capacity = reader.number(argument, MAX_CAPACITY, "as in `capacity=128`")?,
            "share" => options.share = reader.number(argument, 100, "as in `share=10`, of 100")?,
            "overflow" => {
                let value = reader.name(argument, "an overflow queue")?;
                overflow_at = Some(value.at);
                options.overflow = match value.name {
                    "lockfree" => reader.bare(value).map(|()| Overflow::LockFree)?,
                    "locked" => reader.bare(value).map(|()| Overflow::Locked)?,
                    "tickets" => reader.bare(value).map(|()| Overflow::Tickets)?,
                    "retry" => reader.bare(value).map(|()| Overflow::Retry)?,
                    "sharded" => Overflow::Sharded(reader.one_number(value, MAX_SHARDS)?),
                    _ => {
                        const KNOWN: &[&str] = &["lockfree", "locked", "sharded", "tickets", "retry"];
                        return reader.unknown(value, "overflow queue", KNOWN);
                    }
                };
            }
            "grow" => {
                let value = reader.name(argument, "a direction")?;
                options.growth = Some(match value.name {
                    "vertical" => Growth::Vertical,
                    "horizontal" => Growth::Horizontal,
                    _ => return reader.unknown(value, "direction", &["vertical", "horizontal"]),
                });
                reader.bare(value)?;
            }
            "slot" => {
                let help = Some("write `slot` alone".to_string());
                return reader.error(argument.at(), "`slot` takes no value", help);
            }
            key => stealing(reader, argument, key, KEYS, &mut options.stealing)?,
        }
    }
    if let (Some(at), Overflow::Retry, Some(_)) = (overflow_at, options.overflow, options.growth) {
        let message = "`overflow=retry` contradicts `grow`: a queue that grows is never full";
        return reader.error(at, message, Some("leave one of them out".to_string()));
    }
    Ok(options)
}

/// The number and the policy that `priority(n, P)` and `clustered(k, P)` begin with, and what follows.
fn number_and_policy<'n, 's>(
    reader: &Reader<'_>,
    node: &'n Node<'s>,
    what: &str,
    most: u32,
    example: &str,
) -> Parsed<(u32, &'n Node<'s>, Expression, &'n [Argument<'s>])> {
    let help = || Some(example.to_string());
    let arguments = node.arguments.as_deref().unwrap_or(&[]);
    let [number, inner, rest @ ..] = arguments else {
        return reader.error(node.at, format!("`{}` takes the {what} and a policy", node.name), help());
    };
    for argument in [number, inner] {
        if let Some(key) = &argument.key {
            return reader.error(key.at, format!("`{}=` is not expected here", key.name), help());
        }
    }
    let number = reader.number(number, most, example)?;
    let inner_node = reader.name(inner, "a policy")?;
    Ok((number, inner_node, policy(reader, inner_node)?, rest))
}

/// The one option that may follow: a number with this key. `takes` says what `node` takes, and an example of it.
fn one_option(
    reader: &Reader<'_>,
    node: &Node<'_>,
    rest: &[Argument<'_>],
    known: &str,
    most: u32,
    takes: (&str, &str),
) -> Parsed<Option<u32>> {
    let mut value = None;
    for argument in rest {
        match &argument.key {
            Some(key) if key.name == known && value.is_none() => {
                value = Some(reader.number(argument, most, &format!("as in `{known}=64`"))?);
            }
            Some(key) if key.name == known => return reader.error(key.at, format!("`{known}` is given twice"), None),
            Some(key) => return reader.unknown(key, &format!("option of `{}`", node.name), &[known]),
            None => {
                let message = format!("`{}` {}", node.name, takes.0);
                return reader.error(argument.at(), message, Some(takes.1.to_string()));
            }
        }
    }
    Ok(value)
}

fn priority(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    const EXAMPLE: &str = "as in `priority(3, steal)`";
    let (levels, inner_node, inner, rest) =
        number_and_policy(reader, node, "number of priorities", MAX_PRIORITIES.into(), EXAMPLE)?;
    if has_priorities(&inner) {
        let message = "a priority within a priority has no effect: equal threads are all that it sees";
        return reader.error(inner_node.at, message, Some("give one `priority` more levels".to_string()));
    }
    let aging = one_option(reader, node, rest, "aging", MAX_AGING, ("takes one number and one policy", EXAMPLE))?;
    Ok(Expression::Priority { levels: levels as u8, inner: Box::new(inner), aging })
}

fn has_priorities(expression: &Expression) -> bool {
    match expression {
        Expression::Priority { .. } => true,
        Expression::Clustered { inner, .. } => has_priorities(inner),
        Expression::Apart { started, new, .. } => has_priorities(started) || has_priorities(new),
        _ => false,
    }
}

/// A ring, alone or at each priority.
fn is_ring(expression: &Expression) -> bool {
    match expression {
        Expression::Rotator => true,
        Expression::Priority { inner, .. } => is_ring(inner),
        _ => false,
    }
}

fn clustered(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    const EXAMPLE: &str = "as in `clustered(4, steal)`";
    if let Some([Argument { key: None, value: Value::Node(inner_node), .. }]) = node.arguments.as_deref() {
        return in_clusters(reader, None, inner_node, policy(reader, inner_node)?);
    }
    let (size, inner_node, inner, rest) = number_and_policy(reader, node, "size of a cluster", MAX_CLUSTER, EXAMPLE)?;
    if let Some(extra) = rest.first() {
        let at = extra.key.as_ref().map_or_else(|| extra.at(), |key| key.at);
        return reader.error(at, "`clustered` takes one number and one policy", Some(EXAMPLE.to_string()));
    }
    in_clusters(reader, Some(size), inner_node, inner)
}

fn in_clusters(reader: &Reader<'_>, size: Option<u32>, inner_node: &Node<'_>, inner: Expression) -> Parsed<Expression> {
    if matches!(inner, Expression::Clustered { .. }) {
        let help = "give one `clustered` the size that matters".to_string();
        return reader.error(inner_node.at, "clusters within clusters are not available", Some(help));
    }
    if is_ring(&inner) {
        let message = "a ring cannot be divided into clusters: who looks into another's would be a member of it";
        return reader.error(inner_node.at, message, Some("`waiver` is the same without the ring".to_string()));
    }
    Ok(Expression::Clustered { size, inner: Box::new(inner) })
}

fn apart(reader: &Reader<'_>, node: &Node<'_>) -> Parsed<Expression> {
    const EXAMPLE: &str = "as in `apart(steal, fifo)`";
    let help = || Some(EXAMPLE.to_string());
    let [started, new, rest @ ..] = node.arguments.as_deref().unwrap_or(&[]) else {
        let message = "`apart` takes a policy for threads that have run and one for those that have not started";
        return reader.error(node.at, message, help());
    };
    let part = |argument: &Argument<'_>| {
        if let Some(key) = &argument.key {
            return reader.error(key.at, format!("`{}=` is not expected here", key.name), help());
        }
        let inner_node = reader.name(argument, "a policy")?;
        let inner = policy(reader, inner_node)?;
        let refused = match &inner {
            inner if has_priorities(inner) => ("priorities go around `apart`", "write `priority(n, apart(P, Q))`"),
            inner if is_ring(inner) => {
                ("a ring orders all threads of a processor or none", "`waiver` is the same without the ring")
            }
            Expression::Apart { .. } => ("threads that are apart are all of one kind", "write one of its two policies"),
            _ => return Ok(Box::new(inner)),
        };
        reader.error(inner_node.at, refused.0, Some(refused.1.to_string()))
    };
    let (started, new) = (part(started)?, part(new)?);
    let turn = one_option(reader, node, rest, "turn", MAX_TURN, ("takes two policies", EXAMPLE))?;
    Ok(Expression::Apart { started, new, turn: turn.unwrap_or(TURN) })
}
