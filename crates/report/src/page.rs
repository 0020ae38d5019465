//! A page that needs nothing but itself.

use crate::circumstances::Circumstances;
use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; --bar: #4878a8; --first: #d07a3c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
th, td { padding: .15rem .8rem; text-align: right; white-space: nowrap; vertical-align: top; border-bottom: 1px solid #8884; }
th:first-child, td:first-child, td.error, td.text, th.text { text-align: left; }
td.text, td.error { white-space: normal; }
td.error, td.not, td.slower { color: #b03030; } td.held, td.faster { color: #2a7a3a; }
table.where td { text-align: left; border: 0; padding: 0 .8rem 0 0; }
pre { overflow: auto; }
svg { max-width: 100%; height: auto; margin: .5rem 0; }
svg text { font: 13px system-ui, sans-serif; fill: currentColor; }
";

/// Fit for a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table: its heads, and rows of cells with their classes. `text` and `error` stand at the left.
pub fn table<'a>(heads: &[(&str, &str)], rows: impl IntoIterator<Item = Vec<(&'a str, String)>>) -> String {
    let class = |class: &str| if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let mut text = String::from("<div class=\"wide\"><table>\n<tr>");
    for (kind, head) in heads {
        let _ = write!(text, "<th{}>{}</th>", class(kind), escape(head));
    }
    text.push_str("</tr>\n");
    for cells in rows {
        let last = cells.len();
        text.push_str("<tr>");
        for (index, (kind, cell)) in (1..).zip(cells) {
            let rest = heads.len() + 1 - last.min(heads.len());
            let span = if index == last && rest > 1 { format!(" colspan=\"{rest}\"") } else { String::new() };
            let _ = write!(text, "<td{}{span}>{}</td>", class(kind), escape(&cell));
        }
        text.push_str("</tr>\n");
    }
    text + "</table></div>\n"
}

/// A page, while it is written.
pub struct Page {
    text: String,
}

impl Page {
    /// A page with its title. `command` is shown as what made it.
    pub fn new(title: &str, command: &str) -> Self {
        let (title, command) = (escape(title), escape(command));
        let text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n<p>Made by <code>{command}</code></p>\n"
        );
        Self { text }
    }

    /// A table of where and when.
    pub fn circumstances(&mut self, known: &Circumstances) {
        self.text.push_str("<table class=\"where\">\n");
        for (name, value) in known.iter() {
            let _ = writeln!(self.text, "<tr><td>{name}</td><td>{}</td></tr>", escape(value));
        }
        self.text.push_str("</table>\n");
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p>{}</p>", escape(text));
    }

    /// A heading, and what stands below it, which is HTML.
    pub fn section(&mut self, heading: &str, body: &str) {
        let _ = write!(self.text, "<section>\n<h2>{}</h2>\n{body}</section>\n", escape(heading));
    }

    /// A list of names and what is said of each; nothing where there is none.
    pub fn notes(&mut self, heading: &str, entries: &[(String, String)]) {
        if entries.is_empty() {
            return;
        }
        let one = |(name, about): &(String, String)| format!("<li><b>{}</b>: {}</li>\n", escape(name), escape(about));
        let items: String = entries.iter().map(one).collect();
        self.section(heading, &format!("<ul>\n{items}</ul>\n"));
    }

    /// The whole page.
    pub fn finish(self) -> String {
        self.text + "</body>\n</html>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_escaped_and_a_short_row_fills_its_line() {
        let mut page = Page::new("a<b", "raddle \"x\"");
        page.circumstances(&Circumstances::now());
        page.paragraph("1 < 2");
        page.section(
            "t & u",
            &table(&[("", "x"), ("", "y"), ("", "z")], [vec![("", "<".into()), ("error", "bad".into())]]),
        );
        page.notes("none", &[]);
        let text = page.finish();
        for part in [
            "a&lt;b",
            "&quot;x&quot;",
            "1 &lt; 2",
            "t &amp; u",
            "<td>&lt;</td><td class=\"error\" colspan=\"2\">bad</td>",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.contains("<td>date</td>") && !text.contains(">none<") && text.ends_with("</html>\n"));
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!text.contains(outside), "the page refers to {outside}");
        }
    }
}
