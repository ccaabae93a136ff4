// Draws the figures of the report from its data block. Names of groups reach the page as text nodes only.
(() => {
  "use strict";
  const block = document.getElementById("report-data");
  if (!block) return;
  const DATA = JSON.parse(block.textContent);
  const NS = "http://www.w3.org/2000/svg";
  const ALL_AT_ONCE = 60, PAGE = 50, PRINTED = 400, PAPER = 700;
  const THIN = "\u202f", MINUS = "\u2212";
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const FAMILY = getComputedStyle(document.body).fontFamily;
  const ruler = document.createElement("canvas").getContext("2d");

  // ---- small helpers -------------------------------------------------------------------------------------------

  function add(parent, name, attributes = {}, content = null) {
    const inSvg = name === "svg" || parent.namespaceURI === NS;
    const node = inSvg ? document.createElementNS(NS, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    if (content !== null) node.textContent = content;
    parent.appendChild(node);
    return node;
  }

  const known = (value) => value !== null && value !== undefined;

  function percent(share, digits = 1) {
    if (!known(share)) return "–";
    const edge = Math.min(share, 1 - share);
    return (100 * share).toFixed(edge > 0 && edge < 0.01 ? 2 : digits) + THIN + "%";
  }

  function signed(value, digits = 2) {
    if (!known(value)) return "–";
    const size = Math.abs(value).toFixed(digits);
    return Number(size) === 0 ? size : (value > 0 ? "+" : MINUS) + size;
  }

  const count = (n) => Math.round(n).toLocaleString("en-GB");
  const plain = (name) => name.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

  function formatter(figure) {
    if (figure.format === "percent") {
      return { one: percent, range: (a, b) => percent(a).replace(THIN + "%", "") + "–" + percent(b) };
    }
    const digits = figure.digits ?? 3;
    return { one: (v) => signed(v, digits), range: (a, b) => `${signed(a, digits)} to ${signed(b, digits)}` };
  }

  function useFont(look) { ruler.font = `${look} ${FAMILY}`; }

  function shortened(name, width, look = "13px") {
    useFont(look);
    if (ruler.measureText(name).width <= width) return name;
    let low = 0, high = name.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (ruler.measureText(name.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
    }
    return name.slice(0, low).trimEnd() + "…";
  }

  function labelWidth(names, most) {
    useFont("13px");
    const longest = names.reduce((widest, name) => Math.max(widest, ruler.measureText(name).width), 24);
    return Math.min(Math.ceil(longest) + 2, most);
  }

  function ticksBetween(low, high, wanted) {
    const rough = (high - low) / Math.max(wanted, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough - 1e-12);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
    return { step, ticks };
  }

  // ---- one tooltip for all figures -----------------------------------------------------------------------------

  const tip = add(document.body, "div", { class: "tip", hidden: true, "aria-hidden": "true" });

  function showTip(at, title, lines) {
    tip.replaceChildren();
    add(tip, "strong", {}, title);
    const list = add(tip, "dl");
    for (const [name, value] of lines) { add(list, "dt", {}, name); add(list, "dd", {}, value); }
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), margin = 8;
    const left = Math.min(Math.max(at.x + 14, margin), document.documentElement.clientWidth - box.width - margin);
    const above = at.y + 18 + box.height > window.innerHeight;
    tip.style.left = `${Math.max(left, margin)}px`;
    tip.style.top = `${Math.max(above ? at.y - box.height - 14 : at.y + 18, margin)}px`;
  }

  const hideTip = () => { tip.hidden = true; };

  // ---- a figure with one row per group: order, pages, keyboard ---------------------------------------------------

  class RowFigure {
    constructor(host, figure) {
      this.host = host;
      this.figure = figure;
      this.keys = figure.names.map(plain);
      this.page = 0;
      this.active = null;
      this.query = "";
      this.printing = false;
      this.sorts = this.sortings();
      this.sortKey = this.sorts.some((s) => s.key === figure.sort) ? figure.sort : this.sorts[0].key;
      this.descending = figure.descending ?? false;
      this.controls();
      this.canvas = add(host, "div", { class: "canvas" });
      this.arrange();
      this.width = 0;
      new ResizeObserver(() => requestAnimationFrame(() => this.resized())).observe(host);
      this.resized();
    }

    resized() {
      const width = Math.floor(this.host.clientWidth);
      if (this.printing) return;
      if (width === this.width || width === 0) return;
      this.width = width;
      this.draw();
    }

    controls() {
      const bar = add(this.host, "div", { class: "controls" });
      const label = add(bar, "label", {}, "Sort by ");
      const select = add(label, "select", { class: "sort" });
      for (const { key, label: name } of this.sorts) {
        add(select, "option", { value: key, selected: key === this.sortKey }, name);
      }
      this.direction = add(bar, "button", { type: "button", class: "direction" });
      this.pager = add(bar, "span", { class: "pager" });
      this.back = add(this.pager, "button", { type: "button", class: "back", "aria-label": "Previous groups" }, "←");
      this.where = add(this.pager, "span", { class: "where", role: "status" });
      this.forth = add(this.pager, "button", { type: "button", class: "forth", "aria-label": "Next groups" }, "→");
      select.addEventListener("change", () => {
        this.sortKey = select.value;
        this.descending = select.value !== "name" && select.value !== "given";
        this.renew();
      });
      this.direction.addEventListener("click", () => { this.descending = !this.descending; this.renew(); });
      this.back.addEventListener("click", () => this.turn(-1));
      this.forth.addEventListener("click", () => this.turn(1));
    }

    renew() { this.page = 0; this.active = null; this.arrange(); this.draw(); }

    arrange() {
      const { names } = this.figure;
      const sorting = this.sorts.find((s) => s.key === this.sortKey);
      const query = plain(this.query.trim());
      const order = names.map((_, i) => i).filter((i) => !query || this.keys[i].includes(query));
      const sign = this.descending ? -1 : 1;
      // Groups of very few rows come last in any order.
      const { last } = this.figure, late = (a, b) => (last ? last[a] - last[b] : 0);
      const byName = (a, b) => collator.compare(names[a], names[b]) || a - b;
      if (sorting.key === "name") order.sort((a, b) => late(a, b) || sign * byName(a, b));
      else {
        const value = names.map((_, i) => sorting.value(i));
        // What has no number comes last in either direction.
        order.sort((a, b) => late(a, b) || (known(value[b]) - known(value[a])) || sign * (value[a] - value[b]) || byName(a, b));
      }
      this.order = order;
      this.direction.textContent = this.descending ? "↓" : "↑";
      const ascending = this.descending ? "descending" : "ascending";
      this.direction.setAttribute("aria-label", `Order: ${ascending}. Reverse.`);
      this.direction.title = `Now ${ascending}; reverse`;
    }

    get size() {
      if (this.printing && this.order.length <= PRINTED) return Math.max(this.order.length, 1);
      return this.order.length <= ALL_AT_ONCE ? ALL_AT_ONCE : PAGE;
    }

    get visible() { return this.order.slice(this.page * this.size, (this.page + 1) * this.size); }

    turn(by) { this.goTo(this.page + by); }

    goTo(page) {
      const last = Math.max(Math.ceil(this.order.length / this.size) - 1, 0);
      this.page = Math.min(Math.max(page, 0), last);
      this.active = null;
      this.draw();
    }

    search(query) { this.query = query; this.renew(); return this.order.length; }

    draw() {
      if (!this.width) return;
      hideTip();
      const n = this.order.length, first = this.page * this.size, visible = this.visible;
      this.where.textContent = n > this.size
        ? `${count(first + 1)}–${count(first + visible.length)} of ${count(n)}` : "";
      this.pager.hidden = n <= this.size;
      this.back.disabled = this.page === 0;
      this.forth.disabled = first + visible.length >= n;
      this.canvas.replaceChildren();
      if (!n) { add(this.canvas, "p", { class: "none" }, `No group matches “${this.query.trim()}”.`); return; }
      if (n > this.size) this.overview();
      // On paper a figure must not be longer than a page.
      const each = this.printing ? PAGE : visible.length;
      for (let at = 0; at < visible.length; at += each) this.paint(visible.slice(at, at + each));
    }

    overview() {}

    frame(height, rows) {
      const svg = add(this.canvas, "svg", {
        width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "list",
        "aria-label": `${this.figure.label}. Arrow keys move between ${this.figure.what ?? "groups"}.`,
      });
      svg.addEventListener("keydown", (event) => this.pressed(event, rows));
      svg.addEventListener("pointerleave", hideTip);
      return svg;
    }

    row(svg, i, rows, extra = {}) {
      const { names } = this.figure;
      const lines = this.lines(i);
      const current = known(this.active) ? this.active : rows[0];
      const g = add(svg, "g", {
        class: this.marked(i) ? "row marked" : "row", role: "listitem", tabindex: i === current ? 0 : -1, "data-row": i,
        "aria-label": `${names[i]}: ${lines.map(([a, b]) => `${a} ${b}`).join(", ")}`, ...extra,
      });
      const tell = (event) => showTip({ x: event.clientX, y: event.clientY }, names[i], this.lines(i, event.target));
      g.addEventListener("pointermove", tell);
      g.addEventListener("pointerdown", tell);
      g.addEventListener("focus", () => {
        if (!g.matches(":focus-visible")) return;
        const box = g.getBoundingClientRect();
        showTip({ x: box.left + Math.min(box.width / 3, 160), y: box.bottom - 12 }, names[i], this.lines(i));
      });
      g.addEventListener("blur", hideTip);
      return g;
    }

    marked(i) { return this.figure.marked ? this.figure.marked.includes(i) : false; }

    pressed(event, rows) {
      const at = rows.indexOf(Number(event.target.dataset?.row ?? -1));
      const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
      if (event.key === "Escape") { hideTip(); return; }
      if (event.key === "PageDown" || event.key === "PageUp") {
        if (this.order.length <= this.size) return;
        event.preventDefault();
        this.turn(event.key === "PageDown" ? 1 : -1);
        this.canvas.querySelector(".row")?.focus();
        return;
      }
      if (!(event.key in steps) || at < 0) return;
      event.preventDefault();
      const next = rows[Math.min(Math.max(steps[event.key], 0), rows.length - 1)];
      this.canvas.querySelectorAll(".row").forEach((g) => g.setAttribute("tabindex", Number(g.dataset.row) === next ? 0 : -1));
      this.active = next;
      this.canvas.querySelector(`.row[data-row="${next}"]`).focus();
    }
  }

  // ---- dots with intervals ---------------------------------------------------------------------------------------

  class DotFigure extends RowFigure {
    sortings() {
      const f = this.figure;
      const sorts = [{ key: "name", label: "name" }, { key: "value", label: f.valueLabel.toLowerCase(), value: (i) => f.value[i] }];
      if (f.given) sorts.unshift({ key: "given", label: f.given, value: (i) => i });
      if (f.other) {
        sorts.push({ key: "other", label: f.otherLabel.toLowerCase(), value: (i) => f.other[i] });
        sorts.push({ key: "gap", label: "difference between the two",
          value: (i) => (known(f.other[i]) && known(f.value[i]) ? f.value[i] - f.other[i] : null) });
      }
      if (f.rows) sorts.push({ key: "rows", label: f.rowsLabel.toLowerCase(), value: (i) => f.rows[i] });
      if (f.low) sorts.push({ key: "width", label: "width of the interval",
        value: (i) => (known(f.low[i]) ? f.high[i] - f.low[i] : null) });
      return sorts;
    }

    lines(i) {
      const f = this.figure, { one, range } = formatter(f);
      const lines = [[f.valueLabel, one(f.value[i])]];
      if (f.low && known(f.low[i])) lines.push([f.intervalLabel, range(f.low[i], f.high[i])]);
      if (f.narrowLow) lines.push(["Narrow interval", range(f.narrowLow[i], f.narrowHigh[i])]);
      if (f.rows) lines.push([f.rowsLabel, count(f.rows[i])]);
      if (f.other) lines.push([f.otherLabel, known(f.other[i]) ? `${one(f.other[i])} of ${count(f.otherRows[i])}` : "–"]);
      if (f.other) lines.push(["All rows", one(f.everyRow[i])]);
      for (const [name, values] of Object.entries(f.more ?? {})) lines.push([name, values[i] ?? "–"]);
      return lines;
    }

    domain() {
      if (this.range) return this.range;
      const f = this.figure;
      const all = [f.value, f.low, f.high, f.other, [f.reference]].flatMap((v) => v ?? []).filter(known);
      let [low, high] = extent(all);
      if (f.format === "percent") {
        const pad = Math.max(0.02, 0.04 * (high - low));
        [low, high] = [Math.max(0, low - pad), Math.min(1, high + pad)];
        if (high - low > 0.6) [low, high] = [0, 1];
      } else {
        const pad = 0.05 * (high - low) || 0.01;
        [low, high] = [low - pad, high + pad];
      }
      this.range = [low, high];
      return this.range;
    }

    columns() {
      const f = this.figure, narrow = this.width < 560, gap = narrow ? 8 : 18;
      const label = labelWidth(this.visible.slice(0, 400).map((i) => f.names[i]), this.width * (narrow ? 0.37 : 0.26));
      const numbers = narrow ? 56 : f.low ? (f.format === "percent" ? 158 : 196) : 64;
      const rows = !narrow && f.rows ? 72 : 0;
      return { narrow, label, left: label + gap, right: this.width - numbers - rows - gap, rows };
    }

    paint(rows) {
      const f = this.figure, { one, range } = formatter(f);
      const { narrow, label, left, right, rows: rowsColumn } = this.columns();
      const [low, high] = this.domain();
      const x = (v) => left + 6 + (Math.min(Math.max(v, low), high) - low) / (high - low) * (right - left - 12);
      const height = this.printing ? 15 : 23, top = 44, bottom = top + rows.length * height, twice = rows.length > 24;
      const svg = this.frame(bottom + (twice ? 26 : 8), rows);
      this.axis(svg, x, low, high, { left, right, top, bottom, twice, narrow });
      if (!narrow) {
        add(svg, "text", { class: "head end", x: this.width - rowsColumn, y: 14 }, f.numbersLabel ?? f.valueLabel);
        if (rowsColumn) add(svg, "text", { class: "head end", x: this.width, y: 14 }, "Rows");
      }
      rows.forEach((i, at) => {
        const y = top + at * height, middle = y + height / 2;
        const g = this.row(svg, i, rows);
        add(g, "rect", { class: "hit", x: 0, y, width: this.width, height, rx: 3 });
        add(g, "text", { class: "name", x: 0, y: middle + 4.5 }, shortened(f.names[i], label));
        const value = f.value[i], other = f.other ? f.other[i] : null;
        if (known(value) && known(other)) add(g, "line", { class: "link", x1: x(other), x2: x(value), y1: middle, y2: middle });
        if (f.low && known(f.low[i])) {
          add(g, "line", { class: "interval", x1: x(f.low[i]), x2: x(f.high[i]), y1: middle, y2: middle });
          if (f.narrowLow) add(g, "line", { class: "narrow", x1: x(f.narrowLow[i]), x2: x(f.narrowHigh[i]), y1: middle, y2: middle });
        }
        if (known(other)) {
          const d = 4.6, cx = x(other);
          add(g, "path", { class: "other", d: `M${cx} ${middle - d}L${cx + d} ${middle}L${cx} ${middle + d}L${cx - d} ${middle}Z` });
        }
        if (known(value)) add(g, "circle", { class: "dot", cx: x(value), cy: middle, r: 4.3 });
        const end = this.width - rowsColumn;
        if (narrow || !f.low || !known(f.low[i])) add(g, "text", { class: "value end", x: end, y: middle + 4.5 }, one(value));
        else {
          add(g, "text", { class: "value end", x: end - (f.format === "percent" ? 94 : 128), y: middle + 4.5 }, one(value));
          add(g, "text", { class: "quiet end", x: end, y: middle + 4.5 }, range(f.low[i], f.high[i]));
        }
        if (rowsColumn) add(g, "text", { class: "quiet end", x: this.width, y: middle + 4.5 }, count(f.rows[i]));
      });
    }

    axis(svg, x, low, high, { left, right, top, bottom, twice, narrow }) {
      const f = this.figure;
      const { step, ticks } = ticksBetween(low, high, Math.max(2, Math.min(6, (right - left) / (narrow ? 48 : 70))));
      const digits = Math.max(0, -Math.floor(Math.log10(f.format === "percent" ? 100 * step : step) + 1e-9));
      const digitsShown = f.format !== "percent" && Math.abs(step / 10 ** -digits % 1) > 1e-6 ? digits + 1 : digits;
      const show = (v) => (f.format === "percent" ? (100 * v).toFixed(digits) + THIN + "%" : signed(v, digitsShown));
      const g = add(svg, "g", { class: "axis", "aria-hidden": "true" });
      add(g, "text", { class: "head", x: left, y: 14 }, shortened(f.axis, narrow ? this.width - left : right - left, "600 12px"));
      for (const tick of ticks) {
        add(g, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: top - 4, y2: bottom + (twice ? 4 : 0) });
        add(g, "text", { class: "tick", x: x(tick), y: top - 9 }, show(tick));
        if (twice) add(g, "text", { class: "tick", x: x(tick), y: bottom + 18 }, show(tick));
      }
      if (known(f.reference)) {
        add(g, "line", { class: "reference", x1: x(f.reference), x2: x(f.reference), y1: top - 4, y2: bottom });
      }
    }

    overview() {
      // All groups in the present order, a few to each pixel; the page below is marked, and a click turns to it.
      const f = this.figure, n = this.order.length, width = this.width, height = 84, [low, high] = this.domain();
      const bins = Math.min(n, Math.floor(width / 2)), y = (v) => 4 + (1 - (v - low) / (high - low)) * (height - 8);
      const upper = [], lower = [], line = [];
      for (let b = 0; b < bins; b++) {
        const own = this.order.slice(Math.floor(b * n / bins), Math.max(Math.floor((b + 1) * n / bins), Math.floor(b * n / bins) + 1));
        const mean = (v) => { const k = own.map((i) => v[i]).filter(known); return k.length ? k.reduce((a, c) => a + c, 0) / k.length : null; };
        const px = ((b + 0.5) / bins * width).toFixed(1), value = mean(f.value);
        if (!known(value)) continue;
        line.push(`${px} ${y(value).toFixed(1)}`);
        if (f.low) { upper.push(`${px} ${y(mean(f.high) ?? value).toFixed(1)}`); lower.unshift(`${px} ${y(mean(f.low) ?? value).toFixed(1)}`); }
      }
      const svg = add(this.canvas, "svg", { class: "overview", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": `All ${count(n)} at a glance, in the order chosen above; the band marks the page shown below.` });
      add(svg, "rect", { class: "ground", width, height, rx: 4 });
      const from = this.page * this.size / n * width, to = Math.min((this.page + 1) * this.size / n, 1) * width;
      if (upper.length) add(svg, "path", { class: "band", d: `M${[...upper, ...lower].join("L")}Z` });
      if (line.length) add(svg, "path", { class: "curve", d: `M${line.join("L")}` });
      add(svg, "rect", { class: "window", x: from, width: Math.max(to - from, 4), y: 0.75, height: height - 1.5, rx: 3 });
      svg.addEventListener("click", (event) => {
        const share = (event.clientX - svg.getBoundingClientRect().left) / width;
        this.goTo(Math.floor(share * n / this.size));
      });
      add(this.canvas, "p", { class: "hint" }, `All ${count(n)} ${f.what ?? "groups"} in this order. Click to turn to a place; the page is below.`);
    }
  }

  // Math.min(...array) overflows the stack beyond some 100,000 arguments.
  function extent(values) {
    return [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  }

  // ---- the map of shifts -----------------------------------------------------------------------------------------

  class MapFigure extends RowFigure {
    cell(values, i, k) { return values[i * this.figure.clusters.length + k]; }

    sortings() {
      const f = this.figure, clusters = f.clusters.map((_, k) => k);
      const shift = (i, k) => this.cell(f.shift, i, k);
      const sorts = [
        { key: "name", label: "name" },
        { key: "size", label: "largest shift either way", value: (i) => Math.max(...clusters.map((k) => Math.abs(shift(i, k)))) },
      ];
      if (clusters.length > 1) sorts.push({ key: "range", label: "difference between clusters",
        value: (i) => Math.max(...clusters.map((k) => shift(i, k))) - Math.min(...clusters.map((k) => shift(i, k))) });
      if (clusters.length <= 16) clusters.forEach((k) => sorts.push({ key: `k${k}`, label: `shift in ${f.clusters[k]}`, value: (i) => shift(i, k) }));
      return sorts;
    }

    lines(i, target = null) {
      const f = this.figure;
      const hovered = target?.dataset?.cluster;
      if (hovered !== undefined) {
        const k = Number(hovered), value = this.cell(f.shift, i, k);
        const lines = [["Cluster", String(k)], ["Shift (log-odds)", signed(value)], ["Odds", `× ${Math.exp(value).toPrecision(2)}`],
          ["Share of positives", percent(this.cell(f.share, i, k))],
          [f.intervalLabel, `${percent(this.cell(f.low, i, k))} to ${percent(this.cell(f.high, i, k))}`],
          ["Labelled sample, this cluster", percent(f.sampleShare[k])], ["Population rows", count(this.cell(f.rows, i, k))]];
        if (this.cell(f.borrowed, i, k)) lines.push(["Leans on", "other groups and clusters"]);
        return lines;
      }
      return f.clusters.slice(0, 12).map((name, k) => [name, signed(this.cell(f.shift, i, k))]);
    }

    layout(rows) {
      const f = this.figure, K = f.clusters.length, narrow = this.width < 560;
      const label = labelWidth(rows.map((i) => f.names[i]), narrow ? this.width * 0.34 : 200), gap = 12, between = 40;
      const comfortable = 64, widest = 108;
      const room = (columns) => (this.width - (columns - 1) * between) / columns - label - gap;
      let columns = 1;
      while (columns < 3 && rows.length / (columns + 1) >= 8 && room(columns + 1) >= K * comfortable) columns++;
      const cell = Math.min(room(columns) / K, widest);
      return { K, label, gap, columns, cell, pitch: label + gap + K * cell + between };
    }

    paint(rows) {
      const f = this.figure, { K, label, gap, columns, cell, pitch } = this.layout(rows);
      const height = this.printing ? 18 : 22, top = 30, each = Math.ceil(rows.length / columns), scale = f.scale;
      const svg = this.frame(top + each * height + 6, rows);
      const every = Math.ceil(30 / cell);
      for (let c = 0; c < columns; c++) {
        for (let k = 0; k < K; k += every) {
          const short = cell >= 86 ? `Cluster ${k}` : String(k);
          add(svg, "text", { class: "head middle", x: c * pitch + label + gap + (k + 0.5) * cell, y: top - 10 }, short);
        }
      }
      if (cell < 86) add(svg, "text", { class: "head", x: 0, y: top - 10 }, "Cluster");
      const space = cell > 20 ? 2 : 0.5;
      rows.forEach((i, at) => {
        const left = Math.floor(at / each) * pitch, y = top + (at % each) * height;
        const g = this.row(svg, i, rows);
        add(g, "rect", { class: "hit", x: left - 4, y, width: label + gap + K * cell + 8, height, rx: 3 });
        add(g, "text", { class: "name", x: left, y: y + height / 2 + 4.5 }, shortened(f.names[i], label));
        for (let k = 0; k < K; k++) {
          const value = this.cell(f.shift, i, k), x0 = left + label + gap + k * cell;
          const strength = Math.min(Math.abs(value) / scale, 1), empty = !this.cell(f.rows, i, k);
          const tone = empty ? "faint" : "";
          const sort = empty ? "cell empty" : value >= 0 ? "cell more" : "cell less";
          add(g, "rect", { class: sort, x: x0 + space / 2, y: y + 1, width: cell - space, height: height - 2, rx: Math.min(3, cell / 6),
            "fill-opacity": (0.06 + f.deepest * strength).toFixed(3), "data-cluster": k });
          if (cell >= 40) add(g, "text", { class: `inside ${tone}`, x: x0 + cell / 2, y: y + height / 2 + 4 },
            signed(value, 1));
          if (this.cell(f.borrowed, i, k) && !empty && cell >= 18) {
            add(g, "circle", { class: "borrowed", cx: x0 + cell - space - 5, cy: y + 6, r: 2 });
          }
        }
      });
    }
  }

  // ---- start -----------------------------------------------------------------------------------------------------

  const KINDS = { dots: DotFigure, map: MapFigure };
  const figures = [];
  for (const host of document.querySelectorAll(".chart[data-figure]")) {
    const figure = DATA[host.dataset.figure];
    if (figure) figures.push(new KINDS[figure.kind](host, figure));
  }
  document.documentElement.classList.add("drawn");
  for (const details of document.querySelectorAll("details.numbers:not(.always)")) details.open = false;
  // A link to a folded section opens it; so does printing.
  const unfold = () => {
    const fold = location.hash.length > 1 ? document.getElementById(location.hash.slice(1))?.querySelector(":scope > details.fold") : null;
    if (fold) { fold.open = true; fold.parentElement.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
  for (const link of document.querySelectorAll("a[href^='#']")) link.addEventListener("click", () => setTimeout(unfold));

  const search = document.getElementById("search");
  if (search) {
    const told = document.getElementById("found");
    const searched = figures.filter((f) => f.figure.searchable);
    const run = () => {
      const most = searched.map((f) => ({ found: f.search(search.value), of: f.figure.names.length }));
      const first = most[0];
      told.textContent = search.value.trim() && first ? `${count(first.found)} of ${count(first.of)} groups` : "";
    };
    search.addEventListener("input", run);
    search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; run(); } });
  }

  addEventListener("scroll", hideTip, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  const folds = [...document.querySelectorAll("details.fold")];
  const printing = (on) => { folds.forEach((d) => { if (on) { d.dataset.was = d.open ? "1" : ""; d.open = true; } else d.open = d.dataset.was === "1"; }); figures.forEach((f) => {
    const whole = f.order.length <= PRINTED;
    if (on && whole) { f.kept = f.page; f.page = 0; }
    f.printing = on;
    f.width = on ? PAPER : Math.floor(f.host.clientWidth);
    if (!on && whole) f.page = f.kept ?? 0;
    f.draw();
  }); };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
})();
