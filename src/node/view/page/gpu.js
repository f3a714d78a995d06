// SPDX-License-Identifier: Apache-2.0
// One GPU: what it is, how it is, its bars, who sits there, the last hour, and all of it as a table.
import { bars, colours, podOf } from "./bar.js";
import { chart } from "./chart.js";
import { h, table } from "./dom.js";
import * as f from "./format.js";

const MODES = { exclusive: "whole", "time-slicing": "time-slicing", mps: "MPS", slices: "slices" };
const SIGNS = { healthy: "●", unhealthy: "▲", probation: "◐" };

export function modeName(mode) {
	return MODES[mode] || mode;
}

export function badge(health) {
	return h("span", { class: `badge ${health}` },
		h("span", { "aria-hidden": "true" }, `${SIGNS[health] || "?"} `), health);
}

function cut(gpu) {
	if (gpu.migEnabled)
		return "MIG";
	return gpu.units.length ? modeName(gpu.units[0].mode) : "not offered";
}

function figure(title, value) {
	return h("div", null, h("dt", null, title), h("dd", null, value));
}

const field = (gpu, name) => gpu.sample?.[name] ?? null;

function measured(gpu, name, unit) {
	const n = field(gpu, name);
	return n === null ? f.UNKNOWN : `${Math.round(n)} ${unit}`;
}

/* Of all units; null if any is not known. */
function sum(units, key) {
	return units.some((u) => u[key] === null) || !units.length ? null :
		units.reduce((total, u) => total + u[key], 0);
}

/* What of the GPU its units were busy; GPU instances that cannot say make it not known. */
export function gpuBusy(gpu) {
	if (!gpu.units.length || gpu.units.some((u) => u.busy === null))
		return null;
	return gpu.units.reduce((total, u) => total + u.busy * u.part / 1e6, 0);
}

export function gpuHeld(gpu) {
	if (gpu.units.some((u) => u.held === null))
		return null;
	return gpu.units.reduce((total, u) => total + u.held * u.part / 1e6, 0);
}

/* Compute instances of one GPU instance share its memory. */
export function gpuMemory(gpu) {
	const byInstance = new Map();
	for (const u of gpu.units)
		byInstance.set(u.gi ?? u.uuid, { memoryUsed: sum([...gpu.units].filter((o) => (o.gi ?? o.uuid) ===
			(u.gi ?? u.uuid)), "memoryUsed"), memoryTotal: u.memoryTotal });
	const all = [...byInstance.values()];
	return [sum(all, "memoryUsed"), sum(all, "memoryTotal")];
}

function figures(node, gpu) {
	const power = field(gpu, "DCGM_FI_DEV_POWER_MGMT_LIMIT");
	const [used, total] = gpuMemory(gpu);
	return h("dl", { class: "figures" },
		figure("Busy", f.percent(gpuBusy(gpu))),
		figure("Held", f.percent(gpuHeld(gpu))),
		figure("Memory", f.bytesOf(used, total)),
		figure("Temperature", measured(gpu, "DCGM_FI_DEV_GPU_TEMP", "°C")),
		figure("Power", power === null ? measured(gpu, "DCGM_FI_DEV_POWER_USAGE", "W") :
			`${measured(gpu, "DCGM_FI_DEV_POWER_USAGE", "")}of ${Math.round(power)} W`),
		node.priced ? figure("Per hour", f.money(gpu.costNanoPerHour, node.currency)) : null);
}

function troubles(node, gpu) {
	const list = [];
	if (gpu.health !== "healthy")
		list.push(`${gpu.reason || "no reason is known"}, since ${f.moment(gpu.healthSince, node.wall)}`);
	if (gpu.warning)
		list.push(`Warning: ${gpu.warning}`);
	if (gpu.refused)
		list.push(gpu.refused);
	if (!gpu.present)
		list.push("NVML does not show it now");
	if (gpu.recovery && gpu.recovery !== "none")
		list.push(`The driver says it needs: ${gpu.recovery}`);
	if (gpu.migPending)
		list.push("Another MIG mode waits for a reset");
	for (const unit of gpu.units.filter((u) => u.mig)) {
		if (unit.health !== "healthy")
			list.push(`MIG device ${unit.label} is ${unit.health}: ${unit.reason}`);
		if (unit.refused)
			list.push(`MIG device ${unit.label}: ${unit.refused}`);
		if (unit.start === null)
			list.push(`Where MIG device ${unit.label} lies on the GPU is ${f.UNKNOWN}`);
	}
	if (gpu.xids?.length)
		list.push(`XID errors: ${gpu.xids.map((x) => `${x.xid} (${f.plural(x.count, "time")}` +
			`${x.last ? `, last ${f.moment(x.last, node.wall)}` : ""})`).join(", ")}`);
	return list.length ? h("ul", { class: `troubles ${gpu.health}` }, list.map((t) => h("li", null, t))) : null;
}

/* --- who --- */

function marks(use) {
	const s = use.slice;
	if (!s)
		return [];
	return [s.class === "latency" && "latency", s.weight && `weight ${s.weight}`, s.cap && `cap ${f.percent(s.cap)}`,
		s.turn && "has the turn", s.demoted && "demoted", s.stuck && "stuck", s.over && "over its limit",
		s.unhooked > 0 && `${f.bytes(s.unhooked)} without the libraries`,
		s.refusals > 0 && f.plural(s.refusals, "refusal")].filter(Boolean);
}

function sitter(unit, use, colour) {
	const notes = marks(use);
	if (!use.offeredNow)
		notes.push("of an earlier config");
	return h("li", { "data-key": use.seat + podOf(use) + use.container },
		h("span", { class: `swatch c${colour.get(podOf(use)) ?? 0}`, "aria-hidden": "true" }),
		h("span", { class: "name" }, h("b", null, use.pod), " ",
			h("span", { class: "quiet" }, `${use.namespace} · ${use.container}`,
				unit.mig ? ` · ${unit.label} ${unit.profile}` : "", use.nSeats > 1 ? ` · ${use.nSeats} seats` : "")),
		h("span", { class: "gets" }, use.received === null ? `${f.percent(use.share)}, use ${f.UNKNOWN}` :
			[h("b", null, f.percent(use.received)), ` of ${f.percent(use.share)}`]),
		h("span", { class: "gets" }, f.bytes(use.memoryUsed)),
		notes.length ? h("span", { class: "marks" }, notes.map((m) => h("span", null, m))) : null);
}

function idle(node, unit) {
	const free = unit.seats.filter((s) => s.use === null);
	if (!free.length || !node.holdersKnown)
		return null;
	const where = unit.mig ? `${unit.label} ${unit.profile}: ` : "";
	return h("li", { class: "idle", "data-key": `idle ${unit.uuid}` },
		h("span", { class: "swatch idle", "aria-hidden": "true" }),
		h("span", { class: "name" }, `${where}${free.length} of ${f.plural(unit.seats.length, "seat")} ` +
			(free.every((s) => s.healthy) ? "idle" : "free, but not to be had")));
}

function who(node, gpu) {
	const colour = colours(gpu);
	const rows = gpu.units.flatMap((unit) => [
		...unit.uses.filter((use) => use.live).map((use) => sitter(unit, use, colour)), idle(node, unit)])
		.filter(Boolean);
	if (!rows.length)
		return h("p", { class: "quiet" }, node.holdersKnown ? "Nobody, and nothing is offered." :
			"Who holds it is not known.");
	return h("ul", { class: "who", "aria-label": `Who sits on GPU ${gpu.index}` }, rows);
}

/* --- the table behind --- */

const COLUMNS = [["Pod"], ["Container"], ["Where"], ["Resource"], ["Share", "number"], ["Has had", "number"],
	["Memory", "number"], ["Limit", "number"], ["Peak", "number"], ["Held for", "number"], ["GPU time", "number"]];

/* A figure of the whole device is the container's as long as no other container holds it. */
const ORIGINS = { processes: " (sampled)", device: " (of the device)" };

function useRow(node, unit, use) {
	const cells = [podOf(use), use.container, unit.label, use.resource, f.percent(use.share),
		use.live ? f.percent(use.received) : `ended ${f.moment(use.ended, node.wall)}`,
		use.live ? f.bytes(use.memoryUsed) + (use.memoryFrom === "device" ? ORIGINS.device : "") : "–", use.memoryLimit === null ? "none" : f.bytes(use.memoryLimit),
		f.bytes(use.memoryPeak), f.duration(use.heldNs),
		f.duration(use.busyNs) + (use.busyNs === null ? "" : ORIGINS[use.busyFrom] ?? "")];
	return node.priced ? [...cells, f.money(use.costNano, node.currency)] : cells;
}

const TURNS = [["Pod"], ["Compute"], ["Class"], ["Weight", "number"], ["Cap", "number"], ["Turns", "number"],
	["Waits", "number"], ["Waited", "number"], ["Revocations", "number"], ["Refusals", "number"]];

function turnRow(use) {
	const s = use.slice;
	return [podOf(use), s.compute, s.class, s.weight === null ? "none" : f.count(s.weight),
		s.cap === null ? "none" : f.percent(s.cap), f.count(s.turns), f.count(s.waits), f.duration(s.queueNs),
		f.count(s.revocations), f.count(s.refusals)];
}

function behind(node, gpu) {
	const uses = gpu.units.flatMap((unit) => unit.uses.map((use) => [unit, use]));
	const slices = uses.filter(([, use]) => use.slice);
	const seats = gpu.units.flatMap((unit) => unit.seats.map((s) => [s.id, s.resource, unit.profile || "GPU",
		f.percent(s.share * unit.part / 1e6), s.memoryLimit === null ? "none" : f.bytes(s.memoryLimit),
		s.healthy ? "yes" : "no", s.use === null ? node.holdersKnown ? "nobody" : f.UNKNOWN : podOf(unit.uses[s.use])]));
	return h("details", { "data-key": `table ${gpu.uuid}` },
		h("summary", null, `GPU ${gpu.index} as tables`),
		h("p", { class: "quiet wrap" }, [gpu.uuid, gpu.busId, gpu.ccMajor && `compute capability ${gpu.ccMajor}.${gpu.ccMinor}`,
			gpu.numaNode !== null && `NUMA node ${gpu.numaNode}`].filter(Boolean).join(" · ")),
		table(`Who has used GPU ${gpu.index}`, node.priced ? [...COLUMNS, ["Cost", "number"]] : COLUMNS,
			uses.map(([unit, use]) => useRow(node, unit, use)), "Nobody has used it lately."),
		slices.length ? table(`Turns on GPU ${gpu.index}`, TURNS, slices.map(([, use]) => turnRow(use))) : null,
		table(`Seats of GPU ${gpu.index}`, [["Device"], ["Resource"], ["Part of"], ["Share", "number"],
			["Memory limit", "number"], ["Healthy"], ["Held by"]], seats, "It has no seats."));
}

/* --- the hour --- */

function hour(gpu, past) {
	if (!past || past.wallS.length < 2)
		return h("p", { class: "quiet" }, "The last hour is not known yet.");
	const [, total] = gpuMemory(gpu);
	const most = total || Math.max(...past.memoryUsed.filter((v) => v !== null), 1);
	return h("div", { class: "hour" },
		chart("Busy, last hour:", "busy", past.wallS, past.busy, 1e6, f.percent, past.held),
		chart("Memory, last hour:", "memory", past.wallS, past.memoryUsed, most, f.bytes));
}

/* @past: the GPU's columns of /api/v1/history; undefined: not there yet. */
export function card(node, gpu, past) {
	return h("article", { class: `panel gpu ${gpu.health}`, "data-key": gpu.uuid, "aria-labelledby": `gpu-${gpu.index}` },
		h("header", null,
			h("h3", { id: `gpu-${gpu.index}` }, `GPU ${gpu.index} `, h("span", { class: "quiet" }, gpu.name)),
			h("span", { class: "tags" }, h("span", { class: "tag" }, cut(gpu)), badge(gpu.health))),
		troubles(node, gpu),
		figures(node, gpu),
		bars(node, gpu),
		who(node, gpu),
		hour(gpu, past),
		behind(node, gpu));
}
