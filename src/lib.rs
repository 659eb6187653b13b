//! nettune: a Prometheus exporter that says which kernel parameter to change,
//! or that none is to blame.
//!
//! # Layers
//!
//! Data flows one way. A module may use only modules to its left; a test
//! (`tests/layers.rs`) reads the `use` lines and enforces it.
//!
//! ```text
//! kernel → read → model → metrics → serve        catalogue → render
//!  bytes   structs  meaning  names     HTTP
//!                    └→ ledger ──┘
//!                       changes
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`kernel`] | system calls, bytes and layouts; the only place a path is joined, a kernel file opened or `unsafe` written |
//! | [`read`] | one file a kernel source: a pure `parse(&[u8])` and a thin reader |
//! | [`catalogue`] | what is known of every parameter, as data |
//! | [`model`] | values with meaning, no input or output |
//! | [`metrics`] | the only place where metric names and help live |
//! | [`ledger`] | changes of parameters, and the file they are kept in |
//! | [`serve`] | HTTP |
//! | [`render`] | catalogue and metric definitions → documents; pure functions |
//! | [`explain`] | what there is to know about one parameter or alert |
//! | [`collect`], [`config`], [`cli`] | see several layers: the table of sources, the checked configuration, the flags |

pub mod catalogue;
pub mod cli;
pub mod collect;
pub mod config;
pub mod explain;
pub mod kernel;
pub mod ledger;
pub mod metrics;
pub mod model;
pub mod read;
pub mod render;
pub mod serve;

/// Revision of the source this was built from, where the build knows it.
pub const REVISION: &str = match option_env!("NETTUNE_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};
