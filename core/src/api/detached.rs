//! Holds that no guard keeps.

use std::fmt;
use std::str::FromStr;

use crate::{Error, FencingToken, Kind, Name, Result, Ticket};

/// A hold that no guard keeps: returned by `detach`, taken over by `attach`, also in another
/// process ([C24]).
///
/// It says of which object of which namespace it is, and has the fencing token of the grant. It is
/// passed on as the text that it prints, from which it can be parsed. Any process with that text
/// can take the hold over, once: treat it as a secret.
///
/// The hold lasts for the lease that `detach` set. Neither the drop of this value nor the end of
/// its store releases it. `attach` gives it the lease and the renewal of the handle that attaches
/// it, and another ticket: a fence knows the earlier one, so that the new holder calls its
/// `hand_over` before its first write (as [`Fenced::hand_over`](crate::Fenced::hand_over)).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// # let store = stanchion::connect("memory:").await?;
/// use std::time::Duration;
///
/// use stanchion::{Detached, Ttl};
///
/// let mutex = store.mutex("upload", Default::default())?;
/// let guard = mutex.lock().await?;
/// let line = guard.detach(Ttl::new(Duration::from_secs(60))?).await?.to_string();
///
/// // Another process gets the line.
/// let detached: Detached = line.parse()?;
/// let guard = mutex.attach(&detached).await?;
/// assert_eq!(guard.fencing_token(), detached.fencing_token());
/// # guard.release().await
/// # }
/// ```
///
/// [C24]: crate::contract#c24
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Detached {
    kind: Kind,
    namespace: Box<str>,
    name: Name,
    ticket: Ticket,
    token: FencingToken,
}

impl Detached {
    /// For authors of stores: describes a hold that was detached under this ticket. A store without
    /// namespaces has the empty one.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &Name, ticket: Ticket, token: FencingToken) -> Self {
        Self { kind, namespace: Box::from(namespace), name: name.clone(), ticket, token }
    }

    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the namespace of the object; empty on a store without namespaces.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the ticket under which the hold can be attached, as `inspect` shows it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the fencing token of the grant, which an attach keeps.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// For tests of stores: another hold of the same object.
    #[must_use]
    pub fn with_ticket(&self, ticket: Ticket) -> Self {
        Self { ticket, ..self.clone() }
    }

    /// For authors of stores: checks that the hold is one of this object.
    ///
    /// # Errors
    /// `InvalidArgument` if it is of another object.
    pub fn check(&self, kind: Kind, namespace: &str, name: &Name) -> Result<()> {
        if (self.kind, &*self.namespace, &self.name) == (kind, namespace, name) {
            return Ok(());
        }
        let detail = format!("the detached hold is of another object: {self}");
        Err(Error::invalid_argument(detail))
    }
}

/// `kind:namespace:ticket:token:name`.
impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, ticket, token } = self;
        write!(f, "{}:{namespace}:{ticket}:{token}:{name}", kind.as_str())
    }
}

impl FromStr for Detached {
    type Err = Error;

    /// # Errors
    /// `InvalidArgument` for another text than that of a detached hold. The ticket may have the
    /// hyphens of a UUID.
    fn from_str(text: &str) -> Result<Self> {
        let other = || Error::invalid_argument("this is not the text of a detached hold");
        let mut parts = text.splitn(5, ':');
        let mut next = || parts.next().ok_or_else(other);
        let kind = next()?;
        let kind = Kind::ALL.iter().copied().find(|known| known.as_str() == kind).ok_or_else(other)?;
        let namespace = Box::from(next()?);
        let ticket = next()?.parse()?;
        let token = next()?.parse().map_err(|_| other())?;
        Ok(Self { kind, namespace, name: Name::new(next()?)?, ticket, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn c24_a_detached_hold_is_read_as_it_is_printed() {
        let token = FencingToken::new(42).unwrap();
        for name in ["upload", "a:b::c", " ", "🔒\n\"%", &"x".repeat(512)] {
            for (kind, namespace) in [(Kind::Mutex, ""), (Kind::WaitGroup, "a.b_C-1")] {
                let name = Name::new(name).unwrap();
                let detached = Detached::new(kind, namespace, &name, Ticket::detached(), token);
                assert_eq!(detached.to_string().parse::<Detached>().unwrap(), detached);
                assert!(detached.check(kind, namespace, &name).is_ok());
            }
        }
    }

    #[test]
    fn c24_the_ticket_may_have_the_hyphens_of_a_uuid() {
        let line = "mutex:stanchion:8f14e45f-ceea-467f-a0e6-1b2c3d4e5f60:7:upload";
        let plain: Detached = line.replace('-', "").parse().unwrap();
        assert_eq!(line.parse::<Detached>().unwrap(), plain);
        assert_eq!((plain.name(), plain.fencing_token().get()), ("upload", 7));
    }

    #[test]
    fn c24_other_texts_and_other_objects_are_refused() {
        let good = Detached::new(
            Kind::Mutex,
            "n",
            &Name::new("x").unwrap(),
            Ticket::detached(),
            FencingToken::new(1).unwrap(),
        );
        let line = good.to_string();
        for other in ["", "mutex", "mutex:n:1:2:x", &line.replace("mutex", "queue"), &line[..line.len() - 1]]
        {
            assert_eq!(other.parse::<Detached>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{other}");
        }
        let name = |name| Name::new(name).unwrap();
        for (kind, namespace, name) in
            [(Kind::Semaphore, "n", name("x")), (Kind::Mutex, "m", name("x")), (Kind::Mutex, "n", name("y"))]
        {
            let error = good.check(kind, namespace, &name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
