//! How to reach RabbitMQ, and which queues to use there.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::uri::AMQPUri;
use posthaste_core::port::Route;
use posthaste_core::status::Priority;

/// The longest name that AMQP can carry.
const LONGEST_NAME_BYTES: usize = 255;

/// Which kind of queue is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueType {
    /// Replicated over the nodes of a cluster.
    Quorum,
    /// On one node.
    Classic,
}

/// What to do with a queue that was declared with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it alone and say so.
    Check,
    /// Use it as it is.
    Accept,
}

/// The names of the queues. High and low priority have queues beside `send`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueNames {
    /// Tickets of normal priority.
    pub send: String,
    /// Tickets of normal priority for emails that waited in the store; if none, `send`.
    pub retry: Option<String>,
    /// Notices of dead emails.
    pub dead: String,
    /// Failed messages of other services.
    pub messages: String,
    /// What needs people: messages that we gave up on, and whatever could not be read.
    pub review: String,
}

impl Default for QueueNames {
    fn default() -> Self {
        Self {
            send: "email.dispatcher.send".into(),
            retry: None,
            dead: "email.dispatcher.dead".into(),
            messages: "retry.scheduled".into(),
            review: "manual-review.pending".into(),
        }
    }
}

impl QueueNames {
    /// Tickets of high priority.
    #[must_use]
    pub fn high(&self) -> String {
        format!("{}.high", self.send)
    }

    /// Tickets of low priority.
    #[must_use]
    pub fn low(&self) -> String {
        format!("{}.low", self.send)
    }

    /// Where a ticket goes. Only those of normal priority have a way of their own for retries,
    /// so that the others keep their priority.
    pub(super) fn of_ticket(&self, route: Route, priority: Priority) -> String {
        match (priority, route, &self.retry) {
            (Priority::High, _, _) => self.high(),
            (Priority::Low, _, _) => self.low(),
            (Priority::Normal, Route::Retry, Some(retry)) => retry.clone(),
            (Priority::Normal, _, _) => self.send.clone(),
        }
    }

    /// Where tickets come from, and which priority they have there.
    pub(super) fn of_tickets(&self) -> Vec<(String, Priority)> {
        let mut queues = vec![
            (self.high(), Priority::High),
            (self.send.clone(), Priority::Normal),
            (self.low(), Priority::Low),
        ];
        queues.extend(self.retry.clone().map(|name| (name, Priority::Normal)));
        queues
    }

    /// Every queue of ours.
    pub(super) fn all(&self) -> Vec<String> {
        let tickets = self.of_tickets().into_iter().map(|(name, _)| name);
        let others = [&self.dead, &self.messages, &self.review];
        tickets.chain(others.into_iter().cloned()).collect()
    }
}

/// How to reach RabbitMQ, and how to use it.
#[derive(Clone)]
pub struct RabbitMqOptions {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…`.
    pub url: String,
    /// Which kind of queue is declared.
    pub queue_type: QueueType,
    /// The names of the queues.
    pub names: QueueNames,
    /// How many unacknowledged tickets this process holds of each queue.
    pub prefetch: u16,
    /// How many unacknowledged failures of other services' messages this process holds.
    pub messages_prefetch: u16,
    /// How long a publish may wait for its confirm.
    pub publish_deadline: Duration,
    /// How often both sides prove that they are there; a silent connection is given up after
    /// about twice as long. A `heartbeat` in the URL goes first.
    pub heartbeat_seconds: u16,
    /// How long notices of dead emails are kept. RabbitMQ knows no more than 49 days.
    pub dead_notice_ttl: Duration,
    /// How many notices of dead emails are kept.
    pub dead_notice_limit: u32,
    /// What to do with queues that were declared with other settings.
    pub existing_queues: Existing,
    /// Whether this process takes tickets. If not, it only publishes.
    pub consumes: bool,
    /// How long a ticket may wait here for someone to take it before it is given back. Must be
    /// far below RabbitMQ's consumer timeout of 30 minutes.
    pub give_back_after: Duration,
    /// What the connections are called on RabbitMQ's side.
    pub service_name: String,
}

impl RabbitMqOptions {
    /// The defaults for a server.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            queue_type: QueueType::Classic,
            names: QueueNames::default(),
            prefetch: 200,
            messages_prefetch: 1000,
            publish_deadline: Duration::from_secs(5),
            heartbeat_seconds: 10,
            dead_notice_ttl: Duration::from_hours(30 * 24),
            dead_notice_limit: 1_000_000,
            existing_queues: Existing::Check,
            consumes: true,
            give_back_after: Duration::from_mins(5),
            service_name: "posthaste".into(),
        }
    }

    /// Says what makes no sense, if something does not.
    ///
    /// # Errors
    ///
    /// The first thing that makes no sense.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.validate().map(drop)
    }

    /// The server's address, if everything makes sense.
    pub(super) fn validate(&self) -> Result<AMQPUri, OptionsError> {
        self.validate_names()?;
        let zeros = [
            ("prefetch", self.prefetch == 0),
            ("the prefetch of messages", self.messages_prefetch == 0),
            ("the publish deadline", self.publish_deadline.is_zero()),
            ("the heartbeat", self.heartbeat_seconds == 0),
            ("the life of dead notices", self.dead_notice_ttl.is_zero()),
            ("the number of dead notices", self.dead_notice_limit == 0),
            ("the wait for a taker", self.give_back_after.is_zero()),
        ];
        if let Some((name, _)) = zeros.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(OptionsError::Zero(name));
        }
        self.parse_url()
    }

    fn validate_names(&self) -> Result<(), OptionsError> {
        let mut seen = BTreeSet::new();
        for name in self.names.all() {
            if name.is_empty() || name.len() > LONGEST_NAME_BYTES || name.starts_with("amq.") {
                return Err(OptionsError::Name(name));
            }
            if !seen.insert(name.clone()) {
                return Err(OptionsError::SameName(name));
            }
        }
        Ok(())
    }

    /// The parser's own words are not passed on: they may hold the whole URL with its password.
    fn parse_url(&self) -> Result<AMQPUri, OptionsError> {
        let mut uri: AMQPUri = self.url.parse().map_err(|_| OptionsError::Url)?;
        // The parser would take an address in brackets for `localhost`.
        if self.url.contains('[') {
            return Err(OptionsError::Ipv6);
        }
        if uri.vhost.is_empty() {
            uri.vhost = "/".into();
        }
        uri.query.heartbeat.get_or_insert(self.heartbeat_seconds);
        Ok(uri)
    }
}

/// Options that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The URL cannot be read.
    #[error("the RabbitMQ URL must look like amqp://user:password@host:port/vhost")]
    Url,
    /// The URL has an IPv6 address.
    #[error("the RabbitMQ URL has an IPv6 address; use a host name instead")]
    Ipv6,
    /// A queue cannot have this name.
    #[error("`{0}` cannot be the name of a queue: 1 to 255 bytes, not beginning with `amq.`")]
    Name(String),
    /// Two queues have the same name.
    #[error("two queues are called `{0}`")]
    SameName(String),
    /// Something must not be zero.
    #[error("{0} must be more than zero")]
    Zero(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut RabbitMqOptions)) -> OptionsError {
        let mut options = RabbitMqOptions::new("amqp://guest:secret@localhost:5672");
        change(&mut options);
        options.validate().unwrap_err()
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for url in ["", "localhost", "http://a:secret@b", "amqp:secret"] {
            let error = refusal(|options| options.url = url.into());
            assert_eq!(error, OptionsError::Url, "{url}");
            assert!(!error.to_string().contains("secret"));
        }
        let error = refusal(|options| options.url = "amqp://[::1]:5672".into());
        assert_eq!(error, OptionsError::Ipv6);
    }

    #[test]
    fn no_two_queues_have_the_same_name() {
        let error = refusal(|options| options.names.dead = options.names.high());
        assert_eq!(
            error,
            OptionsError::SameName("email.dispatcher.send.high".into())
        );
        let error = refusal(|options| options.names.retry = Some(String::new()));
        assert_eq!(error, OptionsError::Name(String::new()));
    }

    #[test]
    fn a_prefetch_without_bound_is_refused() {
        let error = refusal(|options| options.prefetch = 0);
        assert_eq!(error, OptionsError::Zero("prefetch"));
    }

    #[test]
    fn a_url_may_say_nothing_but_the_host() {
        let uri = RabbitMqOptions::new("amqp://broker/").validate().unwrap();
        assert_eq!(uri.vhost, "/");
        assert_eq!(uri.query.heartbeat, Some(10));
    }

    #[test]
    fn only_retries_of_normal_priority_have_a_way_of_their_own() {
        let names = QueueNames {
            retry: Some("r".into()),
            send: "s".into(),
            ..QueueNames::default()
        };
        let expected = [
            (Route::First, Priority::Normal, "s"),
            (Route::Retry, Priority::Normal, "r"),
            (Route::Retry, Priority::High, "s.high"),
            (Route::Retry, Priority::Low, "s.low"),
        ];
        for (route, priority, name) in expected {
            assert_eq!(names.of_ticket(route, priority), name);
        }
    }
}
