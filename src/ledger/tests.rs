use std::fs;

use super::*;
use crate::model::changes::Kind;

/// A folder of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nettune-ledger-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn read(&self) -> String {
        fs::read_to_string(store::path(&self.0)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LONG: Duration = Duration::from_secs(30);

fn state(name: &str, value: i64) -> State {
    State {
        name: name.to_owned(),
        fields: Vec::new(),
        value: Value::Numbers(vec![value]),
        default: None,
        locked: false,
        changeable: true,
        device: None,
        last_change: None,
    }
}

fn look(ledger: &Ledger, value: i64) {
    ledger.observe(Moment::now(), &Place::default(), &[state("x", value)], true);
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn memory_alone_remembers_until_the_end() {
    let ledger = Ledger::in_memory();
    (0..3).for_each(|value| look(&ledger, value));
    let figures = LedgerFigures { changes: 2, entries: 2, ..LedgerFigures::default() };
    assert_eq!(ledger.figures(), figures);
    let mut states = [state("x", 2), state("y", 0)];
    ledger.annotate(&mut states);
    assert_eq!(states[0].last_change.as_ref().unwrap().from, Value::Numbers(vec![1]));
    assert_eq!(states[1].last_change, None);
    // What the kernel only tells moves by itself.
    for value in 0..3 {
        let count = State { changeable: false, ..state("count", value) };
        ledger.observe(Moment::now(), &Place::default(), &[count], true);
    }
    assert_eq!(ledger.figures().changes, 2);
    ledger.finish(LONG);
}

#[test]
fn a_restart_goes_on_where_the_end_was() {
    let scratch = Scratch::new("restart");
    let first = Ledger::open(scratch.0.clone()).unwrap();
    (0..3).for_each(|value| look(&first, value));
    assert!(first.figures().persistent);
    first.finish(LONG);
    let (told, lines) = read(&scratch.0).unwrap();
    assert_eq!((told, lines.unreadable, lines.cut), (first.changes(), 0, false));

    let second = Ledger::open(scratch.0.clone()).unwrap();
    assert_eq!(second.changes(), first.changes());
    look(&second, 2);
    assert_eq!((second.figures().changes, second.figures().entries), (0, 2));
    second.finish(LONG);

    let third = Ledger::open(scratch.0.clone()).unwrap();
    look(&third, 7);
    let last = third.changes().pop().unwrap();
    assert_eq!(
        (&last.from, &last.to, last.kind),
        (&Value::Numbers(vec![2]), &Value::Numbers(vec![7]), Kind::Offline)
    );
    third.finish(LONG);
}

#[test]
fn the_file_is_bounded_and_always_whole() {
    let scratch = Scratch::new("bounded");
    let ledger = Ledger::open(scratch.0.clone()).unwrap();
    for value in 0..20_000 {
        look(&ledger, value);
        if value % 500 == 0 {
            // Let it be written now and then; else it would all be one file.
            eventually("it is not written", || ledger.0.lock().waiting.is_empty());
        }
    }
    ledger.finish(LONG);
    let text = scratch.read();
    assert!(text.len() < 2 << 20, "{}", text.len());
    let lines = parse(text.as_bytes());
    assert!(lines.ends_well && lines.unreadable == 0);
    let (told, _) = read(&scratch.0).unwrap();
    assert_eq!(told.last().unwrap().to, Value::Numbers(vec![19_999]));
    for pair in told.windows(2) {
        assert_eq!(pair[0].to, pair[1].from);
    }
    assert!(told.len() > 2000);
    assert!(!scratch.0.join("changes.jsonl.new").exists());
}

#[test]
fn the_second_of_two_keeps_memory_only() {
    let scratch = Scratch::new("two");
    let first = Ledger::open(scratch.0.clone()).unwrap();
    let second = Ledger::open(scratch.0.clone()).unwrap();
    for value in 0..3 {
        look(&first, value);
        look(&second, value);
    }
    assert!(first.figures().persistent && !second.figures().persistent);
    assert_eq!((second.figures().entries, second.figures().write_failures), (2, 0));
    second.finish(LONG);
    first.finish(LONG);
    assert_eq!(read(&scratch.0).unwrap().0, first.changes());
}

#[test]
fn a_bad_file_is_kept_and_what_is_whole_in_it_read() {
    let scratch = Scratch::new("bad");
    let first = Ledger::open(scratch.0.clone()).unwrap();
    (0..3).for_each(|value| look(&first, value));
    first.finish(LONG);
    let good = scratch.read();
    let bad = format!("\u{0}\u{0}\n{good}{{\"v\":9}}\n{{\"v\":1,\"at");
    fs::write(store::path(&scratch.0), &bad).unwrap();

    let second = Ledger::open(scratch.0.clone()).unwrap();
    assert_eq!(second.changes(), first.changes());
    assert_eq!(second.figures().unreadable_lines, 3);
    look(&second, 2);
    second.finish(LONG);
    assert_eq!(fs::read_to_string(scratch.0.join("changes.jsonl.damaged")).unwrap(), bad);
    let lines = parse(scratch.read().as_bytes());
    assert!(lines.unreadable == 0 && lines.ends_well);
    assert_eq!(Ledger::open(scratch.0.clone()).unwrap().changes(), first.changes());
}

#[test]
fn what_cannot_be_a_ledger_is_left_alone() {
    let scratch = Scratch::new("odd");
    fs::create_dir_all(store::path(&scratch.0)).unwrap();
    let ledger = Ledger::open(scratch.0.clone()).unwrap();
    (0..3).for_each(|value| look(&ledger, value));
    assert_eq!(ledger.figures(), LedgerFigures { changes: 2, entries: 2, ..LedgerFigures::default() });
    assert!(read(&scratch.0).unwrap_err().to_string().ends_with("not a regular file"));

    // No folder can be made below a file.
    let file = scratch.0.join("file");
    fs::write(&file, "precious").unwrap();
    let ledger = Ledger::open(file.join("state")).unwrap();
    (0..3).for_each(|value| look(&ledger, value));
    assert_eq!((ledger.figures().entries, ledger.figures().persistent), (2, false));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_ledger_that_appears_later_is_not_replaced() {
    let scratch = Scratch::new("late");
    // In the way of the lock, so that the folder cannot be written to at first.
    let lock = scratch.0.join("changes.lock");
    fs::create_dir_all(&lock).unwrap();
    let ledger = Ledger::open(scratch.0.clone()).unwrap();
    look(&ledger, 1);
    assert_eq!((ledger.figures().persistent, ledger.figures().write_failures), (false, 1));
    fs::remove_dir(&lock).unwrap();
    fs::write(store::path(&scratch.0), "somebody else's\n").unwrap();
    ledger.finish(LONG);
    assert_eq!(scratch.read(), "somebody else's\n");
}

#[test]
fn what_could_not_be_written_is_written_later() {
    let scratch = Scratch::new("later");
    let lock = scratch.0.join("changes.lock");
    fs::create_dir_all(&lock).unwrap();
    let ledger = Ledger::open(scratch.0.clone()).unwrap();
    (0..3).for_each(|value| look(&ledger, value));
    assert!(!ledger.figures().persistent);
    fs::remove_dir(&lock).unwrap();
    eventually("it is not tried again", || ledger.figures().persistent);
    assert_eq!(read(&scratch.0).unwrap().0, ledger.changes());
    look(&ledger, 9);
    ledger.finish(LONG);
    assert_eq!(read(&scratch.0).unwrap().0.len(), 3);
}

#[test]
fn what_is_removed_while_it_is_written_is_made_anew() {
    let scratch = Scratch::new("removed");
    let ledger = Ledger::open(scratch.0.clone()).unwrap();
    let mut value = 0;
    let mut change = || {
        value += 1;
        look(&ledger, value);
    };
    let whole = |changes: usize| {
        let found = read(&scratch.0);
        found.is_ok_and(|(told, lines)| told.len() == changes && lines.unreadable == 0)
    };
    (0..2).for_each(|_| change());
    eventually("it is not written", || whole(1));
    fs::remove_file(store::path(&scratch.0)).unwrap();
    change();
    eventually("the file is not made anew", || whole(2) && ledger.figures().persistent);
    fs::remove_dir_all(&scratch.0).unwrap();
    change();
    eventually("the folder is not made anew", || whole(3) && ledger.figures().persistent);
    // It still keeps others out.
    assert!(!Ledger::open(scratch.0.clone()).unwrap().figures().persistent);

    // What somebody put in its place is kept beside.
    fs::remove_file(store::path(&scratch.0)).unwrap();
    fs::write(store::path(&scratch.0), "somebody else's\n").unwrap();
    change();
    eventually("it is not replaced", || whole(4) && ledger.figures().persistent);
    assert_eq!(fs::read_to_string(scratch.0.join("changes.jsonl.damaged")).unwrap(), "somebody else's\n");
    ledger.finish(LONG);
}
