//! The router's rules, each as a transcript of inputs and outputs.

mod asking;
mod bounds;
mod delivery;
mod handshake;
mod keeping;
mod members;
mod policy;
mod queries;
mod relay;
mod roles;
mod routing;
mod script;
mod sessions;
mod streams;
