//! The program itself, as a process that is started, stopped and killed.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::mail_server::MailServer;
use crate::world::{database, eventually};

pub(crate) struct Program {
    child: Child,
    url: String,
}

impl Program {
    /// Starts it, and waits until it says where it listens.
    pub(crate) fn start(folder: &TempDir, mail_server: &MailServer) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste-booking"))
            .env("LISTEN", "127.0.0.1:0")
            .env("DATABASE", database(folder))
            .env("SMTP_URL", mail_server.url())
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut greeting).unwrap();
        let (_, address) = greeting.trim_end().split_once("http://").expect(&greeting);
        let url = format!("http://{}", address.trim_end_matches('/'));
        // The rest of the greeting is read and forgotten, so that it can be written.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Self { child, url }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// As a power cut would end it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
    }

    /// Asks it to stop, and waits for that.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        let kill = format!("kill -TERM {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        let child = RefCell::new(&mut self.child);
        eventually("it ends", async || {
            child.borrow_mut().try_wait().unwrap().is_some()
        })
        .await;
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // In vain if it ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
