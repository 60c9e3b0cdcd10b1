//! JSON read into a type; what doesn't fit is said in a sentence that names the member.
//!
//! serde's own words are about types of this program, which nobody outside knows. So what it refuses is
//! read a second time, only to find out which member it was, and what should stand there. The values
//! themselves are not repeated: one may be a secret in the wrong place.

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

/// Reads JSON into a type, or says in a sentence why it doesn't fit.
pub fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| why::<T>(json, &error))
}

/// For `deserialize_with`: a member that is there is of its kind, and `null` is of none.
pub(super) fn present<'de, T, D>(json: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(json).map(Some)
}

/// For `deserialize_with`: an object, where a derived type would take a list of its members as well.
pub(super) fn object<'de, T, D>(json: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(json).map(|Object(it)| it)
}

/// Both.
pub(super) fn present_object<'de, T, D>(json: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    object(json).map(Some)
}

/// What is read from an object alone.
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

#[cold]
fn why<'a, T: Deserialize<'a>>(json: &'a str, error: &serde_json::Error) -> String {
    if json.trim_ascii().is_empty() {
        return "it is empty".to_owned();
    }
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return format!("it is not JSON: {error}");
    }
    match T::deserialize(Doubted(json.trim_ascii())) {
        Err(misfit) => misfit.to_string(),
        Ok(_) => "it can't be read".to_owned(),
    }
}

/// What doesn't fit, and where.
#[derive(Debug)]
struct Misfit {
    /// From the outside in, as in `sync.timeoutMs` or `streams[0]`.
    path: String,
    what: What,
}

#[derive(Debug)]
enum What {
    /// It is not what is named here.
    Not(Cow<'static, str>),
    /// There is no such member.
    Missing,
    /// There are two of it.
    Twice,
    /// What a type says itself.
    Said(String),
}

impl Misfit {
    fn not(expected: &dyn Expected) -> Self {
        Self { path: String::new(), what: What::Not(kind_in_words(expected.to_string())) }
    }

    /// The same, seen from around the member.
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

    /// The same, seen from around the list.
    fn at(self, place: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("[{place}]{dot}{}", self.path), ..self }
    }
}

/// What a kind is called in the documents. The others' names are good as they are.
fn kind_in_words(expected: String) -> Cow<'static, str> {
    let whole = |most: u64| format!("a whole number from 0 to {most}, in digits").into();
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

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Missing => return write!(f, "there is no `{}`", self.path),
            _ if self.path.is_empty() => f.write_str("it")?,
            _ => write!(f, "`{}`", self.path)?,
        }
        match &self.what {
            What::Not(expected) => write!(f, " is not {expected}"),
            What::Twice => f.write_str(" is given twice"),
            What::Said(words) => write!(f, ": {words}"),
            What::Missing => Ok(()),
        }
    }
}

impl std::error::Error for Misfit {}

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self { path: String::new(), what: What::Said(words.to_string()) }
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
        let what = What::Not(format!("one of {}", known.join(", ")).into());
        Self { path: String::new(), what }
    }

    fn missing_field(name: &'static str) -> Self {
        Self { path: name.to_owned(), what: What::Missing }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self { path: name.to_owned(), what: What::Twice }
    }
}

/// A value that is read once more, of which it is known that it is JSON.
#[derive(Clone, Copy)]
struct Doubted<'de>(&'de str);

impl<'de> Doubted<'de> {
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if let Ok(number) = self.0.parse() {
            return visitor.visit_u64(number);
        }
        // A zero with a sign is no whole number.
        if let Ok(number) = self.0.parse()
            && number != 0
        {
            return visitor.visit_i64(number);
        }
        // Of any number, however long, there is a nearest one.
        visitor.visit_f64(self.0.parse().unwrap_or(f64::NAN))
    }

    fn string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match unquoted(self.0) {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            // Half of a surrogate pair.
            None => Err(Misfit { path: String::new(), what: What::Not("Unicode text".into()) }),
        }
    }

    fn object<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let mut members = Vec::new();
        json::members(self.0, |key, value| members.push((key, value)))
            .map_err(|bad| de::Error::custom(format_args!("{} expected", bad.expected)))?;
        visitor.visit_map(Members { left: members.into_iter(), current: None })
    }

    fn list<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let items: Vec<&RawValue> = serde_json::from_str(self.0).map_err(de::Error::custom)?;
        visitor.visit_seq(Items(items.into_iter().enumerate()))
    }
}

impl<'de> Deserializer<'de> for Doubted<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
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

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.0 == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    /// Only raw JSON is one here, which is nobody's but serde_json's to read.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        json.deserialize_newtype_struct(name, visitor).map_err(de::Error::custom)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
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

/// Members of an object that are left, and the one whose key was read.
struct Members<'de> {
    left: vec::IntoIter<(&'de str, &'de str)>,
    current: Option<(Cow<'de, str>, &'de str)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        let unescaped = key.contains('\\').then(|| format!("\"{key}\""));
        let unescaped = unescaped.as_deref().and_then(unquoted).map(Cow::into_owned);
        let key = unescaped.map_or(Cow::Borrowed(key), Cow::Owned);
        let (key, _) = self.current.insert((key, value));
        seed.deserialize((&**key).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let (key, value) = self.current.take().expect("a key was read before its value");
        seed.deserialize(Doubted(value)).map_err(|misfit| misfit.within(&key))
    }
}

/// Items of a list that are left, with their places.
struct Items<'de>(std::iter::Enumerate<vec::IntoIter<&'de RawValue>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some((place, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Doubted(item.get())).map(Some).map_err(|misfit| misfit.at(place))
    }
}
