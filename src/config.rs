//! The files of a home directory whose meaning only this program knows: policy.toml and
//! recipes.toml. Each is read and checked, and errors name the line.

pub mod policy;
pub mod recipes;
