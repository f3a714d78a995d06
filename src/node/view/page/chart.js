// SPDX-License-Identifier: Apache-2.0
// The last hour as a small line. Where a point is not known the line has a gap.
import { h, svg } from "./dom.js";

const WIDTH = 240, HEIGHT = 40;

/* Runs of points that follow each other without a gap, as [x, y] in the picture. */
function runs(values, times, most) {
	const first = times[0], span = times[times.length - 1] - first || 1;
	const list = [];
	let run = null;
	values.forEach((value, i) => {
		if (value === null) {
			run = null;
			return;
		}
		if (!run)
			list.push(run = []);
		run.push([(times[i] - first) / span * WIDTH,
			HEIGHT - 1 - Math.min(value / most, 1) * (HEIGHT - 2)]);
	});
	return list;
}

const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

function area(points) {
	const last = points[points.length - 1];
	return `${path(points)}L${last[0].toFixed(1)} ${HEIGHT}L${points[0][0].toFixed(1)} ${HEIGHT}Z`;
}

function told(title, values, text) {
	const known = values.filter((v) => v !== null);
	if (!known.length)
		return `${title} not known`;
	const mean = known.reduce((a, b) => a + b, 0) / known.length;
	const minutes = (values.length - known.length) * 0.5;
	const gap = minutes ? `; not known for ${minutes} min` : "";
	return `${title} mean ${text(mean)}, highest ${text(Math.max(...known))}, ` +
		`lowest ${text(Math.min(...known))}${gap}`;
}

/* @under: values drawn as an area behind the line, or null. */
export function chart(title, kind, times, values, most, text, under) {
	const known = values.filter((v) => v !== null);
	const latest = known.length ? text(known.reduce((a, b) => a + b, 0) / known.length) : "not known";
	return h("figure", { class: `chart ${kind}` },
		h("figcaption", null, title, h("b", null, ` ${latest}`), known.length ? " mean" : ""),
		svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
			"aria-label": told(title, values, text) },
			under && runs(under, times, most).map((p) => svg("path", { class: "under", d: area(p) })),
			runs(values, times, most).map((p) => svg("path", { class: "fill", d: area(p) })),
			runs(values, times, most).map((p) => svg("path", { class: "line", d: path(p) }))));
}
