// Makes pages live: when the server says that something changed, the page fetches itself again and
// takes over what is marked with data-live. Nothing else moves: no selection, no scroll position,
// no open tab. Rows that are new are announced, not inserted.
"use strict";

(() => {
  const LIVE = "[data-live]";
  const busy = (element) =>
    element.contains(document.activeElement) && document.activeElement !== document.body;

  // Takes over the marked regions of a fresh copy of this page.
  function takeOver(fresh) {
    for (const there of document.querySelectorAll(LIVE)) {
      const key = CSS.escape(there.dataset.live);
      const [mine, theirs] = [document, fresh].map((root) => [
        ...root.querySelectorAll(`[data-live="${key}"]`),
      ]);
      const now = theirs[mine.indexOf(there)];
      if (!now || now.innerHTML === there.innerHTML || busy(there)) continue;
      const selection = document.getSelection();
      if (selection && !selection.isCollapsed && selection.containsNode(there, true)) continue;
      there.innerHTML = now.innerHTML;
      there.className = now.className;
      there.classList.remove("changed");
      void there.offsetWidth;
      there.classList.add("changed");
    }
    for (const there of document.querySelectorAll("progress[data-key]")) {
      const now = fresh.querySelector(`progress[data-key="${CSS.escape(there.dataset.key)}"]`);
      if (now) there.value = now.value;
    }
    const rows = (root) => [...root.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key);
    const [before, after] = [new Set(rows(document)), rows(fresh)];
    const isNew = after.some((key) => !before.has(key)) || (after.length > 0 && before.size === 0);
    const isGone = before.size > 0 && after.length === 0;
    const bar = document.querySelector("[data-fresh]");
    if (bar && (isNew || isGone)) bar.hidden = false;
  }

  let fetching = false;
  let again = false;
  async function refresh() {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) {
        const text = await answer.text();
        takeOver(new DOMParser().parseFromString(text, "text/html"));
      }
    } catch {
      // The server is away; the stream comes back by itself.
    } finally {
      fetching = false;
      if (again) {
        again = false;
        setTimeout(refresh, 250);
      }
    }
  }

  function watch() {
    const source = new EventSource("/admin/live");
    // From here on we hear of changes. What changed since the page was drawn we have not heard of.
    source.addEventListener("hello", () => {
      document.documentElement.dataset.stream = "open";
      refresh();
    });
    source.addEventListener("change", refresh);
    source.addEventListener("error", () => {
      document.documentElement.dataset.stream = "lost";
    });
    addEventListener("pagehide", () => source.close());
  }

  // Selecting many rows.
  function selection() {
    for (const all of document.querySelectorAll("[data-select-all]")) {
      const form = all.closest("form") ?? document;
      const boxes = () => [...form.querySelectorAll('input[type="checkbox"][name="id"]')];
      const count = form.querySelector("[data-selected]");
      const tell = () => {
        const chosen = boxes().filter((box) => box.checked).length;
        all.checked = chosen > 0 && chosen === boxes().length;
        all.indeterminate = chosen > 0 && chosen < boxes().length;
        if (count) count.textContent = chosen === 0 ? "" : `${chosen} selected`;
      };
      all.addEventListener("change", () => {
        for (const box of boxes()) box.checked = all.checked;
        tell();
      });
      form.addEventListener("change", tell);
      all.hidden = false;
      tell();
    }
  }

  // Times that were written as "3 min ago" grow old; in full they are shown in the reader's zone.
  function times() {
    for (const time of document.querySelectorAll("time[datetime][title]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = `${at.toLocaleString()} (${time.title})`;
    }
  }

  // Moments that are near are counted down.
  function countdowns() {
    const began = new WeakMap();
    setInterval(() => {
      for (const time of document.querySelectorAll("time[data-countdown]")) {
        if (!began.has(time)) began.set(time, performance.now());
        const gone = (performance.now() - began.get(time)) / 1000;
        const left = Math.ceil(Number(time.dataset.countdown) - gone);
        if (left < 60) time.textContent = left > 0 ? `in ${left} s` : "due now";
      }
    }, 1000);
  }

  addEventListener("DOMContentLoaded", () => {
    times();
    countdowns();
    selection();
    // A page without anything live needs no stream.
    if (document.body.classList.contains("desk")) watch();
  });
})();
