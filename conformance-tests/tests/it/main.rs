//! The cases under faults see below the engine: on a model of a store they pass, and each breach of what is asked of steps
//! fails the case that is named for it.

#![allow(unexpected_cfgs, reason = "the model is core's, whose feature decides whether it has Bloom filters")]

mod breach;
#[path = "../../../core/tests/it/model/mod.rs"]
mod model;
mod mutants;
