//! Values with meaning; no input or output, no metric names.

pub mod connections;
pub mod defaults;
pub mod devices;
pub mod histogram;
pub mod host;
pub mod interval;
pub mod listeners;
pub mod namespaces;
pub mod parameters;
pub mod peak;
pub mod ports;
pub mod slices;
mod snapshot;
pub mod udp;
pub mod units;

pub use snapshot::{Connections, Exporter, Followed, Nic, Outcome, Report, Sampling, Snapshot};
