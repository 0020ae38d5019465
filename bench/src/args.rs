//! The arguments of a workload: `key=value` pairs in a fixed order.

use std::fmt;

/// `key=value` pairs, in the order in which the catalogue names the keys.
///
/// ```
/// use raddle_bench::args::Args;
/// let args = Args::parse(["N=10k", "by=join"]).unwrap();
/// assert_eq!(args.number("N"), Ok(10_000));
/// assert_eq!(args.text("by"), Ok("join"));
/// assert_eq!(args.to_string(), "N=10000 by=join");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Args(Vec<(String, String)>);

impl Args {
    /// Reads `key=value` items. A value such as `10k` or `1M` becomes its plain number, so that equal arguments look
    /// equal.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Args, String> {
        let mut args = Args::default();
        for item in items {
            let (key, value) = item.split_once('=').ok_or_else(|| format!("`{item}` is not of the form key=value"))?;
            args.set(key, value);
        }
        Ok(args)
    }

    /// Sets `key`, in its old place when it was there.
    pub fn set(&mut self, key: &str, value: &str) {
        let value = read_number(value).map_or_else(|| value.to_string(), |n| n.to_string());
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some(slot) => slot.1 = value,
            None => self.0.push((key.to_string(), value)),
        }
    }

    /// The value of `key` as text.
    pub fn text(&self, key: &str) -> Result<&str, String> {
        self.get(key).ok_or_else(|| format!("the argument `{key}` is missing; pass {key}=VALUE"))
    }

    /// The value of `key` as a number; `k` and `M` are accepted as suffixes.
    pub fn number(&self, key: &str) -> Result<u64, String> {
        let text = self.text(key)?;
        read_number(text).ok_or_else(|| format!("`{key}={text}` is not a whole number; pass {key}=1000 or {key}=1k"))
    }

    /// The value of `key`, when it is there.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl fmt::Display for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{key}={value}")?;
        }
        Ok(())
    }
}

/// Reads `1000`, `1k`, `10M`; nothing else.
fn read_number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_and_plain_numbers_are_the_same_argument() {
        assert_eq!(Args::parse(["N=1M"]), Args::parse(["N=1000000"]));
        assert_eq!(Args::parse(["N=2k"]).unwrap().to_string(), "N=2000");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(Args::parse(["N"]).unwrap_err().contains("`N`"));
        let args = Args::parse(["N=many", "big=99999999999999999999M"]).unwrap();
        assert!(args.number("N").unwrap_err().contains("N=many"));
        assert!(args.number("big").is_err());
        assert!(args.number("absent").unwrap_err().contains("missing"));
    }
}
