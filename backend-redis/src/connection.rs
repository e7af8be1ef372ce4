//! A connection to a server.

mod silence;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, PushInfo, RedisResult, Value};
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::runtime::RuntimeMark;

use self::silence::{Silence, UnderWay};

/// A connection to a server. Clones share it; when one caller stops waiting, the answers of the
/// others stay in order.
///
/// Its driver is a task of the runtime that connected: it can be relied on only as long as that
/// runtime runs.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) inner: MultiplexedConnection,
    pub(crate) state: ConnectionState,
}

/// What is known of a connection.
#[derive(Clone)]
pub(crate) struct ConnectionState {
    /// Owned by the driver, so that it shows whether the driver still runs.
    silence: Weak<Silence>,
    /// With the older protocol nothing shows the end of a driver: it counts as running until a
    /// request fails, or its runtime has ended.
    unobserved: Option<(Arc<Silence>, Arc<RuntimeMark>)>,
    /// Whether nobody shall use it any more.
    is_given_up: Arc<AtomicBool>,
    /// Whether it is known to lead nowhere, although the server answers.
    is_dead: Arc<AtomicBool>,
}

/// What a new connection has to pass before it is used.
#[async_trait]
pub(crate) trait ConnectionCheck: fmt::Debug + Send + Sync {
    /// Checks the server of a new connection.
    ///
    /// # Errors
    /// What keeps the server from being used.
    async fn check(&self, connection: &mut Connection) -> Result<()>;
}

impl Connection {
    /// Connects; the driver runs on the current runtime.
    ///
    /// # Errors
    /// Those of the client library.
    pub(crate) async fn open(
        client: &Client,
        config: AsyncConnectionConfig,
        is_resp2: bool,
    ) -> RedisResult<Self> {
        let mut config = config.set_connection_timeout(None).set_response_timeout(None);
        let owned = Arc::new(Silence::new());
        let silence = Arc::downgrade(&owned);
        let unobserved = if is_resp2 {
            Some((owned, Arc::new(RuntimeMark::leave())))
        } else {
            // The driver owns the receiver of pushed messages, and drops it when it ends for
            // whatever reason.
            config = config.set_push_sender(move |_: PushInfo| -> std::result::Result<(), ()> {
                let _ = &owned;
                Ok(())
            });
            None
        };
        let inner = client.get_multiplexed_async_connection_with_config(&config).await?;
        let (is_given_up, is_dead) = (Arc::default(), Arc::default());
        Ok(Self { inner, state: ConnectionState { silence, unobserved, is_given_up, is_dead } })
    }

    /// Sends commands together and reads their answers. The inner errors are answers of the server.
    ///
    /// # Errors
    /// If the connection broke.
    pub(crate) fn exchange(
        &mut self,
        commands: &[Cmd],
    ) -> impl Future<Output = RedisResult<Vec<RedisResult<Value>>>> {
        exchange(&mut self.inner, commands)
    }

    /// Sends one command and reads its answer.
    ///
    /// # Errors
    /// If the connection broke, or that of the server.
    pub(crate) async fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.exchange(std::slice::from_ref(command)).await?.pop().unwrap_or(Ok(Value::Nil))
    }

    /// Asks an idle connection whether it still leads to the server. Returns false if it broke or
    /// was given up.
    pub(crate) async fn is_alive(&mut self) -> bool {
        self.answers(&redis::cmd("PING")).await && !self.is_given_up()
    }

    /// Returns whether a command is answered.
    pub(crate) async fn answers(&mut self, command: &Cmd) -> bool {
        // A refusal is an answer, too.
        let is_answered = self.exchange(std::slice::from_ref(command)).await.is_ok();
        if is_answered {
            self.note_answer();
        }
        is_answered
    }
}

impl Deref for Connection {
    type Target = ConnectionState;

    fn deref(&self) -> &ConnectionState {
        &self.state
    }
}

impl ConnectionState {
    /// Whether the driver still runs.
    pub(crate) fn is_running(&self) -> bool {
        self.silence.strong_count() > 0 && self.unobserved.as_ref().is_none_or(|(_, mark)| mark.is_there())
    }

    /// Whether the other is that of a clone.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.silence.ptr_eq(&other.silence)
    }

    /// Whether it was idle for so long that it may be gone.
    pub(crate) fn is_idle(&self) -> bool {
        self.silence.upgrade().is_none_or(|silence| silence.is_idle())
    }

    /// Returns whether the server is to be asked now, over another connection, whether this one
    /// leads to it.
    pub(crate) fn is_question_due(&self) -> bool {
        !self.is_given_up() && self.silence.upgrade().is_some_and(|silence| silence.is_question_due())
    }

    /// Whether an answer came after that.
    pub(crate) fn is_heard_since(&self, at: Instant) -> bool {
        self.silence.upgrade().is_some_and(|silence| silence.is_heard_since(at))
    }

    /// Whether nobody shall use it any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Notes that it leads nowhere, although the server answers.
    pub(crate) fn note_dead(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Whether it is known to lead nowhere, although the server answers.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Notes that nobody shall use it any more.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Counts a request that begins now, until the result is dropped, or until its end. One that
    /// `is_slow` may take long although the connection lives.
    pub(crate) fn begin(&self, end: Instant, is_slow: bool) -> UnderWay {
        UnderWay::new(&self.silence, end, is_slow)
    }

    /// Notes that an answer came.
    pub(crate) fn note_answer(&self) {
        if let Some(silence) = self.silence.upgrade() {
            silence.end();
        }
    }

    /// Notes a request without an answer in time. Returns whether the connection counts as broken;
    /// `timeout` is that of a request without a short lease.
    pub(crate) fn is_silent_too_long(&self, sent: Instant, timeout: Duration) -> bool {
        self.silence.upgrade().is_none_or(|silence| silence.is_too_long(sent, timeout))
    }
}

/// Sends commands together and reads their answers. The inner errors are answers of the server.
pub(crate) async fn exchange(
    connection: &mut impl ConnectionLike,
    commands: &[Cmd],
) -> RedisResult<Vec<RedisResult<Value>>> {
    let answers = match commands {
        [command] => vec![connection.req_packed_command(command).await?],
        _ => {
            let mut pipeline = Pipeline::with_capacity(commands.len());
            for command in commands {
                pipeline.add_command(command.clone());
            }
            connection.req_packed_commands(&pipeline, 0, commands.len()).await?
        }
    };
    Ok(answers.into_iter().map(Value::extract_error).collect())
}
