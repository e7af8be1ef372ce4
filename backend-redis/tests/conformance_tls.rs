//! The conformance suite on a server that speaks TLS, to a user with no other rights than the manual's, while somebody
//! flushes the server's scripts every 50 ms.

mod deployed;

use deployed::Deployed;
use stanchion_conformance::suite;

suite!(Deployed::tls());
