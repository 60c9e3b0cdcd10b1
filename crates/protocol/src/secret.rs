//! Secrets: tokens and keys. Only a secret's holder has the secret itself; whoever checks it has
//! only its hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use subtle::ConstantTimeEq;

/// The prefix of a hash in a file, which distinguishes it from a secret.
const HASH_MARK: &str = "sha256:";

/// The SHA-256 of a secret: of a token or a key.
pub type Hash = [u8; 32];

/// A text that only its holder may know. `Debug` does not show it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(Box<str>);

impl Secret {
    /// Reads a secret that a peer states.
    #[must_use]
    pub fn stated(text: &str) -> Self {
        Self(text.into())
    }

    /// A new secret of 256 random bits, as 64 hexadecimal digits.
    #[must_use]
    pub fn from_random(bits: [u8; 32]) -> Self {
        Self(hexadecimal(&bits).into())
    }

    /// Parses a secret that [`from_random`](Self::from_random) made.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        bytes(text).map(Self::from_random)
    }

    /// The text of the secret. Do not log it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of its text, which may be stored.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Whether the secret has this hash.
    #[must_use]
    pub fn has_hash(&self, hash: &Hash) -> bool {
        hashes_equal(&self.hash(), hash)
    }
}

/// Compares in constant time.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Compares hashes in constant time.
#[must_use]
pub fn hashes_equal(one: &Hash, other: &Hash) -> bool {
    one.ct_eq(other).into()
}

/// A hash as text: `sha256:` and 64 hexadecimal digits.
#[must_use]
pub fn hash_text(hash: &Hash) -> String {
    format!("{HASH_MARK}{}", hexadecimal(hash))
}

/// Parses a hash that [`hash_text`] wrote.
#[must_use]
pub fn parse_hash(text: &str) -> Option<Hash> {
    bytes(text.strip_prefix(HASH_MARK)?)
}

fn hexadecimal(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes every text");
        text
    })
}

/// Parses exactly 64 hexadecimal digits in lower case.
fn bytes(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_sha_256_of_the_text() {
        // From FIPS 180-2, appendix B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_text(&Secret::stated("abc").hash()), abc);
        assert_eq!(parse_hash(abc), Some(Secret::stated("abc").hash()));
    }

    #[test]
    fn only_the_secret_has_its_hash() {
        let hash = Secret::stated("key").hash();
        assert!(Secret::stated("key").has_hash(&hash));
        for other in ["", "kez", "key ", "Key"] {
            assert!(!Secret::stated(other).has_hash(&hash), "{other:?}");
        }
        let mut near = hash;
        near[31] ^= 1;
        assert!(hashes_equal(&hash, &hash) && !hashes_equal(&hash, &near));
    }

    #[test]
    fn only_a_generated_secret_parses() {
        let made = Secret::from_random(std::array::from_fn(|at| at as u8 * 8 + 3));
        let text = made.reveal();
        assert_eq!((text.len(), &text[..6]), (64, "030b13"));
        assert_eq!(Secret::parse(text).unwrap().reveal(), text);
        for wrong in ["", &text[1..], &text.to_uppercase(), &format!("{text}0"), &"g".repeat(64)] {
            assert!(Secret::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn hash_without_its_prefix_does_not_parse() {
        let hash = hash_text(&[7; 32]);
        let bare = &hash["sha256:".len()..];
        for wrong in ["", "sha256:", bare, &format!("sha512:{bare}"), &format!("{hash}00")] {
            assert!(parse_hash(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn debugging_never_shows_a_secret() {
        let secret = Secret::stated("planted");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "Secret(…) Some(\n    Secret(…),\n)"
        );
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""planted""#);
    }
}
