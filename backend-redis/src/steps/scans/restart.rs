//! A server that restarts between two parts of a scan.

use super::*;

const HOLDS: u32 = 5_000;

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
async fn c23_a_server_that_restarts_while_holds_are_forced_keeps_none() {
    let rig = Rig::on(RedisOptions::default().append_only(true)).await;
    let semaphore = object(Kind::Semaphore, "s");
    let held = ask(&semaphore, 1, 2 * HOLDS);
    rig.send(held.into()).await.unwrap();
    let first = ask(&semaphore, 2 * HOLDS, 2 * HOLDS);
    rig.send(first.clone().into()).await.unwrap();
    rig.send(Cancel { object: semaphore.clone(), ticket: first.ticket, tombstone: None }.into())
        .await
        .unwrap();
    rig.run(include_str!("holds.lua"), &semaphore, &[&HOLDS.to_string(), "h", DAY_US]).await;
    let end = || stanchion_core::clock::now() + PATIENT;
    let part = (&semaphore, Force::All, "0".to_owned(), String::new());
    let (mut freed, rest) = rig.steps.force_part(&part, end()).await.unwrap();
    let (mut next, mut before) = rest.expect("there are more");
    rig.server.restart().unwrap();
    loop {
        let part = (&semaphore, Force::All, next, before);
        let Ok((count, rest)) = rig.steps.force_part(&part, end()).await else {
            (next, before) = (part.2, part.3);
            continue;
        };
        freed += count;
        let Some(rest) = rest else { break };
        (next, before) = rest;
    }
    assert_eq!(freed, HOLDS + 1);
}
