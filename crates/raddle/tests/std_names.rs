//! The same source against std's paths and against ours: `use raddle::{sync, thread}` stands in the place of
//! `use std::{sync, thread}`.

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
    assert_eq!(ours.len(), 14);
    // And on lightweight threads.
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let light = pool.run(|| of_raddle::SNIPPETS.iter().map(|(name, run)| (*name, run())).collect::<Vec<_>>());
    assert_eq!(light, natively);
}
