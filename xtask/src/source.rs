//! Rust files as `tidy`, `weaken` and `size` see them: code apart from comments, tests apart from production.

/// A file of the checkout. For Rust files, code and comments are separated, byte for byte at their old places.
pub struct Source {
    /// Path from the root of the checkout, with `/`.
    pub path: String,
    /// The file.
    pub text: String,
    /// The text with comments and the insides of strings blanked (Rust files only, otherwise empty).
    pub code: String,
    /// The text with all but comments blanked (Rust files only, otherwise empty).
    pub comments: String,
    /// For each line: is it compiled in tests only?
    test_lines: Vec<bool>,
    /// Is all of it?
    test_file: bool,
}

impl Source {
    /// Splits `text`.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = if path.ends_with(".rs") { split(text) } else { (String::new(), String::new()) };
        let whole = is_test_path(path) || code.contains("#![cfg(test)]");
        let test_lines = if whole { vec![true; text.lines().count()] } else { test_lines(&code) };
        Self { path: path.to_string(), text: text.to_string(), code, comments, test_lines, test_file: whole }
    }

    /// True for Rust files.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True when nothing in it is compiled but in tests.
    pub fn is_test_file(&self) -> bool {
        self.test_file
    }

    /// True when line `index` (from 0) is compiled in tests only.
    pub fn is_test_line(&self, index: usize) -> bool {
        self.test_lines.get(index).copied().unwrap_or(false)
    }

    /// The lines of code outside of tests, with their indices from 0.
    pub fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().filter(|(index, _)| !self.is_test_line(*index))
    }

    /// Where line `index` (from 0) starts.
    pub fn line_start(&self, index: usize) -> usize {
        if index == 0 {
            return 0;
        }
        self.text.match_indices('\n').nth(index - 1).map_or(self.text.len(), |(at, _)| at + 1)
    }

    /// The index (from 0) of the line that holds byte `at`.
    pub fn line_of(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }
}

/// True when `code` holds `word` with no identifier character on either side.
pub fn has_word(code: &str, word: &str) -> bool {
    find_word(code, word, 0).is_some()
}

/// The first place at or after `from` where `word` stands alone.
pub fn find_word(code: &str, word: &str, from: usize) -> Option<usize> {
    let ident = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = code.as_bytes();
    let mut start = from;
    while let Some(found) = code.get(start..)?.find(word) {
        let at = start + found;
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        if !ident(before) && !ident(bytes.get(at + word.len())) {
            return Some(at);
        }
        start = at + word.len();
    }
    None
}

fn is_test_path(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/") || path.contains("/benches/") || file == "tests.rs" || file.ends_with("_tests.rs")
}

/// Marks the lines of items under `#[test]` or a `cfg` that holds `test`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marks = vec![false; code.lines().count()];
    let bytes = code.as_bytes();
    let line_of = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[") {
        let start = from + found;
        let Some(end) = closing(bytes, start + 1) else { break };
        from = end;
        let attribute = &code[start..end];
        let of_test = attribute == "#[test]"
            || attribute.starts_with("#[cfg(") && has_word(&attribute.replace("not(test)", ""), "test");
        if !of_test {
            continue;
        }
        let Some(open) = code[end..].find(['{', ';']).map(|at| end + at) else { break };
        let last = if bytes[open] == b'{' { closing(bytes, open).unwrap_or(bytes.len()) } else { open + 1 };
        let (first, last) = (line_of(start), line_of(last.min(bytes.len())));
        marks.iter_mut().take(last + 1).skip(first).for_each(|mark| *mark = true);
        from = last_byte_of(code, last);
    }
    marks
}

/// The first byte after line `line`.
fn last_byte_of(code: &str, line: usize) -> usize {
    code.match_indices('\n').nth(line).map_or(code.len(), |(at, _)| at + 1)
}

/// One past the bracket that closes the one at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// Separates code and comments; what is blanked becomes spaces, line breaks stay.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = token(bytes, at);
        kinds[at..end].fill(kind);
        if kind == Kind::Text && end - at >= 2 {
            // The quotes stay, so that `f("")` still looks like a call with an argument.
            kinds[at] = Kind::Code;
            kinds[end - 1] = Kind::Code;
        }
        at = end;
    }
    let keep = |wanted: Kind| -> String {
        let kept: Vec<u8> = bytes
            .iter()
            .zip(&kinds)
            .map(|(byte, kind)| if *kind == wanted || *byte == b'\n' { *byte } else { b' ' })
            .collect();
        String::from_utf8_lossy(&kept).into_owned()
    };
    (keep(Kind::Code), keep(Kind::Comment))
}

/// The kind of what starts at `at`, and one past its end.
fn token(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    let after_ident = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return (Kind::Comment, at + len);
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, at + block_comment(rest));
    }
    if !after_ident {
        let prefix = if rest.starts_with(b"br") || rest.starts_with(b"cr") { 2 } else { usize::from(rest[0] == b'r') };
        if prefix > 0 {
            let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
            if rest.get(prefix + hashes) == Some(&b'"') {
                return (Kind::Text, at + raw_string(rest, prefix + hashes, hashes));
            }
        }
    }
    match rest[0] {
        b'"' => (Kind::Text, at + quoted(rest, b'"')),
        b'\'' if is_char(rest) => (Kind::Text, at + quoted(rest, b'\'')),
        _ => (Kind::Code, at + 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], open: usize, hashes: usize) -> usize {
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = &rest[open + 1..];
    body.windows(end.len()).position(|window| window == end).map_or(rest.len(), |found| open + 1 + found + end.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character, not a lifetime: `'x'` or `'\…'`.
fn is_char(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let len = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            rest.get(1 + len) == Some(&b'\'')
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = Source::new("a.rs", "let a = \"// unsafe\"; // unsafe\nlet b = r#\"unsafe \"# /* unsafe */;\n");
        assert!(!has_word(&source.code, "unsafe"), "{}", source.code);
        assert_eq!(source.comments.matches("unsafe").count(), 2);
        assert_eq!(source.code.len(), source.text.len());
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = Source::new("a.rs", "fn f<'a>(x: &'a str) -> char { '\\'' } // it's\nfn g() -> char { '\"' }\n");
        assert!(source.code.contains("fn g()"));
        assert!(source.code.contains("&'a str"));
        assert!(!source.code.contains("it's"));
    }

    #[test]
    fn nested_comments_end_where_they_should() {
        let source = Source::new("a.rs", "/* a /* b */ c */ code");
        assert_eq!(source.code.trim(), "code");
    }

    #[test]
    fn test_modules_are_not_production() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n";
        let source = Source::new("crates/x/src/a.rs", text);
        let names: Vec<usize> = source.production().map(|(index, _)| index).collect();
        assert_eq!(names, [0, 5, 6, 7]);
    }

    #[test]
    fn files_of_tests_hold_no_production() {
        assert_eq!(Source::new("crates/x/tests/a.rs", "fn a() {}\n").production().count(), 0);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("use libc::c_int", "libc"));
        assert!(!has_word("use mylibc::x; libc_like", "libc"));
        assert_eq!(find_word("aa a", "a", 0), Some(3));
    }
}
