// One page in Buildbot's menu: what is asked of the lab now, and which drops were confirmed.
// Plain ECMAScript; React comes with Buildbot's own pages.
(function () {
  "use strict";
  const { createElement: h, useEffect, useState } = window.React;
  const BASE = "plugins/netbisect/";
  const REFRESH = 3000; // milliseconds

  const when = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  const short = (revision) => (revision ? revision.slice(0, 12) : "");
  const percent = (value) => (value > 0 ? "+" : "\u2212") + Math.abs(value).toFixed(1) + " %";

  function Posterior({ belief }) {
    if (!belief) return null;
    const chances = Object.entries(belief.chances);
    const highest = Math.max(...chances.map(([, chance]) => chance), 1e-9);
    const width = Math.max(2, Math.min(12, 720 / chances.length));
    const bars = chances.map(([revision, chance], index) =>
      h("rect", {
        key: revision, x: index * width, width: width - 1,
        y: 60 * (1 - chance / highest), height: Math.max(1, (60 * chance) / highest),
        fill: "currentColor",
      }, h("title", null, short(revision) + ": " + (100 * chance).toFixed(1) + " %")));
    return h("svg", {
      width: chances.length * width, height: 60, role: "img",
      "aria-label": "How likely each commit is to have made the change, oldest first",
    }, bars);
  }

  function Question({ question }) {
    return h("section", { className: "card mb-3 p-3" },
      h("h4", null, question.kind + " on " + question.testbed + ", " + question.branch),
      h("p", null, question.now || "waiting", " \u00b7 ", question.decisions, " orders so far"),
      h(Posterior, { belief: question.belief }));
  }

  function Alert({ alert }) {
    return h("tr", null,
      h("td", null, h("a", { href: BASE + "reports/alert-" + alert.id + ".html" }, "alert " + alert.id)),
      h("td", null, when(alert.opened_at)),
      h("td", null, alert.branch), h("td", null, alert.testbed), h("td", null, alert.lead),
      h("td", null, percent(alert.percent)),
      h("td", null, alert.culprit ? short(alert.culprit) : alert.state));
  }

  function Quarantine({ held }) {
    return h("tr", null,
      h("td", null, held.testbed), h("td", null, when(held.since)), h("td", null, held.why),
      h("td", null, held.wanted_at ? held.wanted_by + " asks for its release" : held.refused));
  }

  function View() {
    const [data, setData] = useState(null);
    const [trouble, setTrouble] = useState("");
    useEffect(() => {
      const look = () => window.axios.get(BASE + "overview.json")
        .then((answer) => { setData(answer.data); setTrouble(""); })
        .catch((error) => setTrouble(String(error)));
      look();
      const timer = setInterval(look, REFRESH);
      return () => clearInterval(timer);
    }, []);
    if (!data) return h("div", { className: "container" }, trouble || "Loading\u2026");
    const head = ["", "confirmed", "branch", "testbed", "scenario", "effect", "commit"];
    return h("div", { className: "container", id: "netbisect" },
      trouble ? h("p", { role: "alert" }, trouble) : null,
      h("h2", null, "Asked of the lab now"),
      data.questions.length
        ? data.questions.map((question) => h(Question, { key: question.id, question }))
        : h("p", null, "Nothing."),
      data.quarantines.length
        ? h("section", null,
            h("h2", null, "In quarantine"),
            h("table", { className: "table" },
              h("thead", null, h("tr", null,
                ["testbed", "since", "why", "release"].map((text, i) => h("th", { key: i }, text)))),
              h("tbody", null,
                data.quarantines.map((held) => h(Quarantine, { key: held.id, held })))))
        : null,
      h("h2", null, "Confirmed drops"),
      data.alerts.length
        ? h("table", { className: "table" },
            h("thead", null, h("tr", null, head.map((text, i) => h("th", { key: i }, text)))),
            h("tbody", null, data.alerts.map((alert) => h(Alert, { key: alert.id, alert }))))
        : h("p", null, "None."));
  }

  window.BuildbotPluginSupport.buildbotSetupPlugin((registry) => {
    registry.registerMenuGroup({
      name: "netbisect", caption: "netbisect", icon: h("span", null, "\u2242"),
      order: 1, route: "/netbisect", parentName: null,
    });
    registry.registerRoute({ route: "/netbisect", group: "netbisect", element: () => h(View) });
  });
})();
