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

/// Looks at the parameter `x` with this value, and completely, unless it is `None`.
fn look(book: &mut Book, now: Moment, value: Option<i64>) -> Vec<Record> {
    let value = value.map(number);
    book.observe(now, &place("b", "n"), value.iter().map(|value| ("x", value)), true)
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
    assert!(book.is_empty() && book.latest("x").is_none());
    let records = look(&mut book, moment(start, 1030, 30), Some(2));
    let [Record::Change(change)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((&change.from, &change.to, change.kind), (&number(1), &number(2), Kind::Change));
    assert_eq!((change.since, change.at), (Some(second(1015)), second(1030)));
    assert_eq!(book.latest("x"), Some(change));
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
    assert_eq!(book.latest("x").unwrap().to, number(3));

    // What another process saw has no steady time: then it is not told.
    let mut later = Book::default();
    later.restore(book.records());
    look(&mut later, moment(start, 100, 60), Some(4));
    let last = later.latest("x").unwrap();
    assert_eq!((last.since, last.at, last.kind), (None, second(100), Kind::Offline));
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
    let change = book.latest("x").unwrap();
    assert_eq!((change.since, change.at), (Some(second(30)), second(60)));
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
        later.observe(moment(start, 2000, 0), &place, [("x", &value)], true);
        let change = later.latest("x").unwrap();
        assert_eq!((change.since, change.at, change.kind), (Some(second(1600)), second(2000), kind));
        // No socket is older than the boot; where that is not told, none is known to be of it.
        let one = number(1);
        let before = Some(&one).filter(|_| kind == Kind::Offline && place.boot.is_some());
        assert_eq!(later.before_start("x"), before);
        // From then on it is this process that looks.
        later.observe(moment(start, 2015, 15), &place, [("x", &number(8))], true);
        assert_eq!(later.latest("x").unwrap().kind, Kind::Change);
        assert_eq!(later.before_start("x"), before);
    }
    // Gone or new meanwhile: no change either.
    let mut later = Book::default();
    later.restore(records);
    let value = number(7);
    later.observe(moment(start, 2000, 0), &place("b", "n"), [("y", &value)], true);
    assert!(later.is_empty());
}

#[test]
fn records_give_the_book_again() {
    let (mut book, start) = (Book::default(), Instant::now());
    for step in 0..50 {
        let (x, y) = (number(step / 3), Value::Text(format!("v{}", step / 7)));
        let now = moment(start, 1000 + step, step.unsigned_abs());
        book.observe(now, &place("b", "n"), [("x", &x), ("y", &y)], true);
    }
    let mut again = Book::default();
    again.restore(book.records());
    assert_eq!(again.changes(), book.changes());
    assert_eq!(again.records(), book.records());
    assert_eq!((again.len(), again.latest("y")), (book.len(), book.latest("y")));
}

#[test]
fn the_last_change_of_each_parameter_outlives_the_others() {
    let (mut book, start) = (Book::default(), Instant::now());
    for step in 0..20_000 {
        let (x, y) = (number(step), number((step > 5).into()));
        let now = moment(start, 1000 + step, step.unsigned_abs());
        book.observe(now, &place("b", "n"), [("x", &x), ("y", &y)], true);
    }
    assert!(book.size <= KEPT && book.kept.len() > 2000, "{} in {}", book.kept.len(), book.size);
    assert_eq!(book.latest("y").unwrap().at, second(1006));
    assert_eq!(book.changes()[0].parameter, "y");
    assert_eq!((book.len(), book.changes().len()), (book.kept.len() + 1, book.kept.len() + 1));
    let mut again = Book::default();
    again.restore(book.records());
    assert_eq!(again.changes(), book.changes());
    // Nobody asks for it once the parameter is gone.
    book.observe(moment(start, 30_000, 30_000), &place("b", "n"), [("x", &number(1))], true);
    assert!(book.latest("y").is_none() && book.latest("x").is_some());
}

#[test]
fn a_brief_book_keeps_the_last_change_of_what_is_there() {
    let (mut book, start) = (Book::of_last_changes(), Instant::now());
    for second in 0..100 {
        look(&mut book, moment(start, 1000 + second, second as u64), Some(second));
    }
    assert_eq!((book.len(), &book.latest("x").unwrap().from), (1, &number(98)));
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
