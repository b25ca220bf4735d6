//! The emails of a run, as their callers hand them in.

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_engine::intake::{EmailRequest, PolicyRequest};

use super::Disaster;
use crate::random::Random;

/// One email.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    /// Its key, which is also its name in the log.
    pub(crate) key: String,
    /// Which retry policy it follows.
    pub(crate) policy: &'static str,
    /// To whom it goes.
    pub(crate) to: Vec<String>,
    /// Not before this time after the beginning.
    send_at: Option<Duration>,
    /// Not after this time after the beginning.
    expires_at: Option<Duration>,
    priority: &'static str,
}

/// What one caller hands in at once.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    /// When.
    pub(crate) at: Duration,
    /// What.
    pub(crate) letters: Vec<Letter>,
    /// Whether the caller waits for the first attempt.
    pub(crate) inline: bool,
    /// How often the caller hands the same in once more, although it was taken.
    pub(crate) repeats: u64,
    /// Whether the caller gives up when it is refused.
    pub(crate) gives_up: bool,
}

impl Letter {
    fn draw(number: usize, inline: bool, random: &mut Random) -> Self {
        let policy = match random.below(40) {
            0 => "long",
            1..10 => "held",
            10..25 => "doubling",
            _ => "quick",
        };
        let recipients = if random.happens(250) { 3 } else { 1 };
        let shared = random.happens(500);
        let to = (0..recipients).map(|place| match place {
            0 => format!("r0.{number}@one.example"),
            _ if shared => format!("r{place}.{number}@one.example"),
            _ => format!("r{place}.{number}@two.example"),
        });
        let seconds = |random: &mut Random, most| Duration::from_secs(random.between(1, most));
        Self {
            key: format!("e{number}"),
            policy,
            to: to.collect(),
            send_at: (!inline && random.happens(150)).then(|| seconds(random, 60)),
            expires_at: random
                .happens(100)
                .then(|| Duration::from_secs(60) + seconds(random, 120)),
            priority: ["normal", "high", "low"][if random.happens(800) {
                0
            } else {
                usize::from(random.happens(500)) + 1
            }],
        }
    }

    /// What is asked for. The same at every try.
    pub(crate) fn request(&self, beginning: Timestamp) -> EmailRequest {
        let time = |after: Duration| beginning.checked_add(after).ok().map(|at| at.to_string());
        EmailRequest {
            message_key: Some(self.key.clone()),
            from: "app@sender.example".into(),
            to: self.to.clone(),
            subject: self.key.clone(),
            text: Some("Hello".into()),
            send_at: self.send_at.and_then(time),
            expires_at: self.expires_at.and_then(time),
            retry_policy: Some(PolicyRequest::Named(self.policy.into())),
            priority: Some(self.priority.into()),
            ..EmailRequest::default()
        }
    }
}

/// The emails of a run. Many come about when something goes wrong.
pub(super) fn posts(trouble: Duration, disasters: &[Disaster], random: &mut Random) -> Vec<Post> {
    let emails = usize::try_from(random.between(1, 12)).unwrap_or(1);
    let last = u64::try_from(trouble.as_millis()).unwrap_or(u64::MAX) * 2 / 3;
    let mut posts: Vec<Post> = Vec::new();
    let mut number = 0;
    while number < emails {
        let inline = random.happens(200);
        let many = if !inline && random.happens(200) { 3 } else { 1 };
        let letters = (0..many).map(|_| {
            number += 1;
            Letter::draw(number, inline, random)
        });
        let letters = letters.collect();
        posts.push(Post {
            at: if disasters.is_empty() || random.happens(500) {
                random.milliseconds(0, last)
            } else {
                let before = random.milliseconds(0, 100);
                let at = random.pick(disasters).at + Duration::from_millis(50);
                at.saturating_sub(before)
            },
            letters,
            inline,
            repeats: if random.happens(100) { 1 } else { 0 },
            gives_up: random.happens(100),
        });
    }
    posts
}
