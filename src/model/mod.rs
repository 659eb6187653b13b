//! Values with meaning; no input or output, no metric names.

pub mod defaults;
pub mod devices;
pub mod host;
pub mod interval;
pub mod listeners;
pub mod parameters;
mod snapshot;

pub use snapshot::{Exporter, Nic, Outcome, Report, Snapshot};
