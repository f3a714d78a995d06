/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of `gpuslice top`: text, and a live screen drawn with ncurses. */
#include "tools/cli/top/live.h"

#include "lib/base/time.h"
#include "tools/cli/top/view/view.h"

#include <ncurses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* --- text --- */

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

/*
 * --- the terminal: draws lines and reads keys ---
 *
 * While the terminal is open, terminal_read() receives the signals that end a program, so that the
 * program always restores the terminal. One terminal at a time.
 */

struct terminal {
	void *screen; /* of ncurses */
	int signals;  /* a signalfd */
	bool colour;
	unsigned width, height;
};

/* Descriptors that are readable when terminal_read() has a result. */
#define TERMINAL_FDS 2

/* What terminal_read() returns instead of a key. */
enum {
	TERMINAL_NONE = -1,    /* no key now */
	TERMINAL_RESIZED = -2, /* .width and .height have changed */
	TERMINAL_ENDED = -3,   /* no terminal, or *ret_signal ends the program */
};

#define ESCAPE_MS 25 /* a lone Escape counts after this time */

/* A style's pair of colors and attributes, with and without colors. */
static const struct {
	short colour; /* 0: the terminal's own color; else the number of the pair */
	attr_t with, without;
} styles[] = {
	[CANVAS_PLAIN] = { 0, A_NORMAL, A_NORMAL },
	[CANVAS_BOLD] = { 0, A_BOLD, A_BOLD },
	[CANVAS_DIM] = { 0, A_DIM, A_DIM },
	[CANVAS_GOOD] = { COLOR_GREEN, A_NORMAL, A_NORMAL },
	[CANVAS_WARN] = { COLOR_YELLOW, A_NORMAL, A_BOLD },
	[CANVAS_BAD] = { COLOR_RED, A_BOLD, A_BOLD },
	[CANVAS_HEAD] = { 0, A_REVERSE, A_REVERSE },
	[CANVAS_SORTED] = { 0, A_REVERSE | A_BOLD, A_REVERSE | A_BOLD },
};
_Static_assert(ARRAY_LEN(styles) == CANVAS_STYLE_COUNT_, "a look for each");

static void ending_signals(sigset_t *ret)
{
	static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };

	(void)sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		(void)sigaddset(ret, list[i]);
}

static void read_terminal_size(struct terminal *t)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0)
		(void)resize_term(w.ws_row, w.ws_col); /* resizeterm() would also push a key */
	t->width = (unsigned)COLS;
	t->height = (unsigned)LINES;
}

static void begin_colours(struct terminal *t, bool wanted)
{
	t->colour = wanted && has_colors() && start_color() == OK;
	if (!t->colour)
		return;
	(void)use_default_colors();
	for (size_t i = 0; i < ARRAY_LEN(styles); i++) {
		if (styles[i].colour)
			(void)init_pair(styles[i].colour, styles[i].colour, -1);
	}
}

static void terminal_close(struct terminal *t)
{
	sigset_t set;

	if (!t->screen)
		return;
	(void)curs_set(1);
	(void)endwin();
	delscreen(t->screen);
	if (t->signals >= 0)
		(void)close(t->signals);
	ending_signals(&set);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	*t = (struct terminal){ .signals = -1 };
}

/* ERR_UNSUPPORTED: $TERM is unknown or lacks a capability. @colour false: no colors on any terminal. */
static int terminal_open(struct terminal *t, bool colour, struct error *err)
{
	const char *name = getenv("TERM");
	sigset_t set;

	*t = (struct terminal){ .signals = -1 };
	t->screen = newterm(NULL, stdout, stdin);
	if (!t->screen)
		return error_set(err, ERR_UNSUPPORTED,
			"terminal '%.40s' is not known here: try TERM=xterm, or --once for text",
			name ? name : "");
	ending_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	t->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (t->signals < 0) {
		int sys = errno;

		terminal_close(t);
		return error_sys(err, sys, "watch for signals");
	}
	begin_colours(t, colour);
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)curs_set(0);
	(void)set_escdelay(ESCAPE_MS);
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)leaveok(stdscr, TRUE);
	read_terminal_size(t);
	return 0;
}

static void terminal_fds(const struct terminal *t, int ret[TERMINAL_FDS])
{
	ret[0] = STDIN_FILENO;
	ret[1] = t->signals;
}

static int translate_curses_key(int key)
{
	switch (key) {
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return TOP_KEY_HOME;
	case KEY_END:
		return TOP_KEY_END;
	case KEY_ENTER:
		return TOP_KEY_ENTER;
	case KEY_BACKSPACE:
		return TOP_KEY_BACKSPACE;
	default:
		return key < 0x100 ? key : 0;
	}
}

/* Whether the other end of the terminal is closed. Otherwise the loop would repeat an empty read
 * forever. */
static bool is_terminal_closed(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Does not block. Returns the next key (a byte, or a key of view.h) or one of the values above. */
static int terminal_read(struct terminal *t, int *ret_signal)
{
	struct signalfd_siginfo info;
	int key;

	*ret_signal = 0;
	if (read(t->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGWINCH) {
			read_terminal_size(t);
			return TERMINAL_RESIZED;
		}
		*ret_signal = (int)info.ssi_signo;
		return TERMINAL_ENDED;
	}
	key = getch();
	if (key == ERR)
		return is_terminal_closed() ? TERMINAL_ENDED : TERMINAL_NONE;
	return translate_curses_key(key);
}

static void draw_run(const struct terminal *t, const struct canvas *c,
	const struct canvas_run *r)
{
	attr_t style = t->colour ? styles[r->style].with : styles[r->style].without;

	(void)attr_set(style, t->colour ? styles[r->style].colour : 0, NULL);
	(void)addnstr(c->text.data + r->begin, (int)r->len);
}

static void terminal_draw(const struct terminal *t, const struct canvas *c)
{
	uint32_t line = UINT32_MAX;

	(void)erase();
	for (size_t i = 0; i < c->n_runs && c->runs[i].line < t->height; i++) {
		if (c->runs[i].line != line)
			(void)move((int)c->runs[i].line, 0);
		line = c->runs[i].line;
		draw_run(t, c, &c->runs[i]);
	}
	(void)attr_set(A_NORMAL, 0, NULL);
	(void)refresh();
}

/* --- the live screen: waits for the agent and for keys together --- */

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

/* --- the picture and the keys --- */

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
