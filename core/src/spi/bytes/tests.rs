use super::super::RequestKind;
use super::*;

fn object(kind: Kind) -> Object {
    Object { kind, name: Name::new("ein Name: {}%").unwrap() }
}

/// A request of each kind, with what may be absent, and without.
fn requests() -> Vec<Request> {
    let (mutex, group, limiter, filter) =
        (object(Kind::Mutex), object(Kind::WaitGroup), object(Kind::Limiter), object(Kind::BloomFilter));
    let (ticket, other) = (Ticket::random(), Ticket::detached());
    let lease = Ttl::new(Duration::from_millis(1_234)).unwrap();
    let quota = Quota::per(7, Duration::from_secs(3)).burst(9).validate().unwrap();
    let terms = FilterTerms { shape: Shape::new(1_000, 0.01).unwrap(), ttl: Some(Duration::from_secs(60)) };
    let seen = Some(FilterRecord { generation: ticket, ends: Some(17) });
    let of = Opening { object: filter.clone(), terms, seen, fresh: other };
    let id = RequestId { sequence: ticket, number: 4 };
    let acquire = Acquire {
        object: mutex.clone(),
        ticket,
        weight: 3,
        lease,
        limit: 5,
        check: ParameterCheck::First(OnMismatch::Replace),
        queue: true,
        max_waiters: Some(8),
        label: Some(Arc::from("host 1")),
        purpose: Purpose::Transaction,
    };
    let bare = Acquire { check: ParameterCheck::Follow, max_waiters: None, label: None, ..acquire.clone() };
    let release = Release {
        object: mutex.clone(),
        ticket,
        ending: Ending::Finished,
        tombstone: Some(lease),
        call: Some(other),
    };
    let take = Decide {
        id,
        object: limiter.clone(),
        quota,
        check: ParameterCheck::Follow,
        ask: LimitAsk::Take { cost: 2 },
    };
    let reserve = Decide { ask: LimitAsk::Reserve { ticket, cost: 2, max_wait: u64::MAX }, ..take.clone() };
    let probe = Probe { id, of: of.clone(), items: ProbeItems::Insert(vec![1, 1 << 37]) };
    let label = Some(Arc::from(""));
    vec![
        acquire.into(),
        bare.into(),
        Renew { object: mutex.clone(), ticket, lease }.into(),
        release.into(),
        Cancel { object: mutex.clone(), ticket, tombstone: Some(lease) }.into(),
        Poll { object: mutex.clone() }.into(),
        KeepPlaces { object: mutex.clone() }.into(),
        Attach { object: mutex.clone(), from: ticket, to: other, lease, label }.into(),
        Inspect { object: mutex.clone() }.into(),
        Total { object: mutex.clone() }.into(),
        Resize { object: mutex.clone(), limit: 4 }.into(),
        ForceRelease { object: mutex, force: Force::One(ticket) }.into(),
        Look { object: group.clone(), watch: Some(0), hint: ticket }.into(),
        Split { object: group, from: ticket, into: vec![ticket, other], lease }.into(),
        take.into(),
        reserve.into(),
        Refund { object: limiter.clone(), ticket }.into(),
        SetQuota { object: limiter.clone(), quota }.into(),
        Reset { object: limiter }.into(),
        probe.into(),
        Merge { of, chunk: 3, bytes: vec![0, 255] }.into(),
        Clear { object: filter.clone() }.into(),
        Survey { object: filter.clone(), seen: None }.into(),
        Read { object: filter, seen, chunk: 9 }.into(),
        List { kind: Some(Kind::Limiter), prefix: "é".to_owned(), count: 7, after: Some("x".to_owned()) }
            .into(),
        Ping.into(),
    ]
}

/// A response of each kind.
fn responses() -> Vec<Response> {
    let quota = Quota::per_second(5).validate().unwrap();
    let record = FilterRecord { generation: Ticket::random(), ends: None };
    let token = FencingToken::new(77).unwrap();
    let verdict = Verdict { allowed: false, limit: 5, remaining: 1, retry_after: Some(3), reset_after: 4 };
    let terms = FilterTerms { shape: Shape::new(10, 0.1).unwrap(), ttl: None };
    let holder = Holder::new(Ticket::random(), token, 2, Duration::from_micros(5));
    let entries = vec![Listed::new(Kind::Mutex, Name::new("a").unwrap())];
    vec![
        Response::Acquire(Acquired::Granted { token, limit: 1, epoch: 2 }),
        Response::Renew(Kept::Yes),
        Response::Release(Kept::No),
        Response::Cancel(()),
        Response::Poll(Polled { ready: vec![Ticket::random()], ..Polled::default() }),
        Response::KeepPlaces(None),
        Response::Attach(Some(Attached { token, weight: 1, epoch: 0 })),
        Response::Inspect(Inspection::new(vec![holder], 3, None)),
        Response::Total(Usage::new(3, Some(4))),
        Response::Resize(()),
        Response::ForceRelease(2),
        Response::Look(Looked { ended: Some(Outcome::default()), ..Looked::default() }),
        Response::Split(true),
        Response::Decide(Limited::Taken { verdict, quota, settled: true }),
        Response::Refund(8),
        Response::SetQuota(()),
        Response::Reset(()),
        Response::Probe(Probed::Told { answers: vec![true, false], record }),
        Response::Merge(Merged::Done(record)),
        Response::Clear(Some(record)),
        Response::Survey(Surveyed::Live(FilterState { terms, record, bits_set: 3 })),
        Response::Read(ChunkRead::Bytes(vec![1])),
        Response::List(ListPart { entries, next: None }),
        Response::Ping(()),
    ]
}

#[test]
fn what_was_written_is_read_back() {
    let (requests, responses) = (requests(), responses());
    for kind in RequestKind::ALL {
        assert!(requests.iter().any(|request| request.kind() == *kind), "{kind:?}");
        assert!(responses.iter().any(|response| response.kind() == *kind), "{kind:?}");
    }
    for request in requests {
        assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
    }
    for response in responses {
        assert_eq!(Response::from_bytes(&response.to_bytes()), Some(response));
    }
}

#[test]
fn a_part_is_no_request_and_foreign_bytes_do_no_harm() {
    for request in requests() {
        let bytes = request.to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(Request::from_bytes(&bytes[..end]), None, "{end} bytes of {request:?}");
        }
        assert_eq!(Request::from_bytes(&[&bytes[..], &[0]].concat()), None, "one byte more");
        for place in 0..bytes.len() {
            let mut foreign = bytes.clone();
            foreign[place] ^= 0xa5;
            // Whatever it is, it is read as a request or refused.
            let _ = Request::from_bytes(&foreign);
        }
    }
}
