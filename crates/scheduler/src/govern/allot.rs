//! Which processors of a pool retire, and which come back, where it is to have another number of them.

/// The processors that are to change, by their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// In this order: the last ones first.
    pub retire: Vec<usize>,
    /// In this order: the first ones first.
    pub activate: Vec<usize>,
}

/// What brings the number of the active ones to `wanted`.
pub fn change(active: &[bool], wanted: usize) -> Change {
    let numbers = |is: bool| (0..active.len()).filter(move |&number| active[number] == is);
    let now = numbers(true).count();
    Change {
        retire: numbers(true).rev().take(now.saturating_sub(wanted)).collect(),
        activate: numbers(false).take(wanted.saturating_sub(now)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_retire_and_the_first_come_back() {
        let some = [true, false, true, true];
        assert_eq!(change(&some, 1), Change { retire: vec![3, 2], activate: vec![] });
        assert_eq!(change(&some, 4), Change { retire: vec![], activate: vec![1] });
        assert_eq!(change(&some, 3), Change::default());
        assert_eq!(change(&[false; 3], 2), Change { retire: vec![], activate: vec![0, 1] });
        // There are no more.
        assert_eq!(change(&[true], 5), Change::default());
    }
}
