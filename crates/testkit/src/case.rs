//! From a list of cases to one test for each.

/// Writes one `#[tokio::test]` per case. Every test gets a fixture of its own from `$factory`,
/// an expression that is awaited; `after` is run on it when the case is over.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($suite:ident, $factory:expr, $($group:ident { $($case:ident,)+ })+) => {
        $(mod $group {
            #[allow(unused_imports)]
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $factory.await;
                $crate::$suite::$group::$case(&fixture).await;
                $crate::$suite::after(&fixture).await;
            })+
        })+
    };
}

#[cfg(test)]
pub(crate) mod tests {
    /// A case that stands in no list is never run: compares the functions in a folder with the
    /// lists in its `mod.rs` and in files whose names end with `_cases.rs`.
    pub(crate) fn assert_every_case_is_listed(folder: &str) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(folder);
        let files = || {
            std::fs::read_dir(&folder)
                .unwrap()
                .map(|file| file.unwrap().path())
        };
        let is_list = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name == "mod.rs" || name.ends_with("_cases.rs")
        };
        let lists = files().filter(is_list).map(std::fs::read_to_string);
        let list: String = lists.collect::<Result<_, _>>().unwrap();
        let listed = |case: &str| list.lines().any(|line| line.trim() == format!("{case},"));
        let mut cases = 0;
        for file in files() {
            let text = std::fs::read_to_string(file).unwrap();
            for function in text.split("\npub async fn ").skip(1) {
                let case = function.split('(').next().unwrap_or_default();
                let is_part_of_suite = ["after", "assert_consistent"].contains(&case);
                assert!(is_part_of_suite || listed(case), "{case} is never run");
                cases += 1;
            }
        }
        assert!(cases > 1, "no cases in {}", folder.display());
    }
}
