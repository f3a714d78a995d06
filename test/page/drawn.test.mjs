// SPDX-License-Identifier: Apache-2.0
// What is drawn is what the API says, for nodes of 0, 1, 8 and 16 GPUs.
import assert from "node:assert/strict";
import test from "node:test";

import { KINDS, node, text, withPage } from "./env.mjs";

const near = (a, b, what) => assert.ok(Math.abs(a - b) < 0.002, `${what}: ${a}, expected ${b}`);

/* The pieces of a bar as they lie on the screen, in parts of the bar. */
const pieces = (page, gpu, bar) => page.locator(`article.gpu:nth-child(${gpu + 1}) .bar.${bar} .piece`).evaluateAll((all) =>
	all.map((piece) => {
		const on = piece.getBoundingClientRect(), whole = piece.parentElement.getBoundingClientRect();
		return { left: (on.left - whole.left) / whole.width, width: on.width / whole.width,
			kind: piece.classList[1], unit: piece.dataset.unit, title: piece.title,
			fill: piece.querySelector(".meter > span")?.getBoundingClientRect().width /
				piece.querySelector(".meter")?.getBoundingClientRect().width };
	}));

/* The shares that each container holds of a GPU, and what nobody does, from the API alone. */
function heldBy(gpu) {
	const held = new Map();
	for (const unit of gpu.units) {
		for (const seat of unit.seats) {
			const use = seat.use === null ? null : unit.uses[seat.use];
			const who = use ? `${use.namespace}/${use.pod} (${use.container})` : "";
			held.set(who, (held.get(who) || 0) + seat.share / 1e6 * (unit.start === null && !unit.mig ? 1 :
				unit.start === null ? unit.part / gpu.units.reduce((sum, u) => sum + u.part, 0) : unit.size / gpu.migSlices));
		}
	}
	return held;
}

for (const kind of KINDS) {
	test(`${kind}: each GPU, container and share is drawn`, () => withPage(kind, {}, async (page, agent) => {
		const api = node(agent);
		assert.equal(await page.locator("article.gpu").count(), api.gpus.length);
		assert.ok((await text(page, "#head")).includes(api.node));
		for (const [i, gpu] of api.gpus.entries()) {
			const drawn = new Map();
			for (const p of await pieces(page, i, "compute")) {
				const who = p.kind === "use" ? p.title.replace(/: [^:]*$/, "") : "";
				if (p.kind !== "hole" && p.kind !== "off")
					drawn.set(who, (drawn.get(who) || 0) + p.width);
			}
			const wanted = heldBy(gpu);
			assert.deepEqual([...drawn.keys()].sort(), [...wanted.keys()].sort(), `GPU ${i}`);
			for (const [who, width] of wanted)
				near(drawn.get(who), width, `GPU ${i}: ${who || "nobody"}`);
		}
	}));

	test(`${kind}: who sits where, and the tables`, () => withPage(kind, {}, async (page, agent) => {
		const api = node(agent);
		for (const [i, gpu] of api.gpus.entries()) {
			const live = gpu.units.flatMap((u) => u.uses.filter((use) => use.live));
			const names = await page.locator(`article.gpu:nth-child(${i + 1}) .who li:not(.idle) b:first-child`).allInnerTexts();
			assert.deepEqual(names.filter((n) => !n.endsWith(" %")), live.map((use) => use.pod));
		}
		const rows = page.locator("section[aria-labelledby=resources] tbody tr");
		assert.equal(await rows.count(), api.resources.length);
		for (const [i, r] of api.resources.entries())
			assert.deepEqual((await rows.nth(i).innerText()).split("\t").map((t) => t.trim()).filter((_, c) => c !== 1),
				[r.name, `${r.capacity}`, `${r.allocatable}`, api.holdersKnown ? `${r.used}` : "not known", r.state]);
		const pods = await page.locator("section[aria-labelledby=pods] tbody tr").count();
		assert.equal(pods, api.gpus.flatMap((g) => g.units.flatMap((u) => u.uses.filter((use) => use.live))).length);
	}));

	test(`${kind}: what is not known is said`, () => withPage(kind, {}, async (page) => {
		await page.$$eval("details", (all) => all.forEach((d) => { d.open = true; }));
		const all = await text(page, "body") + await page.$$eval("[aria-label], [title]", (list) =>
			list.map((e) => `${e.getAttribute("aria-label") || ""} ${e.getAttribute("title") || ""}`).join("\n"));
		for (const never of [/\bnull\b/, /undefined/, /NaN/, /\[object/, /Infinity/])
			assert.doesNotMatch(all, never);
	}));
}

test("MIG devices lie where they are, with holes", () => withPage("mixed", {}, async (page, agent) => {
	const api = node(agent);
	for (const i of [3, 4]) {
		const gpu = api.gpus[i];
		const compute = await pieces(page, i, "compute"), memory = await pieces(page, i, "memory");
		for (const unit of gpu.units) {
			const first = compute.find((p) => p.unit === unit.label);
			near(first.left, unit.start / 7, `compute of ${unit.label}`);
			const has = memory.find((p) => p.unit?.split(" ").includes(unit.label));
			near(has.left, unit.memoryStart / 8, `memory of ${unit.label}`);
			near(has.width, unit.memorySize / 8, `memory of ${unit.label}`);
		}
	}
	const holes = (await pieces(page, 3, "compute")).filter((p) => p.kind === "hole");
	assert.deepEqual(holes.map((p) => Math.round(p.left * 7)), [3, 5]);
	const none = (await pieces(page, 3, "memory")).filter((p) => p.kind === "hole");
	assert.deepEqual(none.map((p) => Math.round(p.left * 8)), [5, 7]);
}));

test("live use is drawn against the share", () => withPage("mixed", {}, async (page, agent) => {
	const api = node(agent);
	for (const i of [0, 1, 2, 5]) {
		const unit = api.gpus[i].units[0];
		for (const use of unit.uses.filter((u) => u.live)) {
			const piece = (await pieces(page, i, "compute")).find((p) => p.title.startsWith(`${use.namespace}/${use.pod} `));
			near(piece.fill, Math.min(use.received / use.share, 1), use.pod);
		}
	}
}));

test("a slice's memory is drawn against its limit", () => withPage("mixed", {}, async (page, agent) => {
	const unit = node(agent).gpus[2].units[0];
	for (const use of unit.uses.filter((u) => u.live)) {
		const piece = (await pieces(page, 2, "memory")).find((p) => p.title.startsWith(`${use.namespace}/${use.pod} `));
		near(piece.width, use.memoryLimit / unit.memoryTotal, use.pod);
		near(piece.fill, use.memoryUsed / use.memoryLimit, use.pod);
	}
}));

test("a sum of what is known says of how many GPUs it is", () => withPage("mixed", {}, async (page) => {
	assert.match(await page.locator(".tile", { hasText: "Memory used" }).innerText(), /known of 7 of 8 GPUs/);
}));

test("a seat without a limit is not one with a limit of 0", () => {
	const prepare = (page, agent) => agent.be("mixed", (path, o) => {
		if (path === "/api/v1/node")
			o.gpus[2].units[0].seats[0].memoryLimit = null;
	});
	return withPage("mixed", { prepare }, async (page) => {
		const [first] = await pieces(page, 2, "memory");
		assert.match(first.title, /, no limit$/);
		assert.ok(first.width > 0.05, `${first.width} of the bar`);
	});
});

test("health, XIDs, config errors and warnings stand there", () => withPage("mixed", {}, async (page, agent) => {
	const api = node(agent);
	const problems = await text(page, "section.problems");
	for (const wanted of [api.configError, api.warnings[0], "GPU 6 is unhealthy", "XID 79"])
		assert.ok(problems.includes(wanted), wanted);
	const card = await text(page, "article.gpu:nth-child(7)");
	assert.match(card, /48 \(2 times\), 79 \(1 time, last 11:47:26 UTC\)/);
	assert.match(card, /not known/);
	assert.match(await text(page, "section[aria-labelledby=config]"), /Generation\s+3/);
}));

test("money is shown only where there is a price", async () => {
	await withPage("mixed", {}, async (page) => {
		assert.match(await text(page, "dl.tiles"), /\$55\.04/);
		assert.match(await text(page, "section[aria-labelledby=pods] thead"), /Cost/);
	});
	await withPage("unpriced", {}, async (page) => {
		assert.doesNotMatch(await text(page, "main"), /\$|USD/);
		assert.doesNotMatch(await text(page, "section[aria-labelledby=pods] thead"), /Cost/);
	});
});

test("the last hour has a line with a gap where it is not known", () => withPage("mixed", {}, async (page) => {
	const busy = page.locator("article.gpu:first-child .chart.busy svg");
	assert.equal(await busy.locator(".line").count(), 2);
	assert.match(await busy.getAttribute("aria-label"), /mean \d+ %, highest \d+ %, lowest \d+ %; not known for 2 min/);
}));

test("a name is text whatever stands in it", () => {
	const evil = "<img src=x onerror=alert(1)>\"'&amp;\u202e";
	const prepare = (page, agent) => agent.be("mixed", (path, o) => {
		o.node = evil;
		for (const gpu of o.gpus || []) {
			gpu.name = evil;
			gpu.reason = evil;
			for (const use of (gpu.units || []).flatMap((u) => u.uses || []))
				use.pod = use.namespace = use.container = evil;
		}
	});
	return withPage("mixed", { prepare }, async (page) => {
		assert.equal(await page.locator("img, b img, script:not([src])").count(), 0);
		assert.ok((await text(page, "h1")).includes("<img src=x"));
		assert.ok((await text(page, "article.gpu:first-child .who")).includes("<img src=x"));
	});
});
