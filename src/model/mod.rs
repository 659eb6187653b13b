//! Values with meaning; no input or output, no metric names.

pub mod accepted;
pub mod changes;
pub mod connections;
pub mod defaults;
pub mod devices;
pub mod histogram;
pub mod host;
pub mod interval;
pub mod listeners;
pub mod namespaces;
pub mod owners;
pub mod parameters;
pub mod peak;
pub mod persisted;
pub mod ports;
pub mod recommend;
pub mod slices;
mod snapshot;
pub mod udp;
pub mod units;
pub mod windows;

pub use snapshot::{
    Connections, Declared, DeclaredLimits, Exporter, Followed, LedgerFigures, Nic, Outcome, Report, Sampling,
    Snapshot,
};
