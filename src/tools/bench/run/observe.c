/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/observe.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/base/units.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARENTS_MAX 64
#define UID_LEN     36

struct state {
	const struct observation_options *o;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_signal_t signals[2];
	struct gpu_monitor *monitor;
	struct gpu_sample_request rq;
	int sm, dram; /* field indexes */
	uint64_t until_ns;
	struct bench_observation *ret;
	double busy_s, seconds, sm_sum, dram_sum;
	size_t n_sm, n_dram;
	struct error why; /* error of the last sample */
};

/* --- owner of a process --- */

static bool read_proc(uint32_t pid, const char *file, char *to, size_t room)
{
	char path[64];
	ssize_t n;
	CLEANUP(closep) int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, to, room - 1);
	to[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The process name can contain any character, so the fields after the last bracket count. */
static uint32_t read_parent_pid(uint32_t pid)
{
	char stat[1024], *end;
	unsigned int parent = 0;

	if (!read_proc(pid, "stat", stat, sizeof(stat)))
		return 0;
	end = strrchr(stat, ')');
	if (!end || end[1] != ' ' || !end[2] || end[3] != ' ')
		return 0;
	for (const char *c = end + 4;
		isdigit((unsigned char)*c) && parent < UINT32_MAX / 10 - 9; c++)
		parent = parent * 10 + (unsigned int)(*c - '0');
	return parent;
}

static bool is_descendant_process(uint32_t pid, uint32_t root)
{
	for (unsigned int i = 0; pid && i < PARENTS_MAX; i++) {
		if (pid == root)
			return true;
		pid = read_parent_pid(pid);
	}
	return false;
}

bool observation_is_pod(const char *cgroup, const char *uid)
{
	char other[UID_LEN + 1];

	if (strlen(uid) != UID_LEN)
		return false;
	for (size_t i = 0; i <= UID_LEN; i++)
		other[i] = uid[i] == '-' ? '_' : uid[i];
	return strstr(cgroup, uid) || strstr(cgroup, other);
}

static bool is_observed_process(const struct state *s, uint32_t pid)
{
	char cgroup[4096];

	if (s->o->pid)
		return is_descendant_process(pid, (uint32_t)s->o->pid);
	return read_proc(pid, "cgroup", cgroup, sizeof(cgroup)) &&
	       observation_is_pod(cgroup, s->o->pod);
}

/* --- samples --- */

static void add_real(double *sum, size_t *n, const struct sample_device *device, int field)
{
	const struct sample_value *v = field < 0 ? NULL : sample_value(device, (uint16_t)field);

	if (!v)
		return;
	*sum += fields[field].kind == FIELD_INT ? (double)v->i : v->real;
	(*n)++;
}

static void add_observed_device(struct state *s, const struct sample_device *device)
{
	double busy_s = 0, seconds = (double)device->interval_ns / 1e9;
	uint64_t bytes = 0;
	size_t n = 0;
	bool known = true, bytes_known = true;

	for (uint32_t i = 0; i < device->n_processes; i++) {
		const struct sample_process *p = &device->processes[i];

		if (!is_observed_process(s, p->pid)) {
			s->ret->alone = false;
			continue;
		}
		n++;
		bytes_known = bytes_known && p->bytes != GPU_BYTES_UNKNOWN;
		bytes += bytes_known ? p->bytes : 0;
		known = known && p->busy_known;
		busy_s += (double)p->busy_ns / 1e9;
	}
	if (!n)
		return;
	s->ret->n++;
	if (n > s->ret->processes)
		s->ret->processes = n;
	if (bytes_known && bytes > s->ret->peak_bytes)
		s->ret->peak_bytes = bytes;
	add_real(&s->sm_sum, &s->n_sm, device, s->sm);
	add_real(&s->dram_sum, &s->n_dram, device, s->dram);
	if (!known || seconds <= 0)
		return;
	s->busy_s += busy_s;
	s->seconds += seconds;
	s->ret->busiest = fmax(s->ret->busiest, busy_s / seconds);
}

static void stop_observation(struct state *s)
{
	if (!s->monitor)
		return;
	s->monitor = gpu_monitor_stop(s->monitor);
	uv_close((uv_handle_t *)&s->timer, NULL);
	for (size_t i = 0; i < ARRAY_LEN(s->signals); i++)
		uv_close((uv_handle_t *)&s->signals[i], NULL);
}

static bool has_observed_process(const struct state *s, const struct sample_device *device)
{
	for (uint32_t i = 0; i < device->n_processes; i++)
		if (is_observed_process(s, device->processes[i].pid))
			return true;
	return false;
}

/* The requested GPU, else the first GPU with an observed process. NULL: none yet. */
static const struct sample_device *find_observed_device(struct state *s,
	const struct sample *sample)
{
	if (s->ret->gpu[0])
		return sample_find(sample, s->ret->gpu);
	for (uint32_t i = 0; i < sample->n; i++)
		if (has_observed_process(s, &sample->devices[i])) {
			memcpy(s->ret->gpu, sample->devices[i].uuid, sizeof(s->ret->gpu));
			return &sample->devices[i];
		}
	return NULL;
}

static void on_outside_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct state *s = arg;
	const struct sample_device *device = sample ? find_observed_device(s, sample) : NULL;

	error_clear(&s->why);
	if (!sample)
		error_copy(&s->why, err);
	if (device)
		add_observed_device(s, device);
	(void)sample_free(sample);
	if (time_mono_ns() >= s->until_ns)
		stop_observation(s);
}

static void on_outside_timer(uv_timer_t *t)
{
	struct state *s = t->data;
	struct error err = ERROR_INIT;

	/* The call fails while the GPUs are unknown, or while a sample is in progress. */
	if (gpu_monitor_sample(s->monitor, &s->rq, on_outside_sample, s, &err) < 0 &&
		time_mono_ns() >= s->until_ns)
		stop_observation(s);
}

static void on_outside_signal(uv_signal_t *signal, int number)
{
	struct state *s = signal->data;

	(void)number;
	s->ret->stopped = true;
	stop_observation(s);
}

static void on_outside_inventory(void *arg, const struct inventory *inv)
{
	(void)arg;
	(void)inv;
}

static void on_outside_monitor_down(void *arg, const struct error *why)
{
	struct state *s = arg;

	error_copy(&s->why, why);
}

static void on_outside_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	(void)arg;
	(void)uuid;
	(void)xid;
	(void)gi;
	(void)ci;
}

static int start_observation(struct state *s, struct error *err)
{
	static const struct gpu_monitor_ops ops = { .inventory = on_outside_inventory,
		.down = on_outside_monitor_down,
		.xid = on_outside_xid };
	static const int numbers[] = { SIGINT, SIGTERM };

	s->sm = field_position("DCGM_FI_PROF_SM_ACTIVE");
	s->dram = field_position("DCGM_FI_PROF_DRAM_ACTIVE");
	if (s->sm >= 0)
		gpu_sample_want(&s->rq, (size_t)s->sm);
	if (s->dram >= 0)
		gpu_sample_want(&s->rq, (size_t)s->dram);
	s->rq.interval_ns = OBSERVATION_POLL_MS * NS_PER_MS;
	if (gpu_monitor_start(&s->monitor, &s->loop, s->o->monitor, &ops, s, err) < 0)
		return -1;
	s->until_ns = time_mono_ns() + (uint64_t)(s->o->seconds * 1e9);
	(void)uv_timer_init(&s->loop, &s->timer);
	s->timer.data = s;
	(void)uv_timer_start(&s->timer, on_outside_timer, OBSERVATION_POLL_MS,
		OBSERVATION_POLL_MS);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		(void)uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		(void)uv_signal_start(&s->signals[i], on_outside_signal, numbers[i]);
	}
	return 0;
}

int observation_run(struct bench_observation *ret, const struct observation_options *o,
	struct error *err)
{
	struct state s = { .o = o, .ret = ret };
	int r;

	*ret = (struct bench_observation){ .alone = true,
		.busy = NAN,
		.sm_active = NAN,
		.dram = NAN };
	(void)snprintf(ret->gpu, sizeof(ret->gpu), "%s", o->gpu ? o->gpu : "");
	r = uv_loop_init(&s.loop);
	if (r != 0)
		return error_set(err, ERR_INTERNAL, "event loop: %s", uv_strerror(r));
	r = start_observation(&s, err);
	(void)uv_run(&s.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&s.loop);
	if (r < 0)
		return -1;
	if (ret->stopped)
		return error_set(err, ERR_CANCELLED, "interrupted");
	if (!ret->n && s.why.code != ERR_NONE) {
		error_copy(err, &s.why);
		return -1;
	}
	if (!ret->n)
		return error_set(err, ERR_NOT_FOUND,
			"no process of it was on %s in %g s; NVML must see the processes of the node, which it "
			"does not in a container with PIDs of its own",
			o->gpu ? "this GPU" : "any GPU", o->seconds);
	if (s.seconds > 0)
		ret->busy = fmin(1, s.busy_s / s.seconds);
	if (s.n_sm)
		ret->sm_active = fmin(1, s.sm_sum / (double)s.n_sm);
	if (s.n_dram)
		ret->dram = fmin(1, s.dram_sum / (double)s.n_dram);
	return 0;
}

/* --- the profile --- */

static struct profile_value make_observed_value(double v, bool known,
	enum profile_origin origin, const char *how, const char *why)
{
	return (struct profile_value){ known ? v : NAN, NAN, origin, known ? how : why };
}

void observation_write_profile(struct profile *ret, const struct bench_observation *o,
	const char *name, const char *kind)
{
	static const char shared[] = "others were on the GPU, and this figure is of all of it";
	static const char started[] =
		"only of a program that gpuslice profile starts: -- PROGRAM";
	const struct profile_value unknown = { NAN, NAN, PROFILE_DERIVED, started };

	*ret = (struct profile){ .name = name,
		.kind = kind,
		.gpu = "",
		.problem = "",
		.doubt = "",
		.t_solo = unknown,
		.rate = unknown,
		.arrival_cv = unknown,
		.u = unknown,
		.u_bw = unknown,
		.launches = unknown,
		.overhead = { NAN, NAN, PROFILE_DERIVED, "it was only looked at" } };
	ret->busy = make_observed_value(o->busy, o->busy >= 0,
		o->alone ? PROFILE_MEASURED : PROFILE_DERIVED,
		"NVML: its processes' part of the GPU's time", "NVML does not say");
	ret->sm_active = make_observed_value(o->sm_active, o->alone && o->sm_active >= 0,
		PROFILE_MEASURED, "GPM",
		o->alone ? "this GPU does not say (GPM: Hopper or newer)" : shared);
	ret->dram = make_observed_value(o->dram, o->alone && o->dram >= 0, PROFILE_MEASURED,
		"GPM", o->alone ? "this GPU does not say (GPM: Hopper or newer)" : shared);
	ret->mem_peak_mib = make_observed_value((double)o->peak_bytes / MIB, o->peak_bytes > 0,
		PROFILE_DERIVED, "NVML: most at a look, with contexts", "NVML does not say");
	ret->context_mib = make_observed_value(0, o->peak_bytes > 0, PROFILE_DERIVED,
		"counted in mem_peak_mib", "NVML does not say");
	ret->burst = make_observed_value(o->busiest / o->busy, o->busy > 0 && o->busiest > 0,
		PROFILE_DERIVED, "busiest look by the mean, not minutes", "it had no work");
}
