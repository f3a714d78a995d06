// SPDX-License-Identifier: Apache-2.0
// Whoever reads it: by keyboard, with a screen reader, on a phone, in the dark.
import assert from "node:assert/strict";
import test from "node:test";

import { axeSource } from "./browser.mjs";
import { KINDS, withPage } from "./env.mjs";

const openAll = (page) => page.$$eval("details", (all) => all.forEach((d) => { d.open = true; }));

async function axe(page) {
	/* By the debugger, which the page's policy does not bind. */
	await page.evaluate(axeSource());
	const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations", "incomplete"] }));
	return found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join("; ")}`);
}

for (const kind of KINDS) {
	for (const colorScheme of ["light", "dark"]) {
		test(`axe finds nothing: ${kind}, ${colorScheme}`, () => withPage(kind, { colorScheme, reducedMotion: "reduce" }, async (page) => {
			await openAll(page);
			assert.deepEqual(await axe(page), []);
		}));
	}

	test(`no width makes the page scroll sideways: ${kind}`, () => withPage(kind, {}, async (page) => {
		await openAll(page);
		for (const width of [320, 360, 390, 768, 1024, 1920]) {
			await page.setViewportSize({ width, height: 800 });
			const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
			assert.ok(over <= 0, `${over} pixels too wide at ${width}`);
		}
	}));
}

test("axe finds nothing while it is stale, and in the form for the token", () => withPage("mixed", {
	undrawn: true, reducedMotion: "reduce", prepare: (_, agent) => { agent.token = "s"; },
}, async (page) => {
	await page.waitForSelector("#token-form:not([hidden])");
	await page.getByLabel("bearer token").fill("wrong");
	await page.keyboard.press("Enter");
	await page.waitForSelector(".notice.bad");
	assert.deepEqual(await axe(page), []);
}));

test("each bar has its words", () => withPage("mixed", {}, async (page) => {
	const labels = await page.$$eval(".bar[role=img]", (all) => all.map((b) => b.getAttribute("aria-label")));
	assert.equal(labels.length, 16);
	assert.match(labels[0], /^Compute of GPU 0: data\/etl-7c9d6b5f4-x2x8q \(cudf\), 12 % of 25 %; notebooks\/jupyter-amelie \(notebook\), 2 seats, 34 % of 50 %; idle 25 %$/);
	assert.match(labels[6], /MIG device 3:0: research\/rl-agent-2 \(learner\), 31 % of 43 %; not cut 14 %;/);
}));

test("the keyboard reaches everything, in the order in which it stands there", () => withPage("mixed", {}, async (page) => {
	await page.locator("article.gpu:first-child details").evaluate((d) => { d.open = true; });
	const seen = [];
	for (let i = 0; i < 60; i++) {
		await page.keyboard.press("Tab");
		const at = await page.evaluate(() => {
			const e = document.activeElement;
			if (e === document.body)
				return null;
			const box = e.getBoundingClientRect();
			return { name: e.getAttribute("aria-label") || e.textContent.trim(), top: box.top + scrollY,
				outline: getComputedStyle(e).outlineStyle };
		});
		if (!at)
			break;
		seen.push(at);
	}
	const names = seen.map((s) => s.name);
	assert.equal(names[0], "Skip to the GPUs");
	for (let i = 0; i < 8; i++)
		assert.ok(names.includes(`GPU ${i} as tables`), `GPU ${i}`);
	assert.ok(names.indexOf("GPU 0 as tables") < names.indexOf("Who has used GPU 0"));
	assert.ok(names.indexOf("Who has used GPU 0") < names.indexOf("GPU 1 as tables"));
	assert.ok(names.includes("Containers that hold GPUs") && names.includes("What the kubelet is offered"));
	assert.ok(seen.every((s) => s.outline !== "none"), "a focus that cannot be seen");
	assert.equal(names[names.length - 1], "metrics");
}));

test("headings are in order", () => withPage("mixed", {}, async (page) => {
	const levels = await page.$$eval("h1, h2, h3, h4", (all) => all.map((h) => Number(h.tagName[1])));
	assert.equal(levels.filter((l) => l === 1).length, 1);
	levels.forEach((level, i) => assert.ok(i === 0 || level - levels[i - 1] <= 1));
}));

test("what moves stands still for those who asked for it", () => withPage("mixed", { reducedMotion: "reduce" }, async (page) => {
	assert.equal(await page.locator(".piece").first().evaluate((p) => getComputedStyle(p).transitionDuration), "0s");
}));
