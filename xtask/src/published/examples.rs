//! Do the user's traits and guards show how they are used?

use rustdoc_types::{Crate, Id, Item, ItemEnum, ItemKind};

use super::Documented;

const FACADE: &str = "stanchion";
/// The types that are the user's side of a hold. A type of options is shown where it is used.
const GUARDS: [&str; 4] = ["Guard", "Detached", "Reservation", "Fenced"];
const HEADING: &str = "# Examples";

/// Returns the traits and guards at the facade's root that have no example: neither of their own
/// nor at one of their methods.
pub(super) fn missing(crates: &[Documented]) -> Vec<String> {
    let crates: Vec<_> =
        crates.iter().map(|documented| (documented.package.library(), &documented.docs)).collect();
    let Some((_, facade)) = crates.iter().find(|(name, _)| name == FACADE) else {
        return vec![format!("there is no crate {FACADE}")];
    };
    let found = at_root(facade).into_iter().filter_map(|id| defined(facade, id, &crates));
    let mut seen = 0;
    let mut problems = Vec::new();
    for (docs, item) in found {
        let methods = methods(docs, item);
        if methods.is_empty() {
            continue;
        }
        seen += 1;
        let has_example = |item: &&Item| item.docs.as_deref().unwrap_or_default().contains(HEADING);
        if !methods.iter().chain([&item]).any(has_example) {
            problems.push(format!("{} has no example", item.name.as_deref().unwrap_or_default()));
        }
    }
    if seen == 0 {
        problems.push(format!("{FACADE} has no traits or guards"));
    }
    problems
}

/// Returns what the root of a crate defines or re-exports.
fn at_root(docs: &Crate) -> Vec<Id> {
    let Some(ItemEnum::Module(root)) = docs.index.get(&docs.root).map(|item| &item.inner) else {
        return vec![];
    };
    let of_item = |id: &Id| match docs.index.get(id).map(|item| &item.inner) {
        Some(ItemEnum::Use(used)) => used.id,
        _ => Some(*id),
    };
    root.items.iter().filter_map(of_item).collect()
}

/// Returns an item with the crate that defines it.
fn defined<'a>(facade: &'a Crate, id: Id, crates: &[(String, &'a Crate)]) -> Option<(&'a Crate, &'a Item)> {
    if let Some(item) = facade.index.get(&id) {
        return Some((facade, item));
    }
    let summary = facade.paths.get(&id)?;
    let (_, docs) = crates.iter().find(|(name, _)| Some(name) == summary.path.first())?;
    let same = |kind: ItemKind, path: &[String]| kind == summary.kind && path == summary.path;
    let (id, _) =
        docs.paths.iter().find(|(_, found)| found.crate_id == 0 && same(found.kind, &found.path))?;
    Some((docs, docs.index.get(id)?))
}

/// Returns the methods of a trait, or those of a guard that are no trait's.
fn methods<'a>(docs: &'a Crate, item: &'a Item) -> Vec<&'a Item> {
    let ids: Vec<&Id> = match &item.inner {
        ItemEnum::Trait(own) => own.items.iter().collect(),
        ItemEnum::Struct(own) if GUARDS.contains(&item.name.as_deref().unwrap_or_default()) => {
            let own = own.impls.iter().filter_map(|id| match &docs.index.get(id)?.inner {
                ItemEnum::Impl(block) if block.trait_.is_none() => Some(&block.items),
                _ => None,
            });
            own.flatten().collect()
        }
        _ => vec![],
    };
    let items = ids.into_iter().filter_map(|id| docs.index.get(id));
    items.filter(|item| matches!(item.inner, ItemEnum::Function(_))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::documented;
    use super::{at_root, methods};

    #[test]
    fn traits_and_guards_are_looked_at() {
        let docs = documented(
            "shown",
            "mod hidden { pub trait Lock { fn lock(&self); } pub struct Guard; impl Guard { pub fn keep(&self) {} }
                 pub struct Options; impl Options { pub fn set(&self) {} } }
             pub use hidden::{Lock, Guard, Options};",
        );
        let items = at_root(&docs).into_iter().map(|id| &docs.index[&id]);
        let found = items.flat_map(|item| methods(&docs, item)).filter_map(|method| method.name.as_deref());
        assert_eq!(found.collect::<Vec<_>>(), ["lock", "keep"]);
    }
}
