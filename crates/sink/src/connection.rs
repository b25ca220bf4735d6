//! One connection from its greeting to its end: reads lines, asks the session, does
//! what it says.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use crate::body::Body;
use crate::mode::Mode;
use crate::reply::Reply;
use crate::session::{Session, Step};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::transaction::Ending;
use crate::wire::{Line, Wire};

const LONG_ANSWER_BYTES: usize = 10_000_000;

/// How long a client may take to notice that the connection is over.
const LINGER: Duration = Duration::from_secs(2);

/// What follows a step.
enum Next {
    Command,
    Encrypt(TlsAcceptor),
    End(End),
}

/// How a connection ends.
enum End {
    /// At once, without a word.
    Drop,
    /// With a reply that still has to arrive.
    Polite,
    /// In silence, until the client leaves.
    Hang,
}

/// Serves one client until the connection ends.
pub(crate) async fn serve(tcp: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let _open = shared.ledger.connection_opened();
    if let Err(error) = converse(tcp, peer, Arc::clone(&shared)).await {
        debug!(%peer, %error, "connection lost");
    }
}

async fn converse(tcp: TcpStream, peer: SocketAddr, shared: Arc<Shared>) -> io::Result<()> {
    if shared.mode() == Mode::RefuseConnections {
        return Ok(());
    }
    tcp.set_nodelay(true)?;
    let mut wire = Wire::new(Stream::Plain(tcp));
    let implicit_tls = shared.config.implicit_tls;
    if let Some(acceptor) = shared.acceptor.as_ref().filter(|_| implicit_tls) {
        wire = wire.start_tls(acceptor).await?;
    }
    let mut connection = Connection {
        session: Session::new(Arc::clone(&shared), peer, implicit_tls),
        line: Vec::new(),
        body: Body::new(shared.config.keep_messages, shared.config.max_size),
        shared,
    };
    let mut next = connection.greet(&mut wire);
    loop {
        next = match next {
            Next::Command => connection.command(&mut wire).await?,
            Next::Encrypt(acceptor) => {
                wire = wire.start_tls(&acceptor).await?;
                connection.session.encrypted();
                Next::Command
            }
            Next::End(end) => return finish(&mut wire, end).await,
        }
    }
}

/// Ends a connection. Replies that are due before the end are written in any case.
async fn finish(wire: &mut Wire, end: End) -> io::Result<()> {
    match end {
        End::Drop => wire.flush().await,
        End::Hang => discard_rest(wire).await,
        End::Polite => {
            wire.finish_writing().await?;
            // Closing with unread input would reset the connection, and the reset
            // could overtake the reply.
            timeout(LINGER, discard_rest(wire)).await.unwrap_or(Ok(()))
        }
    }
}

/// Reads until the client leaves.
async fn discard_rest(wire: &mut Wire) -> io::Result<()> {
    wire.discard_input();
    while wire.fill().await? {
        wire.discard_input();
    }
    Ok(())
}

struct Connection {
    shared: Arc<Shared>,
    session: Session,
    /// The command at hand; here to be allocated once.
    line: Vec<u8>,
    /// The message at hand; here to be allocated once.
    body: Body,
}

impl Connection {
    fn greet(&self, wire: &mut Wire) -> Next {
        if self.shared.mode() == Mode::HangAll {
            return Next::End(End::Hang);
        }
        self.answer(wire, &self.session.greeting());
        Next::Command
    }

    /// Puts a reply into the output; [`Wire::fill`] writes it.
    fn answer(&self, wire: &mut Wire, reply: &Reply) {
        self.shared.ledger.count_reply(reply.code);
        let enhanced = self.shared.config.capabilities.enhanced_status_codes;
        reply.write_to(&mut wire.output, enhanced);
    }

    /// Reads one command and does what it asks for.
    async fn command(&mut self, wire: &mut Wire) -> io::Result<Next> {
        let found = wire.read_line(&mut self.line).await?;
        match self.shared.mode() {
            Mode::HangAll => return Ok(Next::End(End::Hang)),
            Mode::RefuseConnections => return Ok(Next::End(End::Drop)),
            Mode::Normal | Mode::TempfailAll | Mode::RejectAll | Mode::Delay(_) => {}
        }
        let step = match found {
            Line::Closed => return Ok(Next::End(End::Drop)),
            Line::TooLong => Step::Answer(Reply::new(500, "5.5.2", "Line too long")),
            Line::BareLineFeed => Step::Answer(Reply::new(500, "5.5.2", "Lines end with CRLF")),
            Line::Complete if wire.has_input() && !self.shared.config.capabilities.pipelining => {
                Step::Answer(Reply::new(503, "5.5.0", "Pipelining is not offered"))
            }
            Line::Complete => self.session.line(&self.line),
        };
        self.perform(wire, step).await
    }

    async fn perform(&mut self, wire: &mut Wire, step: Step) -> io::Result<Next> {
        match step {
            Step::Answer(reply) => self.answer(wire, &reply),
            Step::ReceiveBody => return self.receive(wire).await,
            Step::AnswerAndClose(reply) => {
                self.answer(wire, &reply);
                return Ok(Next::End(End::Polite));
            }
            Step::Drop => return Ok(Next::End(End::Drop)),
            Step::Hang => return Ok(Next::End(End::Hang)),
            Step::StartTls(acceptor) => {
                self.answer(wire, &Reply::new(220, "2.0.0", "Go ahead"));
                return Ok(Next::Encrypt(acceptor));
            }
            Step::Garbage => wire
                .output
                .extend_from_slice(b"\x00\xfe%% 25O oq? \x07\r\n"),
            Step::LongAnswer => {
                self.shared.ledger.count_reply(250);
                wire.output.extend_from_slice(b"250 ");
                wire.output
                    .resize(wire.output.len() + LONG_ANSWER_BYTES, b'x');
                wire.output.extend_from_slice(b"\r\n");
                wire.flush().await?;
                // Ten megabytes are not to stay with the connection.
                wire.output = Vec::new();
            }
            Step::Trickle(reply, interval) => {
                wire.flush().await?;
                self.answer(wire, &reply);
                for byte in std::mem::take(&mut wire.output) {
                    sleep(interval).await;
                    wire.output.push(byte);
                    wire.flush().await?;
                }
            }
        }
        Ok(Next::Command)
    }

    /// Receives a message and answers its final dot.
    async fn receive(&mut self, wire: &mut Wire) -> io::Result<Next> {
        self.answer(
            wire,
            &Reply::new(354, "", "End data with <CR><LF>.<CR><LF>"),
        );
        if self.session.drops_in_data() {
            if !wire.has_input() {
                wire.fill().await?;
            }
            return Ok(Next::End(End::Drop));
        }
        self.body.reset();
        if !wire.read_body(&mut self.body).await? {
            return Ok(Next::End(End::Drop));
        }
        let verdict = self.session.end_of_data(&mut self.body);
        if !verdict.wait.is_zero() {
            wire.flush().await?;
            sleep(verdict.wait).await;
        }
        Ok(match verdict.ending {
            Ending::Accept => {
                self.answer(wire, &Reply::new(250, "2.0.0", "Message accepted"));
                Next::Command
            }
            Ending::Refuse(reply) => {
                self.answer(wire, &reply);
                Next::Command
            }
            Ending::Drop => Next::End(End::Drop),
            Ending::Hang => Next::End(End::Hang),
        })
    }
}
