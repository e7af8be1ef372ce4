//! Orders that are still to be sent to the supervisor.

use std::collections::VecDeque;
use std::future::pending;

use tokio::net::unix::OwnedWriteHalf;

use crate::supervisor::protocol::Order;

/// Orders on their way to the supervisor. Nothing waits for a supervisor that reads none: it may be
/// stopped.
#[derive(Debug)]
pub(crate) struct Orders {
    socket: OwnedWriteHalf,
    queue: VecDeque<Order>,
    /// The rest of a line of which the socket has taken a part.
    unsent: Vec<u8>,
}

impl Orders {
    pub(crate) fn new(socket: OwnedWriteHalf) -> Self {
        Self { socket, queue: VecDeque::new(), unsent: Vec::new() }
    }

    /// Adds an order. Of deadlines only the last one counts, and a signal that is not passed on yet
    /// is not passed on twice, as a process sees it.
    pub(crate) fn push(&mut self, order: Order) {
        enqueue(&mut self.queue, order);
        self.send();
    }

    /// Waits until the socket takes more, and sends that; for ever if there is no more.
    ///
    /// # Cancel safety
    /// A dropped call loses no order.
    pub(crate) async fn can_go_on(&mut self) {
        if self.unsent.is_empty() && self.queue.is_empty() {
            return pending().await;
        }
        // An error shows when it is written to.
        let _ = self.socket.writable().await;
        self.send();
    }

    fn send(&mut self) {
        loop {
            if self.unsent.is_empty() {
                let Some(order) = self.queue.pop_front() else { return };
                self.unsent = format!("{order}\n").into_bytes();
            }
            match self.socket.try_write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.unsent.clear();
                    self.queue.clear();
                }
            }
        }
    }
}

fn enqueue(queue: &mut VecDeque<Order>, order: Order) {
    if let Order::Deadline(_) = order {
        queue.retain(|queued| !matches!(queued, Order::Deadline(_)));
    }
    if !queue.contains(&order) {
        queue.push_back(order);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;
    use crate::supervisor::clock::Moment;

    #[test]
    fn what_waits_is_bounded() {
        let mut queue = VecDeque::new();
        for number in 0..1_000 {
            enqueue(&mut queue, Order::Deadline(Moment::from_nanos(number)));
            enqueue(&mut queue, Order::Signal(10));
        }
        assert_eq!(queue, [Order::Signal(10), Order::Deadline(Moment::from_nanos(999))]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    fn a_supervisor_that_reads_nothing_holds_nobody_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (own, other) = UnixStream::pair().unwrap();
            let mut orders = Orders::new(own.into_split().1);
            // More than the socket takes.
            for number in 0..10_000 {
                orders.push(Order::Deadline(Moment::from_nanos(number)));
            }
            orders.push(Order::Lost);
            let mut read = Vec::new();
            while !read.ends_with(b"deadline 9999\nlost\n") {
                tokio::select! {
                    () = orders.can_go_on() => {}
                    readable = other.readable() => {
                        readable.unwrap();
                        let mut bytes = [0; 4_096];
                        match other.try_read(&mut bytes) {
                            Ok(count) => read.extend_from_slice(&bytes[..count]),
                            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                        }
                    }
                }
            }
        });
    }
}
