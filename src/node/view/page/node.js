// SPDX-License-Identifier: Apache-2.0
// What is of the node as a whole: the head, the sums, what is not well, the tables below the GPUs.
import { podOf } from "./bar.js";
import { h, table } from "./dom.js";
import * as f from "./format.js";
import { card, gpuBusy, gpuMemory, modeName } from "./gpu.js";

export function head(node) {
	const facts = [node.driverVersion ? `driver ${node.driverVersion}` : "driver not known",
		node.cudaVersion && `CUDA ${node.cudaVersion}`, node.instanceType, node.region,
		`agent ${node.agent.version}`].filter(Boolean);
	return [h("h1", null, h("span", { class: "brand" }, "gpuslice "), h("span", { class: "node" }, node.node)),
		h("p", null, h("span", { class: `badge ${node.ready ? "healthy" : "unhealthy"}` },
			node.ready ? "● ready" : "▲ not ready"), " ", facts.join(" · "), " · as of ",
		h("time", { datetime: node.wall, id: "as-of" }, f.moment(node.wall)))];
}

function problems(node) {
	const list = [];
	if (!node.nvmlUp)
		list.push(["bad", `NVML does not answer: ${node.nvmlError}`]);
	if (!node.holdersKnown)
		list.push(["bad", `The kubelet has not said who holds what: ${node.holdersError}`]);
	if (node.configError)
		list.push(["bad", `A newer config was refused: ${node.configError}`]);
	for (const gpu of node.gpus.filter((g) => g.health !== "healthy"))
		list.push(["bad", `GPU ${gpu.index} is ${gpu.health}: ${gpu.reason}`]);
	if (node.agent.ledgerError)
		list.push(["bad", `The ledger cannot be kept: ${node.agent.ledgerError}`]);
	/* The ledger's has its line above. */
	for (const c of node.agent.components.filter((one) => one.reason && one.name !== "usage-records"))
		list.push(["warn", `${c.name}: ${c.reason}`]);
	for (const warning of node.warnings)
		list.push(["warn", warning]);
	return list.length ? h("section", { "aria-labelledby": "problems", class: "panel problems" },
		h("h2", { id: "problems" }, "What is not well"),
		h("ul", null, list.map(([kind, text]) => h("li", { class: kind }, text)))) : null;
}

/* --- sums --- */

function tile(title, value, more) {
	return h("div", { class: "panel tile" }, h("dt", null, title), h("dd", null, value,
		more ? h("span", { class: "quiet" }, more) : null));
}

/* The sum of what is known, and of how many. */
function known(list) {
	const values = list.filter((v) => v !== null);
	return [values.reduce((a, b) => a + b, 0), values.length];
}

function tiles(node) {
	const units = node.gpus.flatMap((g) => g.units);
	const [busy, n] = known(node.gpus.map(gpuBusy));
	const memory = node.gpus.map(gpuMemory).filter(([used, total]) => used !== null && total !== null);
	const [used] = known(memory.map((m) => m[0])), [total] = known(memory.map((m) => m[1]));
	const well = node.gpus.filter((g) => g.health === "healthy").length;
	const seats = units.flatMap((u) => u.seats);
	const of = (k) => k < node.gpus.length ? `known of ${k} of ${node.gpus.length} GPUs` : "";
	/* What nobody is known to have held at any time is in the node's other cost. */
	const [idle] = known(units.map((u) => u.idleCostNano));
	return h("dl", { class: "tiles" },
		tile("GPUs healthy", node.nvmlUp || node.gpus.length ? `${well} of ${node.gpus.length}` : f.UNKNOWN),
		tile("Seats held", node.holdersKnown ? `${seats.filter((s) => s.use !== null).length} of ${seats.length}` : f.UNKNOWN),
		tile("Busy", n ? f.percent(busy / n) : f.UNKNOWN, n ? of(n) : ""),
		tile("Memory used", memory.length ? f.bytes(used) : f.UNKNOWN, memory.length ? [`of ${f.bytes(total)}`, of(memory.length)].filter(Boolean).join(", ") : ""),
		node.priced ? tile("Price per hour", f.money(node.priceNanoPerHour, node.currency), `from ${node.priceSource}`) :
			tile("Price per hour", "no price", "nothing is told of cost"),
		node.priced ? tile("Of no known container", f.money(idle + node.otherCostNano, node.currency),
			`of ${f.money(node.costNano, node.currency)} in ${f.duration((Date.parse(node.wall) - Date.parse(node.since)) * 1e6)}`) : null);
}

/* --- tables --- */

function pods(node) {
	const rows = node.gpus.flatMap((gpu) => gpu.units.flatMap((unit) => unit.uses.filter((u) => u.live)
		.map((use) => [use, unit])));
	rows.sort(([a], [b]) => podOf(a) < podOf(b) ? -1 : podOf(a) > podOf(b) ? 1 : 0);
	const columns = [["Pod"], ["Container"], ["GPU"], ["Mode"], ["Share", "number"], ["Has had", "number"],
		["Memory", "number"], ["Held for", "number"]];
	return h("section", { "aria-labelledby": "pods", class: "panel" },
		h("h2", { id: "pods" }, "Pods"),
		table("Containers that hold GPUs", node.priced ? [...columns, ["Cost", "number"]] : columns,
			rows.map(([use, unit]) => [podOf(use), use.container, unit.mig ? `${unit.label} ${unit.profile}` : unit.label,
				modeName(use.mode), f.percent(use.share), f.percent(use.received), f.bytes(use.memoryUsed),
				f.duration(use.heldNs), ...node.priced ? [f.money(use.costNano, node.currency)] : []]),
			node.holdersKnown ? "No pod holds a GPU." : "Who holds what is not known."));
}

function resources(node) {
	return h("section", { "aria-labelledby": "resources", class: "panel" },
		h("h2", { id: "resources" }, "Resources"),
		table("What the kubelet is offered", [["Resource"], ["Mode"], ["Devices", "number"], ["Allocatable", "number"],
			["Held", "number"], ["State"]],
		node.resources.map((r) => [r.name, modeName(r.mode), f.count(r.capacity), f.count(r.allocatable),
			node.holdersKnown ? f.count(r.used) : f.UNKNOWN, r.reason ? `${r.state}: ${r.reason}` : r.state]),
		"Nothing is offered."));
}

function facts(rows) {
	return h("dl", { class: "facts" }, rows.map(([title, value]) =>
		h("div", null, h("dt", null, title), h("dd", null, value))));
}

function config(node) {
	return h("section", { "aria-labelledby": "config", class: "panel" },
		h("h2", { id: "config" }, "Config in force"),
		node.configDecided ? facts([["Source", node.configSource || "options"], ["Sharing", node.configSharing],
			["Generation", f.count(node.configGeneration)], ["Since", f.moment(node.configSince, node.wall)],
			["Newer one", node.configError ? `refused: ${node.configError}` : "none"]]) :
			h("p", null, "There is none yet, so nothing is offered."));
}

function agent(node) {
	const a = node.agent;
	return h("section", { "aria-labelledby": "agent", class: "panel" },
		h("h2", { id: "agent" }, "Agent"),
		facts([["Started", f.moment(a.started, node.wall)], ["Figures since", f.moment(node.since, node.wall)],
			["CPU time", f.duration(a.cpuNs)], ["Memory", f.bytes(a.rssBytes)],
			["Asks NVML", `every ${f.duration(node.intervalNs)}`],
			["Allocations", `${f.count(a.allocations)}, ${f.count(a.allocationErrors)} refused`],
			["Ledger", a.ledgerBytes === null ? "none" : f.bytes(a.ledgerBytes)]]));
}

export function main(node, history) {
	const past = new Map((history?.gpus || []).map((g) => [g.uuid, g]));
	return [problems(node), tiles(node),
		h("section", { "aria-labelledby": "gpus" }, h("h2", { id: "gpus" }, "GPUs"),
			node.gpus.length ? h("div", { class: "cards" }, node.gpus.map((g) => card(node, g, past.get(g.uuid)))) :
				h("p", { class: "panel" }, node.nvmlUp ? "This node has no GPU." : "No GPU is known, as NVML does not answer.")),
		pods(node), resources(node), h("div", { class: "columns" }, config(node), agent(node))].filter(Boolean);
}
