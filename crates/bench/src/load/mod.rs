//! The load: HTTP requests over connections that stay open, as cheap as can be, because it shares
//! the processors with what it measures.
//!
//! Requests are formatted once. All connections live on one thread of their own, and of an answer
//! only the status and the length are looked at. The same load drives us and everyone beside us.

mod connection;
mod request;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::LocalSet;

pub(crate) use self::request::Request;

use self::connection::Connection;
use crate::figures::Histogram;

/// When the load ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After so long; requests under way are still waited for.
    Time(Duration),
    /// After so many requests.
    Count(u64),
}

/// How often a request is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// As soon as the one before it is answered.
    Closed,
    /// So many in a second, whether others are answered or not. How long one took is counted from
    /// when it should have been sent, so that waiting for a free connection counts too.
    PerSecond(f64),
}

/// A load.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Where to.
    pub(crate) address: SocketAddr,
    /// The same one each time.
    pub(crate) request: Request,
    /// How many connections.
    pub(crate) clients: usize,
    /// When it ends.
    pub(crate) until: Until,
    /// How often.
    pub(crate) pace: Pace,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    /// How many requests were answered 202.
    pub(crate) accepted: u64,
    /// When the first was sent.
    pub(crate) began: Instant,
    /// Until the last was answered.
    pub(crate) time: Duration,
    /// How long each took.
    pub(crate) histogram: Histogram,
}

impl Loaded {
    /// Accepted in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.accepted as f64 / self.time.as_secs_f64()
    }
}

impl Load {
    /// Runs it on a thread of its own. Fails at the first answer that is not 202.
    pub(crate) async fn run(self) -> anyhow::Result<Loaded> {
        self.run_counting(&Arc::default()).await
    }

    /// The same, and others can see how many were accepted so far.
    pub(crate) async fn run_counting(self, accepted: &Arc<AtomicU64>) -> anyhow::Result<Loaded> {
        let accepted = Arc::clone(accepted);
        let running = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            LocalSet::new().block_on(&runtime, self.run_here(&accepted))
        });
        running.await?
    }

    async fn run_here(&self, accepted: &AtomicU64) -> anyhow::Result<Loaded> {
        let mut connections = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            connections.push(Connection::open(self.address).await?);
        }
        let began = Instant::now();
        let course = Rc::new(Course {
            began,
            until: self.until,
            pace: self.pace,
            sent: Cell::new(0),
            histogram: RefCell::default(),
        });
        let request = Rc::new(self.request.clone());
        let mut working = tokio::task::JoinSet::new();
        for mut connection in connections {
            let (course, request) = (Rc::clone(&course), Rc::clone(&request));
            working.spawn_local(async move {
                while let Some(due) = course.next().await {
                    connection.ask(request.bytes()).await?;
                    let time = due.elapsed();
                    course.histogram.borrow_mut().record(time);
                }
                anyhow::Ok(())
            });
        }
        let show = async {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                accepted.store(course.histogram.borrow().total(), Ordering::Relaxed);
            }
        };
        let finish = async {
            while let Some(worked) = working.join_next().await {
                worked??;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            finished = finish => finished?,
            () = show => {}
        }
        let time = began.elapsed();
        let histogram = course.histogram.take();
        accepted.store(histogram.total(), Ordering::Relaxed);
        Ok(Loaded {
            accepted: histogram.total(),
            began,
            time,
            histogram,
        })
    }
}

/// What all connections share.
struct Course {
    began: Instant,
    until: Until,
    pace: Pace,
    sent: Cell<u64>,
    histogram: RefCell<Histogram>,
}

impl Course {
    /// When the next request is due, waited for; `None` if there is none.
    async fn next(&self) -> Option<Instant> {
        let number = self.sent.get();
        if matches!(self.until, Until::Count(count) if number >= count) {
            return None;
        }
        let due = match self.pace {
            Pace::Closed => Instant::now(),
            Pace::PerSecond(rate) => self.began + Duration::from_secs_f64(number as f64 / rate),
        };
        if matches!(self.until, Until::Time(time) if due >= self.began + time) {
            return None;
        }
        self.sent.set(number + 1);
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        Some(due)
    }
}

/// `host:port` as an address.
pub(crate) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    text.parse()
        .with_context(|| format!("{text} is no address of this machine"))
}
