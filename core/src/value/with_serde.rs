//! Serde: tickets and detached holds as the text that they print, tokens as numbers, which JSON
//! keeps exactly.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Detached, FencingToken, Ticket};

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

as_text!(Ticket);
as_text!(Detached);

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GrantId, Kind, Name};

    #[test]
    fn what_is_written_is_read_again() {
        let ticket: Ticket = "8f14e45fceea467fa0e61b2c3d4e5f60".parse().unwrap();
        let token = FencingToken::new((1 << 53) - 1).unwrap();
        let id = GrantId::new(token, ticket);
        let written = serde_json::to_string(&id).unwrap();
        assert_eq!(written, r#"{"token":9007199254740991,"ticket":"8f14e45fceea467fa0e61b2c3d4e5f60"}"#);
        assert_eq!(serde_json::from_str::<GrantId>(&written).unwrap(), id);
        let detached = Detached::new(Kind::Mutex, "n", &Name::new("a \"b\"").unwrap(), ticket, token);
        let written = serde_json::to_string(&detached).unwrap();
        assert_eq!(serde_json::from_str::<Detached>(&written).unwrap(), detached);
    }

    #[test]
    fn what_no_ticket_or_token_is_is_refused() {
        assert!(serde_json::from_str::<Ticket>("\"8f14\"").is_err());
        for number in ["9007199254740992", "-1", "1.5", "\"7\""] {
            assert!(serde_json::from_str::<FencingToken>(number).is_err(), "{number}");
        }
    }
}
