//! The files that only this program interprets: policy.toml and recipes.toml of a home directory,
//! and agents.toml of a project. Each is read and checked, and errors name the line.

mod invalid;
pub mod policy;
pub mod recipes;
pub mod team;
