//! How the budget is shared among visits: most are looks, which are cheap; some make a
//! pass over connections as well, for which the kernel walks those of all namespaces.

use std::time::{Duration, Instant};

use super::reader::Turn;

/// Share of looks where there is too little for both, so that counters are not as old
/// as connections are where there are very many of these.
const LOOKS: f64 = 1.0 / 3.0;

/// When the next visit of each kind may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) look: Instant,
    pub(super) pass: Instant,
}

/// What visits would cost if each came when it is due, in shares of one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) looks: f64,
    pub(super) passes: f64,
}

impl Pace {
    /// Nothing has been spent yet.
    pub(super) fn from(now: Instant) -> Self {
        Self { look: now, pass: now }
    }

    /// A visit cost so much, where `all` of one CPU is for visits. What one kind does not
    /// want of its part the other has.
    pub(super) fn spend(&mut self, turn: Turn, cost: Duration, all: f64, wanted: Wanted) {
        let (next, share) = match turn.pass {
            true => (&mut self.pass, (all - wanted.looks).max(all * (1.0 - LOOKS))),
            false => (&mut self.look, (all - wanted.passes).max(all * LOOKS)),
        };
        let pause = Duration::try_from_secs_f64(cost.as_secs_f64() / share).unwrap_or(LONGEST);
        *next = turn.started + pause.min(LONGEST);
    }
}

/// Some counters of a connection are remembered by their low half: of microseconds it
/// lasts for 71 minutes. Passes come as often as that, whatever they cost.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_kind_leaves_the_other_has() {
        let start = Instant::now();
        let next = |pass, looks, passes| {
            let mut pace = Pace::from(start);
            let turn = Turn { started: start, pass };
            pace.spend(turn, Duration::from_millis(6), 0.003, Wanted { looks, passes });
            let next = if pass { pace.pass } else { pace.look };
            next.duration_since(start).as_secs_f64()
        };
        let about = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        // Neither has enough: a third and two thirds.
        assert!(about(next(false, 0.1, 0.1), 6.0) && about(next(true, 0.1, 0.1), 3.0));
        // Looks want a sixth, passes nothing.
        assert!(about(next(true, 0.0005, 0.1), 2.4) && about(next(false, 0.0005, 0.0), 2.0));
    }

    #[test]
    fn nothing_is_put_off_for_ever() {
        let start = Instant::now();
        let mut pace = Pace::from(start);
        let wanted = Wanted { looks: 1.0, passes: 1.0 };
        for all in [1e-9, 0.0, -1.0] {
            pace.spend(Turn { started: start, pass: true }, Duration::from_secs(1), all, wanted);
            assert_eq!(pace.pass, start + LONGEST, "{all}");
        }
    }
}
