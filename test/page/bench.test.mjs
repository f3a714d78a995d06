// SPDX-License-Identifier: Apache-2.0
// The page of `gpuslice bench report`: what it shows, on a phone, in the dark, on paper, with a screen reader, without a network.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";

import { axeSource, chromium } from "./browser.mjs";

const RESULT = "test/data/bench/report.json";
const directory = mkdtempSync(join(tmpdir(), "bench-"));
const file = join(directory, "report.html");
let browser;

before(async () => {
	browser = await chromium();
	writeFileSync(file, execFileSync(process.env.GPUSLICE, ["bench", "report", RESULT]));
});
after(async () => {
	await browser.close();
	rmSync(directory, { recursive: true });
});

async function withReport(options, body) {
	const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
	const wrong = [];
	page.on("request", (r) => r.url().startsWith("file:") || wrong.push(r.url()));
	page.on("pageerror", (e) => wrong.push(e.stack));
	page.on("console", (m) => wrong.push(m.text()));
	await page.goto(`file://${file}`);
	await body(page);
	assert.deepEqual(wrong, []);
	await page.close();
}

for (const colorScheme of ["light", "dark"]) {
	test(`axe finds nothing: ${colorScheme}`, () => withReport({ colorScheme }, async (page) => {
		await page.evaluate(axeSource());
		const found = await page.evaluate(() => globalThis.axe.run(document));
		assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes[0].target} ${v.nodes[0].failureSummary}`), []);
	}));
}

test("no width makes it scroll sideways", () => withReport({}, async (page) => {
	for (const width of [320, 390, 768, 1920]) {
		await page.setViewportSize({ width, height: 800 });
		const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
		assert.ok(over <= 0, `${over} pixels too wide at ${width}`);
	}
}));

/* Of each plot: words that lie on each other, or beyond its borders. The watermark is to lie on all. */
const collisions = () => [...document.querySelectorAll("svg.plot")].flatMap((svg) => {
	const title = svg.querySelector("title").textContent, frame = svg.getBoundingClientRect();
	const boxes = [...svg.querySelectorAll("text:not(.watermark)")].filter((t) => t.textContent.trim())
		.map((t) => ({ text: t.textContent, box: t.getBoundingClientRect() }));
	const out = boxes.filter(({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1 ||
		box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(({ text }) => `${title}: '${text}' is cut`);

	/* Lines of a text have room above and below that no letter uses. */
	boxes.forEach(({ text, box }, i) => boxes.slice(i + 1).forEach((other) => {
		if (Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left) > 1 &&
			Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top) > 4)
			out.push(`${title}: '${text}' on '${other.text}'`);
	}));
	return out;
});

test("words of plots neither touch each other nor leave the plot", () => withReport({}, async (page) => {
	assert.deepEqual(await page.evaluate(collisions), []);
}));

test("a mode has one colour, in tables and plots, and no two have the same", () => withReport({}, async (page) => {
	const colours = await page.evaluate(() => Object.fromEntries([..."01234567"].map((m) => [m,
		[...new Set([...document.querySelectorAll(`.m${m}`)].map((e) => getComputedStyle(e).getPropertyValue("--c").trim()))]])));
	const used = Object.values(colours).filter((c) => c.length);

	assert.ok(used.length >= 5);
	assert.ok(used.every((c) => c.length === 1));
	assert.equal(new Set(used.flat()).size, used.length);
}));

test("on paper each sheet says SIMULATED", () => withReport({}, async (page) => {
	await page.emulateMedia({ media: "print" });
	const mark = await page.$eval(".paper", (e) => [getComputedStyle(e).position, getComputedStyle(e).display, e.textContent]);

	assert.deepEqual(mark, ["fixed", "block", "SIMULATED"]);
	assert.match(await page.title(), /^SIMULATED/);
}));

test("what is there is shown: checks, errors, the planner, notes", () => withReport({}, async (page) => {
	const text = await page.textContent("main");

	for (const words of [/FAIL8\.7 times alone/, /the driver ran it outside of MPS/, /model error/, /USD per million/,
		/Modes that cannot be had/, /weights 1, 2, 3 gave 16\.\d%, 33\.\d%, 49\.\d%/, /How it was measured/])
		assert.match(text, words);
}));
