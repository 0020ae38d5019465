//! The same source against std's paths and against ours: `use raddle::{sync, thread}` stands in the place of
//! `use std::{sync, thread}`.

#[path = "support/child.rs"]
mod child;

mod of_std {
    use std::{sync, thread};
    include!("std_names/snippets.rs");
}

mod of_raddle {
    use raddle::{sync, thread};
    include!("std_names/snippets.rs");
}

#[test]
fn both_give_the_same() {
    let natively: Vec<_> = of_std::SNIPPETS.iter().map(|(name, run)| (*name, run())).collect();
    let ours: Vec<_> = of_raddle::SNIPPETS.iter().map(|(name, run)| (*name, run())).collect();
    assert_eq!(ours, natively);
    assert_eq!(ours.len(), 21);
    // And on lightweight threads.
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let light = pool.run(|| of_raddle::SNIPPETS.iter().map(|(name, run)| (*name, run())).collect::<Vec<_>>());
    assert_eq!(light, natively);
}

/// As std's since Rust 1.94.
#[test]
fn a_lazy_value_is_looked_at_and_changed() {
    use raddle::sync::LazyLock;
    let mut lazy: LazyLock<_, _> = LazyLock::new(|| vec![1]);
    assert!(LazyLock::get(&lazy).is_none() && LazyLock::get_mut(&mut lazy).is_none());
    LazyLock::force_mut(&mut lazy).push(2);
    lazy.push(3);
    assert_eq!(LazyLock::get(&lazy), Some(&vec![1, 2, 3]));
}

/// In a child, whose words go to its parent.
#[test]
fn a_panic_of_a_named_thread_tells_the_name() {
    const NAME: &str = "a_panic_of_a_named_thread_tells_the_name";
    let Some(again) = child::again(NAME) else {
        let pool = raddle::Builder::new().processors(1).build().unwrap();
        let named = raddle::thread::Builder::new().name("scribe".into()).spawn_into(&pool, || panic!("no ink"));
        assert!(named.unwrap().join().is_err());
        let plain = pool.spawn(|| panic!("no paper"));
        assert!(plain.join().is_err());
        return;
    };
    let said = child::must_pass(again);
    let name = said.find("raddle: thread 'scribe' panics:\n").expect(&said);
    assert!(name < said.find("no ink").expect(&said) && said.contains("no paper"), "{said}");
    assert_eq!(said.matches("panics:").count(), 1, "{said}");
}
