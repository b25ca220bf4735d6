//! A provider that says later what became of emails, and the emails that it took.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::Request;
use posthaste_core::address::Address;
use posthaste_core::decision::{Conclusion, Decision, Parking};
use posthaste_core::feedback::ProviderEvent;
use posthaste_core::port::{
    Callback, CallbackError, EmailStore as _, FeedbackReader, Finish, WayStore as _,
};
use posthaste_core::status::Outcome;
use posthaste_core::way::{BreakerRules, FaultNote, WayEvent, WayName};
use serde_json::json;

use crate::fixture::{Answer, Server, local};

/// Believes what is signed with `right`. Each line of the body is what happened, to which message
/// and, if it is given, to which recipient or email of ours.
pub(crate) struct ScriptedReader;

#[async_trait]
impl FeedbackReader for ScriptedReader {
    async fn read(&self, callback: &Callback) -> Result<Vec<ProviderEvent>, CallbackError> {
        if callback.header("x-signature") != Some("right") {
            return Err(CallbackError::NotBelieved("the signature is wrong".into()));
        }
        let text = std::str::from_utf8(&callback.body).unwrap_or("nonsense");
        match text {
            "nonsense" => return Err(CallbackError::NotUnderstood("it is no event".into())),
            "later" => return Err(CallbackError::TryLater("the certificate is away".into())),
            _ => {}
        }
        let event = |line: &str| {
            let mut words = line.split(' ');
            let (happening, provider_id) = (words.next().unwrap(), words.next().unwrap());
            let whom = words.next().unwrap_or_default();
            ProviderEvent {
                happening: happening.parse().unwrap(),
                provider_id: provider_id.to_owned(),
                email_id: whom.parse().ok(),
                recipient: Address::parse(whom).ok(),
                detail: Some("smtp; 550 5.1.1".into()),
            }
        };
        Ok(text.lines().map(event).collect())
    }
}

/// What a provider posts from elsewhere, through a proxy.
pub(crate) fn post(transport: &str, signature: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(format!("/v1/provider-events/{transport}"))
        .header("host", "mail.example.org")
        .header("x-forwarded-for", "203.0.113.7")
        .header("x-signature", signature)
        .header("content-type", "text/plain")
        .body(body.into())
        .unwrap()
}

impl Server {
    /// What a provider says of emails that `closed` sent.
    pub(crate) async fn hears(&self, text: &str) -> Answer {
        self.send(post("closed", "right", text.to_owned())).await
    }

    /// An email that the provider took under this name.
    pub(crate) async fn sent_as(&self, provider_id: &str, patch: serde_json::Value) -> String {
        let id = self.accepted(patch).await;
        self.finish_as(&id, provider_id, Conclusion::Sent, Outcome::Sent)
            .await;
        id
    }

    /// Makes an attempt that passed the gate and ended so.
    pub(crate) async fn finish_as(
        &self,
        id: &str,
        provider_id: &str,
        conclusion: Conclusion,
        outcome: Outcome,
    ) {
        let lease = self.begin(id).await;
        let passage = (lease, Arc::from("closed"));
        assert_eq!(self.store.pass_gate(vec![passage]).await.unwrap(), [true]);
        let decision = Decision {
            provider_id: Some(provider_id.to_owned()),
            ..Decision::new(conclusion, outcome)
        };
        let finish = Finish {
            lease,
            decision,
            transport: Some("closed".into()),
            budget: 8,
            removes_sent: false,
        };
        assert!(self.store.finish(vec![finish]).await.unwrap()[0].is_ok());
    }

    /// Stops a way: a fault is one too many.
    pub(crate) async fn stop(&self, way: &str) {
        let email = self.accepted(json!({"subject": "The fault"})).await;
        let rules = BreakerRules {
            failures: 1,
            first_probe: Duration::from_secs(30),
            ..BreakerRules::default()
        };
        let event = WayEvent::Fault {
            note: FaultNote {
                email: email.parse().unwrap(),
                attempt: 1,
            },
            is_ours: false,
            error: "421 4.3.2 <b>down</b>".into(),
            floor: None,
        };
        let way: WayName = way.parse().unwrap();
        self.store
            .tell_way(&way, event, &rules, None)
            .await
            .unwrap();
    }

    /// An email that waits for a way out.
    pub(crate) async fn parked(&self, waiting_for: &str) -> String {
        let id = self.accepted(json!({"subject": "Parked"})).await;
        let lease = self.begin(&id).await;
        let parking = Parking {
            waiting_for: waiting_for.to_owned(),
            floor: Duration::ZERO,
            waits_until: None,
        };
        assert_eq!(
            self.store.park(vec![(lease, parking)]).await.unwrap(),
            [true]
        );
        id
    }

    /// A request with a key and a JSON body.
    pub(crate) async fn send_json(
        &self,
        method: &str,
        path: &str,
        secret: &str,
        body: &serde_json::Value,
    ) -> Answer {
        let request = local(method, path)
            .header("authorization", format!("Bearer {secret}"))
            .header("content-type", "application/json");
        self.send(request.body(body.to_string().into()).unwrap())
            .await
    }
}
