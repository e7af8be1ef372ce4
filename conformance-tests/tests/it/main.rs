//! Tests of the cases under faults: they pass on a model of a store, and each breach of the steps'
//! rules fails the case that is named for it.

#![allow(unexpected_cfgs, reason = "the model is core's, whose feature decides whether it has Bloom filters")]

mod breach;
#[path = "../../../core/tests/it/model/mod.rs"]
mod model;
mod mutants;
