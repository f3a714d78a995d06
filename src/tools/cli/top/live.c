/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/live.h"

#include "lib/base/time.h"
#include "tools/cli/top/curses.h"
#include "tools/cli/top/view/keys.h"

#include <signal.h>
#include <string.h>

#define KEYS_MAX 256        /* in one round */
#define AGE_NS   NS_PER_SEC /* interval of redrawing the age of stale figures */

struct live {
	struct http_get *agent;
	struct terminal terminal;
	struct top_state state;
	struct top_model *model; /* NULL: no answer yet */
	uint64_t next_ns;        /* time of the next request */
	bool ended, changed;
	int signal;
};

/* --- the agent --- */

static void set_agent_unavailable(struct live *l, const struct error *why)
{
	if (!l->state.unavailable)
		l->state.unavailable_since_wall_ns = time_wall_ns();
	l->state.unavailable = true;
	l->state.why = *why;
}

static void read_agent_answer(struct live *l)
{
	const struct buf *body = http_get_body(l->agent);
	struct top_model *model = NULL;
	struct error why = ERROR_INIT;

	if (top_model_read(&model, buf_str(body), body->len, &why) < 0) {
		(void)error_prefix(&why, "answer of the agent");
		set_agent_unavailable(l, &why);
		return;
	}
	(void)top_model_free(l->model);
	l->model = model;
	l->state.unavailable = false;
}

static void request_live_sample(struct live *l, uint64_t now)
{
	struct error why = ERROR_INIT;

	if (l->state.paused || http_get_is_busy(l->agent) || now < l->next_ns)
		return;
	l->next_ns = now + l->state.interval_ns;
	if (http_get_begin(l->agent, &why) < 0) {
		set_agent_unavailable(l, &why);
		l->changed = true;
	}
}

/* --- the terminal --- */

static int draw_live_screen(struct live *l, struct error *err)
{
	struct canvas c;
	int r;

	l->state.width = l->terminal.width;
	l->state.height = l->terminal.height;
	l->state.now_wall_ns = time_wall_ns();
	canvas_init(&c, l->state.width, l->state.utf8);
	r = top_screen(&c, l->model, &l->state, err);
	if (r == 0)
		terminal_draw(&l->terminal, &c);
	canvas_fini(&c);
	return r;
}

static void apply_live_key(struct live *l, int key)
{
	uint64_t interval = l->state.interval_ns;
	bool paused = l->state.paused;

	switch (top_press(&l->state, key)) {
	case TOP_QUIT:
		l->ended = true;
		break;
	case TOP_REDRAW:
		l->changed = true;
		break;
	case TOP_NOTHING:
		break;
	}
	if (l->state.interval_ns < interval || (paused && !l->state.paused))
		l->next_ns = 0; /* a shorter interval applies at once */
}

static void read_keys(struct live *l)
{
	/* limited: pasted text must not delay the agent's answer */
	for (int i = 0; i < KEYS_MAX; i++) {
		int key = terminal_read(&l->terminal, &l->signal);

		if (key == TERMINAL_NONE)
			return;
		if (key == TERMINAL_ENDED) {
			l->ended = true;
			return;
		}
		if (key == TERMINAL_RESIZED)
			l->changed = true;
		else
			apply_live_key(l, key);
	}
}

/* --- the loop --- */

static uint64_t get_live_wait_ns(const struct live *l, uint64_t now)
{
	uint64_t until = l->next_ns > now ? l->next_ns - now : 0;

	if (l->state.paused || http_get_is_busy(l->agent))
		until = l->state.interval_ns;
	return l->state.unavailable && until > AGE_NS ? AGE_NS : until;
}

static void round_once(struct live *l)
{
	struct error why = ERROR_INIT;
	uint64_t now = time_mono_ns();
	int fds[TERMINAL_FDS], r;

	request_live_sample(l, now);
	terminal_fds(&l->terminal, fds);
	r = http_get_wait(l->agent, fds, TERMINAL_FDS, get_live_wait_ns(l, now), &why);
	if (r < 0)
		set_agent_unavailable(l, &why);
	else if (r == HTTP_GET_DONE && !l->state.paused)
		read_agent_answer(l);
	if (r != 0 || l->state.unavailable)
		l->changed = true;
	read_keys(l);
}

static int run_live_loop(struct live *l, struct error *err)
{
	l->changed = true;
	while (!l->ended) {
		if (l->changed && draw_live_screen(l, err) < 0)
			return -1;
		l->changed = false;
		round_once(l);
	}
	return 0;
}

int top_live(struct http_get *agent, const struct top_plan *plan, struct error *err)
{
	struct live l = { .agent = agent, .state = plan->state };
	int r;

	if (terminal_open(&l.terminal, plan->colour, err) < 0)
		return -1;
	r = run_live_loop(&l, err);
	terminal_close(&l.terminal);
	(void)top_model_free(l.model);
	if (r < 0 || l.signal == 0 || l.signal == SIGINT)
		return r; /* Ctrl-C quits normally */
	return 128 + l.signal;
}
