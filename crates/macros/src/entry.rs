//! The attribute `entry` of the C entry points: what each of them would say again.

/// What the attribute needs of a function's head.
#[derive(Debug, PartialEq)]
pub struct Head {
    pub name: String,
    /// Its parameters' names, and their types.
    pub parameters: Vec<(String, String)>,
    /// What it returns, if it does.
    pub result: Option<String>,
}

impl Head {
    /// Reads it off the words before the body, of which the parameters are one. `text` joins the words from one on.
    pub fn of(words: &[String], text: impl FnOnce(usize) -> String) -> Option<Head> {
        let at = words.iter().position(|word| word == "fn")?;
        let [name, list, result @ ..] = words.get(at + 1..)? else { return None };
        let list = list.strip_prefix('(')?.strip_suffix(')')?;
        let parameter = |text: &str| {
            let (name, of) = text.split_once(':')?;
            Some((name.trim().trim_start_matches("mut ").to_string(), of.trim().to_string()))
        };
        let parameters = split(list).into_iter().map(parameter).collect::<Option<_>>()?;
        let result = match result {
            [] => None,
            [minus, greater, ..] if minus == "-" && greater == ">" => Some(text(words.len() - result.len() + 2)),
            _ => return None,
        };
        Some(Head { name: name.clone(), parameters, result })
    }

    /// The call of the C library's own function of that name, with the same arguments; of that version, a literal, if
    /// one is given.
    pub fn natively(&self, version: Option<&str>) -> String {
        let join =
            |part: fn(&(String, String)) -> &str| self.parameters.iter().map(part).collect::<Vec<_>>().join(", ");
        let (names, types) = (join(|(name, _)| name), join(|(_, of)| of));
        let result = self.result.as_ref().map_or(String::new(), |result| format!(" -> {result}"));
        let name = &self.name;
        let next = version.map_or(format!("next!({name}"), |version| format!("next_version!({name}, {version}"));
        format!("unsafe {{ {next}: fn({types}){result})({names}) }}")
    }
}

/// The parts between commas that stand in no brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut before) = (0, 0, ' ');
    let mut parts = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        before = letter;
    }
    parts.push(&list[begin..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(words: &[&str]) -> Option<Head> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Head::of(&words, |from| words[from..].join(" "))
    }

    #[test]
    fn the_original_is_called_with_the_same_arguments() {
        let words =
            ["pub", "unsafe", "extern", "\"C\"", "fn", "read", "(d: c_int, mut b: *mut u8,)", "-", ">", "isize"];
        let call = "unsafe { next!(read: fn(c_int, *mut u8) -> isize)(d, b) }";
        assert_eq!(head(&words).unwrap().natively(None), call);
        let call = "unsafe { next_version!(f, \"G\": fn())() }";
        assert_eq!(head(&["fn", "f", "()"]).unwrap().natively(Some("\"G\"")), call);
    }

    #[test]
    fn commas_in_types_part_nothing() {
        let list = "(f: Option<unsafe extern \"C\" fn(u8, u8) -> X<A, B>>, n: [u8; 2])";
        let parameters = head(&["fn", "f", list]).unwrap().parameters;
        assert_eq!(parameters.len(), 2, "{parameters:?}");
        assert_eq!(parameters[1], ("n".to_string(), "[u8; 2]".to_string()));
    }

    #[test]
    fn what_is_no_function_is_refused() {
        assert_eq!(head(&["struct", "X"]), None);
        assert_eq!(head(&["fn", "f", "<", "T", ">", "()"]), None);
    }
}
