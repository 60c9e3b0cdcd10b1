//! JSON decoded into types, with errors that name the member and the type expected.
//!
//! serde's errors name types of this program, which users do not know. So JSON that serde refuses
//! is decoded a second time, to find the member and its expected type. Values are not repeated in
//! errors, because a secret may be among them.

use super::{
    json::{self, unquoted},
    text::Quoted,
};
use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, Expected, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
        Unexpected, Visitor, value::MapAccessDeserializer,
    },
    forward_to_deserialize_any,
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, marker::PhantomData, vec};

/// Decodes JSON into a type. The error is a sentence.
pub fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| mismatch::<T>(json, &error))
}

/// Decodes an optional member that must not be `null`, for `deserialize_with`.
pub(super) fn present<'de, T, D>(json: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(json).map(Some)
}

/// Decodes an object, for `deserialize_with`. A derived type alone would also accept a list of its
/// members.
pub(super) fn object<'de, T, D>(json: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(json).map(|Object(value)| value)
}

/// Decodes an optional object that must not be `null`, for `deserialize_with`.
pub(super) fn present_object<'de, T, D>(json: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    object(json).map(Some)
}

/// A value that is decoded from an object only.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        json.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// Returns the error for JSON that serde refused, as a sentence.
#[cold]
fn mismatch<'a, T: Deserialize<'a>>(json: &'a str, error: &serde_json::Error) -> String {
    if json.trim_ascii().is_empty() {
        return "it is empty".to_owned();
    }
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return format!("it is not JSON: {error}");
    }
    match T::deserialize(JsonValue(json.trim_ascii())) {
        Err(mismatch) => mismatch.to_string(),
        Ok(_) => "it cannot be read".to_owned(),
    }
}

/// A member that does not have the type expected.
#[derive(Debug)]
struct Mismatch {
    /// The path to the member, as in `sync.timeoutMs` or `streams[0]`.
    path: String,
    kind: MismatchKind,
}

#[derive(Debug)]
enum MismatchKind {
    /// The member is not of this type.
    Not(Cow<'static, str>),
    /// The member is missing.
    Missing,
    /// The member occurs twice.
    Twice,
    /// An error of the type's own.
    Custom(String),
}

impl Mismatch {
    fn not(expected: &dyn Expected) -> Self {
        Self { path: String::new(), kind: MismatchKind::Not(type_in_words(expected.to_string())) }
    }

    /// Returns the mismatch with the path seen from the object that has member `key`.
    fn within(self, key: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-@".contains(&byte);
        let mut path = match key.bytes().all(is_plain) && !key.is_empty() && key.len() <= 64 {
            true => key.to_owned(),
            false => format!("[{}]", Quoted(key)),
        };
        if !self.path.is_empty() && !self.path.starts_with('[') {
            path.push('.');
        }
        Self { path: path + &self.path, ..self }
    }

    /// Returns the mismatch with the path seen from the list that has an item `index`.
    fn at(self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("[{index}]{dot}{}", self.path), ..self }
    }
}

/// Returns the documents' term for a type that serde expected.
fn type_in_words(expected: String) -> Cow<'static, str> {
    let whole = |max: u64| format!("a whole number from 0 to {max}, in digits").into();
    match expected.as_str() {
        "u64" | "usize" => whole(u64::MAX),
        "u32" => whole(u32::MAX.into()),
        "u8" => whole(u8::MAX.into()),
        "a map" => "an object".into(),
        "a sequence" => "a list".into(),
        "a borrowed string" => "a string".into(),
        name if name.starts_with("struct ") => "an object".into(),
        _ => expected.into(),
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            MismatchKind::Missing => return write!(f, "there is no `{}`", self.path),
            _ if self.path.is_empty() => f.write_str("it")?,
            _ => write!(f, "`{}`", self.path)?,
        }
        match &self.kind {
            MismatchKind::Not(expected) => write!(f, " is not {expected}"),
            MismatchKind::Twice => f.write_str(" is given twice"),
            MismatchKind::Custom(error) => write!(f, ": {error}"),
            MismatchKind::Missing => Ok(()),
        }
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self { path: String::new(), kind: MismatchKind::Custom(words.to_string()) }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::not(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::not(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::not(expected)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        let kind = MismatchKind::Not(format!("one of {}", known.join(", ")).into());
        Self { path: String::new(), kind }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { path: name.to_owned(), kind: MismatchKind::Missing }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self { path: name.to_owned(), kind: MismatchKind::Twice }
    }
}

/// A value that is decoded a second time, and so is known to be JSON.
#[derive(Clone, Copy)]
struct JsonValue<'de>(&'de str);

impl<'de> JsonValue<'de> {
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if let Ok(number) = self.0.parse() {
            return visitor.visit_u64(number);
        }
        // `-0` is not a whole number.
        if let Ok(number) = self.0.parse()
            && number != 0
        {
            return visitor.visit_i64(number);
        }
        // Every number, of whatever length, has a nearest f64.
        visitor.visit_f64(self.0.parse().unwrap_or(f64::NAN))
    }

    fn string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match unquoted(self.0) {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            // The string has half of a surrogate pair.
            None => Err(Mismatch {
                path: String::new(),
                kind: MismatchKind::Not("Unicode text".into()),
            }),
        }
    }

    fn object<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let mut members = Vec::new();
        json::members(self.0, |key, value| members.push((key, value)))
            .map_err(|bad| de::Error::custom(format_args!("{} expected", bad.expected)))?;
        visitor.visit_map(Members { left: members.into_iter(), current: None })
    }

    fn list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let items: Vec<&RawValue> = serde_json::from_str(self.0).map_err(de::Error::custom)?;
        visitor.visit_seq(Items(items.into_iter().enumerate()))
    }
}

impl<'de> Deserializer<'de> for JsonValue<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0.as_bytes().first() {
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.list(visitor),
            Some(b'"') => self.string(visitor),
            Some(b'n') => visitor.visit_unit(),
            Some(b't') => visitor.visit_bool(true),
            Some(b'f') => visitor.visit_bool(false),
            _ => self.number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.0 == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }

    /// Decodes a newtype struct with serde_json: `RawValue` is the only one that occurs here.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        json.deserialize_newtype_struct(name, visitor).map_err(de::Error::custom)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match unquoted(self.0) {
            Some(word) => visitor.visit_enum(word.into_deserializer()),
            None => Err(de::Error::invalid_type(Unexpected::Unit, &"a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// The remaining members of an object, and the member whose key was read.
struct Members<'de> {
    left: vec::IntoIter<(&'de str, &'de str)>,
    current: Option<(Cow<'de, str>, &'de str)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mismatch> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        let unescaped = key.contains('\\').then(|| format!("\"{key}\""));
        let unescaped = unescaped.as_deref().and_then(unquoted).map(Cow::into_owned);
        let key = unescaped.map_or(Cow::Borrowed(key), Cow::Owned);
        let (key, _) = self.current.insert((key, value));
        seed.deserialize((&**key).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let (key, value) = self.current.take().expect("a key was read before its value");
        seed.deserialize(JsonValue(value)).map_err(|mismatch| mismatch.within(&key))
    }
}

/// The remaining items of a list, with their indices.
struct Items<'de>(std::iter::Enumerate<vec::IntoIter<&'de RawValue>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(JsonValue(item.get())).map(Some).map_err(|mismatch| mismatch.at(index))
    }
}
