//! Faults of the mail server and of the way to it.

use std::time::Duration;

use posthaste_sink::Mode;

use super::{Fault, Stage};
use crate::rig::proxy::Network;

/// How much later a slow server answers.
const LATER: Duration = Duration::from_millis(400);

impl Stage<'_> {
    pub(super) async fn trouble_mail(&self, fault: Fault, length: Duration) {
        let mode = match fault {
            Fault::MailRefuses => Mode::RefuseConnections,
            Fault::MailHangs => Mode::HangAll,
            Fault::MailPutsOff => Mode::TempfailAll,
            Fault::MailIsSlow => Mode::Delay(LATER),
            _ => Mode::Normal,
        };
        let network = match fault {
            Fault::MailIsCut => Network::Cut,
            Fault::MailLosesReplies => Network::LosesReplies,
            _ => Network::Works,
        };
        self.sink.set_mode(mode);
        self.mail_network.set(network);
        tokio::time::sleep(length).await;
        self.sink.set_mode(Mode::Normal);
        self.mail_network.set(Network::Works);
    }
}
