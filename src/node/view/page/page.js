// SPDX-License-Identifier: Apache-2.0
// Asks the agent, draws, and asks again: once an interval while it answers, ever less often while it does not. Nothing is
// asked of anybody else, and nothing while nobody looks.
import { h, morph } from "./dom.js";
import { head, main } from "./node.js";

const TOKEN = "gpuslice-token";
const SHORTEST_MS = 1000, LONGEST_MS = 60000, PATIENCE_MS = 15000, HISTORY_MS = 30000;

const state = { node: null, history: null, historyAt: -Infinity, changedAt: 0, failures: 0, since: null, timer: 0, asking: false };
const $ = (id) => document.getElementById(id);

class Refused extends Error {}

async function ask(path) {
	const token = sessionStorage.getItem(TOKEN);
	const answer = await fetch(path, { cache: "no-store", credentials: "same-origin", redirect: "error",
		headers: token ? { Authorization: `Bearer ${token}` } : {}, signal: AbortSignal.timeout(PATIENCE_MS) });
	if (answer.status === 401)
		throw new Refused(token ? "The agent does not take this token." : "");
	if (!answer.ok)
		throw new Error(`the agent answers with ${answer.status}`);
	return answer.json();
}

/* --- what is said about the answers --- */

function clock(ms) {
	return `${new Date(ms).toISOString().slice(11, 19)} UTC`;
}

function notice(kind, text) {
	const place = $("notice");
	if (place.textContent !== text)
		place.textContent = text; /* only then, as a screen reader reads it out */
	place.className = `notice ${kind}`;
	document.body.classList.toggle("stale", kind === "bad" && state.node !== null);
}

function reason(error) {
	if (error.name === "TimeoutError")
		return `no answer within ${PATIENCE_MS / 1000} seconds`;
	return error instanceof TypeError ? "it cannot be reached" : error.message;
}

function wait() {
	const interval = Math.max(state.node ? state.node.intervalNs / 1e6 : 5000, SHORTEST_MS);
	return Math.min(interval * 2 ** Math.min(state.failures, 10), Math.max(LONGEST_MS, interval));
}

/* --- one round --- */

function draw() {
	const { node, history } = state;
	document.title = `${node.node} · gpuslice`;
	morph($("head"), h("header", { id: "head" }, head(node)));
	morph($("view"), h("div", { id: "view" }, main(node, history)));
}

async function look() {
	const node = await ask("api/v1/node");
	const now = performance.now();
	if (now - state.historyAt >= HISTORY_MS || state.node?.gpus.length !== node.gpus.length) {
		state.history = await ask("api/v1/history").catch(() => state.history);
		state.historyAt = now;
	}
	if (!state.node || state.node.seq !== node.seq || state.node.agent.started !== node.agent.started)
		state.changedAt = now;
	state.node = node;
	state.failures = 0;
	state.since = null;
	draw();
	const age = now - state.changedAt;
	if (age > Math.max(3 * node.intervalNs / 1e6, 10000))
		notice("bad", `Stale since ${node.wall.slice(11, 19)} UTC: the agent answers, but has made no new figures.`);
	else
		notice("", "");
}

function away(error) {
	state.failures++;
	state.since ??= Date.now();
	if (error instanceof Refused) {
		sessionStorage.removeItem(TOKEN);
		$("token-form").hidden = false;
		$("view").hidden = state.node === null;
		notice(error.message ? "bad" : "", error.message);
		return;
	}
	const why = reason(error);
	notice("bad", state.node ? `Stale since ${clock(state.since)}: ${why}. What is shown is of ` +
		`${state.node.wall.slice(11, 19)} UTC.` : `Nothing is known of this node: ${why}. It is asked again.`);
}

async function round() {
	if (state.asking)
		return;
	state.asking = true;
	clearTimeout(state.timer);
	try {
		await look();
		$("token-form").hidden = true;
		$("view").hidden = false;
	} catch (error) {
		away(error);
	}
	state.asking = false;
	/* Without a token there is nothing to ask for. */
	if (!document.hidden && $("token-form").hidden)
		state.timer = setTimeout(round, wait());
}

$("token-form").addEventListener("submit", (event) => {
	event.preventDefault();
	sessionStorage.setItem(TOKEN, $("token").value.trim());
	$("token").value = "";
	round();
});

document.addEventListener("visibilitychange", () => {
	clearTimeout(state.timer);
	if (!document.hidden && $("token-form").hidden)
		round();
});

round();
