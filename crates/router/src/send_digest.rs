//! Digests of SENDs, by which a repeated SEND is recognised.

use protocol::{envelope::Envelope, record::Fingerprint};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// A 128-bit hash of a SEND's id and content. A sender that makes two digests collide affects only
/// itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SendDigest(u64, u64);

impl SendDigest {
    pub(super) fn of(envelope: &Envelope<'_>) -> Self {
        let mut hasher = SipHasher13::new();
        let parts = [
            Some(&*envelope.id),
            envelope.to.as_deref(),
            envelope.topic.as_deref(),
            Some(envelope.payload),
            envelope.payload_meta,
        ];
        for part in parts {
            // The length separates a part from the next one, and distinguishes a missing part from
            // an empty one.
            hasher.write_u64(part.map_or(u64::MAX, |part| part.len() as u64));
            hasher.write(part.unwrap_or_default().as_bytes());
        }
        let hash = hasher.finish128();
        Self(hash.h1, hash.h2)
    }

    /// Returns the digest in the form in which the store keeps it.
    pub(super) fn fingerprint(self) -> Fingerprint {
        (u128::from(self.0) << 64 | u128::from(self.1)).to_le_bytes()
    }

    pub(super) fn from_fingerprint(bytes: Fingerprint) -> Self {
        let number = u128::from_le_bytes(bytes);
        Self((number >> 64) as u64, number as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SendDigest {
        pub(crate) const fn of_number(number: u64) -> Self {
            Self(number, 0)
        }
    }

    #[test]
    fn digests_depend_on_id_and_content_alone() {
        let digest = |json: &str| SendDigest::of(&Envelope::read(json.as_bytes()).unwrap());
        let base = r#"{"v":1,"type":"SEND","id":"i","ts":1,"to":"B","topic":"t","payload":{}}"#;
        assert_eq!(digest(base), digest(&base.replace("\"ts\":1", "\"ts\":2")));
        for (from, to) in [
            ("\"i\"", "\"j\""),
            ("\"B\"", "\"C\""),
            ("\"t\"", "\"u\""),
            (",\"topic\":\"t\"", ""),
            ("{}", "{ }"),
            ("{}", "{},\"payload_meta\":{}"),
        ] {
            assert_ne!(digest(base), digest(&base.replace(from, to)), "{from} {to}");
        }
    }
}
