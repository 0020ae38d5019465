//! The shape of an expression: names, numbers, brackets and commas, each with its place.

use super::ExpressionError;

/// Where something stands: characters before it, and its length in characters.
pub(super) type At = (usize, usize);

/// A name, with the arguments in its brackets if it has any.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub name: &'a str,
    pub at: At,
    pub arguments: Option<Vec<Argument<'a>>>,
}

/// One argument.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    /// The name before `=`, as a node without arguments.
    pub key: Option<Node<'a>>,
    pub value: Value<'a>,
}

/// What an argument may be.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Number { value: u128, at: At },
    Node(Node<'a>),
}

impl Argument<'_> {
    /// Where its value stands.
    pub fn at(&self) -> At {
        match &self.value {
            Value::Number { at, .. } => *at,
            Value::Node(node) => node.at,
        }
    }
}

/// Brackets within brackets: more than any policy needs, few enough for the stack.
const MAX_DEPTH: usize = 16;

/// Reads one expression, and nothing after it.
pub(super) fn parse(source: &str) -> Result<Node<'_>, ExpressionError> {
    let mut cursor = Cursor { source, byte: 0, column: 0 };
    cursor.skip_space();
    if cursor.peek().is_none() {
        return cursor.fail(1, "the expression is empty", Some("expected a policy, such as `steal`"));
    }
    let node = cursor.node(0)?;
    cursor.skip_space();
    match cursor.peek() {
        None => Ok(node),
        Some(')') => cursor.fail(1, "this bracket closes nothing", None),
        Some(_) => {
            let rest = source[cursor.byte..].trim_end().chars().count();
            cursor.fail(rest, "the expression has ended before this", None)
        }
    }
}

struct Cursor<'a> {
    source: &'a str,
    byte: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.source[self.byte..].chars().next()
    }

    fn advance(&mut self) {
        if let Some(c) = self.peek() {
            self.byte += c.len_utf8();
            self.column += 1;
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.advance();
        }
    }

    fn take_while(&mut self, test: impl Fn(char) -> bool) -> (&'a str, At) {
        let (byte, column) = (self.byte, self.column);
        while self.peek().is_some_and(&test) {
            self.advance();
        }
        (&self.source[byte..self.byte], (column, self.column - column))
    }

    fn fail<T>(&self, length: usize, message: &str, help: Option<&str>) -> Result<T, ExpressionError> {
        Err(ExpressionError {
            source: self.source.to_string(),
            start: self.column,
            length,
            message: message.to_string(),
            help: help.map(str::to_string),
        })
    }

    fn expected<T>(&self, what: &str) -> Result<T, ExpressionError> {
        match self.peek() {
            None => self.fail(1, &format!("expected {what}, but the expression ends here"), None),
            Some(c) => self.fail(1, &format!("expected {what}, found `{c}`"), None),
        }
    }

    fn name(&mut self) -> Result<(&'a str, At), ExpressionError> {
        if !self.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
            return self.expected("a name");
        }
        Ok(self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '-'))
    }

    fn node(&mut self, depth: usize) -> Result<Node<'a>, ExpressionError> {
        let (name, at) = self.name()?;
        Ok(Node { name, at, arguments: self.arguments(depth)? })
    }

    /// The bracket after a name, if there is one.
    fn arguments(&mut self, depth: usize) -> Result<Option<Vec<Argument<'a>>>, ExpressionError> {
        self.skip_space();
        if self.peek() != Some('(') {
            return Ok(None);
        }
        if depth == MAX_DEPTH {
            return self.fail(1, &format!("brackets are nested more than {MAX_DEPTH} deep"), None);
        }
        self.advance();
        let mut list = Vec::new();
        self.skip_space();
        if self.peek() == Some(')') {
            return self.fail(1, "nothing in the brackets", Some("leave them out, or give an argument"));
        }
        loop {
            self.skip_space();
            list.push(self.argument(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(',') => self.advance(),
                Some(')') => {
                    self.advance();
                    return Ok(Some(list));
                }
                _ => return self.expected("`,` or `)`"),
            }
        }
    }

    fn argument(&mut self, depth: usize) -> Result<Argument<'a>, ExpressionError> {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(Argument { key: None, value: self.number() });
        }
        if !self.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
            return self.expected("a number or a name");
        }
        let (name, at) = self.name()?;
        self.skip_space();
        if self.peek() != Some('=') {
            let arguments = self.arguments(depth)?;
            return Ok(Argument { key: None, value: Value::Node(Node { name, at, arguments }) });
        }
        self.advance();
        self.skip_space();
        let key = Some(Node { name, at, arguments: None });
        match self.peek() {
            Some(c) if c.is_ascii_digit() => Ok(Argument { key, value: self.number() }),
            Some(c) if c.is_alphabetic() || c == '_' => Ok(Argument { key, value: Value::Node(self.node(depth)?) }),
            _ => self.expected(&format!("a value for `{name}`")),
        }
    }

    fn number(&mut self) -> Value<'a> {
        let (digits, at) = self.take_while(|c| c.is_ascii_digit());
        // What exceeds even this is out of every range that a number is checked against.
        Value::Number { value: digits.parse().unwrap_or(u128::MAX), at }
    }
}

/// The one of `known` that `name` most probably was meant to be: at most a third of its letters differ.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase();
    known
        .iter()
        .map(|&k| (distance(&name, k), k))
        .filter(|&(d, k)| d <= (k.len() / 3).max(1))
        .min_by_key(|&(d, _)| d)
        .map(|(_, k)| k)
}

/// Insertions, deletions, replacements and exchanges of neighbours that make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
