//! When a way out is taken for broken, and how it comes back.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use posthaste_core::Timestamp;
use posthaste_core::email::EmailId;
use posthaste_core::way::{
    BreakerRules, Condition, FaultNote, Way, WayAnswer, WayChange, WayEvent, WayName, WayNews,
    any_of, in_words, is_name, ways_of,
};

const RULES: BreakerRules = BreakerRules {
    failures: 10,
    credential_failures: 5,
    window: Duration::from_secs(60),
    first_probe: Duration::from_secs(10),
    longest_probe: Duration::from_secs(60),
    ramp_rate: 5.0,
    ramp_doubling: Duration::from_secs(5),
    ramp: Duration::from_secs(60),
};
const LEASE: Duration = Duration::from_secs(30);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn fault_with(email: EmailId, is_ours: bool, floor: Option<Duration>) -> WayEvent {
    WayEvent::Fault {
        note: FaultNote { email, attempt: 1 },
        is_ours,
        error: "connection refused".into(),
        floor,
    }
}

fn fault(email: EmailId) -> WayEvent {
    fault_with(email, false, None)
}

/// A way and its time.
struct Story {
    way: Way,
    now: Timestamp,
}

impl Story {
    fn new() -> Self {
        let now = Timestamp::UNIX_EPOCH + seconds(1000);
        Self {
            way: Way::flowing(now),
            now,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn tell(&mut self, event: &WayEvent) -> WayChange {
        let change = self.way.told(event, &RULES, self.now);
        self.way = change.next.clone();
        change
    }

    fn answer(&mut self, event: &WayEvent) -> WayAnswer {
        self.tell(event).answer
    }

    fn condition(&self) -> Condition {
        self.way.condition_at(&RULES, self.now)
    }

    fn is_open(&self) -> bool {
        self.way.is_open(&RULES, self.now)
    }

    fn probe(&mut self) -> (EmailId, WayAnswer) {
        let email = EmailId::generate();
        let answer = self.answer(&WayEvent::Probe {
            email,
            lease: LEASE,
        });
        (email, answer)
    }

    /// Stopped by as many faults as it takes.
    fn stopped() -> Self {
        let mut story = Self::new();
        for _ in 0..RULES.failures {
            story.tell(&fault(EmailId::generate()));
        }
        assert_eq!(story.condition(), Condition::Stopped);
        story
    }

    /// A probe has just come through.
    fn ramping() -> Self {
        let mut story = Self::stopped();
        story.wait(RULES.first_probe);
        let (email, answer) = story.probe();
        assert_eq!(answer, WayAnswer::Taken);
        let change = story.tell(&WayEvent::Success { email });
        assert_eq!(change.news, Some(WayNews::Recovered));
        assert_eq!(story.condition(), Condition::Ramping);
        story
    }
}

#[test]
fn so_many_emails_in_a_row_stop_a_way_and_get_their_attempts_back() {
    let mut story = Story::new();
    let emails: Vec<EmailId> = (0..10).map(|_| EmailId::generate()).collect();
    for email in &emails[..9] {
        let change = story.tell(&fault(*email));
        assert_eq!(change.answer, WayAnswer::Spends);
        assert_eq!((change.news, change.refunds), (None, vec![]));
        assert!(story.is_open());
    }
    let last = story.tell(&fault(emails[9]));
    assert_eq!(last.answer, WayAnswer::Waits);
    assert_eq!(last.news, Some(WayNews::Stopped));
    let refunded: Vec<EmailId> = last.refunds.iter().map(|note| note.email).collect();
    assert_eq!(refunded, emails);
    assert!(!story.is_open());
    assert_eq!(story.way.last_error.as_deref(), Some("connection refused"));
    // Those that were still on their way wait, and change nothing.
    let next_probe_at = story.way.next_probe_at;
    let straggler = story.tell(&fault(EmailId::generate()));
    assert_eq!((straggler.answer, straggler.news), (WayAnswer::Waits, None));
    assert_eq!(story.way.next_probe_at, next_probe_at);
}

#[test]
fn one_email_that_fails_again_and_again_never_stops_a_way() {
    let mut story = Story::new();
    let email = EmailId::generate();
    for _ in 0..1000 {
        assert_eq!(story.answer(&fault(email)), WayAnswer::Spends);
    }
    assert!(story.is_open());
    assert_eq!(story.way.faults.len(), 1);
}

#[test]
fn a_success_begins_the_count_anew() {
    let mut story = Story::new();
    for _ in 0..5 {
        for _ in 0..9 {
            assert_eq!(story.answer(&fault(EmailId::generate())), WayAnswer::Spends);
        }
        let email = EmailId::generate();
        assert_eq!(story.answer(&WayEvent::Success { email }), WayAnswer::Noted);
        assert!(story.way.is_plain());
    }
    assert!(story.is_open());
}

#[test]
fn faults_of_long_ago_do_not_count() {
    let mut story = Story::new();
    for _ in 0..9 {
        story.tell(&fault(EmailId::generate()));
    }
    story.wait(RULES.window);
    assert_eq!(story.answer(&fault(EmailId::generate())), WayAnswer::Spends);
    assert_eq!(story.way.faults.len(), 1);
}

#[test]
fn a_wrong_password_kills_no_more_than_a_few_emails() {
    let mut story = Story::new();
    let mut spent = 0;
    for _ in 0..50 {
        let change = story.tell(&fault_with(EmailId::generate(), true, None));
        spent += u32::from(change.answer == WayAnswer::Spends);
        assert_eq!(change.refunds, [], "what is dead is dead");
    }
    assert_eq!(spent, RULES.credential_failures);
    assert_eq!(story.condition(), Condition::Stopped);
}

#[test]
fn one_email_at_a_time_probes() {
    let mut story = Story::stopped();
    assert_eq!(story.probe().1, WayAnswer::Refused, "not yet");
    story.wait(RULES.first_probe);
    let (first, answer) = story.probe();
    assert_eq!(answer, WayAnswer::Taken);
    assert_eq!(story.probe().1, WayAnswer::Refused);
    assert!(!story.is_open());
    // What others say meanwhile is about the time before.
    let other = EmailId::generate();
    assert_eq!(story.answer(&fault(other)), WayAnswer::Waits);
    story.tell(&WayEvent::Success { email: other });
    assert_eq!(story.condition(), Condition::Probing);
    // Handed back before anything was tried: the next may have its turn at once.
    story.tell(&WayEvent::Abandon { email: other });
    assert_eq!(story.condition(), Condition::Probing);
    story.tell(&WayEvent::Abandon { email: first });
    assert_eq!(story.probe().1, WayAnswer::Taken);
}

#[test]
fn a_probe_that_never_comes_back_is_followed_by_another() {
    let mut story = Story::stopped();
    story.wait(RULES.first_probe);
    let (lost, _) = story.probe();
    story.wait(LEASE - seconds(1));
    assert_eq!(story.probe().1, WayAnswer::Refused);
    story.wait(seconds(1));
    assert_eq!(story.condition(), Condition::Stopped);
    let (next, answer) = story.probe();
    assert_eq!(answer, WayAnswer::Taken);
    // The lost one has nothing to say any more.
    story.tell(&WayEvent::Success { email: lost });
    assert_eq!(story.condition(), Condition::Probing);
    story.tell(&WayEvent::Success { email: next });
    assert_eq!(story.condition(), Condition::Ramping);
}

#[test]
fn a_probe_that_gets_through_late_is_good_news_all_the_same() {
    let mut story = Story::stopped();
    story.wait(RULES.first_probe);
    let (slow, _) = story.probe();
    story.wait(LEASE + seconds(10));
    assert_eq!(story.condition(), Condition::Stopped);
    let change = story.tell(&WayEvent::Success { email: slow });
    assert_eq!(change.news, Some(WayNews::Recovered));
    assert_eq!(story.condition(), Condition::Ramping);
}

#[test]
fn probes_come_after_twice_as_long_each_time_up_to_a_limit() {
    let mut story = Story::stopped();
    let since = story.way.since;
    for rest in [10, 20, 40, 60, 60, 60] {
        story.wait(seconds(rest) - Duration::from_millis(1));
        assert_eq!(story.probe().1, WayAnswer::Refused, "{rest}");
        story.wait(Duration::from_millis(1));
        let (email, answer) = story.probe();
        assert_eq!(answer, WayAnswer::Taken, "{rest}");
        let change = story.tell(&fault(email));
        assert_eq!(change.answer, WayAnswer::Waits);
        assert_eq!(change.news, None, "people know already");
    }
    assert_eq!(story.way.since, since, "it is the same outage");
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let mut story = Story::new();
    for _ in 0..9 {
        story.tell(&fault(EmailId::generate()));
    }
    story.tell(&fault_with(EmailId::generate(), false, Some(seconds(300))));
    assert_eq!(story.way.next_probe_at, Some(story.now + seconds(300)));
    // Also one that speaks a little later; and never less than was asked for before.
    story.tell(&fault_with(EmailId::generate(), false, Some(seconds(400))));
    assert_eq!(story.way.next_probe_at, Some(story.now + seconds(400)));
    story.tell(&fault_with(EmailId::generate(), false, Some(seconds(5))));
    assert_eq!(story.way.next_probe_at, Some(story.now + seconds(400)));
}

#[test]
fn a_way_that_comes_back_takes_up_slowly() {
    let mut story = Story::ramping();
    assert!(story.is_open());
    for expected in [5.0, 10.0, 20.0, 40.0] {
        let rate = story.way.ramp_rate(&RULES, story.now).unwrap();
        assert!((rate - expected).abs() < 0.001, "{rate} and not {expected}");
        story.wait(RULES.ramp_doubling);
    }
    story.wait(RULES.ramp);
    assert_eq!(story.way.ramp_rate(&RULES, story.now), None);
    assert_eq!(story.condition(), Condition::Flowing);
}

#[test]
fn a_way_that_fails_while_it_takes_up_is_stopped_sooner() {
    let mut story = Story::ramping();
    let email = EmailId::generate();
    for _ in 0..3 {
        let change = story.tell(&fault(email));
        assert_eq!(change.answer, WayAnswer::Waits, "the way is to blame");
        assert_eq!(story.condition(), Condition::Ramping);
    }
    let change = story.tell(&fault(EmailId::generate()));
    assert_eq!(change.news, Some(WayNews::Stopped));
    assert_eq!(story.condition(), Condition::Stopped);
    // It begins to rest anew.
    let rest = story.way.next_probe_at;
    assert_eq!(rest, Some(story.now + RULES.first_probe));
}

#[test]
fn a_paused_way_takes_nothing_and_takes_up_slowly_when_it_is_resumed() {
    let pause = WayEvent::Pause {
        actor: "cli:root".into(),
    };
    let mut story = Story::new();
    assert_eq!(story.answer(&WayEvent::Resume), WayAnswer::Refused);
    assert_eq!(
        story.way.condition,
        Condition::Flowing,
        "nothing has gathered"
    );
    assert_eq!(story.answer(&pause), WayAnswer::Taken);
    assert_eq!(story.answer(&pause), WayAnswer::Refused, "it is");
    assert!(!story.is_open() && !story.way.is_plain());
    assert_eq!(story.probe().1, WayAnswer::Refused);
    // What is still under way does not open it.
    let email = EmailId::generate();
    story.tell(&WayEvent::Success { email });
    assert!(!story.is_open());
    assert_eq!(story.answer(&WayEvent::Resume), WayAnswer::Taken);
    assert_eq!(story.condition(), Condition::Ramping);
    assert!(story.is_open());

    let mut stopped = Story::stopped();
    stopped.tell(&pause);
    stopped.wait(seconds(3600));
    assert_eq!(stopped.probe().1, WayAnswer::Refused, "not by itself");
    assert_eq!(stopped.answer(&WayEvent::Resume), WayAnswer::Taken);
    assert_eq!(stopped.probe().1, WayAnswer::Taken, "at once");
    // An operator may also have a way probed that was stopped by itself.
    let mut impatient = Story::stopped();
    assert_eq!(impatient.answer(&WayEvent::Resume), WayAnswer::Taken);
    assert_eq!(impatient.probe().1, WayAnswer::Taken);
}

#[test]
fn ways_have_names_and_words() {
    let ways = [
        WayName::transport("primary"),
        WayName::domain("secondary", "Example.ORG"),
    ];
    let waiting_for = any_of(&ways);
    assert_eq!(waiting_for, "primary,secondary@example.org");
    assert_eq!(ways_of(&waiting_for).collect::<Vec<_>>(), ways);
    assert_eq!(in_words(&waiting_for), "primary or example.org");
    assert!(is_name("smtp-2_eu") && !is_name("") && !is_name("a@b") && !is_name("A"));
    assert!(is_name(&"a".repeat(50)) && !is_name(&"a".repeat(51)));
}

#[test]
fn a_failure_that_lands_after_the_way_was_stopped_is_given_back() {
    let note = FaultNote {
        email: EmailId::generate(),
        attempt: 3,
    };
    let landed = WayEvent::Landed { note };
    let flowing = Story::new().tell(&landed);
    assert_eq!(
        (flowing.answer, flowing.refunds),
        (WayAnswer::Noted, vec![])
    );
    for mut story in [Story::stopped(), Story::ramping()] {
        let change = story.tell(&landed);
        assert_eq!(
            (change.answer, change.refunds),
            (WayAnswer::Noted, vec![note])
        );
    }
}

#[test]
fn a_probe_that_was_handed_back_makes_room_for_the_next_one_at_once() {
    let mut story = Story::stopped();
    story.wait(RULES.first_probe);
    let (email, _) = story.probe();
    let stranger = EmailId::generate();
    story.tell(&WayEvent::Abandon { email: stranger });
    assert_eq!(story.probe().1, WayAnswer::Refused, "it is still out");
    story.tell(&WayEvent::Abandon { email });
    assert_eq!(story.condition(), Condition::Stopped);
    assert_eq!(story.probe().1, WayAnswer::Taken);
}

#[test]
fn only_a_way_that_something_is_known_of_is_kept() {
    assert!(Story::new().way.is_plain());
    let mut faulty = Story::new();
    faulty.tell(&fault(EmailId::generate()));
    let mut paused = Story::new();
    paused.tell(&WayEvent::Pause {
        actor: "admin:ann".into(),
    });
    for story in [faulty, paused, Story::stopped(), Story::ramping()] {
        assert!(!story.way.is_plain(), "{:?}", story.way);
    }
}
