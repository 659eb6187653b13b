//! The one integration test binary.

mod exposition;
mod fixture;
mod support;

mod cli;
mod corpus;
mod faults;
mod golden;
mod layers;
mod limits;
mod process;
mod properties;
mod server;
