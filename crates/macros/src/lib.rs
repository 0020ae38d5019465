//! The attribute `raddle::main`, and what the packages of this project have between them.
//!
//! What it makes of `fn main() -> T { BODY }` is a `main` that runs `BODY` in a thread of the standard library and
//! waits for it. The crate that exports the attribute links the entry points of `raddle-posix`, so that thread is
//! lightweight, as are all that it creates. Nothing of ours is named in the expansion: it works under whatever name a
//! program knows the crate.
#![forbid(unsafe_code)]

mod embed;
mod entry;

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Runs the body of `main` as a lightweight thread; the program's other threads, locks and sockets are lightweight in
/// any case.
///
/// The function may return whatever `main` may. A panic in it ends the program as it does natively. Processors and
/// policy are chosen in the environment (`RADDLE_PROCESSORS`, `RADDLE_POLICY`); the attribute takes no arguments.
/// Examples: the page of `raddle-std`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let words: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    let parts = match check(&arguments.to_string(), &words) {
        Ok(parts) => parts,
        Err((at, message)) => {
            let span = tokens.get(at).map_or_else(Span::call_site, TokenTree::span);
            // The function stays, so that its absence is not complained of as well.
            return error(message, span).into_iter().chain(without_qualifiers(&tokens)).collect();
        }
    };
    // fn main() -> ExitCode { #attributes fn main() -> T { BODY } RUN(main) }
    let inner: TokenStream = tokens[parts.function..].iter().cloned().collect();
    let attributes = tokens[..parts.attributes].iter().cloned();
    let mut body = inner;
    body.extend(parse(RUN));
    let head = attributes.chain(parse("fn main() -> ::std::process::ExitCode"));
    let block = TokenTree::Group(Group::new(Delimiter::Brace, body));
    head.chain([block]).collect()
}

/// The file of the drop-in library, as `Option<(&'static [u8], &'static str)>`: its bytes and a hash. For the command
/// `raddle` only.
#[doc(hidden)]
#[proc_macro]
pub fn drop_in_library(_: TokenStream) -> TokenStream {
    library("raddle_drop_in")
}

/// As [`drop_in_library`], the library for MPI's calls.
#[doc(hidden)]
#[proc_macro]
pub fn mpi_library(_: TokenStream) -> TokenStream {
    library("raddle_mpi")
}

/// A function that takes the place of the C library's function of its name: it is exported by that name, and as unsafe
/// as its specification says. With `#[entry(if CONDITION)]` callers for whom the condition does not hold get the C
/// library's own; `if let` goes, too, and what it binds is the body's. In the body, `natively!()` calls the C library's
/// with the same arguments. Before `if` may stand which version of the function is meant: `version "GLIBC_2.3.2",`.
///
/// The `unsafe` of the call, and of what an `if let` reads, is sound because the caller has promised what the
/// specification asks, and both functions have the same. For `raddle-posix` only, whose macro `next!` finds functions.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn entry(arguments: TokenStream, item: TokenStream) -> TokenStream {
    const USE: &str = "`#[entry(version \"VERSION\", if CONDITION)]` or less, for a function without type parameters";
    let mut head: Vec<TokenTree> = item.into_iter().collect();
    let words: Vec<String> = head.iter().map(ToString::to_string).collect();
    let Some(TokenTree::Group(body)) = head.pop() else { return error(USE, Span::call_site()) };
    let text = |from: usize| head[from..].iter().cloned().collect::<TokenStream>().to_string();
    let Some(known) = entry::Head::of(&words[..head.len()], text) else {
        return error(USE, Span::call_site());
    };
    let mut rest: Vec<TokenTree> = arguments.into_iter().collect();
    let mut version = None;
    if rest.first().is_some_and(|word| word.to_string() == "version") && rest.len() > 1 {
        version = Some(rest[1].to_string());
        rest.drain(..rest.len().min(3));
    }
    let natively = known.natively(version.as_deref());
    let mut begin = TokenStream::new();
    let is = |at: usize, text: &str| rest.get(at).is_some_and(|word| word.to_string() == text);
    let assigned = rest.iter().position(|word| word.to_string() == "=");
    match (is(0, "if"), is(1, "let"), assigned) {
        (true, true, Some(at)) => {
            let read = Group::new(Delimiter::Brace, rest[at + 1..].iter().cloned().collect());
            // In brackets, since no brace may stand before `else`.
            let read = parse("unsafe").chain([TokenTree::Group(read)]).collect();
            begin.extend(parse("#[allow(unused_unsafe, unused_parens)]").chain(rest[1..=at].iter().cloned()));
            begin.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, read))]);
            begin.extend(parse(&format!("else {{ return {natively}; }};")));
        }
        (true, false, _) => {
            let condition = rest[1..].iter().cloned().collect();
            begin.extend(parse("if !").chain([TokenTree::Group(Group::new(Delimiter::Parenthesis, condition))]));
            begin.extend(parse(&format!("{{ return {natively}; }}")));
        }
        _ if rest.is_empty() => {}
        _ => return error(USE, Span::call_site()),
    }
    let inner = body.stream();
    if inner.to_string().contains("natively!") {
        begin.extend(parse(&format!("macro_rules! natively {{ () => {{ {natively} }} }}")));
    }
    begin.extend(inner);
    let mut whole = Group::new(Delimiter::Brace, begin);
    whole.set_span(body.span());
    let attributes = "#[doc = \"\\n# Safety\\nAs the specification of this function says.\"] #[unsafe(no_mangle)]";
    parse(attributes).chain(head).chain([TokenTree::Group(whole)]).collect()
}

fn library(name: &str) -> TokenStream {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    parse(&embed::expression(package.as_ref(), std::env::args(), name)).collect()
}

/// Stands behind the program's own `main`, which is in scope there.
const RUN: &str = r#"
    let run = || -> ::std::process::ExitCode { ::std::process::Termination::report(main()) };
    // As much as the system gives a first thread.
    let thread = ::std::thread::Builder::new().name(::std::string::String::from("main")).stack_size(8 << 20);
    match thread.spawn(run) {
        ::std::result::Result::Ok(thread) => match thread.join() {
            ::std::result::Result::Ok(code) => code,
            // Reported when it happened; the code is the one of a panic in main.
            ::std::result::Result::Err(_) => ::std::process::ExitCode::from(101),
        },
        ::std::result::Result::Err(error) => {
            ::std::eprintln!("raddle: no thread for main: {error}");
            ::std::process::ExitCode::FAILURE
        }
    }
"#;

/// Where the parts of the function begin.
#[derive(Debug, PartialEq)]
struct Parts {
    /// The attributes end here.
    attributes: usize,
    /// `fn` stands here.
    function: usize,
}

const NO_ARGUMENTS: &str = "raddle::main takes no arguments: set RADDLE_PROCESSORS or RADDLE_POLICY in the environment";
const NO_FUNCTION: &str = "raddle::main is for the function `main`";
const NOT_ASYNC: &str =
    "raddle::main runs blocking code, each call of which lets other threads run: remove `async` and the `.await`s";
const PLAIN: &str = "raddle::main is for a plain `fn main()`";
const PARAMETERS: &str = "`main` takes no parameters: read them with `std::env::args()`";

/// Looks at the function, as words; or says which word is wrong, and why.
fn check(arguments: &str, words: &[String]) -> Result<Parts, (usize, &'static str)> {
    if !arguments.is_empty() {
        return Err((0, NO_ARGUMENTS));
    }
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let mut at = 0;
    while word(at) == "#" {
        at += 2;
    }
    let attributes = at;
    if word(at) == "pub" {
        at += 1 + usize::from(word(at + 1).starts_with('('));
    }
    match word(at) {
        "fn" => {}
        "async" => return Err((at, NOT_ASYNC)),
        "unsafe" | "const" | "extern" => return Err((at, PLAIN)),
        _ => return Err((at, NO_FUNCTION)),
    }
    if word(at + 1) != "main" {
        return Err((at + 1, NO_FUNCTION));
    }
    let parameters = word(at + 2);
    if !parameters.starts_with('(') {
        return Err((at + 2, PLAIN));
    }
    if !parameters.trim_matches(['(', ')']).trim().is_empty() {
        return Err((at + 2, PARAMETERS));
    }
    Ok(Parts { attributes, function: at })
}

/// The function as far as it can stand beside the complaint: an empty `main`, unless it is another function.
fn without_qualifiers(tokens: &[TokenTree]) -> TokenStream {
    let is_main = tokens.iter().any(|token| matches!(token, TokenTree::Ident(name) if name.to_string() == "main"));
    if is_main { parse("fn main() {}").collect() } else { tokens.iter().cloned().collect() }
}

fn parse(text: &str) -> impl Iterator<Item = TokenTree> {
    let tokens: TokenStream = text.parse().expect("constant text is Rust");
    tokens.into_iter()
}

/// `::core::compile_error!(message)`, pointing at `span`.
fn error(message: &str, span: Span) -> TokenStream {
    let text = format!("::core::compile_error!{{ {message:?} }}");
    parse(&text)
        .map(|mut token| {
            if let TokenTree::Group(group) = &token {
                let mut group = group.clone();
                group.set_span(span);
                token = TokenTree::Group(group);
            } else if let TokenTree::Ident(ident) = &token {
                token = TokenTree::Ident(Ident::new(&ident.to_string(), span));
            } else {
                token.set_span(span);
            }
            token
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(arguments: &str, function: &str) -> Result<Parts, (usize, &'static str)> {
        let words: Vec<String> = function.split(' ').map(String::from).collect();
        check(arguments, &words)
    }

    #[test]
    fn what_main_may_be() {
        assert_eq!(checked("", "fn main () {}"), Ok(Parts { attributes: 0, function: 0 }));
        assert_eq!(
            checked("", "# [allow(x)] pub (crate) fn main () - > u8 {1}"),
            Ok(Parts { attributes: 2, function: 4 })
        );
        assert_eq!(checked("", "pub fn main () {}"), Ok(Parts { attributes: 0, function: 1 }));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_stands() {
        assert_eq!(checked("processors = 4", "fn main () {}"), Err((0, NO_ARGUMENTS)));
        assert_eq!(checked("", "async fn main () {}"), Err((0, NOT_ASYNC)));
        assert_eq!(checked("", "pub unsafe fn main () {}"), Err((1, PLAIN)));
        assert_eq!(checked("", "fn other () {}"), Err((1, NO_FUNCTION)));
        assert_eq!(checked("", "struct X ;"), Err((0, NO_FUNCTION)));
        assert_eq!(checked("", "fn main (arguments:Vec<String>) {}"), Err((2, PARAMETERS)));
        assert_eq!(checked("", "fn main < T > () {}"), Err((2, PLAIN)));
    }
}
