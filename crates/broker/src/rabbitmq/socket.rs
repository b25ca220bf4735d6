//! The socket under a connection, to be able to end it without its consent.
//!
//! lapin runs each connection in a thread of its own, which would wait for ever for a server that
//! accepts connections and then says nothing.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct State {
    socket: Option<TcpStream>,
    is_cut: bool,
}

/// A handle on a socket that may not be open yet.
#[derive(Clone, Default)]
pub(super) struct Socket(Arc<Mutex<State>>);

impl Socket {
    /// Takes note of the socket; ends it at once if nobody wants it any more.
    pub(super) fn opened(&self, socket: &impl AsFd) -> std::io::Result<()> {
        let socket = TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        let mut state = self.state();
        if state.is_cut {
            return socket.shutdown(Shutdown::Both);
        }
        state.socket = Some(socket);
        Ok(())
    }

    fn cut(&self) {
        let mut state = self.state();
        state.is_cut = true;
        if let Some(socket) = state.socket.take() {
            // The other side may have been faster.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the socket when it is dropped.
pub(super) struct CutOnDrop(pub(super) Socket);

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        self.0.cut();
    }
}
