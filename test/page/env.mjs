// SPDX-License-Identifier: Apache-2.0
// What the tests begin with: one browser, a page on an agent, and the watch on what must never happen.
import assert from "node:assert/strict";
import { after, before } from "node:test";

import { chromium } from "./browser.mjs";
import { Agent } from "./server.mjs";

export const KINDS = ["empty", "one", "mixed", "unpriced", "sixteen"];
let browser;

before(async () => {
	browser = await chromium();
});
after(() => browser.close());

/* Runs @body with a page that shows @kind; at the end nothing may have left the node or gone wrong. */
export async function withPage(kind, options, body) {
	const agent = await new Agent(process.env.VIEW_SAMPLE_JSON, kind).listen();
	const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
	const elsewhere = [], wrong = [];
	page.on("request", (r) => r.url().startsWith(agent.url) || r.url().startsWith("data:") || elsewhere.push(r.url()));
	page.on("pageerror", (e) => wrong.push(e.stack));
	page.on("console", (m) => m.type() === "error" && !m.text().includes("Failed to load resource") && wrong.push(m.text()));
	try {
		if (options.prepare)
			await options.prepare(page, agent);
		await page.goto(agent.url);
		if (!options.undrawn)
			await page.waitForSelector("#gpus");
		await body(page, agent);
	} finally {
		await page.close();
		agent.close();
	}
	assert.deepEqual(elsewhere, [], "a request left the node");
	assert.deepEqual(wrong, []);
}

export const node = (agent) => agent.json("/api/v1/node");
export const text = (page, selector) => page.locator(selector).innerText();

/* Waits until @look() gives what @wanted says. */
export async function until(look, wanted, what) {
	let last;
	for (let i = 0; i < 200; i++) {
		last = await look();
		if (wanted(last))
			return last;
		await new Promise((done) => setTimeout(done, 50));
	}
	assert.fail(`${what}: still ${last}`);
	return last;
}
