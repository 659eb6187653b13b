//! Looks at tracked flows by state, where the table is more than half full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sampler::cpu_time;
use crate::kernel::{Error, Kernel, Result};
use crate::read::conntrack::Conntrack;
use crate::read::tracked::{self, Tracked};

/// Least time from one look to the next.
const INTERVAL: Duration = Duration::from_secs(60);

/// What was found last, and when and at what cost.
#[derive(Debug, Default)]
pub(super) struct Look {
    last: Option<Instant>,
    interval: Duration,
    cost: Duration,
    found: Option<std::result::Result<Option<Tracked>, Arc<Error>>>,
}

impl Look {
    /// What is in the table: as it was found last where that is not long ago, and nothing
    /// where it is half empty or may not be seen. May take `share` of one CPU.
    ///
    /// # Errors
    /// The kernel cannot be asked, or its answer is malformed.
    pub(super) fn at(
        &mut self,
        kernel: &mut Kernel,
        conntrack: &Conntrack,
        share: f64,
        now: Instant,
    ) -> Result<Option<Tracked>> {
        // Only then is it worth the cost to look at what is in it.
        let is_half_full = conntrack.limit.is_some_and(|limit| conntrack.entries > limit / 2);
        if !is_half_full {
            self.found = None;
            return Ok(None);
        }
        if self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.interval) {
            let before = cpu_time();
            self.found = Some(match tracked::read(kernel) {
                Ok(found) => Ok(Some(found)),
                // Not every kernel has ctnetlink, and not every exporter may ask it.
                Err(error) if error.is_absent() || error.is_permission() => Ok(None),
                Err(error) => Err(Arc::new(error)),
            });
            self.cost = cpu_time().saturating_sub(before);
            (self.last, self.interval) = (Some(now), INTERVAL.max(self.cost.div_f64(share)));
        }
        self.found.clone().transpose().map(Option::flatten).map_err(Error::Shared)
    }

    /// Share of one CPU that looks take.
    pub(super) fn share(&self) -> f64 {
        let each = self.cost.as_secs_f64() / self.interval.as_secs_f64();
        if self.found.is_some() { each } else { 0.0 }
    }
}
