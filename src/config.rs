//! The files of a home directory that people write: config.toml, policy.toml, recipes.toml and
//! service.toml. Each is read and checked, and errors name the line.

mod daemon;
mod endpoint;
mod error;
mod nearest;
mod parse;
pub mod policy;
pub mod recipes;
pub mod service;
pub mod text;

pub use daemon::{Config, FILE, LOCK_FILE};
pub use endpoint::{ENDPOINT_FILE, EndpointSources};
pub use error::{ConfigError, is_absent};
pub use nearest::nearest;
