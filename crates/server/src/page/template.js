// The editor of templates: shows what a template comes to, and when its emails are retried, while it is
// being written. The server renders the whole page again from what was typed; only the preview and the
// plan are taken over, so nothing that is being typed moves.
"use strict";

(() => {
  const PAUSE_MS = 250;

  function setUp(form) {
    const attempts = form.elements.attempts;
    const delays = [...form.querySelectorAll("[data-delay]")];
    const showDelays = () => {
      for (const delay of delays) delay.hidden = Number(delay.dataset.delay) >= Number(attempts.value);
    };

    let timer;
    let asking;
    async function preview() {
      asking?.abort();
      asking = new AbortController();
      try {
        const answer = await fetch(form.dataset.preview, {
          method: "POST",
          body: new URLSearchParams(new FormData(form)),
          headers: { Accept: "text/html" },
          signal: asking.signal,
        });
        if (!answer.ok) return;
        takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
      } catch {
        // Overtaken by the next one, or the server is away: the page stays as it is.
      }
    }

    function takeOver(fresh) {
      for (const there of document.querySelectorAll("[data-part]")) {
        const now = fresh.querySelector(`[data-part="${there.dataset.part}"]`);
        if (!now || now.innerHTML === there.innerHTML) continue;
        const open = there.querySelector("details")?.open;
        there.innerHTML = now.innerHTML;
        const details = there.querySelector("details");
        if (details && open !== undefined) details.open = open;
      }
      const [frame, now] = [document, fresh].map((root) => root.querySelector("#preview-html"));
      if (frame && now && frame.srcdoc !== now.srcdoc) frame.srcdoc = now.srcdoc;
      if (frame && now) frame.hidden = now.hidden;
    }

    form.addEventListener("input", () => {
      showDelays();
      clearTimeout(timer);
      timer = setTimeout(preview, PAUSE_MS);
    });
    showDelays();
    form.dataset.ready = "yes";
  }

  addEventListener("DOMContentLoaded", () => {
    const form = document.querySelector("form[data-preview]");
    if (form) setUp(form);
  });
})();
