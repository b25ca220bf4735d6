//! A real browser: headless Chromium, driven as a person would use it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};

/// How the browser is started: nothing of it may reach out by itself.
const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// When to give up waiting for something that a page shows within a moment.
const DEADLINE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(25);

/// The width of a desk and of a phone.
pub(crate) const WIDE: (u32, u32) = (1280, 900);
pub(crate) const PHONE: (u32, u32) = (390, 844);

/// A browser with one window. Dropping it ends it.
pub(crate) struct Browser {
    client: Client,
    driver: Child,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own group: the browser that it started ends with it.
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts a browser.
    pub(crate) async fn start() -> Self {
        use std::os::unix::process::CommandExt as _;
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .unwrap()
            .port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromedriver (Debian: apt-get install chromium chromium-driver)");
        let mut capabilities = serde_json::Map::new();
        let options = json!({"args": FLAGS});
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let address = format!("http://127.0.0.1:{port}");
        let give_up = tokio::time::Instant::now() + DEADLINE;
        loop {
            let mut builder =
                ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
            let connected = builder
                .capabilities(capabilities.clone())
                .connect(&address)
                .await;
            match connected {
                Ok(client) => {
                    let browser = Self { client, driver };
                    browser.resize(WIDE).await;
                    return browser;
                }
                Err(error) if tokio::time::Instant::now() >= give_up => {
                    panic!("no browser: {error}")
                }
                Err(_) => tokio::time::sleep(INTERVAL).await,
            }
        }
    }

    /// Opens a page.
    pub(crate) async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// Loads the page again.
    pub(crate) async fn reload(&self) {
        self.client.refresh().await.unwrap();
    }

    /// Where it is.
    pub(crate) async fn path(&self) -> String {
        self.client.current_url().await.unwrap().path().to_owned()
    }

    pub(crate) async fn resize(&self, (width, height): (u32, u32)) {
        // The page's own size, whatever the window's frame takes.
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    /// Light or dark, as the reader's system has it.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Turns scripts of pages on or off.
    pub(crate) async fn run_scripts(&self, on: bool) {
        let value = json!({"value": !on});
        self.devtools("Emulation.setScriptExecutionDisabled", value)
            .await;
    }

    async fn devtools(&self, command: &'static str, parameters: Value) -> Value {
        let command = DevTools {
            command,
            parameters,
        };
        self.client.issue_cmd(command).await.unwrap()
    }

    /// Runs a script in the page.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until a script in the page answers yes.
    pub(crate) async fn until_true(&self, script: &str) {
        let give_up = tokio::time::Instant::now() + DEADLINE;
        // A page that is being left answers nothing.
        while self.client.execute(script, Vec::new()).await.ok() != Some(Value::Bool(true)) {
            if tokio::time::Instant::now() >= give_up {
                self.fail(&format!("it is not so: {script}")).await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// The first element that fits, once there is one.
    pub(crate) async fn find(&self, css: &str) -> Element {
        let give_up = tokio::time::Instant::now() + DEADLINE;
        loop {
            if let Ok(element) = self.client.find(Locator::Css(css)).await {
                return element;
            }
            if tokio::time::Instant::now() >= give_up {
                self.fail(&format!("nothing fits {css}")).await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// How many elements fit.
    pub(crate) async fn count(&self, css: &str) -> usize {
        self.client.find_all(Locator::Css(css)).await.unwrap().len()
    }

    /// The text of an element. One that a live page replaces while it is looked at is looked for
    /// again.
    pub(crate) async fn text(&self, css: &str) -> String {
        loop {
            if let Ok(text) = self.find(css).await.text().await {
                return text;
            }
        }
    }

    /// Waits until the text of an element is as wanted, without loading the page again.
    pub(crate) async fn until(&self, css: &str, wanted: impl Fn(&str) -> bool) -> String {
        let give_up = tokio::time::Instant::now() + DEADLINE;
        loop {
            // An element may be replaced while it is looked at.
            let text = match self.client.find(Locator::Css(css)).await {
                Ok(element) => element.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            if wanted(&text) {
                return text;
            }
            if tokio::time::Instant::now() >= give_up {
                self.fail(&format!("{css} is still `{text}`")).await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until an element shows this.
    pub(crate) async fn until_shows(&self, css: &str, text: &str) {
        self.until(css, |found| found.contains(text)).await;
    }

    /// Clicks the first button with this name within an element, as soon as it is there.
    pub(crate) async fn press(&self, within: &str, name: &str) {
        let give_up = tokio::time::Instant::now() + DEADLINE;
        loop {
            let buttons = format!("{within} button, {within} a.button");
            for button in self.client.find_all(Locator::Css(&buttons)).await.unwrap() {
                if button.text().await.is_ok_and(|text| text == name)
                    && button.click().await.is_ok()
                {
                    return;
                }
            }
            if tokio::time::Instant::now() >= give_up {
                self.fail(&format!("there is no button {name} in {within}"))
                    .await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Clicks an element.
    pub(crate) async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap();
    }

    /// Follows the first link with this text.
    pub(crate) async fn follow(&self, text: &str) {
        match self.client.find(Locator::LinkText(text)).await {
            Ok(link) => link.click().await.unwrap(),
            Err(_) => self.fail(&format!("there is no link {text}")).await,
        }
    }

    /// Writes into a field, in the place of what is there.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses a key, wherever the focus is.
    pub(crate) async fn press_key(&self, key: &str) {
        use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
        let value = key.chars().next().unwrap();
        let keys = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value });
        self.client.perform_actions(keys).await.unwrap();
    }

    /// Keeps a picture of the page, as long as it is.
    pub(crate) async fn picture(&self, name: &str) {
        let height = self
            .script("return document.documentElement.scrollHeight")
            .await;
        let width = self.script("return window.innerWidth").await;
        let size = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
        let before = self.script("return window.innerHeight").await;
        self.resize((size(&width), size(&height).clamp(size(&before), 4000)))
            .await;
        let image = self.client.screenshot().await.unwrap();
        self.resize((size(&width), size(&before))).await;
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), image).unwrap();
    }

    async fn fail(&self, why: &str) -> ! {
        self.picture("failed").await;
        let page = self.client.source().await.unwrap_or_default();
        panic!("{why}; see failed.png in {}\n{page}", pictures().display());
    }
}

/// Where pictures are kept.
fn pictures() -> PathBuf {
    std::env::var_os("TEST_SCREENSHOTS").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../target/screenshots"
            ))
        },
        PathBuf::from,
    )
}

/// A command of Chromium's own protocol.
#[derive(Debug)]
struct DevTools {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(
        &self,
        base_url: &reqwest::Url,
        session_id: Option<&str>,
    ) -> Result<reqwest::Url, url::ParseError> {
        let session = session_id.unwrap_or_default();
        base_url.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _request_url: &reqwest::Url) -> (reqwest::Method, Option<String>) {
        let body = json!({"cmd": self.command, "params": self.parameters});
        (reqwest::Method::POST, Some(body.to_string()))
    }
}
