//! Every error text of the expression parser, and that what is shown can be read back.

use proptest::prelude::*;
use raddle_scheduler::expression::{
    Batch, Expression, Growth, LocalQueues, MAX_AGING, MAX_BATCH, MAX_CAPACITY, MAX_CLUSTER, MAX_NEIGHBOURS,
    MAX_PRIORITIES, MAX_QUEUES, MAX_ROUNDS, MAX_SHARDS, MAX_TURN, Mix, Order, Overflow, Requests, Stealing, Victims,
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
    reads("steal(victims=clusters(4), batch=min(4, rare=16))", "steal(victims=clusters(4), batch=min(4, rare=16))");
    reads("local(order=fifo, capacity=128, overflow=lockfree)", "local");
    reads(
        "local(slot,lifo,share=100,overflow=locked,batch=one,victims=clusters(2),capacity=64)",
        "local(lifo, capacity=64, victims=clusters(2), batch=one, overflow=locked, share=100, slot)",
    );
    reads("local(grow=horizontal, overflow=sharded(5))", "local(overflow=sharded(5), grow=horizontal)");
    reads("local(overflow=retry)", "local(overflow=retry)");
    reads("request(ticket, overflow=tickets)", "request(ticket, overflow=tickets)");
    reads("request(naive)", "request(naive)");
    reads("request(sticky, order=lifo, slot)", "request(sticky, order=lifo, slot)");
    reads("request(ticket, grow=vertical, order=fifo)", "request(ticket, grow=vertical)");
    reads("stochastic( 50 )", "stochastic(50)");
    reads("priority(2, alternate(16))", "priority(2, alternate(16))");
    reads("clustered(8,reverse(64))", "clustered(8, reverse(64))");
    reads("clustered( reverse(64))", "clustered(reverse(64))");
    reads("priority(3, clustered(fifo))", "priority(3, clustered(fifo))");
    reads("priority(3, clustered(4, multiqueue(2)))", "priority(3, clustered(4, multiqueue(2)))");
    reads("clustered(2, priority(3, waiver))", "clustered(2, priority(3, waiver))");
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
    fails(
        "priority(2, é)",
        13,
        "unknown policy `é`",
        Some(
            "expected one of: fifo, lifo, stochastic, alternate, reverse, multiqueue, rotator, waiver, steal, priority, local, request, clustered, apart",
        ),
    );
    let deep = "priority(2, ".repeat(17);
    fails(&deep, 201, "brackets are nested more than 16 deep", None);
}

#[test]
fn names() {
    let all = "expected one of: fifo, lifo, stochastic, alternate, reverse, multiqueue, rotator, waiver, steal, priority, local, request, clustered, apart";
    fails("cfs", 1, "unknown policy `cfs`", Some(all));
    fails("FIFO", 1, "unknown policy `FIFO`", Some("did you mean `fifo`?"));
    fails("fifi", 1, "unknown policy `fifi`", Some("did you mean `fifo`?"));
    fails("rotater", 1, "unknown policy `rotater`", Some("did you mean `rotator`?"));
    fails("waiver(3)", 8, "`waiver` takes no arguments", Some("write `waiver` alone"));
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
    let keys = Some("expected one of: order, victims, batch, overflow");
    fails("steal(requests=sticky)", 7, "unknown option of `steal` `requests`", keys);
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
    fails("steal(victims=clusters)", 15, "`clusters` takes one number", Some("as in `clusters(4)`"));
    fails("steal(batch=min(4, rare=0))", 25, "expected a number from 1 to 1000", None);
    fails("steal(batch=min(4, rare=half))", 25, "expected a number, found `half`", Some("as in `min(4, rare=16)`"));
    fails(
        "steal(overflow=sharded(5))",
        16,
        "`steal` has no other overflow queue than `lockfree`",
        Some("write `local(overflow=sharded)`"),
    );
    fails("steal(overflow=free)", 16, "unknown overflow queue `free`", Some("expected one of: lockfree"));
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

#[test]
fn numbers_of_hybrids_and_multiqueues() {
    fails("stochastic", 1, "`stochastic` takes one number", Some("as in `stochastic(4)`"));
    fails("stochastic(100)", 12, "expected a number from 1 to 99", None);
    fails("alternate(0)", 11, "expected a number from 1 to 1000000", None);
    fails("reverse(often)", 9, "expected a number, found `often`", Some("as in `reverse(4)`"));
    fails("multiqueue(65)", 12, "expected a number from 1 to 64", None);
    fails("multiqueue(2, 3)", 15, "`multiqueue` takes one number", Some("as in `multiqueue(4)`"));
}

#[test]
fn options_of_local_and_request() {
    let keys = Some("expected one of: order, capacity, victims, batch, overflow, share, grow, slot");
    fails("local(4)", 7, "expected an order, found a number", None);
    fails("local(capacity=0)", 16, "expected a number from 1 to 65536", None);
    fails("local(capacity=half)", 16, "expected a number, found `half`", Some("as in `capacity=128`"));
    fails("local(share=101)", 13, "expected a number from 1 to 100", None);
    fails("local(speed=4)", 7, "unknown option of `local` `speed`", keys);
    fails("local(growing=vertical)", 7, "unknown option of `local` `growing`", keys);
    fails("local(grow)", 7, "`grow` needs a value", Some("write `grow=...`"));
    fails("local(grow=up)", 12, "unknown direction `up`", Some("expected one of: vertical, horizontal"));
    fails("local(overflow=sharded)", 16, "`sharded` takes one number", Some("as in `sharded(4)`"));
    fails("local(overflow=lock)", 16, "unknown overflow queue `lock`", Some("did you mean `locked`?"));
    fails("local(slot, fifo, slot)", 19, "`slot` is given twice", None);
    fails("local(slot=yes)", 12, "`slot` takes no value", Some("write `slot` alone"));
    fails("local(share=10, share=20)", 17, "`share` is given twice", None);
    let contradiction = "`overflow=retry` contradicts `grow`: a queue that grows is never full";
    fails("local(grow=vertical, overflow=retry)", 31, contradiction, Some("leave one of them out"));
    let ways = "`request` takes the way of asking: naive, sticky or ticket";
    fails("request", 1, ways, Some("as in `request(ticket)`"));
    fails("request(stick)", 9, "unknown way of asking `stick`", Some("did you mean `sticky`?"));
    fails("request(3)", 9, "expected the way of asking, found a number", None);
    let first = "the way of asking comes first: naive, sticky or ticket";
    fails("request(capacity=64, naive)", 9, first, Some("as in `request(ticket, capacity=64)`"));
    fails("request(naive, slat)", 16, "unknown option of `request` `slat`", Some("did you mean `slot`?"));
    fails("request(naive, 3)", 16, "expected an option, found a number", Some("as in `capacity=64`"));
    fails("request(naive, order)", 16, "`order` needs a value", Some("write `order=...`"));
}

#[test]
fn arguments_of_clustered() {
    let help = Some("as in `clustered(4, steal)`");
    fails("clustered", 1, "`clustered` takes the size of a cluster and a policy", help);
    fails("clustered(4)", 1, "`clustered` takes the size of a cluster and a policy", help);
    fails(
        "clustered(rotator)",
        11,
        "a ring cannot be divided into clusters: who looks into another's would be a member of it",
        Some("`waiver` is the same without the ring"),
    );
    fails("clustered(0, steal)", 11, "expected a number from 1 to 4096", None);
    fails("clustered(4, steel)", 14, "unknown policy `steel`", Some("did you mean `steal`?"));
    fails("clustered(k=4, steal)", 11, "`k=` is not expected here", help);
    fails("clustered(4, steal, fifo)", 21, "`clustered` takes one number and one policy", help);
    fails("clustered(4, steal, aging=3)", 21, "`clustered` takes one number and one policy", help);
    fails(
        "clustered(4, clustered(2, steal))",
        14,
        "clusters within clusters are not available",
        Some("give one `clustered` the size that matters"),
    );
    for ring in ["clustered(4, rotator)", "clustered(4, priority(2, rotator))"] {
        let message = "a ring cannot be divided into clusters: who looks into another's would be a member of it";
        fails(ring, 14, message, Some("`waiver` is the same without the ring"));
    }
    fails(
        "priority(3, clustered(2, priority(2, fifo)))",
        13,
        "a priority within a priority has no effect: equal threads are all that it sees",
        Some("give one `priority` more levels"),
    );
}

#[test]
fn arguments_of_apart() {
    reads("apart( steal,lifo , turn = 64 )", "apart(steal, lifo)");
    reads("apart(local(slot), fifo, turn=8)", "apart(local(slot), fifo, turn=8)");
    reads("priority(2, apart(fifo, fifo))", "priority(2, apart(fifo, fifo))");
    let help = Some("as in `apart(steal, fifo)`");
    let two = "`apart` takes a policy for threads that have run and one for those that have not started";
    fails("apart", 1, two, help);
    fails("apart(steal)", 1, two, help);
    fails("apart(steal, fifo, lifo)", 20, "`apart` takes two policies", help);
    fails("apart(p=steal, fifo)", 7, "`p=` is not expected here", help);
    fails("apart(steal, fefo)", 14, "unknown policy `fefo`", Some("did you mean `fifo`?"));
    fails("apart(steal, 3)", 14, "expected a policy, found a number", None);
    fails("apart(steal, fifo, turn=0)", 25, "expected a number from 1 to 1000000", None);
    fails("apart(steal, fifo, turn=2, turn=3)", 28, "`turn` is given twice", None);
    fails("apart(steal, fifo, torn=2)", 20, "unknown option of `apart` `torn`", Some("did you mean `turn`?"));
    fails(
        "apart(fifo, priority(2, fifo))",
        13,
        "priorities go around `apart`",
        Some("write `priority(n, apart(P, Q))`"),
    );
    let ring = "a ring orders all threads of a processor or none";
    fails("apart(rotator, fifo)", 7, ring, Some("`waiver` is the same without the ring"));
    let twice = "threads that are apart are all of one kind";
    fails("apart(fifo, apart(fifo, lifo))", 13, twice, Some("write one of its two policies"));
    fails(
        "priority(2, apart(fifo, clustered(2, priority(2, fifo))))",
        25,
        "priorities go around `apart`",
        Some("write `priority(n, apart(P, Q))`"),
    );
}

fn stealing() -> impl Strategy<Value = Stealing> {
    let order = prop_oneof![Just(Order::Lifo), Just(Order::Fifo)];
    let victims = prop_oneof![
        Just(Victims::Random),
        (1..=MAX_NEIGHBOURS).prop_map(Victims::Neighbours),
        (1..=MAX_CLUSTER).prop_map(Victims::Clusters)
    ];
    let batch = prop_oneof![
        Just(Batch::Half),
        Just(Batch::One),
        (1..=MAX_BATCH).prop_map(Batch::Min),
        (1..=MAX_BATCH, 1..=MAX_ROUNDS).prop_map(|(least, rounds)| Batch::MinRarely(least, rounds))
    ];
    (order, victims, batch).prop_map(|(order, victims, batch)| Stealing { order, victims, batch })
}

fn local_queues() -> impl Strategy<Value = LocalQueues> {
    let overflow = prop_oneof![
        Just(Overflow::LockFree),
        Just(Overflow::Locked),
        Just(Overflow::Retry),
        Just(Overflow::Tickets),
        (1..=MAX_SHARDS).prop_map(Overflow::Sharded)
    ];
    let growth = prop_oneof![Just(None), Just(Some(Growth::Vertical)), Just(Some(Growth::Horizontal))];
    (stealing(), 1..=MAX_CAPACITY, overflow, 0..=100u32, growth, any::<bool>()).prop_map(
        |(stealing, capacity, overflow, share, growth, slot)| {
            let growth = if overflow == Overflow::Retry { None } else { growth };
            LocalQueues { stealing, capacity, overflow, share, growth, slot }
        },
    )
}

fn leaf() -> impl Strategy<Value = Expression> {
    let how = prop_oneof![Just(Requests::Naive), Just(Requests::Sticky), Just(Requests::Ticket)];
    prop_oneof![
        Just(Expression::Fifo),
        Just(Expression::Lifo),
        Just(Expression::Rotator),
        Just(Expression::Waiver),
        (1..=99u32).prop_map(|percent| Expression::Hybrid(Mix::Stochastic(percent))),
        (1..=MAX_TURN).prop_map(|n| Expression::Hybrid(Mix::Alternate(n))),
        (1..=MAX_TURN).prop_map(|n| Expression::Hybrid(Mix::Reverse(n))),
        (1..=MAX_QUEUES).prop_map(Expression::Multiqueue),
        stealing().prop_map(Expression::Steal),
        local_queues().prop_map(Expression::Local),
        (how, local_queues()).prop_map(|(how, queues)| Expression::Request(how, queues)),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let priority = (1..=MAX_PRIORITIES, leaf(), proptest::option::of(1..=MAX_AGING))
        .prop_map(|(levels, inner, aging)| Expression::Priority { levels, inner: Box::new(inner), aging });
    let clustered = (1..=MAX_CLUSTER, leaf())
        .prop_filter("a ring cannot be cut", |(_, inner)| *inner != Expression::Rotator)
        .prop_map(|(size, inner)| Expression::Clustered { size: Some(size), inner: Box::new(inner) });
    let plain = || leaf().prop_filter("a ring is no part", |inner| *inner != Expression::Rotator).prop_map(Box::new);
    let apart =
        (plain(), plain(), 1..=MAX_TURN).prop_map(|(started, new, turn)| Expression::Apart { started, new, turn });
    prop_oneof![leaf(), priority, clustered, apart]
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
