//! Integration tests.

mod document;
mod everywhere;
mod tidy;
