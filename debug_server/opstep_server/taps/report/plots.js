"use strict";
// Numbers of one source, and their drawing on a canvas.

const WORDS = { NaN: NaN, Inf: Infinity, "-Inf": -Infinity };

function asNumber(value) {
  return typeof value === "string" ? WORDS[value] : value;
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

// One number for all, [first, step], or 32 bit floats.
function columnOf(value, n) {
  if (Array.isArray(value)) {
    return Float64Array.from({ length: n }, (_, i) => asNumber(value[0]) + i * asNumber(value[1]));
  }
  if (typeof value === "string" && !(value in WORDS)) {
    const view = new DataView(bytesOf(value).buffer);
    return Float64Array.from({ length: n }, (_, i) => view.getFloat32(4 * i, true));
  }
  return new Float64Array(n).fill(value === undefined ? NaN : asNumber(value));
}

function unpack(source) {
  const lines = source.lines;
  const points = { n: lines.n };
  for (const name of ["step", "time", "mean", "min", "max", "std", "l2", "count", "nan", "inf", "zeros"]) {
    points[name] = columnOf(lines[name], lines.n);
  }
  points.step = points.step.map((step) => step + asNumber(lines.first || 0));
  const share = (name) => points[name].map((count, i) => count / points.count[i]);
  points.nanShare = share("nan");
  points.infShare = share("inf");
  points.zeroShare = share("zeros");
  points.faulty = points.nan.map((nan, i) => (nan > 0 || points.inf[i] > 0 ? 1 : 0));
  return points;
}

function shown(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function percent(share) {
  return `${Number((100 * share).toPrecision(3))} %`;
}

function ends(columns) {
  let low = Infinity;
  let high = -Infinity;
  for (const column of columns) {
    for (const value of column) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [0, 0];
}

// A drawing area with its axes; `y` and `x` give pixels.
class Area {
  constructor(canvas, colours, xs, low, high, options) {
    const ratio = window.devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.context = canvas.getContext("2d");
    this.context.scale(ratio, ratio);
    this.colours = colours;
    this.left = 52;
    this.right = this.width - 6;
    this.top = 6;
    this.bottom = this.height - 18;
    [this.first, this.last] = ends([xs]);
    const log = options.log && !options.percent;
    const small = Math.max(Math.abs(low), Math.abs(high)) / 1000 || 1;
    this.scaled = log ? (v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / small) : (v) => v / 2;
    this.low = this.scaled(low);
    this.high = this.scaled(high);
    this.axes(low, high, log, small, options);
  }

  x(value) {
    const part = this.last > this.first ? (value - this.first) / (this.last - this.first) : 0.5;
    return this.left + part * (this.right - this.left);
  }

  y(value) {
    const span = this.high - this.low;
    const part = span > 0 ? (this.scaled(value) - this.low) / span : 0.5;
    return this.bottom - Math.min(Math.max(part, 0), 1) * (this.bottom - this.top);
  }

  axes(low, high, log, small, options) {
    const context = this.context;
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = this.colours.line;
    context.fillStyle = this.colours.faint;
    context.lineWidth = 1;
    const back = (s) => (log ? Math.sign(s) * (10 ** Math.abs(s) - 1) * small : s * 2);
    const marks = high > low ? [low, back((this.low + this.high) / 2), high] : [low];
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const mark of marks) {
      const y = Math.round(this.y(mark)) + 0.5;
      context.beginPath();
      context.moveTo(this.left, y);
      context.lineTo(this.right, y);
      context.stroke();
      context.fillText(options.percent ? percent(mark) : shown(rounded(mark, high - low)), this.left - 4, y);
    }
    context.textBaseline = "alphabetic";
    const label = options.time ? clock : shown;
    context.textAlign = "left";
    context.fillText(label(this.first), this.left, this.height - 4);
    context.textAlign = "right";
    if (this.last > this.first) context.fillText(label(this.last), this.right, this.height - 4);
  }

  line(xs, ys, colour) {
    const context = this.context;
    context.strokeStyle = colour;
    context.fillStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    let drawing = false;
    ys.forEach((value, i) => {
      if (!Number.isFinite(value)) {
        drawing = false;
        return;
      }
      const x = this.x(xs[i]);
      const y = this.y(value);
      if (drawing) context.lineTo(x, y);
      else context.moveTo(x, y);
      // A point between gaps would be invisible.
      if (!drawing && !Number.isFinite(ys[i + 1])) context.fillRect(x - 1.5, y - 1.5, 3, 3);
      drawing = true;
    });
    context.stroke();
  }

  band(xs, lows, highs, colour) {
    const context = this.context;
    context.fillStyle = colour;
    let from = 0;
    while (from < lows.length) {
      let to = from;
      while (to < lows.length && !Number.isNaN(lows[to]) && !Number.isNaN(highs[to])) to += 1;
      if (to > from) {
        context.beginPath();
        for (let i = from; i < to; i += 1) context.lineTo(this.x(xs[i]), this.y(highs[i]));
        for (let i = to - 1; i >= from; i -= 1) context.lineTo(this.x(xs[i]), this.y(lows[i]));
        context.fill();
        if (to === from + 1) {
          const top = this.y(highs[from]);
          context.fillRect(this.x(xs[from]) - 1, top, 2, this.y(lows[from]) - top);
        }
      }
      from = to + 1;
    }
  }

  // A mark at each flagged point.
  ticks(xs, flags, colour, whole) {
    this.context.fillStyle = colour;
    flags.forEach((flag, i) => {
      if (!(flag > 0)) return;
      const top = whole ? this.top : this.bottom - 6;
      this.context.fillRect(this.x(xs[i]) - 1, top, 2, this.bottom - top);
    });
  }

  cursor(x) {
    this.context.fillStyle = this.colours.text;
    this.context.fillRect(Math.round(this.x(x)), this.top, 1, this.bottom - this.top);
  }
}

// Rounds to what is distinguishable on an axis of that span.
function rounded(value, span) {
  const unit = 10 ** (Math.floor(Math.log10(span)) - 2);
  if (!(unit > 0) || !Number.isFinite(value / unit)) return Number(value.toPrecision(4));
  return Number((Math.round(value / unit) * unit).toPrecision(6));
}

let dataBegin = 0;

function clock(seconds) {
  return new Date(1000 * (dataBegin + seconds)).toISOString().slice(11, 19);
}

// Each function draws on a canvas and returns the area, or nothing when there is nothing to draw.
const DRAW = {
  mean(canvas, points, xs, colours, options) {
    const [low, high] = ends([points.min, points.max, points.mean]);
    const area = new Area(canvas, colours, xs, low, high, options);
    area.ticks(xs, points.faulty, colours.nan + "55", true);
    area.band(xs, points.min, points.max, colours.band);
    area.line(xs, points.mean, colours.mean);
    return area;
  },
  std(canvas, points, xs, colours, options) {
    const area = new Area(canvas, colours, xs, ...ends([points.std]), options);
    area.line(xs, points.std, colours.other);
    return area;
  },
  l2(canvas, points, xs, colours, options) {
    const area = new Area(canvas, colours, xs, ...ends([points.l2]), options);
    area.line(xs, points.l2, colours.other);
    return area;
  },
  counts(canvas, points, xs, colours, options) {
    const shares = [points.zeroShare, points.nanShare, points.infShare];
    const high = Math.max(ends(shares)[1], 0.001);
    const area = new Area(canvas, colours, xs, 0, high, { ...options, percent: true });
    area.band(xs, new Float64Array(points.n), points.zeroShare, colours.zeros + "66");
    area.line(xs, points.zeroShare, colours.zeros);
    if (points.inf.some((count) => count > 0)) area.line(xs, points.infShare, colours.inf);
    if (points.nan.some((count) => count > 0)) area.line(xs, points.nanShare, colours.nan);
    area.ticks(xs, points.inf, colours.inf);
    area.ticks(xs, points.nan, colours.nan);
    return area;
  },
};

function drawHeat(canvas, heat, colours) {
  const steps = heat.steps.map(asNumber);
  const area = new Area(canvas, colours, steps, asNumber(heat.low), asNumber(heat.high), {});
  const shades = bytesOf(heat.data);
  // Drawn with one pixel for each cell, then stretched, to avoid seams.
  const small = document.createElement("canvas");
  [small.width, small.height] = [heat.n, heat.bins];
  const context = small.getContext("2d");
  context.fillStyle = colours.mean;
  for (let column = 0; column < heat.n; column += 1) {
    for (let bin = 0; bin < heat.bins; bin += 1) {
      const shade = shades[column * heat.bins + bin];
      if (!shade) continue;
      context.globalAlpha = 0.06 + (0.94 * shade) / 255;
      context.fillRect(column, heat.bins - 1 - bin, 1, 1);
    }
  }
  area.context.imageSmoothingEnabled = false;
  area.context.drawImage(small, area.left, area.top, area.right - area.left, area.bottom - area.top);
}
