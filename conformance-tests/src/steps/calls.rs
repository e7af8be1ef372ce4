//! Typed calls of a store's steps, for cases.

use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::{
    Acquire, Acquired, Answers, Attach, Attached, Cancel, ChunkRead, Clear, Decide, FilterRecord, Force,
    ForceRelease, Inspect, KeepPlaces, Kept, Limited, List, ListPart, Look, Looked, Merge, Merged, Object,
    Ping, Poll, Polled, Probe, Probed, Read, Refund, Release, Renew, RequestId, Reset, Resize, SetQuota,
    Split, Steps, StepsExt, Survey, Surveyed, Total, Usage,
};
use stanchion_core::{Inspection, Result};

/// Methods that send a batch of one kind.
macro_rules! batches {
    ($($method:ident: $ask:ty => $answer:ty;)*) => {
        $(
            #[doc = concat!("Sends a batch of [`", stringify!($ask), "`].")]
            fn $method(&self, batch: &[$ask]) -> impl Future<Output = Answers<$answer>> + Send {
                self.ask_all(batch)
            }
        )*
    };
}

/// Methods that send one request.
macro_rules! singles {
    ($($method:ident($($argument:ident: $type:ty),*): $ask:ty => $answer:ty, $request:expr;)*) => {
        $(
            #[doc = concat!("Sends one [`", stringify!($ask), "`].")]
            ///
            /// # Errors
            /// The request's own.
            fn $method(&self $(, $argument: $type)*) -> impl Future<Output = Result<$answer>> + Send {
                let request: $ask = $request;
                self.ask(request)
            }
        )*
    };
}

/// Typed calls, one for each kind of request.
pub trait StepCalls: Steps {
    batches! {
        acquire: Acquire => Acquired;
        renew: Renew => Kept;
        release: Release => Kept;
        cancel: Cancel => ();
        look: Look => Looked;
        refund: Refund => u64;
    }

    singles! {
        attach(attach: &Attach): Attach => Option<Attached>, attach.clone();
        split(split: &Split): Split => bool, split.clone();
        inspect(object: &Object): Inspect => Inspection, Inspect { object: object.clone() };
        usage(object: &Object): Total => Usage, Total { object: object.clone() };
        resize(object: &Object, limit: u32): Resize => (), Resize { object: object.clone(), limit };
        force(object: &Object, force: Force): ForceRelease => u32, ForceRelease { object: object.clone(), force };
        set_quota(object: &Object, quota: ExactQuota): SetQuota => (), SetQuota { object: object.clone(), quota };
        reset(object: &Object): Reset => (), Reset { object: object.clone() };
        merge(merge: &Merge): Merge => Merged, merge.clone();
        clear(object: &Object): Clear => Option<FilterRecord>, Clear { object: object.clone() };
        survey(object: &Object, seen: Option<FilterRecord>): Survey => Surveyed, Survey { object: object.clone(), seen };
        read(object: &Object, seen: Option<FilterRecord>, chunk: u64): Read => ChunkRead,
            Read { object: object.clone(), seen, chunk };
        list(list: &List): List => ListPart, list.clone();
        ping(): Ping => (), Ping;
    }

    /// Polls for these objects.
    fn poll(&self, objects: &[Object]) -> impl Future<Output = Answers<Polled>> + Send {
        let batch: Vec<_> = objects.iter().map(|object| Poll { object: object.clone() }).collect();
        async move { self.ask_all(&batch).await }
    }

    /// Keeps the places of these objects.
    fn keep_places(&self, objects: &[Object]) -> impl Future<Output = Answers<Option<Polled>>> + Send {
        let batch: Vec<_> = objects.iter().map(|object| KeepPlaces { object: object.clone() }).collect();
        async move { self.ask_all(&batch).await }
    }

    /// Sends calls of limiters as the batch with that id.
    fn decide(&self, id: RequestId, calls: &[Decide]) -> impl Future<Output = Answers<Limited>> + Send {
        let batch: Vec<_> = calls.iter().map(|call| Decide { id, ..call.clone() }).collect();
        async move { self.ask_all(&batch).await }
    }

    /// Sends calls of Bloom filters as the batch with that id.
    fn probe(&self, id: RequestId, calls: &[Probe]) -> impl Future<Output = Answers<Probed>> + Send {
        let batch: Vec<_> = calls.iter().map(|call| Probe { id, ..call.clone() }).collect();
        async move { self.ask_all(&batch).await }
    }
}

impl<S: Steps + ?Sized> StepCalls for S {}
