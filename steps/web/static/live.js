// Renews the content of a page without a reload: positions, focus, forms and opened details remain.
// Buildbot's events tell when something happened; without them, the page is renewed at its interval.
// Plain ECMAScript.
(function () {
  "use strict";
  const PAUSE = 2;  // seconds: one renewal for the events of a moment
  const EVENTS = ["builds/*/*", "steps/*/finished"];
  let due = Infinity;
  let timer = 0;
  let socket = null;

  function renewIn(seconds) {
    const time = Date.now() + 1000 * seconds;
    if (time >= due) { return; }
    window.clearTimeout(timer);
    timer = window.setTimeout(renew, 1000 * seconds);
    due = time;
  }

  function renewLater(page) {
    const script = page.querySelector("script[data-seconds]");
    if (script) { renewIn(script.dataset.seconds); }
  }

  function keepOpen(shown, found) {
    const name = (one) => one.textContent.trim().split(/[,:;]/)[0];
    const open = new Map(Array.from(shown.querySelectorAll("details"), (one) => [name(one), one.open]));
    found.querySelectorAll("details").forEach((one) => { one.open = open.get(name(one)) ?? one.open; });
  }

  function keepForms(shown, found) {  // with what was typed
    const forms = new Map(Array.from(shown.querySelectorAll("form"), (one) => [one.outerHTML, one]));
    found.querySelectorAll("form").forEach((one) => { one.replaceWith(forms.get(one.outerHTML) ?? one); });
  }

  function replace(shown, found) {  // with the focus, and with tables as they were scrolled
    const name = (one) => one.getAttribute("href") || one.getAttribute("aria-label")
      || (one.querySelector("figcaption") ?? one).textContent;
    const places = (main) => Array.from(main.querySelectorAll("a, summary, [tabindex]"));
    const scrolled = new Map(places(shown).map((one) => [name(one), one.scrollLeft]));
    const focus = document.activeElement;
    const focused = shown.contains(focus) ? name(focus) : null;
    keepForms(shown, found);
    shown.replaceWith(found);
    places(found).forEach((one) => { one.scrollLeft = scrolled.get(name(one)) ?? 0; });
    const again = found.contains(focus) ? focus : places(found).find((one) => name(one) === focused);
    if (again) { again.focus({ preventScroll: true }); }
  }

  async function renew() {
    due = Infinity;
    if (socket && socket.readyState === WebSocket.CLOSED) { listen(); }  // the master was restarted
    const focus = document.activeElement;
    let next = document;
    if (!document.hidden && !(focus && focus.closest("form"))) {
      const answer = await fetch(window.location.href).catch(() => null);
      if (answer && answer.ok) {
        next = new DOMParser().parseFromString(await answer.text(), "text/html");
        const [shown, found] = [document, next].map((one) => one.querySelector("main"));
        if (found) { keepOpen(shown, found); }
        if (found && found.innerHTML !== shown.innerHTML) { replace(shown, found); }
        document.title = next.title;
      }
    }
    renewLater(next);
  }

  function listen() {
    const address = new URL("../../ws", window.location.href);
    address.protocol = address.protocol.replace("http", "ws");
    socket = new WebSocket(address);
    socket.onopen = () => EVENTS.forEach((path) =>
      socket.send(JSON.stringify({ cmd: "startConsuming", path, _id: path })));
    socket.onmessage = (message) => { if (JSON.parse(message.data).k) { renewIn(PAUSE); } };
  }

  renewLater(document);
  listen();  // throws where the browser forbids it
})();
