//! Fuzzing of config.toml. Arbitrary text must be read, or refused with a sentence that names the
//! line.
//!
//! The policy, the recipes and the rows of the store have fuzzing bodies of their own.

use agent_relay::limits;
use client::home::{Config, EndpointSources};
use std::path::Path;

/// Reads the bytes as config.toml.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Config::parse(Path::new("config.toml"), text) {
        Ok(config) => {
            assert!(config.queue_max_bytes <= config.memory_max_bytes);
            assert!(config.heartbeat_ms >= 100 && config.max_clients >= 1);
            assert!((4096..=64 << 20).contains(&config.max_frame_bytes));
            assert_eq!(limits(&config).clients_max as u64, config.max_clients);
            let sources = EndpointSources { config: config.endpoint, ..EndpointSources::default() };
            assert_eq!(sources.candidates().len(), usize::from(sources.requested().is_some()));
        }
        Err(error) => {
            let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
            assert!(!error.reason.is_empty() && error.to_string().starts_with("config.toml"));
        }
    }
}
