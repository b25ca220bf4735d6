//! Ending, pausing and continuing the process.

use std::process::Command;

use super::{DEADLINE, Posthaste};

/// How long a process may take to stop that is not needed any more.
const GENTLE: std::time::Duration = std::time::Duration::from_secs(5);

impl Posthaste {
    /// Ends it as a power cut would: no warning, nothing flushed. Does nothing if it is gone.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only if it ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            self.log.note("killed");
        }
    }

    /// Asks it to stop (SIGTERM), waits for that and gives its exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait_for_exit().await
    }

    /// Waits until it ends by itself, for example at a failpoint. `None` is the code of a
    /// process that a signal ended.
    pub async fn wait_for_exit(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("a process that was started");
        let pid = child.id();
        let waiting = tokio::task::spawn_blocking(move || child.wait());
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(Ok(Ok(status))) => {
                self.log.note(&format!("ended, {status}"));
                status.code()
            }
            Ok(failed) => self.fail(&format!("cannot wait for its end: {failed:?}")),
            Err(_) => {
                send("KILL", pid);
                self.fail("it does not end")
            }
        }
    }

    /// Asks it to stop, if it runs, and gives it some time.
    pub(super) fn end_gently(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        let (pid, began) = (child.id(), std::time::Instant::now());
        // It may be paused.
        send("CONT", pid);
        send("TERM", pid);
        while matches!(child.try_wait(), Ok(None)) && began.elapsed() < GENTLE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Freezes it (SIGSTOP): it holds what it holds and does nothing, as a paused machine would.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("a process that runs");
        if !send(signal, child.id()) {
            self.fail(&format!("cannot send SIG{signal}"));
        }
    }
}

/// Sends a signal. The shell has `kill` built in; a program of that name may be missing.
pub(super) fn send(signal: &str, pid: u32) -> bool {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .status();
    status.is_ok_and(|status| status.success())
}
