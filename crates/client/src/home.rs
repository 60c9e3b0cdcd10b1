//! A home directory and the daemon that it names: the files that people write there, the operator's
//! key, and the daemon's possible endpoints.

mod config;
mod context;
mod endpoint;
mod error;
mod keys;
mod nearest;
pub mod operator_key;
pub mod parse;
pub mod service;
pub mod text;

pub use config::{Config, FILE, LOCK_FILE, Notify, OnHangup};
pub use context::{Context, ENDPOINT, HomeOptions};
pub use endpoint::{ENDPOINT_FILE, EndpointSources, default_endpoints};
pub use error::{ConfigError, HomeError, is_absent};
pub use keys::{AGENT, KEY_FILE, Keys, agent_around};
pub use nearest::nearest;
