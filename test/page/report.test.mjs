// SPDX-License-Identifier: Apache-2.0
// The HTML report of `gpuslice plan`: what it shows, on a phone, in the dark, with a screen reader, without a network.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";

import { axeSource, chromium } from "./browser.mjs";

const PLANS = {
	example: "examples/plan/four-on-p3.yaml",
	mix: "test/data/plan/report-mix.yaml",
};
const directory = mkdtempSync(join(tmpdir(), "report-"));
let browser;

before(async () => {
	browser = await chromium();
	for (const [name, file] of Object.entries(PLANS)) {
		const html = execFileSync(process.env.GPUSLICE, ["plan", file, "-o", "html"],
			{ stdio: ["ignore", "pipe", "ignore"] });
		writeFileSync(join(directory, `${name}.html`), html);
	}
});
after(async () => {
	await browser.close();
	rmSync(directory, { recursive: true });
});

async function withReport(name, options, body) {
	const page = await browser.newPage({ viewport: { width: 1100, height: 900 }, reducedMotion: "reduce", ...options });
	const wrong = [];
	page.on("request", (r) => r.url().startsWith("file:") || wrong.push(r.url()));
	page.on("pageerror", (e) => wrong.push(e.stack));
	page.on("console", (m) => wrong.push(m.text()));
	await page.goto(`file://${join(directory, `${name}.html`)}`);
	await body(page);
	assert.deepEqual(wrong, []);
	await page.close();
}

for (const name of Object.keys(PLANS)) {
	for (const colorScheme of ["light", "dark"]) {
		test(`axe finds nothing: ${name}, ${colorScheme}`, () => withReport(name, { colorScheme }, async (page) => {
			await page.evaluate(axeSource());
			const found = await page.evaluate(() => globalThis.axe.run(document));
			assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes[0].target} ${v.nodes[0].failureSummary}`), []);
		}));
	}

	test(`no width makes it scroll sideways: ${name}`, () => withReport(name, {}, async (page) => {
		for (const width of [320, 390, 768, 1920]) {
			await page.setViewportSize({ width, height: 800 });
			const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
			assert.ok(over <= 0, `${over} pixels too wide at ${width}`);
		}
	}));
}

test("the example: amounts, and bars as long as they say", () => withReport("example", {}, async (page) => {
	const bars = await page.$$eval(".bars li", (all) => all.map((li) => [li.children[0].textContent,
		li.children[1].textContent, Math.round(li.querySelector(".bar").getBoundingClientRect().width /
			li.querySelector(".track").getBoundingClientRect().width * 1000) / 10, li.querySelector(".bar").className]));

	assert.deepEqual(bars[0], ["A GPU each: 4 x p3.2xlarge, on demand", "12.24 USD", 100, "bar"]);
	assert.deepEqual(bars[1], ["What you have in mind: 1 x p3.2xlarge, on demand, 4 slices of each GPU (does not hold)",
		"3.06 USD", 25, "bar broken"]);
	assert.equal(bars.at(-1)[3], "bar plan");
	assert.match(await page.textContent("main"), /75\.0 %/);
	assert.match(await page.textContent("main"), /they ask for 111 % of the GPU's time/);
}));

test("parts of GPUs are as wide as they are large, and all of a GPU is there", () => withReport("mix", {}, async (page) => {
	const gpus = await page.$$eval(".gpu ul", (all) => all.map((ul) => [...ul.children].map((li) => [li.textContent,
		Number(/([\d.]+) %/.exec(li.title)[1]), li.getBoundingClientRect().width / ul.getBoundingClientRect().width * 100])));

	assert.ok(gpus.length >= 3);
	for (const parts of gpus) {
		const sum = parts.reduce((s, [, share]) => s + share, 0);

		assert.ok(Math.abs(sum - 100) < 0.5, `a GPU of ${sum} %`);
		for (const [name, share, width] of parts)
			assert.ok(Math.abs(share - width) < 2, `${name}: ${share} % is ${width} % wide`);
	}
}));
