//! A name server on a socket of its own that answers from a small zone, and counts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, MX, NS, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long the answers of this zone hold, unless they say otherwise.
const TTL: u32 = 300;

pub(super) struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<HashMap<String, usize>>>,
    open: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl NameServer {
    pub(super) async fn start() -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
        let (open, held) = watch::channel(true);
        Self {
            address: socket.local_addr().unwrap(),
            asked: asked.clone(),
            open,
            serving: tokio::spawn(serve(socket, asked, held)),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often it was asked for this name and kind, such as `MX mail.test`.
    pub(super) fn asked(&self, question: &str) -> usize {
        self.asked
            .lock()
            .unwrap()
            .get(question)
            .copied()
            .unwrap_or(0)
    }

    /// How often it was asked for anything.
    pub(super) fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }

    /// Holds all answers back, until they are released.
    pub(super) fn hold(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn release(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    socket: Arc<UdpSocket>,
    asked: Arc<Mutex<HashMap<String, usize>>>,
    held: watch::Receiver<bool>,
) {
    let mut buffer = [0; 4096];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        let question = Message::from_vec(&buffer[..length]).unwrap();
        let query = question.queries[0].clone();
        let name = query.name().to_ascii();
        let name = name.trim_end_matches('.');
        let key = format!("{} {name}", query.query_type());
        *asked.lock().unwrap().entry(key).or_default() += 1;
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        answer.metadata.recursion_desired = true;
        answer.metadata.recursion_available = true;
        answer.add_query(query.clone());
        if !fill(&mut answer, name, query.name(), query.query_type()) {
            continue;
        }
        let (socket, mut held) = (socket.clone(), held.clone());
        tokio::spawn(async move {
            held.wait_for(|open| *open).await.unwrap();
            socket
                .send_to(&answer.to_vec().unwrap(), peer)
                .await
                .unwrap();
        });
    }
}

/// Fills in what the zone says; `false` to stay silent.
fn fill(answer: &mut Message, zone: &str, name: &Name, kind: RecordType) -> bool {
    use RecordType::{A as V4, AAAA as V6, MX as Mail};
    let mut code = |code| answer.metadata.response_code = code;
    let v4 = || RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
    let v6 = || RData::AAAA(AAAA(Ipv6Addr::LOCALHOST));
    let mx = |preference, host: &str| RData::MX(MX::new(preference, host_name(host)));
    let mut ttl = TTL;
    let mut negative_ttl = Some(TTL);
    let mut records = Vec::new();
    match (zone, kind) {
        ("mail.test", Mail) => records = vec![mx(10, "a.mail.test."), mx(20, "b.mail.test.")],
        ("null.test", Mail) => records = vec![mx(0, ".")],
        ("null10.test", Mail) => records = vec![mx(10, ".")],
        ("undecided.test", Mail) => records = vec![mx(0, "."), mx(10, "a.mail.test.")],
        ("alias.test", Mail) => {
            let target = host_name("mail.test.");
            let alias = RData::CNAME(CNAME(target.clone()));
            answer.add_answer(Record::from_rdata(name.clone(), TTL, alias));
            answer.add_answer(Record::from_rdata(target, TTL, mx(10, "a.mail.test.")));
            return true;
        }
        ("address.test", V4) | ("liar.test", V4) => records = vec![v4()],
        ("six.test", V6) => records = vec![v6()],
        ("half.test", V4) | ("broken.test", _) => code(ResponseCode::ServFail),
        ("refused.test", _) => code(ResponseCode::Refused),
        ("gone.test", _) | ("liar.test", Mail) => code(ResponseCode::NXDomain),
        ("brief.test", Mail) => (records, ttl) = (vec![mx(10, "a.mail.test.")], 1),
        ("fleeting.test", Mail) => (records, ttl) = (vec![mx(10, "a.mail.test.")], 0),
        ("brief-gone.test", _) => {
            code(ResponseCode::NXDomain);
            negative_ttl = Some(1);
        }
        ("unsigned-gone.test", _) => {
            code(ResponseCode::NXDomain);
            negative_ttl = None;
        }
        ("referral.test", _) => {
            let server = RData::NS(NS(host_name("ns.elsewhere.test.")));
            answer.add_authority(Record::from_rdata(name.clone(), TTL, server));
            return true;
        }
        ("silent.test", _) => return false,
        // Everything else exists, and has nothing of the kind.
        _ => {}
    }
    let failed = matches!(
        answer.metadata.response_code,
        ResponseCode::ServFail | ResponseCode::Refused
    );
    if let Some(minimum) = negative_ttl.filter(|_| records.is_empty() && !failed) {
        let soa = SOA::new(
            host_name("ns.test."),
            host_name("admin.test."),
            1,
            60,
            60,
            60,
            minimum,
        );
        let soa = Record::from_rdata(host_name("test."), minimum, RData::SOA(soa));
        answer.add_authority(soa);
    }
    let record = |data| Record::from_rdata(name.clone(), ttl, data);
    answer.add_answers(records.into_iter().map(record));
    true
}

fn host_name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}
