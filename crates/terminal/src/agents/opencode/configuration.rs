//! The configuration of opencode in a variable, which overrides its files. The user's own value
//! stays as written, and gets more members.

use super::jsonc;
use crate::hooks::Unarmed;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeOwned},
};
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;

/// The variable with a configuration.
pub(super) const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";

/// The maximum length of the variable's value, in bytes. Systems limit the length of a variable.
const VALUE_BYTES_MAX: usize = 32_000;

/// A JSON object that keeps its members as written and in their order, since opencode's permissions
/// depend on the order.
#[derive(Default)]
pub(super) struct Configuration(Vec<(String, Box<RawValue>)>);

impl Configuration {
    /// Reads the user's value of the variable, which may have comments and trailing commas.
    pub(super) fn parse(user: Option<&str>) -> Result<Self, Unarmed> {
        let user = user.filter(|text| !text.is_empty()).unwrap_or("{}");
        serde_json::from_str(&jsonc::to_json(user)).map_err(|_| Unarmed::Configuration)
    }

    /// Takes out a member. If several have this name, the last one counts.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Unarmed> {
        let Some(at) = self.0.iter().rposition(|(member, _)| member == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.remove(at);
        serde_json::from_str(value.get()).map(Some).map_err(|_| Unarmed::Configuration)
    }

    /// Adds a member after the others.
    pub(super) fn add(&mut self, name: &str, value: &impl Serialize) {
        self.0.push((name.to_owned(), to_raw_value(value).expect("it is JSON")));
    }

    /// Returns the value of the variable.
    pub(super) fn value(&self) -> Result<String, Unarmed> {
        let value = serde_json::to_string(self).expect("texts are JSON");
        Some(value).filter(|value| value.len() <= VALUE_BYTES_MAX).ok_or(Unarmed::Configuration)
    }
}

impl Serialize for Configuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Configuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Configuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let members = std::iter::from_fn(|| map.next_entry().transpose());
                members.collect::<Result<_, _>>().map(Configuration)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
