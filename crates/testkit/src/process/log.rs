//! What the process writes: kept for failure messages, and read for its address.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Lines of both streams in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Log {
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.join("\n")
    }

    pub(super) fn has(&self, text: &str) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().any(|line| line.contains(text))
    }

    /// A line of our own.
    pub(super) fn note(&self, what: &str) {
        self.push(format!("--- {what} ---"));
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
    }

    /// Reads both streams to their ends. The answer is the port it listens on; it fails if the
    /// process ends before it says so.
    pub(super) fn follow(&self, child: &mut Child) -> oneshot::Receiver<u16> {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let (log, sender) = (self.clone(), Arc::clone(&sender));
            std::thread::spawn(move || log.read(stream, &sender));
        }
        receiver
    }

    fn read(&self, stream: impl Read, sender: &Mutex<Option<oneshot::Sender<u16>>>) {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(stream.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            let port = port_in(&text);
            // First the line, so that whoever waits for the port also finds it in the log.
            self.push(text);
            if let Some(port) = port {
                let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(sender) = sender.take() {
                    // Nobody may be waiting any more.
                    let _ = sender.send(port);
                }
            }
        }
    }
}

/// The port in the first `http://127.0.0.1:<port>` of a line.
fn port_in(line: &str) -> Option<u16> {
    line.split("http://127.0.0.1:").skip(1).find_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok().filter(|port| *port != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::port_in;

    #[test]
    fn the_port_is_found_in_whatever_the_server_says() {
        for (line, port) in [
            ("listening on http://127.0.0.1:8086", Some(8086)),
            ("{\"url\":\"http://127.0.0.1:40123/admin\"}", Some(40123)),
            ("\u{1b}[1mhttp://127.0.0.1:1\u{1b}[0m", Some(1)),
            ("curl http://127.0.0.1:0 or http://127.0.0.1:99", Some(99)),
            ("http://127.0.0.1:99999", None),
            ("http://127.0.0.1:", None),
            ("smtp://127.0.0.1:2525", None),
            ("", None),
        ] {
            assert_eq!(port_in(line), port, "{line}");
        }
    }
}
