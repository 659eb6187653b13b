use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Seconds after the epoch, and after `start`.
fn moment(start: Instant, wall: i64, steady: u64) -> Moment {
    let wall = Timestamp::from_second(wall).unwrap();
    Moment { wall, steady: start + Duration::from_secs(steady) }
}

fn place(boot: &str, namespace: &str) -> Place {
    Place { boot: Some(boot.to_owned()), namespace: Some(namespace.to_owned()) }
}

fn number(value: i64) -> Value {
    Value::Numbers(vec![value])
}

fn found<'v>(parameter: &'v str, value: &'v Value) -> Found<'v> {
    Found { parameter, value, device: None }
}

/// Looks at the parameter `x` with this value, and completely, unless it is `None`.
fn look(book: &mut Book, now: Moment, value: Option<i64>) -> Vec<Record> {
    let value = value.map(number);
    book.observe(now, &place("b", "n"), value.iter().map(|value| found("x", value)), true)
}

/// The last change of a parameter that has this value.
fn last<'b>(book: &'b Book, parameter: &str, value: i64) -> Option<&'b Arc<Change>> {
    book.last_change(parameter, &number(value))
}

fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

#[test]
fn a_change_lies_between_two_looks() {
    let (mut book, start) = (Book::default(), Instant::now());
    let first = look(&mut book, moment(start, 1000, 0), Some(1));
    assert!(matches!(&first[..], [Record::Value { .. }, Record::Seen { .. }]), "{first:?}");
    assert_eq!(look(&mut book, moment(start, 1015, 15), Some(1)), []);
    assert!(book.is_empty() && last(&book, "x", 1).is_none());
    let records = look(&mut book, moment(start, 1030, 30), Some(2));
    let [Record::Change(change)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&change.from, &change.to, change.kind), (&number(1), &number(2), Kind::Change));
    assert_eq!((change.since, change.at), (Some(second(1015)), second(1030)));
    assert_eq!(last(&book, "x", 2), Some(change));
    // Nothing came before the first look.
    assert_eq!(book.before_start("x"), None);
}

#[test]
fn a_clock_that_is_set_back_does_not_turn_time_round() {
    let (mut book, start) = (Book::default(), Instant::now());
    look(&mut book, moment(start, 5000, 0), Some(1));
    look(&mut book, moment(start, 1015, 15), Some(2));
    // Forward again: both clocks are right in their own time.
    look(&mut book, moment(start, 9000, 30), Some(3));
    let times: Vec<_> = book.changes().iter().map(|change| (change.since, change.at)).collect();
    assert_eq!(times, [(Some(second(1000)), second(1015)), (Some(second(1015)), second(9000))]);
    assert_eq!(book.changes().last().unwrap().to, number(3));

    // What another process saw has no steady time: then it is not told.
    let mut later = Book::default();
    later.restore(book.records());
    look(&mut later, moment(start, 100, 60), Some(4));
    let change = last(&later, "x", 4).unwrap();
    assert_eq!((change.since, change.at, change.kind), (None, second(100), Kind::Offline));
    assert_eq!(later.changes().len(), 3);
}

#[test]
fn what_vanishes_or_appears_is_no_change() {
    let (mut book, start) = (Book::default(), Instant::now());
    look(&mut book, moment(start, 0, 0), Some(1));
    let records = look(&mut book, moment(start, 15, 15), None);
    assert!(matches!(&records[..], [Record::Gone { .. }]), "{records:?}");
    let records = look(&mut book, moment(start, 30, 30), Some(2));
    assert!(matches!(&records[..], [Record::Value { .. }]), "{records:?}");
    assert!(book.is_empty());
    // A look that failed in part says nothing of what it did not find.
    assert_eq!(book.observe(moment(start, 45, 45), &place("b", "n"), [], false), []);
    look(&mut book, moment(start, 60, 60), Some(3));
    let change = last(&book, "x", 3).unwrap();
    assert_eq!((change.since, change.at), (Some(second(30)), second(60)));
}

#[test]
fn what_came_back_with_another_value_was_not_changed_to_it() {
    let (mut book, start) = (Book::default(), Instant::now());
    for (step, value) in [Some(1), Some(2), None, Some(5)].into_iter().enumerate() {
        look(&mut book, moment(start, 15 * step as i64, 15 * step as u64), value);
    }
    assert_eq!((book.len(), last(&book, "x", 5)), (1, None));
    // With the value of that change it is what the change led to.
    look(&mut book, moment(start, 60, 60), None);
    look(&mut book, moment(start, 75, 75), Some(2));
    assert_eq!(last(&book, "x", 2).unwrap().at, second(15));
}

#[test]
fn what_was_gone_at_the_end_is_not_known_after_a_restart() {
    let (mut book, start) = (Book::default(), Instant::now());
    for (step, value) in [Some(1), Some(2), None].into_iter().enumerate() {
        look(&mut book, moment(start, 15 * step as i64, 15 * step as u64), value);
    }
    let mut later = Book::default();
    later.restore(book.records());
    let records = look(&mut later, moment(start, 60, 0), Some(5));
    assert!(matches!(&records[..], [Record::Value { .. }, Record::Seen { .. }]), "{records:?}");
    assert_eq!(later.changes(), book.changes());
}

#[test]
fn a_device_that_makes_way_for_another_of_its_name_changed_nothing() {
    let (mut book, start) = (Book::default(), Instant::now());
    let mut step = 0;
    let mut look = |book: &mut Book, place: &Place, value: i64, device: u32| {
        step += 15;
        let value = number(value);
        let found = Found { parameter: "x", value: &value, device: Some(device) };
        book.observe(moment(start, step, step.unsigned_abs()), place, [found], true).len()
    };
    let here = place("b", "n");
    look(&mut book, &here, 2, 7);
    assert_eq!((look(&mut book, &here, 0, 8), book.len()), (1, 0), "another one is written down");
    assert_eq!((look(&mut book, &here, 0, 9), book.len()), (1, 0), "so is one with the same value");
    assert_eq!((look(&mut book, &here, 1, 9), book.len()), (1, 1));

    // The same over a restart, also of one whose changes are known.
    for (place, value, device, changes) in [
        (&here, 5, 9, 2),
        (&here, 5, 10, 1),
        // Numbers of another boot or namespace say nothing.
        (&place("c", "n"), 5, 9, 2),
        (&place("c", "n"), 5, 10, 2),
        (&place("b", "m"), 5, 10, 2),
    ] {
        let mut later = Book::default();
        later.restore(book.records());
        look(&mut later, place, value, device);
        assert_eq!(later.len(), changes, "{place:?} {device}");
        let mut again = Book::default();
        again.restore(later.records());
        look(&mut again, place, 6, device);
        assert_eq!(again.len(), changes + 1, "its number was written down");
    }
}

#[test]
fn what_was_in_another_namespace_is_not_from_before_the_start_of_this_one() {
    let (mut book, start) = (Book::default(), Instant::now());
    look(&mut book, moment(start, 0, 0), Some(128));
    look(&mut book, moment(start, 15, 15), Some(4096));
    // Looked at from elsewhere, where the value is the same, and from there again.
    let value = number(4096);
    for (namespace, before) in [("n", Some(number(128))), ("m", None), ("m", None), ("n", Some(number(128)))]
    {
        let mut later = Book::default();
        later.restore(book.records());
        later.observe(moment(start, 60, 0), &place("b", namespace), [found("x", &value)], true);
        assert_eq!(later.before_start("x"), before.as_ref(), "{namespace}");
        book = later;
    }
}

#[test]
fn what_changed_while_nobody_looked_is_noticed_with_its_kind() {
    let (mut book, start) = (Book::default(), Instant::now());
    look(&mut book, moment(start, 1000, 0), Some(1));
    // The last word of the process is later than the last change.
    let mut records = book.records();
    records.push(Record::Seen { at: second(1600), place: place("b", "n") });
    for (place, kind) in [
        (place("b", "n"), Kind::Offline),
        (place("b", "other"), Kind::Namespace),
        (place("other", "other"), Kind::Reboot),
        (Place::default(), Kind::Offline),
    ] {
        let mut later = Book::default();
        later.restore(records.clone());
        let value = number(7);
        later.observe(moment(start, 2000, 0), &place, [found("x", &value)], true);
        let change = last(&later, "x", 7).unwrap();
        assert_eq!((change.since, change.at, change.kind), (Some(second(1600)), second(2000), kind));
        // No socket is older than the boot; where that is not told, none is known to be of it.
        let one = number(1);
        let before = Some(&one).filter(|_| kind == Kind::Offline && place.boot.is_some());
        assert_eq!(later.before_start("x"), before);
        // From then on it is this process that looks.
        later.observe(moment(start, 2015, 15), &place, [found("x", &number(8))], true);
        assert_eq!(last(&later, "x", 8).unwrap().kind, Kind::Change);
        assert_eq!(later.before_start("x"), before);
    }
    // Gone or new meanwhile: no change either.
    let mut later = Book::default();
    later.restore(records);
    let value = number(7);
    later.observe(moment(start, 2000, 0), &place("b", "n"), [found("y", &value)], true);
    assert!(later.is_empty());
}

#[test]
fn records_give_the_book_again() {
    let (mut book, start) = (Book::default(), Instant::now());
    for step in 0..50 {
        let (x, y) = (number(step / 3), Value::Text(format!("v{}", step / 7)));
        let now = moment(start, 1000 + step, step.unsigned_abs());
        book.observe(now, &place("b", "n"), [found("x", &x), found("y", &y)], true);
    }
    let mut again = Book::default();
    again.restore(book.records());
    assert_eq!(again.changes(), book.changes());
    assert_eq!(again.records(), book.records());
    assert_eq!(again.len(), book.len());
}

#[test]
fn the_last_change_of_each_parameter_outlives_the_others() {
    let (mut book, start) = (Book::default(), Instant::now());
    for step in 0..20_000 {
        let (x, y) = (number(step), number((step > 5).into()));
        let now = moment(start, 1000 + step, step.unsigned_abs());
        book.observe(now, &place("b", "n"), [found("x", &x), found("y", &y)], true);
    }
    assert!(book.size <= KEPT && book.kept.len() > 2000, "{} in {}", book.kept.len(), book.size);
    assert_eq!(last(&book, "y", 1).unwrap().at, second(1006));
    assert_eq!(book.changes()[0].parameter, "y");
    assert_eq!((book.len(), book.changes().len()), (book.kept.len() + 1, book.kept.len() + 1));
    let mut again = Book::default();
    again.restore(book.records());
    assert_eq!(again.changes(), book.changes());
    // Nobody asks for it once the parameter is gone.
    book.observe(moment(start, 30_000, 30_000), &place("b", "n"), [found("x", &number(1))], true);
    assert!(last(&book, "y", 1).is_none() && last(&book, "x", 1).is_some());
}

#[test]
fn a_brief_book_keeps_the_last_change_of_what_is_there() {
    let (mut book, start) = (Book::of_last_changes(), Instant::now());
    for second in 0..100 {
        look(&mut book, moment(start, 1000 + second, second as u64), Some(second));
    }
    assert_eq!((book.len(), &last(&book, "x", 99).unwrap().from), (1, &number(98)));
    assert_eq!(book.size, 0);
    look(&mut book, moment(start, 2000, 1000), None);
    assert!(book.is_empty());
}

#[test]
fn that_nothing_changed_is_recorded_now_and_then() {
    let (mut book, start) = (Book::default(), Instant::now());
    let mut seen = 0;
    for step in 0..240 {
        let now = Moment { wall: second(1000 + 15 * step), steady: start + MINUTE / 4 * step as u32 };
        let records = look(&mut book, now, Some(1));
        seen += records.iter().filter(|record| matches!(record, Record::Seen { .. })).count();
    }
    assert_eq!(seen, 6);
}
