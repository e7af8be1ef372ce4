//! Listings of very many names.

use stanchion_core::spi::List;

use super::*;

/// Names that are held, with a value each, and names whose records hold very much.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
async fn c27_no_part_of_a_listing_looks_at_all_names() {
    let rig = Rig::new().await;
    let held = ask(&object(Kind::Mutex, "m"), 1, 1);
    rig.send(held.clone().into()).await.unwrap();
    let value: String = rig.ask("GET", &[&rig.keyspace.object(&held.object)[0]]).await;
    for part in (0..MANY).collect::<Vec<_>>().chunks(1_000) {
        let keys: Vec<_> =
            part.iter().map(|at| rig.keyspace.object(&object(Kind::Mutex, &format!("m{at}")))).collect();
        let words: Vec<_> = keys.iter().flat_map(|keys| [keys[0].as_str(), &value]).collect();
        let _: String = rig.ask("MSET", &words).await;
    }
    for scene in [Scene::Waiting, Scene::Silent, Scene::Held, Scene::Expired] {
        build(&rig, scene, &object(Kind::Semaphore, &format!("{scene:?}"))).await;
    }
    let (mut after, mut parts, mut names, mut over) = (None, 0_u32, 0, Vec::new());
    loop {
        let list = List { kind: None, prefix: String::new(), after, count: 1_000 };
        let what = format!("listing, part {parts}");
        if !rig.judge(&what, list.clone().into()).await {
            over.push(what);
        }
        let end = stanchion_core::clock::now() + PATIENT;
        let part = rig.steps.list(&list, end).await.unwrap();
        (after, parts, names) = (part.next, parts + 1, names + part.entries.len());
        if after.is_none() {
            break;
        }
    }
    assert!(over.is_empty(), "more than {MOST}: {over:#?}");
    assert!(names > MANY as usize, "{names} names in {parts} parts");
}
