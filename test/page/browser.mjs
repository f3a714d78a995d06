// SPDX-License-Identifier: Apache-2.0
// The browser, and the modules that test/page/run installed in PAGE_MODULES.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.PAGE_MODULES}/`);
const PROGRAMS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export const axeSource = () => require("axe-core").source;

/* Its own sandbox does not work as root. */
export function chromium() {
	return require("playwright-core").chromium.launch({ executablePath: PROGRAMS.find((p) => p && existsSync(p)),
		args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
}
