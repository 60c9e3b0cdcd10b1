//! Integration tests: real processes, real sockets, real terminals. Each with a place of its own.

mod everywhere;
mod raw;
mod sandbox;
mod terminal;
mod tidy;
mod wire;
mod wrap;
