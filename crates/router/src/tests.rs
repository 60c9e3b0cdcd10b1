//! The router's rules, each as a transcript of inputs and outputs.

mod activity;
mod allocations;
mod beginnings;
mod bounds;
mod bridges;
mod costs;
mod delivery;
mod fairness;
mod handshake;
mod keeping;
mod members;
mod operator_mail;
mod policy;
mod queries;
mod questions;
mod relay;
mod roles;
mod routing;
mod script;
mod sessions;
mod shares;
mod streams;
