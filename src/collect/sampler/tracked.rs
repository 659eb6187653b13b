//! Looks at how full the table of tracked flows is, as often as connections are passed
//! over, and at what is in it where that is much.

use std::time::Instant;

use super::super::tracked::Look;
use super::{PART, Plan, Walker};
use crate::read::conntrack;

/// The last look, and when it is time for the next.
#[derive(Debug, Default)]
pub(super) struct Watch {
    look: Look,
    last: Option<Instant>,
}

impl Watch {
    /// Time of the next look; `None` where there is none to come.
    pub(super) fn next(&self, plan: &Plan) -> Option<Instant> {
        let now = Instant::now();
        plan.tracked_flows.then(|| self.last.map_or(now, |last| last + plan.interval))
    }

    /// Share of one CPU that looks take.
    pub(super) fn share(&self) -> f64 {
        self.look.share()
    }
}

impl Walker {
    /// Looks at tracked flows when it is time to.
    pub(super) fn watch_tracked(&mut self, started: Instant) {
        match self.tracked.next(&self.plan) {
            None => {
                self.found.tracked_flows.clear();
                self.tracked = Watch::default();
            }
            Some(next) if next <= Instant::now() => {
                self.tracked.last = Some(started);
                // What is wrong with the sizes is told by whoever exports them.
                let (sizes, _) = conntrack::read_sizes(&mut self.kernel);
                let share = self.plan.budget() * PART;
                let look = |sizes| self.tracked.look.at(&mut self.kernel, &sizes, share, started);
                let (found, outcome) = match sizes.map_or(Ok(None), look) {
                    Ok(found) => (found, Ok(())),
                    Err(error) => (None, Err(error)),
                };
                self.account();
                self.found.tracked_flows.put(self.plan.interval, found, outcome);
            }
            Some(_) => {}
        }
    }
}
