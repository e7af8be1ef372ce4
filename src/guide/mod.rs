//! How to use the library, by task.

// A picture is part of the text of its page, since docs.rs serves no other files. The `<div>` makes
// it one block of HTML, which would end at a blank line.

/// Locks: waiting, guards, and an operator's way to end a hold.
pub mod locks {
    #![doc = include_str!("locks.md")]
    #![doc = concat!("<div>", include_str!("locks.svg"), "</div>")]
}

/// Choosing a TTL: the effects of a lease's length.
pub mod choosing_a_ttl {
    #![doc = include_str!("choosing_a_ttl.md")]
    #![doc = concat!("<div>", include_str!("choosing_a_ttl.svg"), "</div>")]
}

/// Fencing: refusing the late write of a paused holder.
pub mod fencing {
    #![doc = include_str!("fencing.md")]
    #![doc = concat!("<div>", include_str!("fencing.svg"), "</div>")]
}

/// Semaphores: several holders at a time.
pub mod semaphores {
    #![doc = include_str!("semaphores.md")]
}

/// Wait groups: waiting until all work is done.
pub mod wait_groups {
    #![doc = include_str!("wait_groups.md")]
}

/// Limiters: keeping a rate.
pub mod limiters {
    #![doc = include_str!("limiters.md")]
    #![doc = concat!("<div>", include_str!("limiters.svg"), "</div>")]
}

/// Leader election by a mutex.
pub mod leader_election {
    #![doc = include_str!("leader_election.md")]
}

/// Jobs: each minute on one instance.
pub mod jobs {
    #![doc = include_str!("jobs.md")]
}

/// Threads without a runtime.
#[cfg(feature = "blocking")]
pub mod threads {
    #![doc = include_str!("threads.md")]
}

/// Testing code that uses a store.
pub mod testing {
    #![doc = include_str!("testing.md")]
}

/// Outages and faults: the tested faults, and how long recovery takes.
pub mod outages {
    #![doc = include_str!("outages.md")]
}

/// Logs and traces: the events and spans of `tracing`.
pub mod tracing {
    #![doc = include_str!("tracing.md")]
}

/// Operating Redis.
pub mod operating_redis {
    #![doc = include_str!("operating_redis.md")]
}

/// Operating Postgres.
pub mod operating_postgres {
    #![doc = include_str!("operating_postgres.md")]
}

/// Writing a store of your own.
pub mod writing_a_store {
    #![doc = include_str!("writing_a_store.md")]
}
