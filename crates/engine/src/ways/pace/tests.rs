//! How many may go, and who waits for how long.

use super::*;

const UNBOUNDED: Limits = Limits {
    rate: None,
    concurrency: None,
};

fn take(pace: &Arc<Pace>, limits: Limits, now: Instant) -> Result<Slot, Full> {
    pace.enter(limits, now, &Arc::default())
}

#[test]
fn no_more_go_at_the_same_time_than_may() {
    let now = Instant::now();
    let pace = Pace::new(None, now);
    let limits = Limits {
        concurrency: Some(2),
        ..UNBOUNDED
    };
    let first = take(&pace, limits, now).ok();
    let second = take(&pace, limits, now).ok();
    assert!(first.is_some() && second.is_some());
    assert_eq!(take(&pace, limits, now).err(), Some(Full::Slots));
    drop(first);
    assert!(take(&pace, limits, now).is_ok());
}

#[test]
fn no_more_go_in_a_second_than_may() {
    let now = Instant::now();
    let pace = Pace::new(None, now);
    let limits = Limits {
        rate: Some(50.0),
        ..UNBOUNDED
    };
    let mut gone = 0;
    for millisecond in 0..10_000 {
        let at = now + Duration::from_millis(millisecond);
        gone += u32::from(take(&pace, limits, at).is_ok());
    }
    assert!((495..=505).contains(&gone), "{gone}");
}

#[test]
fn a_pause_is_not_made_up_for_at_once() {
    let now = Instant::now();
    let pace = Pace::new(None, now);
    let limits = Limits {
        rate: Some(50.0),
        ..UNBOUNDED
    };
    let later = now + Duration::from_secs(3600);
    let at_once = (0..100).filter(|_| take(&pace, limits, later).is_ok());
    assert_eq!(at_once.count(), 5);
}

#[test]
fn who_is_asked_for_less_sends_less_and_comes_back_slowly() {
    let now = Instant::now();
    let pace = Pace::new(None, now);
    for _ in 0..40 {
        drop(take(&pace, UNBOUNDED, now));
    }
    pace.slow_down(Some(Duration::from_secs(7)), now);
    let rests = take(&pace, UNBOUNDED, now + Duration::from_secs(6)).err();
    assert_eq!(rests, Some(Full::Until(Duration::from_secs(1))));
    let mut rates = Vec::new();
    for second in [7, 37, 67, 400] {
        rates.push(pace.learned(now + Duration::from_secs(second)));
    }
    assert_eq!(rates, [Some(20.0), Some(40.0), Some(80.0), None]);
}

#[test]
fn a_window_opens_with_quick_answers_only() {
    let now = Instant::now();
    let pace = Pace::new(Some(Window { first: 2, most: 8 }), now);
    let fill =
        || -> Vec<Slot> { std::iter::from_fn(|| take(&pace, UNBOUNDED, now).ok()).collect() };
    let mut under_way = fill();
    assert_eq!(under_way.len(), 2);
    under_way.clear();
    under_way = fill();
    assert_eq!(under_way.len(), 4);
    under_way.clear();
    under_way = fill();
    assert_eq!(under_way.len(), 8);
    under_way.truncate(3);
    // They have been at it for long: no more than at first.
    let later = now + SLOW * 2;
    assert_eq!(take(&pace, UNBOUNDED, later).err(), Some(Full::Window));
    assert!(take(&pace, UNBOUNDED, now).is_ok());
    // Unless it was we who kept them waiting.
    pace.excuse(later);
    assert!(take(&pace, UNBOUNDED, later).is_ok());
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_for_a_connection_was_not_kept_waiting_by_the_other_side() {
    let pace = Pace::new(Some(Window { first: 1, most: 4 }), Instant::now());
    let room = || pace.room(UNBOUNDED, Instant::now()).unwrap_or(0);
    let slot = take(&pace, UNBOUNDED, Instant::now());
    tokio::time::advance(SLOW * 2).await;
    if let Ok(slot) = &slot {
        slot.talks();
    }
    drop(slot);
    assert_eq!(room(), 2);
    let slot = take(&pace, UNBOUNDED, Instant::now());
    tokio::time::advance(SLOW * 2).await;
    drop(slot);
    assert_eq!(room(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_answers_are_quick_one_waits_longer_for_a_place() {
    let pace = Pace::new(Some(Window { first: 1, most: 1 }), Instant::now());
    let patience = Patience {
        usual: QUICK,
        at_a_quick_window: QUICK * 10,
    };
    let waited = async |limits: Limits| {
        let came = Instant::now();
        let full = pace.enter_soon(limits, &Arc::default(), patience).await;
        assert!(full.is_err());
        came.elapsed()
    };
    let answered_after = async |time: Duration| {
        let slot = take(&pace, UNBOUNDED, Instant::now());
        tokio::time::advance(time).await;
        drop(slot);
        take(&pace, UNBOUNDED, Instant::now())
    };
    let nothing_known = take(&pace, UNBOUNDED, Instant::now());
    assert_eq!(waited(UNBOUNDED).await, QUICK);
    drop(nothing_known);
    let quick = answered_after(QUICK / 2).await;
    assert_eq!(
        waited(UNBOUNDED).await,
        QUICK * 4,
        "then it is no longer quick"
    );
    if let Ok(slot) = &quick {
        slot.talks();
    }
    // What is configured is not waited out.
    let limits = Limits {
        concurrency: Some(1),
        ..UNBOUNDED
    };
    assert_eq!(waited(limits).await, QUICK);
    drop(quick);
    let _slow = answered_after(QUICK * 2).await;
    assert_eq!(waited(UNBOUNDED).await, QUICK);
}

#[tokio::test(start_paused = true)]
async fn a_place_goes_to_whoever_waited_longest() {
    let pace = Pace::new(Some(Window { first: 1, most: 2 }), Instant::now());
    let slot = take(&pace, UNBOUNDED, Instant::now());
    let (came, mut come) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..3 {
        let (pace, came) = (Arc::clone(&pace), came.clone());
        tokio::spawn(async move {
            let patience = Patience::of(SLOW);
            let slot = pace.enter_soon(UNBOUNDED, &Arc::default(), patience).await;
            let _ = came.send((number, slot));
        });
        tokio::task::yield_now().await;
    }
    // The answer makes room for two: the window opens.
    drop(slot);
    let (first, one) = come.recv().await.expect("someone");
    let (second, other) = come.recv().await.expect("someone");
    assert_eq!((first, second), (0, 1));
    assert!(one.is_ok() && other.is_ok() && come.try_recv().is_err());
    drop(one);
    let (third, slot) = come.recv().await.expect("someone");
    assert!(third == 2 && slot.is_ok());
}
