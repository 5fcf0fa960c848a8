"use strict";
(function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var body = document.querySelector("#revisions tbody");
  var place = document.getElementById("chosen");
  var picked = { before: Math.min(1, data.rows.length - 1), after: 0 };

  function radio(side, row, label) {
    var input = document.createElement("input");
    input.type = "radio";
    input.className = "pick";
    input.name = side;
    input.checked = picked[side] === row;
    input.setAttribute("aria-label", side + ": " + label);
    input.title = side;
    input.addEventListener("change", function () { picked[side] = row; show(); });
    return input;
  }

  function rate(ln) {
    var value = Math.exp(ln);
    if (value >= 1e6) { return (value / 1e6).toPrecision(4) + " Mpps"; }
    if (value >= 1e3) { return (value / 1e3).toPrecision(3) + " kpps"; }
    return value.toFixed(0) + " pps";
  }

  function percent(ln) {
    var value = 100 * Math.expm1(ln);
    var text = value.toFixed(1);
    return Number(text) === 0 ? "0.0" : (value > 0 ? "+" : "") + text;
  }

  function compared(one, before, after) {
    // Two levels of one image share its offset; other images have one each.
    var image = before[2] === after[2] ? 0 : 2 * one.image * one.image;
    var reach = 1.96 * Math.sqrt(before[1] + after[1] + image);
    var ratio = after[0] - before[0];
    var clear = Math.abs(ratio) > reach;
    return (clear ? "" : "~ ") + percent(ratio) + " % (" + percent(ratio - reach) + " to " +
      percent(ratio + reach) + ")";
  }

  function cell(kind, text, scope) {
    var found = document.createElement(kind);
    found.textContent = text;
    if (scope) { found.scope = scope; } else { found.className = "n"; }
    return found;
  }

  function show() {
    var before = data.rows[picked.before], after = data.rows[picked.after];
    var table = document.createElement("table");
    table.className = "list";
    var caption = table.createCaption();
    caption.textContent = after.label + " against " + before.label +
      "; choose others with the buttons below, first for before, second for after.";
    var head = table.createTHead().insertRow();
    ["scenario", "before", "after", "change, 95 % interval"].forEach(function (name) {
      head.appendChild(cell("th", name, "col"));
    });
    var lines = table.createTBody();
    data.scenarios.forEach(function (one, at) {
      var a = before.levels[at], b = after.levels[at];
      if (!a || !b) { return; }
      var line = lines.insertRow();
      line.appendChild(cell("th", one.title, "row"));
      line.appendChild(cell("td", rate(a[0])));
      line.appendChild(cell("td", rate(b[0])));
      line.appendChild(cell("td", compared(one, a, b)));
    });
    var heading = document.createElement("h2");
    heading.textContent = "Two of them";
    var wide = document.createElement("div");
    wide.className = "wide";
    wide.appendChild(table);
    place.replaceChildren(heading, wide);
  }

  Array.prototype.forEach.call(body.rows, function (row, at) {
    var head = row.cells[0];
    head.prepend(radio("before", at, data.rows[at].label), radio("after", at, data.rows[at].label));
  });
  if (data.rows.length > 1) { show(); }
}());
