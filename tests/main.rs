//! The one integration test binary.

mod exposition;
mod filters;
mod fixture;
mod namespace;
mod support;

mod answers;
mod cli;
mod closes;
mod connections;
mod corpus;
mod faults;
mod golden;
mod histograms;
mod host;
mod lab;
mod layers;
mod ledger;
mod limits;
mod listeners;
mod live;
mod netns;
mod path;
mod persisted;
mod ports;
mod process;
mod prometheus;
mod properties;
mod reload;
mod series;
mod server;
mod sockets;
mod throughput;
mod troubles;
mod udp;
mod units;
