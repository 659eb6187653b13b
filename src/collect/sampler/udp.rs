//! Looks at UDP sockets, as often as connections are passed over.

use std::time::{Duration, Instant};

use super::{PART, Plan, Walker, cpu_time};
use crate::model::udp::Tracker;
use crate::read::udp;

/// What is known of UDP sockets, and when they are looked at next.
#[derive(Debug, Default)]
pub(super) struct Watch {
    tracker: Tracker,
    last: Option<Instant>,
    /// What the last look cost.
    cost: Duration,
    /// Where the budget asks for more than the plan.
    pause: Duration,
}

impl Watch {
    /// Time of the next look; `None` where there is none to come.
    pub(super) fn next(&self, plan: &Plan) -> Option<Instant> {
        let now = Instant::now();
        plan.udp_sockets.then(|| self.last.map_or(now, |last| last + plan.interval.max(self.pause)))
    }

    /// Share of one CPU that looks take.
    pub(super) fn share(&self, plan: &Plan) -> f64 {
        let usual = plan.interval.max(self.pause);
        if plan.udp_sockets { self.cost.as_secs_f64() / usual.as_secs_f64() } else { 0.0 }
    }
}

impl Walker {
    /// Looks at UDP sockets when it is time to.
    pub(super) fn watch_udp(&mut self, started: Instant) {
        match self.udp.next(&self.plan) {
            None => {
                self.found.udp_sockets.clear();
                self.udp.tracker.pause();
                self.udp.last = None;
            }
            Some(next) if next <= Instant::now() => self.look_at_udp(started),
            Some(_) => {}
        }
    }

    fn look_at_udp(&mut self, started: Instant) {
        let cpu_before = cpu_time();
        let usual = self.plan.interval.max(self.udp.pause);
        let (groups, outcome) = match udp::read(&mut self.kernel) {
            Ok(found) => {
                let (bounds, outcome) = udp::read_bounds(&mut self.kernel);
                (self.udp.tracker.observe(started, &found, &bounds, 3 * usual), outcome)
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        self.udp.cost = cpu_time().saturating_sub(cpu_before);
        self.udp.pause = self.udp.cost.div_f64(self.plan.budget() * PART);
        self.udp.last = Some(started);
        self.account();
        self.found.udp_sockets.put(self.plan.interval.max(self.udp.pause), groups, outcome);
    }
}
