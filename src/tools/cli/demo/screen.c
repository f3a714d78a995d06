/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the demo's node and steps as frames of text for the terminal (demo.h). */
#include "tools/cli/demo/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CELL          6 /* columns of one slice: five letters of a pod and a blank */
#define GPU_INDENT    9 /* "  GPU 12 " */
#define TITLE_COLUMNS 42
#define FRAME_MAX     (256 * 1024)

#define RESET  "\033[0m"
#define BOLD   "\033[1m"
#define DIM    "\033[2m"
#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define CYAN   "\033[36m"

/* --- lines of a known width --- */

/* A frame under construction. Lines are cut at the width; color escapes take no columns. */
struct demo_frame {
	struct buf *b;
	unsigned width, height, lines, column;
	bool colour;
};

static void add_demo_colour(struct demo_frame *f, const char *escape)
{
	if (f->colour)
		buf_puts(f->b, escape);
}

/* Adds UTF-8 text of one column per character, cut at the width. */
static void add_demo_text(struct demo_frame *f, const char *text)
{
	for (; *text; text++) {
		bool first = ((unsigned char)*text & 0xc0) != 0x80;

		if (first && f->column >= f->width)
			return;
		f->column += first;
		buf_putc(f->b, (unsigned char)*text < ' ' ? ' ' : *text);
	}
}

static void add_demo_textf(struct demo_frame *f, const char *fmt, ...) PRINTF(2, 3);
static void add_demo_textf(struct demo_frame *f, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_demo_text(f, text);
}

static void end_line(struct demo_frame *f)
{
	buf_putc(f->b, '\n');
	f->lines++;
	f->column = 0;
}

static bool is_demo_frame_full(const struct demo_frame *f, unsigned reserve)
{
	return f->height && f->lines + reserve >= f->height;
}

/* --- GPUs --- */

/* A pod's short name: the part after the last dash, at most five letters. */
static const char *get_pod_short_name(const char *pod, char ret[8])
{
	const char *dash = strrchr(pod, '-');

	(void)snprintf(ret, 8, "%.5s", dash && dash[1] ? dash + 1 : pod);
	return ret;
}

static bool is_replica_on_gpu(const char *id, const char *uuid)
{
	size_t len = strlen(uuid);

	return strncmp(id, uuid, len) == 0 &&
	       (id[len] == '\0' || strncmp(id + len, "::", 2) == 0);
}

static unsigned replica_of(const char *id)
{
	const char *colons = strstr(id, "::");
	unsigned n = 0;

	for (colons = colons ? colons + 2 : ""; *colons >= '0' && *colons <= '9' && n < 100000;
		colons++)
		n = n * 10 + (unsigned)(*colons - '0');
	return n;
}

static int by_replica(const void *a, const void *b)
{
	unsigned x = replica_of((*(const struct managed_device *const *)a)->id);
	unsigned y = replica_of((*(const struct managed_device *const *)b)->id);

	return x < y ? -1 : x > y;
}

/* The same color for the same pod. */
static const char *pod_colour(const char *name)
{
	static const char *const colours[] = { "\033[30;42m", "\033[30;43m", "\033[30;44m",
		"\033[30;45m", "\033[30;46m", "\033[30;47m", "\033[30;102m", "\033[30;103m",
		"\033[30;104m", "\033[30;105m", "\033[30;106m" };
	uint32_t h = 2166136261U;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619U;
	return colours[(h >> 8) % ARRAY_LEN(colours)];
}

static void draw_cell(struct demo_frame *f, const struct demo_picture *p,
	const struct managed_device *d, unsigned *used)
{
	const struct device_grant *g = device_manager_find_id(
		kubelet_devices(standin_kubelet(p->node->standin)), p->resource, d->id);
	const struct pod *pod =
		g ? cluster_pod_by_uid(standin_cluster(p->node->standin), g->pod_uid) : NULL;
	char name[8];

	if (pod) {
		add_demo_colour(f, pod_colour(pod->name));
		add_demo_textf(f, "%-5s", get_pod_short_name(pod->name, name));
		(*used)++;
	} else if (d->healthy) {
		add_demo_colour(f, DIM);
		add_demo_text(f, "·····");
	} else {
		add_demo_colour(f, RED);
		add_demo_text(f, "sick ");
	}
	add_demo_colour(f, RESET);
	add_demo_text(f, " ");
}

static bool is_device_offered(const struct device_manager *m, const char *resource,
	const char *id)
{
	size_t n;
	const struct managed_device *device = device_manager_devices(m, resource, &n);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(device[i].id, id) == 0)
			return true;
	}
	return false;
}

/* Pods whose device is no longer advertised. They keep running. */
static void draw_unadvertised_pods(struct demo_frame *f, const struct demo_picture *p)
{
	const struct device_manager *m = kubelet_devices(standin_kubelet(p->node->standin));
	bool any = false;
	char name[8];

	for (size_t i = 0; i < device_manager_n_grants(m); i++) {
		const struct device_grant *g = device_manager_grant(m, i);
		const struct pod *pod =
			cluster_pod_by_uid(standin_cluster(p->node->standin), g->pod_uid);

		if (!pod || g->ids.n == 0 || is_device_offered(m, p->resource, g->ids.v[0]))
			continue;
		add_demo_text(f, any ? "" : "  Kept   ");
		any = true;
		add_demo_colour(f, pod_colour(pod->name));
		add_demo_textf(f, "%-5s", get_pod_short_name(pod->name, name));
		add_demo_colour(f, RESET);
		add_demo_text(f, " ");
	}
	if (!any)
		return;
	add_demo_colour(f, DIM);
	add_demo_text(f, "run on with the whole GPU they had");
	add_demo_colour(f, RESET);
	end_line(f);
}

static void draw_gpu(struct demo_frame *f, const struct demo_picture *p, const struct gpu *gpu)
{
	size_t n, mine = 0;
	const struct managed_device *device = device_manager_devices(
		kubelet_devices(standin_kubelet(p->node->standin)), p->resource, &n);
	CLEANUP(freep) const struct managed_device **order = calloc(n ? n : 1, sizeof(*order));
	unsigned used = 0, room = f->width > 2 * GPU_INDENT ? f->width - GPU_INDENT - 6 : CELL;
	unsigned per_line = room / CELL;

	for (size_t i = 0; order && i < n; i++) {
		if (is_replica_on_gpu(device[i].id, gpu->uuid))
			order[mine++] = &device[i];
	}
	if (mine > 1)
		qsort(order, mine, sizeof(*order), by_replica);
	add_demo_colour(f, BOLD);
	add_demo_textf(f, "  GPU %-3u", gpu->index);
	add_demo_colour(f, RESET);
	for (size_t i = 0; i < mine; i++) {
		if (i > 0 && per_line > 0 && i % per_line == 0) {
			end_line(f);
			add_demo_text(f, "         ");
		}
		draw_cell(f, p, order[i], &used);
	}
	if (mine > 1)
		add_demo_textf(f, "%u/%zu", used, mine);
	if (mine == 0) {
		add_demo_colour(f, DIM);
		add_demo_text(f, "nothing offered yet");
		add_demo_colour(f, RESET);
	}
	end_line(f);
}

/* --- waiting pods --- */

static void draw_waiting(struct demo_frame *f, const struct demo_picture *p)
{
	const struct simulated_cluster *c = standin_cluster(p->node->standin);
	struct pod_counts t = cluster_count_pods(c, NULL);
	const char *why = NULL;
	char name[8];

	add_demo_text(f, "  Pods   ");
	add_demo_colour(f, GREEN);
	add_demo_textf(f, "%u running", t.running);
	add_demo_colour(f, RESET);
	if (t.pending + t.starting > 0) {
		add_demo_text(f, ", ");
		add_demo_colour(f, YELLOW);
		add_demo_textf(f, "%u pending:", t.pending + t.starting);
		add_demo_colour(f, RESET);
	}
	for (size_t i = 0; i < c->n_pods; i++) {
		if (c->pods[i]->phase != POD_PENDING)
			continue;
		add_demo_textf(f, " %s", get_pod_short_name(c->pods[i]->name, name));
		why = c->pods[i]->message;
	}
	if (t.failed > 0) {
		add_demo_colour(f, RED);
		add_demo_textf(f, ", %u failed", t.failed);
		add_demo_colour(f, RESET);
	}
	end_line(f);
	if (why) {
		const char *end = strstr(why, ". " SCHEDULER_PREEMPTION);

		add_demo_colour(f, DIM);
		add_demo_textf(f, "         %.*s",
			(int)(end ? end - why : (ptrdiff_t)strlen(why)), why);
		add_demo_colour(f, RESET);
		end_line(f);
	}
}

static void draw_demo_node(struct demo_frame *f, const struct demo_picture *p, unsigned reserve)
{
	const struct inventory *gpus = p->node->gpus;

	for (uint32_t i = 0; gpus && i < gpus->n; i++) {
		if (is_demo_frame_full(f, reserve) && i + 1 < gpus->n) {
			add_demo_textf(f, "  and %u more GPUs", gpus->n - i);
			end_line(f);
			break;
		}
		draw_gpu(f, p, &gpus->gpus[i]);
	}
	draw_unadvertised_pods(f, p);
	draw_waiting(f, p);
}

void demo_draw_node(struct buf *b, const struct demo_picture *p, unsigned width, bool colour)
{
	struct demo_frame f = { .b = b, .width = width, .colour = colour };

	if (p->node && p->node->standin)
		draw_demo_node(&f, p, 0);
}

/* --- the picture --- */

static void draw_steps(struct demo_frame *f, const struct demo_picture *p)
{
	static const struct {
		const char *sign, *colour;
	} marks[] = {
		[DEMO_RUNNING] = { "▸", CYAN },
		[DEMO_DONE] = { "✓", GREEN },
		[DEMO_FAILED] = { "✗", RED },
	};

	for (size_t i = 0; i < p->n_steps; i++) {
		const struct demo_step_line *s = &p->steps[i];

		add_demo_colour(f, marks[s->mark].colour);
		add_demo_textf(f, "  %s ", marks[s->mark].sign);
		add_demo_colour(f, RESET);
		add_demo_textf(f, "%zu  %s", i + 1, s->title);
		while (f->column < TITLE_COLUMNS)
			add_demo_text(f, " ");
		add_demo_colour(f, s->mark == DEMO_FAILED ? RED : DIM);
		add_demo_textf(f, " %s", s->result);
		add_demo_colour(f, RESET);
		end_line(f);
	}
}

static void draw_footer(struct demo_frame *f, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		add_demo_textf(f, "%.*s", (int)len, text);
		end_line(f);
		text += len + (text[len] == '\n');
	}
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; text && *text; text++)
		n += *text == '\n';
	return n;
}

/* The picture in at most @height lines (0: no limit) of @width columns. */
static void demo_draw(struct buf *b, const struct demo_picture *p, unsigned width,
	unsigned height, bool colour)
{
	struct demo_frame f = { .b = b, .width = width, .height = height, .colour = colour };
	unsigned below = (unsigned)p->n_steps + count_lines(p->footer) + 4;

	add_demo_colour(&f, BOLD);
	add_demo_textf(&f, "gpuslice demo");
	add_demo_colour(&f, RESET);
	add_demo_textf(&f, "  %s", p->headline);
	end_line(&f);
	end_line(&f);
	if (p->command) {
		add_demo_colour(&f, CYAN);
		add_demo_textf(&f, "$ %s", p->command); /* the longest one fits in 80 columns */
		add_demo_colour(&f, RESET);
		end_line(&f);
		end_line(&f);
	}
	if (p->node && p->node->standin)
		draw_demo_node(&f, p, below);
	end_line(&f);
	draw_steps(&f, p);
	if (p->footer) {
		end_line(&f);
		draw_footer(&f, p->footer);
	}
}

/* --- the terminal --- */

void demo_screen_init(struct demo_screen *s, bool plain)
{
	const char *term = getenv("TERM");
	bool terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;

	*s = (struct demo_screen){ .live = terminal && !plain,
		.colour = terminal && !getenv("NO_COLOR") };
	if (s->live)
		(void)fputs("\033[?25l", stdout); /* no cursor in the picture */
}

/* Overwrites the last frame with one write, line by line. Nothing is cleared before, so the screen
 * does not flicker. */
static void write_demo_frame(struct demo_screen *s, const char *frame)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FRAME_MAX * 2);

	buf_puts(&b, "\033[?2026h"); /* synchronized output, on terminals that support it */
	if (s->drawn > 0)
		buf_printf(&b, "\033[%uA", s->drawn);
	buf_putc(&b, '\r');
	s->drawn = 0;
	for (; *frame; s->drawn++) {
		size_t len = strcspn(frame, "\n");

		buf_add(&b, frame, len);
		buf_puts(&b, "\033[K\n");
		frame += len + (frame[len] == '\n');
	}
	buf_puts(&b, "\033[J\033[?2026l");
	(void)fwrite(buf_str(&b), 1, b.len, stdout);
	(void)fflush(stdout);
}

void demo_screen_update(struct demo_screen *s, const struct demo_picture *p)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FRAME_MAX);
	struct winsize size = { .ws_col = 80, .ws_row = 24 };

	if (!s->live)
		return;
	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	demo_draw(&b, p, size.ws_col > 20 ? size.ws_col - 1U : 79U,
		size.ws_row > 8 ? size.ws_row - 1U : 23U, s->colour);
	if (!buf_ok(&b) || (s->last && strcmp(s->last, buf_str(&b)) == 0))
		return;
	write_demo_frame(s, buf_str(&b));
	free(s->last);
	s->last = buf_steal(&b);
}

void demo_screen_fini(struct demo_screen *s)
{
	if (s->live) {
		(void)fputs("\033[?25h", stdout);
		(void)fflush(stdout);
	}
	free(s->last);
	s->last = NULL;
	s->live = false;
}
