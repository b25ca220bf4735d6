//! What all connections of one sink share.

use std::sync::{Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;

use crate::config::SinkConfig;
use crate::history::History;
use crate::ledger::Ledger;
use crate::mode::Mode;

pub(crate) struct Shared {
    pub(crate) config: SinkConfig,
    pub(crate) ledger: Ledger,
    pub(crate) history: History,
    /// Made from `config.tls`.
    pub(crate) acceptor: Option<TlsAcceptor>,
    mode: Mutex<Mode>,
}

impl Shared {
    pub(crate) fn new(config: SinkConfig) -> Self {
        Self {
            ledger: Ledger::default(),
            history: History::new(config.seed),
            acceptor: config.tls.clone().map(TlsAcceptor::from),
            mode: Mutex::default(),
            config,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }
}
