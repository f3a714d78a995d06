// SPDX-License-Identifier: Apache-2.0
// Stands for the agent: the files that stand in the program, with the headers that the agent sends, and the JSON of a view.
// What it answers can be changed while it runs.
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";

const POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:";

/* view-sample-json says the content type of the page's files on standard error. */
export function sample(program, kind, path) {
	const run = spawnSync(program, [kind, path], { maxBuffer: 64 << 20 });
	return run.status === 0 ? { body: run.stdout, type: run.stderr.toString().trim() || "application/json" } : null;
}

export class Agent {
	constructor(program, kind = "mixed") {
		this.program = program;
		this.kept = new Map();
		this.token = null; /* that it wants */
		this.down = false; /* answers with 503 */
		this.requests = [];
		this.be(kind);
	}

	/* The view from now on; @change(path, object) may alter each answer. */
	be(kind, change = null) {
		this.kind = kind;
		this.change = change;
	}

	file(path) {
		const key = `${this.kind} ${path}`;
		if (!this.kept.has(key))
			this.kept.set(key, sample(this.program, this.kind, path));
		return this.kept.get(key);
	}

	json(path) {
		const object = JSON.parse(this.file(path).body);
		this.change?.(path, object);
		return object;
	}

	answer(request, response) {
		const path = request.url;
		const api = path.startsWith("/api/");
		this.requests.push(path);
		if (api && this.down)
			return response.writeHead(503).end();
		if (api && this.token && request.headers.authorization !== `Bearer ${this.token}`)
			return response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end("{}");
		const file = this.file(path);
		if (!file)
			return response.writeHead(404).end();
		return response.writeHead(200, { "Content-Type": file.type, "Content-Security-Policy": POLICY,
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store" })
			.end(api ? JSON.stringify(this.json(path)) : file.body);
	}

	async listen() {
		this.server = createServer((request, response) => this.answer(request, response));
		await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
		this.url = `http://127.0.0.1:${this.server.address().port}/`;
		return this;
	}

	close() {
		this.server.close();
		this.server.closeAllConnections();
	}
}
