//! Connections that are made again for ever.
//!
//! lapin's own recovery is not used: it leaves confirms hanging and does not restore everything.
//! Here a lost connection is an error at once, and a new one starts from nothing.

use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::types::LongString;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties, ConnectionStatus, Event};
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::timeout;

use super::health::{Health, Role};
use super::socket::{CutOnDrop, Socket};

/// How long RabbitMQ may take to answer what a new connection asks.
pub(super) const SETUP_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection is asked politely to close.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A connection that lived this long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// Growing pauses with jitter, so that many processes do not come back in step.
pub(super) struct Backoff {
    pause: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { pause: FIRST_PAUSE }
    }

    /// Starts over if what came before lasted long enough.
    pub(super) fn lasted(&mut self, duration: Duration) {
        if duration >= STEADY {
            self.pause = FIRST_PAUSE;
        }
    }

    /// Waits between a half and the whole of the next pause.
    pub(super) async fn wait(&mut self) {
        let pause = self.pause.mul_f64(rand::random_range(0.5..=1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(pause).await;
    }
}

/// Says when to stop: when it is told to, or when the broker is gone.
#[derive(Clone)]
pub(super) struct Stop(pub(super) watch::Receiver<bool>);

impl Stop {
    pub(super) async fn wanted(&mut self) {
        // An error means that nobody is left who could say so.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// A connection. It is cut when it is dropped.
pub(super) struct Link {
    pub(super) connection: Connection,
    _socket: CutOnDrop,
}

impl Link {
    async fn open(uri: AMQPUri, name: String) -> Result<Self, String> {
        let socket = Socket::default();
        let cut = CutOnDrop(socket.clone());
        let name = LongString::from(name);
        let properties = ConnectionProperties::default().with_connection_name(name);
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let connecting = Connection::connector(
            uri,
            runtime,
            async move |uri: AMQPUri, runtime| {
                let opening = async {
                    let address = (uri.authority.host.as_str(), uri.authority.port);
                    let addresses: Vec<_> = lookup_host(address).await?.collect();
                    let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        plain.get_ref().set_nodelay(true)?;
                        socket.opened(plain.get_ref())?;
                    }
                    let tls = OwnedTLSConfig::default();
                    match uri.scheme {
                        AMQPScheme::AMQP => Ok(stream),
                        AMQPScheme::AMQPS => stream.into_tls(address.0, tls.as_ref()).await,
                    }
                };
                // A thread waits here, which is not gone when the caller has lost patience.
                let opened = timeout(SETUP_DEADLINE, opening).await;
                let opened: io::Result<_> = opened.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
                opened.map_err(lapin::Error::from)
            },
            properties,
        );
        let connected = timeout(SETUP_DEADLINE, connecting).await;
        let connected = connected.map_err(|_| no_answer())?;
        Ok(Self {
            connection: connected.map_err(|error| error.to_string())?,
            _socket: cut,
        })
    }

    /// Says goodbye, if the other side still listens.
    pub(super) async fn close(&self) {
        let closing = self.connection.close(200, "OK".into());
        // If it does not listen, there is nothing to say.
        let _ = timeout(CLOSE_DEADLINE, closing).await;
    }

    /// What the connection says about itself.
    pub(super) fn events(&self) -> Events {
        Events {
            events: Box::pin(self.connection.events_listener()),
            status: self.connection.status().clone(),
        }
    }
}

/// What is said of a server that does not answer.
pub(super) fn no_answer() -> String {
    format!("no answer within {} s", SETUP_DEADLINE.as_secs())
}

/// Something that happened to a connection.
pub(super) enum News {
    /// RabbitMQ takes no messages.
    Blocked(String),
    /// It takes messages again.
    Unblocked,
    /// The connection is gone.
    Lost(String),
}

/// What a connection says about itself.
pub(super) struct Events {
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    status: ConnectionStatus,
}

impl Events {
    pub(super) async fn next(&mut self) -> News {
        loop {
            match self.events.next().await {
                Some(Event::ConnectionBlocked(reason)) => return News::Blocked(reason),
                Some(Event::ConnectionUnblocked) => return News::Unblocked,
                // Only a channel was closed.
                Some(Event::Error(_)) if self.status.connected() => {}
                Some(Event::Error(error)) => return News::Lost(error.to_string()),
                Some(_) => {}
                None => return News::Lost("the connection was closed".into()),
            }
        }
    }

    /// Waits until the connection is lost, and says why.
    pub(super) async fn lost(&mut self) -> String {
        loop {
            if let News::Lost(why) = self.next().await {
                return why;
            }
        }
    }
}

/// How a connection ended.
pub(super) enum Ended {
    /// Because we wanted it.
    Stopped,
    /// Otherwise.
    Lost(String),
}

/// What is done with a connection while it is there.
pub(super) trait Service: Send + Sync {
    /// Which connection this is.
    const ROLE: Role;

    /// Uses the connection until it is lost or no longer wanted. Says [`Health::up`] once all is
    /// in place.
    fn serve(&self, link: Link, stop: Stop) -> impl Future<Output = Ended> + Send;
}

/// Connects and serves, again and again, until it is told to stop.
pub(super) async fn keep_connected<S: Service>(
    service: &S,
    uri: &AMQPUri,
    name: &str,
    health: &Health,
    mut stop: Stop,
) {
    let mut backoff = Backoff::new();
    loop {
        let open = Link::open(uri.clone(), name.to_owned());
        let opened = tokio::select! {
            () = stop.wanted() => return,
            opened = open => opened,
        };
        let began = Instant::now();
        let lost = match opened {
            Ok(link) => service.serve(link, stop.clone()).await,
            Err(why) => Ended::Lost(why),
        };
        match lost {
            Ended::Stopped => return,
            Ended::Lost(why) => health.away(S::ROLE, why),
        }
        backoff.lasted(began.elapsed());
        tokio::select! {
            () = stop.wanted() => return,
            () = backoff.wait() => {}
        }
    }
}
