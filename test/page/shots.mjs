// SPDX-License-Identifier: Apache-2.0
// shots.mjs DIRECTORY: pictures of the page, for docs/images.
import { chromium } from "./browser.mjs";
import { Agent } from "./server.mjs";

const SHOTS = [
	{ name: "status-light", kind: "mixed", scheme: "light", width: 1280, height: 1060 },
	{ name: "status-dark", kind: "mixed", scheme: "dark", width: 1280, height: 1060 },
	{ name: "status-phone", kind: "mixed", scheme: "light", width: 390, height: 844 },
	{ name: "status-full", kind: "mixed", scheme: "light", width: 1280, height: 900, full: true },
	{ name: "status-phone-full", kind: "mixed", scheme: "dark", width: 360, height: 844, full: true },
	{ name: "status-empty", kind: "empty", scheme: "light", width: 1280, height: 800 },
	{ name: "status-unpriced", kind: "unpriced", scheme: "dark", width: 1280, height: 900, full: true },
	{ name: "status-sixteen", kind: "sixteen", scheme: "light", width: 1700, height: 900, full: true },
	{ name: "status-one", kind: "one", scheme: "dark", width: 1280, height: 900 },
	{ name: "status-tables", kind: "mixed", scheme: "light", width: 900, height: 900, full: true, open: true },
];

const [directory, ...only] = process.argv.slice(2);
const agent = await new Agent(process.env.VIEW_SAMPLE_JSON).listen();
const browser = await chromium();
for (const shot of SHOTS.filter((s) => !only.length || only.includes(s.name))) {
	agent.be(shot.kind);
	const page = await browser.newPage({ viewport: { width: shot.width, height: shot.height }, colorScheme: shot.scheme,
		reducedMotion: "reduce" });
	page.on("console", (m) => console.log(shot.name, m.text()));
	page.on("pageerror", (e) => console.log(shot.name, e.stack));
	await page.goto(agent.url);
	await page.waitForSelector("#gpus");
	if (shot.open)
		await page.$$eval("details", (all) => all.slice(2, 4).forEach((d) => { d.open = true; }));
	await page.screenshot({ path: `${directory}/${shot.name}.png`, fullPage: Boolean(shot.full) });
	await page.close();
}
await browser.close();
agent.close();
