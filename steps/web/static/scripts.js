// One page in Buildbot's menu: the overview, which is a page of its own and needs no script.
// Plain ECMAScript; React comes with Buildbot's own pages.
(function () {
  "use strict";
  const { createElement: h } = window.React;
  const ADDRESS = "plugins/netbisect/index.html";

  function View() {
    return h("div", { id: "netbisect", style: { height: "calc(100vh - 5rem)" } },
      h("iframe", {
        src: ADDRESS, title: "Overview",
        style: { width: "100%", height: "100%", border: 0 },
      }),
      h("p", { className: "small px-3" }, h("a", { href: ADDRESS }, "This page alone")));
  }

  // Buildbot's home is the overview.
  function home() {
    if (/^#?\/?$/.test(window.location.hash)) { window.location.replace("#/netbisect"); }
  }
  window.addEventListener("hashchange", home);
  home();

  window.BuildbotPluginSupport.buildbotSetupPlugin((registry) => {
    registry.registerMenuGroup({
      name: "netbisect", caption: "netbisect", icon: h("span", null, "\u2242"),
      order: 1, route: "/netbisect", parentName: null,
    });
    registry.registerRoute({ route: "/netbisect", group: "netbisect", element: () => h(View) });
  });
})();
