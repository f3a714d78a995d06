// SPDX-License-Identifier: Apache-2.0
// The page follows the agent, says when it cannot, and asks for a token where one is wanted.
import assert from "node:assert/strict";
import test from "node:test";

import { node, text, until, withPage } from "./env.mjs";

/* Views a second apart, of which each is another one. */
function living(agent, kind, change) {
	let seq = 100;
	agent.be(kind, (path, o) => {
		o.seq = seq++;
		o.intervalNs = 1e9;
		change?.(path, o);
	});
}

test("new figures come by themselves, and leave the reader in peace", () => withPage("mixed", {
	prepare: (_, agent) => living(agent, "mixed"),
}, async (page, agent) => {
	const summary = page.locator("article.gpu:nth-child(3) summary");
	await summary.focus();
	await page.keyboard.press("Enter");
	living(agent, "mixed", (path, o) => {
		if (path === "/api/v1/node")
			o.gpus[2].units[0].uses[0].received = 61000;
	});
	await until(() => text(page, "article.gpu:nth-child(3) .who li:first-child"), (t) => t.includes("6.1 %"), "the new share");
	assert.equal(await page.locator("article.gpu:nth-child(3) details").evaluate((d) => d.open), true);
	assert.equal(await summary.evaluate((s) => s === document.activeElement), true);
}));

test("pods and GPUs come and go", () => withPage("mixed", {
	prepare: (_, agent) => living(agent, "mixed"),
}, async (page, agent) => {
	for (const [kind, n] of [["sixteen", 16], ["empty", 0], ["one", 1], ["mixed", 8]]) {
		living(agent, kind);
		await until(() => page.locator("article.gpu").count(), (count) => count === n, `GPUs of ${kind}`);
		assert.equal(await page.locator("section[aria-labelledby=pods] tbody tr").count(),
			node(agent).gpus.flatMap((g) => g.units.flatMap((u) => u.uses.filter((use) => use.live))).length);
	}
}));

test("an agent that is away makes the page stale, and it comes back", () => withPage("mixed", {
	prepare: (_, agent) => living(agent, "mixed"),
}, async (page, agent) => {
	assert.equal(await text(page, "#notice"), "");
	agent.down = true;
	const notice = await until(() => text(page, "#notice"), (t) => t !== "", "the notice");
	assert.match(notice, /^Stale since \d\d:\d\d:\d\d UTC: the agent answers with 503\. What is shown is of 12:00:00 UTC\.$/);
	assert.equal(await page.locator("article.gpu").count(), 8);
	agent.down = false;
	await until(() => text(page, "#notice"), (t) => t === "", "the notice");
}));

test("it asks ever less often while there is no answer", () => withPage("mixed", {
	undrawn: true, prepare: async (page, agent) => {
		living(agent, "mixed");
		agent.down = true;
		await page.clock.install();
	},
}, async (page, agent) => {
	const asked = () => agent.requests.filter((path) => path === "/api/v1/node").length;
	const times = [];
	await until(asked, (n) => n === 1, "the first question");
	for (let second = 0; second < 300; second += 5) {
		await page.clock.runFor(5000);
		await until(() => page.evaluate(() => document.readyState), () => true);
		await new Promise((done) => setTimeout(done, 10));
		while (times.length < asked() - 1)
			times.push(second);
	}
	assert.ok(asked() >= 6 && asked() <= 10, `${asked()} times in 5 minutes`);
	assert.match(await text(page, "#notice"), /Nothing is known of this node/);
}));

test("an agent that makes no new figures is told as stale", () => withPage("mixed", {
	prepare: (page) => page.clock.install(),
}, async (page) => {
	for (let i = 0; i < 8; i++) {
		await page.clock.runFor(10000);
		await new Promise((done) => setTimeout(done, 50));
	}
	assert.match(await text(page, "#notice"), /^Stale since 12:00:00 UTC: the agent answers, but has made no new figures/);
}));

test("the token is asked for, kept for the tab only, and sent as a header", () => withPage("mixed", {
	undrawn: true, prepare: (_, agent) => { agent.token = "s3cret"; },
}, async (page, agent) => {
	await page.waitForSelector("#token-form:not([hidden])");
	await page.getByLabel("bearer token").fill("wrong");
	await page.keyboard.press("Enter");
	await until(() => text(page, "#notice"), (t) => t.includes("does not take this token"), "the refusal");
	await page.getByLabel("bearer token").fill("s3cret");
	await page.getByRole("button").click();
	await page.waitForSelector("#gpus");
	assert.equal(await page.locator("#token-form").isVisible(), false);
	await page.reload();
	await page.waitForSelector("#gpus");
	assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
	assert.ok(agent.requests.every((path) => !path.includes("s3cret")));
}));
