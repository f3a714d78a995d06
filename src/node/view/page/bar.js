// SPDX-License-Identifier: Apache-2.0
// A GPU as two bars, its compute and its memory, cut as the GPU is cut. What to draw is decided first, as plain data in
// parts of the bar's length, so that tests can look at it; then it is drawn.
import { h } from "./dom.js";
import * as f from "./format.js";

const MILLION = 1e6;
const COLOURS = 8;

export const podOf = (use) => `${use.namespace}/${use.pod}`;

/* A colour for each use: by its pod, so that it stays over updates, and none twice on a GPU if there are enough. */
export function colours(gpu) {
	const taken = new Set(), byPod = new Map();
	for (const use of gpu.units.flatMap((unit) => unit.uses)) {
		const name = podOf(use);
		if (!use.live || byPod.has(name))
			continue;
		let hash = 0;
		for (const c of name)
			hash = (hash * 31 + c.codePointAt(0)) >>> 0;
		let colour = hash % COLOURS;
		for (let i = 0; i < COLOURS && taken.has(colour); i++)
			colour = (colour + 1) % COLOURS;
		taken.add(colour);
		byPod.set(name, colour);
	}
	return byPod;
}

/* Where each unit lies, in parts of the bar. */
function places(gpu, first, size, whole, weight) {
	let at = 0;
	const total = Math.max(gpu.units.reduce((sum, u) => sum + weight(u), 0), 1);
	return gpu.units.map((u) => {
		if (!u.mig)
			return [0, 1];
		if (u[first] !== null && whole)
			return [u[first] / whole, u[size] / whole];
		const place = [at, weight(u) / total];
		at += place[1];
		return place;
	});
}

/* What no unit lies on. */
function holes(taken) {
	const list = [];
	let at = 0;
	for (const [left, width] of [...taken].sort((a, b) => a[0] - b[0])) {
		if (left - at > 1e-6)
			list.push({ left: at, width: left - at, kind: "hole", title: "not cut" });
		at = Math.max(at, left + width);
	}
	if (1 - at > 1e-4)
		list.push({ left: at, width: 1 - at, kind: "hole", title: "not cut" });
	return list;
}

/* Seats side by side that one use holds are one piece. */
function pieces(unit) {
	const list = [];
	let at = 0;
	for (const seat of unit.seats) {
		const last = list[list.length - 1];
		if (last && seat.use !== null && last.use === seat.use) {
			last.width += seat.share / MILLION;
			last.seats.push(seat);
		} else {
			list.push({ left: at, width: seat.share / MILLION, use: seat.use, seats: [seat] });
		}
		at += seat.share / MILLION;
	}
	return list;
}

function seatKind(node, unit, seat) {
	if (!seat.healthy)
		return ["bad", unit.health === "probation" ? "on probation" : "unhealthy"];
	return node.holdersKnown ? ["idle", "idle"] : ["unknown", "holder not known"];
}

function computePiece(node, unit, place, piece) {
	const use = piece.use === null ? null : unit.uses[piece.use];
	const segment = { left: place[0] + piece.left * place[1], width: piece.width * place[1],
		seats: piece.seats.length, unit: unit.label };
	if (!use) {
		const [kind, title] = seatKind(node, unit, piece.seats[0]);
		return { ...segment, kind, title, sub: unit.profile || "" };
	}
	const ratio = use.received === null || !use.share ? null : use.received / use.share;
	return { ...segment, kind: "use", use, title: use.pod, fill: ratio, turn: Boolean(use.slice?.turn),
		bad: !piece.seats[0].healthy,
		sub: use.received === null ? `${f.percent(use.share)}, use not known` :
			`${f.percent(use.received)} of ${f.percent(use.share)}` };
}

export function computeSegments(node, gpu) {
	const at = places(gpu, "start", "size", gpu.migSlices, (u) => u.part);
	const list = gpu.units.flatMap((unit, i) => {
		if (!unit.seats.length)
			return [{ left: at[i][0], width: at[i][1], kind: "off", unit: unit.label, title: "not offered" }];
		const cut = pieces(unit);
		const end = cut.reduce((sum, p) => sum + p.width, 0);
		const rest = end < 0.9999 ? [{ left: at[i][0] + end * at[i][1], width: (1 - end) * at[i][1],
			kind: "hole", unit: unit.label, title: "not cut" }] : [];
		return [...cut.map((piece) => computePiece(node, unit, at[i], piece)), ...rest];
	});
	return [...list, ...holes(at)].sort((a, b) => a.left - b.left);
}

/* One GPU instance has one memory, whatever it is cut into. */
function migMemory(gpu) {
	const at = places(gpu, "memoryStart", "memorySize", gpu.migMemorySlices, (u) => u.memoryTotal || 1);
	const byInstance = new Map();
	gpu.units.forEach((unit, i) => {
		const key = unit.memoryStart === null ? unit.uuid : unit.gi;
		const one = byInstance.get(key) || { units: [], at: at[i] };
		one.units.push(unit);
		byInstance.set(key, one);
	});
	const list = [...byInstance.values()].map(({ units, at: [left, width] }) => {
		const live = units.flatMap((u) => u.uses.filter((use) => use.live));
		const known = units.every((u) => u.memoryUsed !== null) && units[0].memoryTotal;
		const used = known ? units.reduce((sum, u) => sum + u.memoryUsed, 0) : null;
		return { left, width, kind: live.length ? "use" : "idle", use: live.length ? live[0] : null,
			unit: units.map((u) => u.label).join(" "), fill: known ? used / units[0].memoryTotal : null,
			title: units.map((u) => u.label).join(", "), sub: f.bytesOf(used, units[0].memoryTotal) };
	});
	return [...list, ...holes([...byInstance.values()].map((one) => one.at))]
		.sort((a, b) => a.left - b.left);
}

/* Seats with a limit: a piece of that length for each, filled as far as it is used. */
function limited(node, unit) {
	let at = 0;
	const list = pieces(unit).map((piece) => {
		const use = piece.use === null ? null : unit.uses[piece.use];
		const limit = piece.seats.some((s) => s.memoryLimit === null) ? null :
			piece.seats.reduce((sum, s) => sum + s.memoryLimit, 0);
		const segment = { left: at, width: limit === null ? piece.width : limit / unit.memoryTotal, unit: unit.label };
		at += segment.width;
		if (!use) {
			const [kind, title] = seatKind(node, unit, piece.seats[0]);
			return { ...segment, kind, title, sub: limit === null ? "no limit" : f.bytes(limit) };
		}
		return { ...segment, kind: "use", use, title: use.pod,
			sub: limit === null ? `${f.bytes(use.memoryUsed)}, no limit` : f.bytesOf(use.memoryUsed, limit),
			fill: use.memoryUsed === null || limit === null ? null : use.memoryUsed / limit };
	});
	if (at < 0.995)
		list.push({ left: at, width: 1 - at, kind: "hole", title: "not cut",
			sub: f.bytes((1 - at) * unit.memoryTotal) });
	/* Limits may be more than there is in all. */
	return at > 1 ? list.map((s) => ({ ...s, left: s.left / at, width: s.width / at })) : list;
}

/* Without limits: what each has, side by side. */
function stacked(unit) {
	let at = 0;
	const add = (list, kind, size, more) => {
		if (size > 0)
			list.push({ left: at, width: size / unit.memoryTotal, kind, unit: unit.label, sub: f.bytes(size), ...more });
		at += size / unit.memoryTotal;
	};
	const list = [];
	for (const use of unit.uses.filter((u) => u.live))
		add(list, "use", use.memoryUsed || 0, { use, title: use.pod, fill: 1 });
	/* What a container has of which it is not known is in what is left. */
	const all = unit.uses.every((u) => !u.live || u.memoryUsed !== null);
	add(list, "other", unit.otherMemory + (unit.memoryReserved ?? 0),
		{ title: all ? "driver and others" : "whose is not known" });
	add(list, "idle", unit.memoryTotal * (1 - at), { title: "free" });
	return list;
}

export function memorySegments(node, gpu) {
	if (gpu.units.some((u) => u.mig))
		return migMemory(gpu);
	const unit = gpu.units[0];
	if (!unit)
		return holes([]);
	if (!unit.memoryTotal)
		return [{ left: 0, width: 1, kind: "unknown", title: f.UNKNOWN }];
	return unit.seats.some((s) => s.memoryLimit !== null) ? limited(node, unit) : stacked(unit);
}

/* --- drawing --- */

function piece(segment, colour) {
	const { use, fill } = segment;
	const meter = fill === undefined ? null : h("span", { class: fill === null ? "meter none" :
		fill > 1.02 ? "meter above" : "meter" },
		h("span", { style: { width: `${Math.min(fill ?? 0, 1) * 100}%` } }));
	return h("div", { class: `piece ${segment.kind}${use ? ` c${colour.get(podOf(use)) ?? 0}` : ""}${segment.bad ? " bad" : ""}`,
		"data-unit": segment.unit, "data-left": segment.left.toFixed(4), "data-width": segment.width.toFixed(4),
		title: use ? `${podOf(use)} (${use.container}): ${segment.sub}` : [segment.title, segment.sub].filter(Boolean).join(", "),
		style: { left: `${segment.left * 100}%`, width: `${segment.width * 100}%` } },
		h("span", { class: "box" },
			h("span", { class: "name" }, segment.title, segment.turn ? " ▸" : ""),
			segment.sub ? h("span", { class: "sub" }, segment.sub) : null,
			meter));
}

function words(segment) {
	const where = segment.unit && segment.unit.includes(":") ? `MIG device ${segment.unit}: ` : "";
	const who = segment.use ? `${podOf(segment.use)} (${segment.use.container})` : segment.title;
	const seats = segment.seats > 1 ? `, ${segment.seats} seats` : "";
	const size = segment.use ? "" : ` ${f.percent(segment.width * MILLION)}`;
	return `${where}${who}${seats}${size}${segment.sub ? `, ${segment.sub}` : ""}`;
}

function bar(title, gpu, segments, colour, slices) {
	return h("div", { class: "bar-row" },
		h("span", { class: "bar-title", "aria-hidden": "true" }, title),
		h("div", { class: `bar ${title.toLowerCase()}`, role: "img",
			"aria-label": `${title} of GPU ${gpu.index}: ${segments.map(words).join("; ") || "nothing"}` },
			segments.map((s) => piece(s, colour)),
			slices ? h("span", { class: "ticks" }, Array.from({ length: slices - 1 }, (_, i) =>
				h("i", { style: { left: `${(i + 1) / slices * 100}%` } }))) : null));
}

export function bars(node, gpu) {
	const colour = colours(gpu);
	const mig = gpu.migEnabled;
	return h("div", { class: "bars" },
		bar("Compute", gpu, computeSegments(node, gpu), colour, mig && gpu.migSlices),
		bar("Memory", gpu, memorySegments(node, gpu), colour, mig && gpu.migMemorySlices));
}
