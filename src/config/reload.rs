use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How the last reading of the configuration went.
///
/// The two values are read one after the other; a scrape in between sees the
/// outcome of one reading with the time of another, which no rule minds.
#[derive(Debug)]
pub struct ReloadState {
    successful: AtomicBool,
    timestamp: AtomicU64,
}

impl ReloadState {
    /// The state after a good start, which is the first success.
    pub fn started() -> Self {
        let state = Self { successful: AtomicBool::new(true), timestamp: AtomicU64::new(0) };
        state.record(true);
        state
    }

    /// Notes how a reading went.
    pub fn record(&self, successful: bool) {
        if successful {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.timestamp.store(since_epoch.as_secs_f64().to_bits(), Ordering::Relaxed);
        }
        self.successful.store(successful, Ordering::Relaxed);
    }

    /// Whether the last reading succeeded.
    pub fn successful(&self) -> bool {
        self.successful.load(Ordering::Relaxed)
    }

    /// When a reading last succeeded, seconds since 1970.
    pub fn timestamp(&self) -> f64 {
        f64::from_bits(self.timestamp.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_time_of_the_last_success() {
        let state = ReloadState::started();
        let started = state.timestamp();
        assert!(state.successful() && started > 1.7e9);
        state.record(false);
        assert!(!state.successful());
        assert_eq!(state.timestamp().to_bits(), started.to_bits());
        state.record(true);
        assert!(state.successful() && state.timestamp() >= started);
    }
}
