//! Integration tests.

mod everywhere;
mod tidy;
