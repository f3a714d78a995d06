/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/live.h"

#include "lib/base/time.h"

#include <stdio.h>

static int request_plain_sample(struct http_get *agent, struct error *err)
{
	int r = http_get_begin(agent, err);

	while (r == 0)
		r = http_get_wait(agent, NULL, 0, UINT64_MAX / 2, err);
	return r < 0 ? -1 : 0;
}

static int add_plain_screen(struct buf *out, const struct top_plan *plan,
	const struct buf *json, struct error *err)
{
	CLEANUP(top_model_freep) struct top_model *m = NULL;
	struct top_state state = plan->state;
	struct canvas c;
	int r;

	if (top_model_read(&m, buf_str(json), json->len, err) < 0)
		return error_prefix(err, "answer of the agent");
	canvas_init(&c, state.width, state.utf8);
	r = top_screen(&c, m, &state, err);
	if (r == 0)
		r = canvas_print(&c, out, err);
	canvas_fini(&c);
	return r;
}

static int add_plain_json(struct buf *out, const struct buf *json, struct error *err)
{
	buf_add(out, buf_str(json), json->len);
	if (json->len == 0 || json->data[json->len - 1] != '\n')
		buf_putc(out, '\n');
	return buf_ok(out) ? 0 : error_nomem(err);
}

int top_plain(struct http_get *agent, const struct top_plan *plan, struct error *err)
{
	for (uint64_t i = 0; i < plan->count; i++) {
		CLEANUP(buf_fini) struct buf out = BUF_INIT((size_t)TOP_DOCUMENT_MAX + 1);
		uint64_t begin = time_mono_ns();
		int r;

		if (i > 0 && !plan->json)
			buf_putc(&out, '\n');
		if (request_plain_sample(agent, err) < 0)
			return -1;
		r = plan->json ? add_plain_json(&out, http_get_body(agent), err)
			       : add_plain_screen(&out, plan, http_get_body(agent), err);
		if (r < 0)
			return -1;
		/* the reader of a pipe needs the text now; main.c reports lost output */
		if (fwrite(buf_str(&out), 1, out.len, stdout) != out.len || fflush(stdout) != 0)
			return 0;
		while (i + 1 < plan->count &&
			time_mono_ns() - begin < plan->state.interval_ns) {
			uint64_t left = plan->state.interval_ns - (time_mono_ns() - begin);

			if (http_get_wait(agent, NULL, 0,
				    left < plan->state.interval_ns ? left : 0, err) < 0)
				return -1;
		}
	}
	return 0;
}
