//! Passwords: what makes one good enough, and their slow hashes.
//!
//! A hash takes memory and time on purpose. So few are made at once, and few may wait: a crowd at
//! the login cannot take the machine from the emails.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::AdminError;

/// The shortest password, in characters.
pub const SHORTEST_PASSWORD: usize = 10;
/// The longest one, in octets.
pub const LONGEST_PASSWORD: usize = 1000;

/// What OWASP recommends for Argon2id: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// How many hashes are made at once, and how many may wait for their turn.
const AT_ONCE: usize = 2;
const WAITING: usize = 64;

/// Too many others are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

/// Makes and checks hashes of passwords.
pub(super) struct Passwords {
    turns: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            room: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        }
    }
}

impl Passwords {
    /// The hash of a new password, as text with its salt and its cost.
    pub(super) async fn hash(&self, password: &str) -> Result<String, AdminError> {
        let password = password.to_owned();
        let hash = self.in_turn(move || hash_now(&password)).await;
        hash.map_err(|Crowded| AdminError::Crowded)?
            .ok_or(AdminError::Hash)
    }

    /// Whether the password is the one with this hash. Without a hash it is not, after the same
    /// work: how long it takes does not tell whether there was one.
    pub(super) async fn is_right(
        &self,
        password: &str,
        hash: Option<String>,
    ) -> Result<bool, Crowded> {
        let password = password.to_owned();
        self.in_turn(move || match hash {
            Some(hash) => PasswordHash::new(&hash)
                .is_ok_and(|hash| slow().verify_password(password.as_bytes(), &hash).is_ok()),
            None => {
                let _ = hash_now(&password);
                false
            }
        })
        .await
    }

    /// Does slow work on a thread where it may block, when it is its turn.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Crowded> {
        let place = Arc::clone(&self.room).try_acquire_owned();
        let place = place.map_err(|_| Crowded)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| Crowded)?;
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work ends, also when nobody waits for it any more.
            let _held = (place, turn);
            work()
        });
        done.await.map_err(|_| Crowded)
    }
}

fn slow() -> Argon2<'static> {
    // These numbers are within the limits, as a test shows.
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).unwrap_or(Params::DEFAULT);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash_now(password: &str) -> Option<String> {
    let hash = slow().hash_password(password.as_bytes()).ok()?;
    Some(hash.to_string())
}

/// Refuses a password that is too easy to guess.
pub(super) fn check(name: &str, password: &str) -> Result<(), AdminError> {
    let refused = |message: String| Err(AdminError::Password(message));
    if password.chars().count() < SHORTEST_PASSWORD {
        return refused(format!(
            "must have at least {SHORTEST_PASSWORD} characters; a few words in a row are easy to remember"
        ));
    }
    if password.len() > LONGEST_PASSWORD {
        return refused(format!("must have at most {LONGEST_PASSWORD} octets"));
    }
    if password.to_lowercase() == name {
        return refused("must not be the name".to_owned());
    }
    let first = password.chars().next();
    if password.chars().all(|c| Some(c) == first) {
        return refused("must not be one character over and over".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_says_how_it_was_made_and_is_never_made_twice_the_same() {
        let passwords = Passwords::default();
        let first = passwords.hash("correct horse").await.unwrap();
        let second = passwords.hash("correct horse").await.unwrap();
        assert!(
            first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{first}"
        );
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn only_the_right_password_is_right() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse").await.unwrap();
        let is_right = async |password, hash: Option<&str>| {
            let hash = hash.map(str::to_owned);
            passwords.is_right(password, hash).await.unwrap()
        };
        assert!(is_right("correct horse", Some(&hash)).await);
        assert!(!is_right("Correct horse", Some(&hash)).await);
        assert!(!is_right("", Some(&hash)).await);
        assert!(!is_right("correct horse", None).await);
        assert!(!is_right("correct horse", Some("not a hash")).await);
    }

    #[tokio::test]
    async fn when_too_many_wait_the_next_is_sent_away() {
        let passwords = Passwords::default();
        let taken = passwords
            .room
            .clone()
            .acquire_many_owned(u32::try_from(AT_ONCE + WAITING).unwrap());
        let _taken = taken.await.unwrap();
        assert_eq!(passwords.is_right("x", None).await, Err(Crowded));
    }

    #[test]
    fn a_password_must_not_be_easy_to_guess() {
        for (password, reason) in [
            ("short", "at least 10 characters"),
            ("äöüäöüäöü", "at least 10 characters"),
            ("aaaaaaaaaaaa", "over and over"),
            ("Administrator", "must not be the name"),
            (&"x1".repeat(501), "at most 1000 octets"),
        ] {
            let refused = check("administrator", password).unwrap_err().to_string();
            assert!(refused.contains(reason), "{password}: {refused}");
        }
        check("administrator", "correct horse").unwrap();
    }
}
