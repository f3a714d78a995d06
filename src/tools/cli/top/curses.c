/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/curses.h"

#include "tools/cli/top/view/keys.h"

#include <ncurses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

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

int terminal_open(struct terminal *t, bool colour, struct error *err)
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

void terminal_close(struct terminal *t)
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

void terminal_fds(const struct terminal *t, int ret[TERMINAL_FDS])
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

int terminal_read(struct terminal *t, int *ret_signal)
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

void terminal_draw(const struct terminal *t, const struct canvas *c)
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
