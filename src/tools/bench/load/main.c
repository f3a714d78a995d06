/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One pod of a benchmark: a workload on visible GPU 0. `gpuslice bench` starts the program in the pod's
 * environment.
 *
 *	1. The program sets up its workload and prints {"ready": true, ...}.
 *	2. The program reads a line "go BEGIN FROM TO" from standard input: its begin, and the window in which
 *	   units count (ns of the monotonic clock).
 *	3. After the window the program prints its counts and ends.
 *
 * The program ends early on SIGTERM, or at the end of standard input. So it never outlives its parent.
 *
 * For isolation tests, the program can also allocate all available memory (--fill), kill itself (--die), and write
 * to an invalid address (--kernel bad_address).
 */
#include "lib/base/option.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "tools/bench/stats/arrivals.h"
#include "tools/bench/load/work-unit.h"
#include "tools/bench/load/flow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LINE_MAX_ 256
#define BLOCKS    20
#define KERNELS   1
#define DEPTH     16

/* Sorted by name. */
static const struct option_def options[] = {
	{ .name = "arrivals",
		.type = OPTION_STR,
		.arg = "FILE",
		.help = "requests arrive as its lines say: a time in ns, and units" },
	{ .name = "blocks",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "0",
		.help = "thread blocks of a kernel; 0: all multiprocessors are full" },
	{ .name = "bytes",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "268435456",
		.help = "that a kernel copies, with --kernel stream" },
	{ .name = "calibrate",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "print the rounds with which a kernel takes so long, and end" },
	{ .name = "counts",
		.type = OPTION_BOOL,
		.help = "print how many units there were, not their times" },
	{ .name = "depth",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "16",
		.help = "so many units are in flight at any time" },
	{ .name = "die",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "kill itself so long after the beginning, in the middle of a burst; with --depth" },
	{ .name = "every",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "a request arrives each time" },
	{ .name = "fill",
		.type = OPTION_BOOL,
		.help = "take all memory that it gets, say how much, and hold it until it is ended" },
	{ .name = "graph", .type = OPTION_BOOL, .help = "a unit is launched as a graph" },
	{ .name = "hold",
		.type = OPTION_UINT,
		.arg = "PERCENT",
		.def = "0",
		.help = "of the memory that is free at first is only held" },
	{ .name = "kernel",
		.type = OPTION_STR,
		.arg = "NAME",
		.def = "burn",
		.help = "burn, stream, nop or bad_address" },
	{ .name = "kernels",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "1",
		.help = "kernels of a unit" },
	{ .name = "parts",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "20",
		.help = "of the time in which units are counted" },
	{ .name = "pause",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "one unit after the other, with this between them" },
	{ .name = "poisson",
		.type = OPTION_DURATION,
		.arg = "TIME",
		.help = "requests arrive at random, so far apart on average" },
	{ .name = "rounds",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "1000",
		.help = "of each thread, with --kernel burn" },
	{ .name = "seed",
		.type = OPTION_UINT,
		.arg = "N",
		.def = "1",
		.help = "of what is random" },
};

struct load_params {
	struct work_unit_plan unit;
	struct flow_plan flow;
	struct flow_arrival *arrivals;
	uint64_t parts, calibrate_ns;
	bool counts, fill;
};

/* --- options --- */

static int read_size(uint32_t *ret, const struct options *o, const char *name, uint64_t def,
	uint64_t min, uint64_t max, struct error *err)
{
	uint64_t v = option_uint(o, name, def);

	if (v < min || v > max)
		return error_set(err, ERR_INVALID, "--%s: expected %llu to %llu, found %llu",
			name, (unsigned long long)min, (unsigned long long)max,
			(unsigned long long)v);
	*ret = (uint32_t)v;
	return 0;
}

static int parse_kernel_option(struct load_params *l, const struct options *o,
	struct error *err)
{
	static const char *const names[] = { [WORK_UNIT_BURN] = "burn",
		[WORK_UNIT_STREAM] = "stream",
		[WORK_UNIT_NOP] = "nop",
		[WORK_UNIT_BAD] = "bad_address" };
	const char *name = option_str(o, "kernel", "burn");

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i])) {
			l->unit.kernel = (enum work_unit_kernel)i;
			return 0;
		}
	return error_set(err, ERR_INVALID,
		"--kernel: expected burn, stream, nop or bad_address, found '%.40s'", name);
}

static int parse_unit_options(struct load_params *l, const struct options *o, struct error *err)
{
	if (parse_kernel_option(l, o, err) < 0 ||
		read_size(&l->unit.kernels, o, "kernels", KERNELS, 1, 100000, err) < 0 ||
		read_size(&l->unit.blocks, o, "blocks", 0, 0, 1 << 20, err) < 0 ||
		read_size(&l->unit.reserve_percent, o, "hold", 0, 0, 100, err) < 0)
		return -1;
	l->unit.rounds = option_uint(o, "rounds", 1000);
	l->unit.bytes = option_uint(o, "bytes", UINT64_C(256) << 20);
	l->unit.graph = option_bool(o, "graph", false);
	if (l->unit.kernel == WORK_UNIT_STREAM && l->unit.bytes < 4096)
		return error_set(err, ERR_INVALID, "--bytes: expected 4096 or more");
	return 0;
}

static bool is_set(const struct options *o, const char *name)
{
	return option_get(o, name)->source != OPTION_UNSET;
}

/* Reads a time of 0 to 1 h. Returns 1 if the option is set, else 0. */
static int read_time(uint64_t *ret, const struct options *o, const char *name,
	struct error *err)
{
	int64_t ns = option_get(o, name)->ns;

	if (!is_set(o, name))
		return 0;
	if (ns < 0 || ns > (int64_t)(3600 * NS_PER_SEC))
		return error_set(err, ERR_INVALID, "--%s: expected 0 to 1h", name);
	*ret = (uint64_t)ns;
	return 1;
}

/* The one option that is set selects the flow; none: --depth. */
static int read_flow(struct load_params *l, const struct options *o, struct error *err)
{
	static const struct {
		const char *name;
		enum flow_kind kind;
	} rows[] = { { "depth", FLOW_PIPELINE }, { "pause", FLOW_CLOSED },
		{ "every", FLOW_PERIODIC }, { "poisson", FLOW_POISSON },
		{ "arrivals", FLOW_LIST } };
	unsigned int set = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_set(o, rows[i].name)) {
			l->flow.kind = rows[i].kind;
			set++;
		}
	if (set > 1)
		return error_set(err, ERR_INVALID,
			"expected one of --depth, --pause, --every, --poisson and --arrivals");
	l->flow.seed = option_uint(o, "seed", 1);
	if (read_size(&l->flow.depth, o, "depth", DEPTH, 1, FLOW_DEPTH_MAX, err) < 0 ||
		read_time(&l->flow.die_ns, o, "die", err) < 0 ||
		read_time(&l->flow.pause_ns, o, "pause", err) < 0 ||
		read_time(&l->flow.period_ns, o, "every", err) < 0 ||
		read_time(&l->flow.period_ns, o, "poisson", err) < 0)
		return -1;
	if ((l->flow.kind == FLOW_PERIODIC || l->flow.kind == FLOW_POISSON) &&
		!l->flow.period_ns)
		return error_set(err, ERR_INVALID, "--every, --poisson: expected more than 0");
	if (l->flow.kind != FLOW_LIST)
		return 0;
	if (arrivals_read(&l->arrivals, &l->flow.n, option_str(o, "arrivals", ""), err) < 0)
		return -1;
	l->flow.list = l->arrivals;
	return 0;
}

static int parse_load_options(struct load_params *l, const struct options *o, struct error *err)
{
	uint32_t parts;

	if (o->args.n)
		return error_set(err, ERR_INVALID, "unexpected argument '%s'", o->args.v[0]);
	if (parse_unit_options(l, o, err) < 0 || read_flow(l, o, err) < 0 ||
		read_size(&parts, o, "parts", BLOCKS, 1, COUNT_BLOCKS_MAX, err) < 0 ||
		read_time(&l->calibrate_ns, o, "calibrate", err) < 0)
		return -1;
	l->parts = parts;
	l->counts = option_bool(o, "counts", false);
	l->fill = option_bool(o, "fill", false);
	return 0;
}

/* --- work --- */

static void print_load_answer(json_t *o)
{
	char *line = o ? json_dumps(o, JSON_COMPACT) : NULL;

	if (!line)
		load_exit_with_error("out of memory");
	(void)printf("%s\n", line);
	if (fflush(stdout) != 0)
		_exit(1);
	free(line);
	json_decref(o);
}

static void on_load_sigterm(int sig)
{
	(void)sig;
	atomic_store(&flow_stop, true);
}

/* Nothing more arrives on standard input. Its end stops the flow. */
static void *watch_input(void *arg)
{
	char c;

	(void)arg;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	atomic_store(&flow_stop, true);
	return NULL;
}

/* False: standard input ended before the line. */
static bool wait_go_line(uint64_t times[static 3])
{
	char line[LINE_MAX_], *at = line;
	size_t n = 0;

	/* Reads single bytes, so as to consume nothing after the line. */
	while (n < sizeof(line) - 1 && read(STDIN_FILENO, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	if (!n)
		return false;
	if (strncmp(line, "go ", 3) != 0)
		load_exit_with_error("expected a line 'go BEGIN FROM TO', found '%.40s'", line);
	at = line + 3;
	for (int i = 0; i < 3; i++) {
		char *end = strchr(at, ' ');

		if (end)
			*end = '\0';
		if (!parse_u64(at, &times[i]) || (i < 2) != (end != NULL))
			load_exit_with_error("expected a line 'go BEGIN FROM TO'");
		at = end ? end + 1 : at;
	}
	if (times[1] >= times[2] || times[0] > times[1])
		load_exit_with_error("expected times in order");
	return true;
}

static void print_load_ready(const struct work_unit *u)
{
	int mps = work_unit_probe_mps(u);

	print_load_answer(json_pack("{s:b, s:i, s:I, s:o, s:I, s:I, s:I}", "ready", 1, "pid",
		(int)getpid(), "multiprocessors", (json_int_t)u->multiprocessors, "mps",
		mps < 0 ? json_null() : json_boolean(mps), "free", (json_int_t)u->free, "total",
		(json_int_t)u->total, "held", (json_int_t)u->held));
}

/* Runs until SIGTERM or the end of standard input. */
static void run_memory_fill(void)
{
	struct memory_fill f;

	fill_run(&f);
	print_load_answer(json_pack("{s:I, s:i, s:I}", "bytes", (json_int_t)f.bytes, "refusal",
		(int)f.refusal, "refusal_ns", (json_int_t)f.refusal_ns));
	(void)watch_input(NULL);
	_exit(0);
}

static void run_workload(const struct load_params *l, struct work_unit *u)
{
	struct error err = ERROR_INIT;
	uint64_t times[3];
	struct count c;
	pthread_t thread;

	if (l->unit.kernel != WORK_UNIT_BAD) {
		work_unit_launch(u, 1); /* includes one-time work of the driver */
		work_unit_wait(u);
	}
	print_load_ready(u);
	if (!wait_go_line(times))
		return;
	if (l->fill)
		run_memory_fill();
	(void)signal(SIGTERM, on_load_sigterm); /* until here it ends the program at once */
	if (count_init(&c, times[1], times[2], l->parts, &err) < 0)
		load_exit_with_error("%s", err.msg);
	if (pthread_create(&thread, NULL, watch_input, NULL) != 0)
		load_exit_with_error("no thread can be started");
	flow_run(&l->flow, u, &c, times[0]);
	print_load_answer(l->counts ? count_short_json(&c) : count_json(&c));
	count_fini(&c);
	(void)fflush(stdout);
	_exit(0); /* the thread may still wait for input */
}

static int run_load_command(const struct options *o, struct error *err)
{
	struct load_params l = { .unit.kernels = KERNELS };
	struct work_unit u;

	if (parse_load_options(&l, o, err) < 0)
		return -1;
	(void)signal(SIGPIPE, SIG_IGN);
	cuda_open();
	work_unit_open(&u, &l.unit);
	if (l.calibrate_ns) {
		uint64_t took = work_unit_calibrate(&u, l.calibrate_ns);

		print_load_answer(json_pack("{s:I, s:I, s:I}", "rounds",
			(json_int_t)u.plan.rounds, "kernel_ns", (json_int_t)took,
			"multiprocessors", (json_int_t)u.multiprocessors));
	} else {
		run_workload(&l, &u);
	}
	free(l.arrivals);
	return 0;
}

static int print_load_help(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);

	buf_puts(&b, "Usage: gpuslice-load [OPTION]...\n\n"
		     "One pod of a benchmark, for gpuslice bench.\n\n");
	options_help(&b, options, ARRAY_LEN(options));
	return fputs(buf_str(&b), stdout) < 0;
}

/*
 * gpuslice-load --tied PID PROGRAM [ARG]...: becomes the program, which gets SIGTERM when its parent, process PID,
 * ends for any reason. So an arbiter, an MPS daemon or a user's program does not outlive the benchmark.
 */
static int exec_tied_program(int argc, char **argv)
{
	uint32_t parent;

	if (argc < 4 || !parse_u32(argv[2], &parent)) {
		(void)fputs("usage: gpuslice-load --tied PID PROGRAM [ARG]...\n", stderr);
		return 2;
	}
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != (pid_t)parent)
		return 1; /* the parent had already ended */
	(void)execvp(argv[3], argv + 3);
	(void)fprintf(stderr, "run '%s': %s\n", argv[3], strerror(errno));
	return 127;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct error err = ERROR_INIT;
	int r;

	if (argc > 1 && !strcmp(argv[1], "--tied"))
		return exec_tied_program(argc, argv);
	r = options_parse(&o, options, ARRAY_LEN(options), argc, argv, 0, NULL, &err);
	if (r == OPTIONS_HELP)
		r = print_load_help();
	else if (r == OPTIONS_VERSION)
		r = printf("gpuslice-load %s\n", GPUSLICE_VERSION) < 0;
	else if (r == 0)
		r = run_load_command(&o, &err);
	options_fini(&o);
	if (r < 0)
		(void)fprintf(stderr, "gpuslice-load: %s\n", err.msg);
	return r < 0 ? error_class(err.code)->exit_code : r;
}
