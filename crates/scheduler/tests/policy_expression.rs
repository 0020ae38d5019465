//! Every error text of the expression parser, and that what is shown can be read back.

use proptest::prelude::*;
use raddle_scheduler::expression::{
    Batch, Expression, MAX_AGING, MAX_BATCH, MAX_NEIGHBOURS, MAX_PRIORITIES, Order, Stealing, Victims,
};

fn reads(source: &str, shown: &str) {
    let expression: Expression = source.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(expression.to_string(), shown);
}

#[test]
fn good_ones_are_read() {
    reads("fifo", "fifo");
    reads(" lifo ", "lifo");
    reads("rotator", "rotator");
    reads("steal", "steal");
    reads("steal(lifo)", "steal");
    reads("steal(order = fifo, victims=random)", "steal(fifo)");
    reads("steal(batch=half,overflow=lockfree)", "steal");
    reads("steal(batch=one, victims=neighbours(15), fifo)", "steal(fifo, victims=neighbours(15), batch=one)");
    reads("steal(batch=min( 8 ))", "steal(batch=min(8))");
    reads("priority(3,\n steal , aging=64)", "priority(3, steal, aging=64)");
    reads("priority (64, rotator)", "priority(64, rotator)");
    assert_eq!(Expression::default().to_string(), "steal");
}

/// The whole error: the caret stands under the column.
fn fails(source: &str, column: usize, message: &str, help: Option<&str>) {
    let error = source.parse::<Expression>().expect_err(source);
    assert_eq!((error.message(), error.column(), error.help()), (message, column, help), "{source}");
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], format!("policy expression, column {column}: {message}"));
    assert_eq!(lines[2].chars().position(|c| c == '^'), Some(column + 1), "{text}");
}

#[test]
fn the_text_of_an_error_shows_the_place() {
    let error = "priority(3, steel)".parse::<Expression>().unwrap_err();
    let shown = "policy expression, column 13: unknown policy `steel`\n  \
                 priority(3, steel)\n  \
                 \u{20}           ^^^^^ did you mean `steal`?";
    assert_eq!(error.to_string(), shown);
}

#[test]
fn shapes() {
    let empty = Some("expected a policy, such as `steal`");
    fails("", 1, "the expression is empty", empty);
    fails("   ", 4, "the expression is empty", empty);
    fails("3", 1, "expected a name, found `3`", None);
    fails("(fifo)", 1, "expected a name, found `(`", None);
    fails("fifo)", 5, "this bracket closes nothing", None);
    fails("fifo lifo ", 6, "the expression has ended before this", None);
    fails("steal()", 7, "nothing in the brackets", Some("leave them out, or give an argument"));
    fails("steal(fifo", 11, "expected `,` or `)`, but the expression ends here", None);
    fails("steal(fifo; lifo)", 11, "expected `,` or `)`, found `;`", None);
    fails("steal(fifo,)", 12, "expected a number or a name, found `)`", None);
    fails("steal(", 7, "expected a number or a name, but the expression ends here", None);
    fails("steal(batch=)", 13, "expected a value for `batch`, found `)`", None);
    fails("steal(batch=", 13, "expected a value for `batch`, but the expression ends here", None);
    // Columns are characters, not bytes.
    fails("prïorité(é)", 1, "unknown policy `prïorité`", Some("did you mean `priority`?"));
    fails("priority(2, é)", 13, "unknown policy `é`", Some("expected one of: fifo, lifo, rotator, steal, priority"));
    let deep = "priority(2, ".repeat(17);
    fails(&deep, 201, "brackets are nested more than 16 deep", None);
}

#[test]
fn names() {
    let all = "expected one of: fifo, lifo, rotator, steal, priority";
    fails("cfs", 1, "unknown policy `cfs`", Some(all));
    fails("FIFO", 1, "unknown policy `FIFO`", Some("did you mean `fifo`?"));
    fails("fifi", 1, "unknown policy `fifi`", Some("did you mean `fifo`?"));
    fails("rotater", 1, "unknown policy `rotater`", Some("did you mean `rotator`?"));
    let available = Some("available: fifo, lifo, rotator, steal, priority");
    fails("multiqueue(4)", 1, "policy `multiqueue` is not available yet", available);
    fails("priority(3, clustered(8, steal))", 13, "policy `clustered` is not available yet", available);
    fails("fifo(3)", 6, "`fifo` takes no arguments", Some("write `fifo` alone"));
    fails("rotator(fifo)", 9, "`rotator` takes no arguments", Some("write `rotator` alone"));
}

#[test]
fn options_of_steal() {
    fails("steal(filo)", 7, "unknown order `filo`", Some("did you mean `fifo`?"));
    fails("steal(3)", 7, "expected an order, found a number", None);
    fails("steal(lifo(2))", 12, "`lifo` takes no arguments", Some("write `lifo` alone"));
    fails("steal(batch)", 7, "`batch` needs a value", Some("write `batch=...`"));
    fails("steal(fifo, lifo)", 13, "`order` is given twice", None);
    fails("steal(batch=one, batch=half)", 18, "`batch` is given twice", None);
    fails("steal(bach=one)", 7, "unknown option of `steal` `bach`", Some("did you mean `batch`?"));
    let keys = Some("available: order, victims, batch, overflow");
    fails("steal(requests=sticky)", 7, "option of `steal` `requests` is not available yet", keys);
    fails("steal(batch=4)", 13, "expected a batch, found a number", None);
    fails("steal(batch=min)", 13, "`min` takes one number", Some("as in `min(4)`"));
    fails("steal(batch=min(2, 3))", 20, "`min` takes one number", Some("as in `min(4)`"));
    fails("steal(batch=min(k=2))", 13, "`min` takes one number", Some("as in `min(4)`"));
    fails("steal(batch=min(0))", 17, "expected a number from 1 to 65536", None);
    fails("steal(batch=min(half))", 17, "expected a number, found `half`", Some("as in `min(4)`"));
    fails("steal(batch=all)", 13, "unknown batch `all`", Some("expected one of: half, one, min"));
    fails(
        "steal(victims=neighbors(4))",
        15,
        "unknown choice of victims `neighbors`",
        Some("did you mean `neighbours`?"),
    );
    fails("steal(victims=neighbours(0))", 26, "expected a number from 1 to 4096", None);
    fails(
        "steal(victims=clusters)",
        15,
        "choice of victims `clusters` is not available yet",
        Some("available: random, neighbours"),
    );
    fails(
        "steal(overflow=sharded(5))",
        16,
        "overflow queue `sharded` is not available yet",
        Some("available: lockfree"),
    );
    let huge = format!("steal(batch=min({}))", "9".repeat(60));
    fails(&huge, 17, "expected a number from 1 to 65536", None);
}

#[test]
fn arguments_of_priority() {
    let help = Some("as in `priority(3, steal)`");
    let needs = "`priority` takes the number of priorities and a policy";
    fails("priority", 1, needs, help);
    fails("priority(3)", 1, needs, help);
    fails("priority(0, fifo)", 10, "expected a number from 1 to 64", None);
    fails("priority(1000, fifo)", 10, "expected a number from 1 to 64", None);
    fails("priority(fifo, 3)", 10, "expected a number, found `fifo`", help);
    fails("priority(3, 3)", 13, "expected a policy, found a number", None);
    fails("priority(n=3, fifo)", 10, "`n=` is not expected here", help);
    fails("priority(3, fifo, lifo)", 19, "`priority` takes one number and one policy", help);
    fails("priority(3, fifo, agin=3)", 19, "unknown option of `priority` `agin`", Some("did you mean `aging`?"));
    fails("priority(3, fifo, aging=0)", 25, "expected a number from 1 to 1000000", None);
    fails("priority(3, fifo, aging=often)", 25, "expected a number, found `often`", Some("as in `aging=64`"));
    fails("priority(3, fifo, aging=3, aging=4)", 28, "`aging` is given twice", None);
    fails(
        "priority(3, priority(2, fifo))",
        13,
        "a priority within a priority has no effect: equal threads are all that it sees",
        Some("give one `priority` more levels"),
    );
}

fn leaf() -> impl Strategy<Value = Expression> {
    let order = prop_oneof![Just(Order::Lifo), Just(Order::Fifo)];
    let victims = prop_oneof![Just(Victims::Random), (1..=MAX_NEIGHBOURS).prop_map(Victims::Neighbours)];
    let batch = prop_oneof![Just(Batch::Half), Just(Batch::One), (1..=MAX_BATCH).prop_map(Batch::Min)];
    prop_oneof![
        Just(Expression::Fifo),
        Just(Expression::Lifo),
        Just(Expression::Rotator),
        (order, victims, batch).prop_map(|(order, victims, batch)| Expression::Steal(Stealing {
            order,
            victims,
            batch
        })),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let priority = (1..=MAX_PRIORITIES, leaf(), proptest::option::of(1..=MAX_AGING))
        .prop_map(|(levels, inner, aging)| Expression::Priority { levels, inner: Box::new(inner), aging });
    prop_oneof![leaf(), priority]
}

proptest! {
    #[test]
    fn what_is_shown_can_be_read_back(expression in expression()) {
        let shown = expression.to_string();
        prop_assert_eq!(shown.parse::<Expression>().unwrap(), expression);
    }

    #[test]
    fn any_text_is_read_or_refused_with_its_place(source in "[ a-z(),=0-9é]{0,40}|\\PC{0,20}") {
        if let Err(error) = source.parse::<Expression>() {
            prop_assert!((1..=source.chars().count() + 1).contains(&error.column()));
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_damaged_expression_does_not_panic(expression in expression(), cut in 0usize..40, c in any::<char>()) {
        let mut shown = expression.to_string();
        let at = cut.min(shown.len());
        shown.insert(at, c);
        let _ = shown.parse::<Expression>();
    }
}
