// Renews the content of a page that changes, without a reload: place, focus and forms remain.
// Plain ECMAScript.
(function () {
  "use strict";

  function later(page) {
    const script = page.querySelector("script[data-seconds]");
    if (script) { window.setTimeout(renew, 1000 * script.dataset.seconds); }
  }

  async function renew() {
    const focus = document.activeElement;
    let next = document;
    if (!document.hidden && !(focus && focus.closest("form"))) {
      const answer = await fetch(window.location.href).catch(() => null);
      if (answer && answer.ok) {
        next = new DOMParser().parseFromString(await answer.text(), "text/html");
        const [shown, found] = [document, next].map((one) => one.querySelector("main"));
        if (found && found.innerHTML !== shown.innerHTML) { shown.replaceWith(found); }
        document.title = next.title;
      }
    }
    later(next);
  }

  later(document);
})();
