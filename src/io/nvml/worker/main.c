/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gpuslice-nvml calls NVML for the agent, so that the agent does not bear the risk (io/nvml/monitor/monitor.h).
 * The worker's only output is the protocol of io/nvml/proto.h. The worker ends with its parent or its socket,
 * whichever is first.
 *
 * The worker never shuts NVML down. The end of the process releases what the kernel holds for it, even if a call
 * of the library would not return.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/option.h"
#include "lib/base/time.h"
#include "io/nvml/nvml.h"
#include "io/nvml/probe/mig.h"
#include "io/nvml/probe/probe.h"
#include "io/nvml/worker/events.h"
#include "io/nvml/worker/library-check.h"
#include "io/nvml/proto.h"
#include "io/nvml/sample/sample.h"

static const struct option_def option_defs[] = {
	{ .name = "nvml", .type = OPTION_STR, .arg = "PATH", .help = "NVML library to open" },
	{ .name = "driver-root",
		.type = OPTION_STR,
		.arg = "DIR",
		.help = "search the library below this directory first" },
	{ .name = "sysfs",
		.type = OPTION_STR,
		.arg = "DIR",
		.def = "/sys",
		.help = "where sysfs is mounted" },
	{ .name = "procfs",
		.type = OPTION_STR,
		.arg = "DIR",
		.def = "/proc",
		.help = "where procfs is mounted" },
	{ .name = "check-library",
		.type = OPTION_BOOL,
		.help = "only init the library, and exit with NVML's code (0, 18) or 255" },
	{ .name = "no-events", .type = OPTION_BOOL, .help = "do not wait for XID events" },
};

struct worker {
	const char *nvml_path, *driver_root;
	struct nvml nvml;
	struct probe probe;
	struct worker_crumbs *crumbs;
	struct worker_events *events; /* NULL: not requested */
	bool ready;                   /* NVML is initialized */
	uint64_t bound;               /* probe_bound_gpus() before the init */
	uint32_t n;
	struct gpu gpus[GPU_NODE_MAX]; /* [n], by index; a skipped GPU has no device */
	nvmlDevice_t devices[GPU_NODE_MAX];
	struct probe_caps caps;
	struct probe_mig migs[GPU_NODE_MAX]; /* by index */
	struct gpu_link links[GPU_NODE_MAX * GPU_NODE_MAX];
	struct probe_processes processes;
	struct library_check library;
	struct nvml_sampler *sampler; /* NULL: no SAMPLE request yet */
};

/* Without the agent at the other end the process has no purpose. */
static void send_msg(union worker_msg *m)
{
	ssize_t n;

	do
		n = send(WORKER_FD_SOCKET, m, m->head.len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		_exit(0);
}

static _Noreturn void end_with(const struct error *err, bool mismatch)
{
	union worker_msg m = { .error = { .code = (uint32_t)err->code, .mismatch = mismatch } };

	probe_text(m.error.text, sizeof m.error.text, err->msg);
	if (m.error.code == ERR_NONE || m.error.code >= ERR_COUNT_)
		m.error.code = ERR_INTERNAL;
	worker_head(&m.head, WORKER_ERROR);
	send_msg(&m);
	_exit(0);
}

static _Noreturn void exit_with_error(const struct error *err)
{
	end_with(err, /* mismatch= */ false);
}

static void open_nvml(struct worker *w, bool events)
{
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	int r;

	probe_crumb(&w->probe, WORKER_GPU_NONE, WORKER_STEP_OPEN);
	if (nvml_find(path, w->nvml_path, w->driver_root, &err) < 0 ||
		nvml_open(&w->nvml, path, &err) < 0)
		exit_with_error(&err);
	w->bound = probe_bound_gpus(&w->probe);
	probe_crumb(&w->probe, WORKER_GPU_NONE, NVML_CALL_nvmlInit_v2);
	r = nvml_init(&w->nvml, &err);
	if (r < 0)
		end_with(&err, r == -NVML_ERROR_LIB_RM_VERSION_MISMATCH);
	w->library.known = true; /* it fits: this init was the first of a process, too */
	if (events && worker_events_new(&w->events, &w->nvml,
			      &w->crumbs->slot[WORKER_SLOT_EVENTS], send_msg, &err) < 0)
		exit_with_error(&err);
	w->ready = true;
}

static void send_begin(struct worker *w, uint32_t seq)
{
	union worker_msg m = { .begin = { .seq = seq, .n = w->n } };
	char text[80] = "";
	int cuda = 0;

	if (PROBE_CALL(&w->probe, WORKER_GPU_NONE, nvmlSystemGetDriverVersion, text,
		    sizeof text) == NVML_SUCCESS) {
		text[sizeof text - 1] = '\0';
		probe_text(m.begin.driver_version, sizeof m.begin.driver_version, text);
	}
	text[0] = '\0';
	if (PROBE_CALL(&w->probe, WORKER_GPU_NONE, nvmlSystemGetNVMLVersion, text,
		    sizeof text) == NVML_SUCCESS) {
		text[sizeof text - 1] = '\0';
		probe_text(m.begin.nvml_version, sizeof m.begin.nvml_version, text);
	}
	if (PROBE_CALL(&w->probe, WORKER_GPU_NONE, nvmlSystemGetCudaDriverVersion_v2, &cuda) ==
		NVML_SUCCESS)
		m.begin.cuda_version = cuda;
	worker_head(&m.head, WORKER_BEGIN);
	send_msg(&m);
}

static void send_gpu(const struct gpu *g, uint32_t seq)
{
	union worker_msg m = { .gpu = { .seq = seq, .gpu = *g } };

	worker_head(&m.head, WORKER_GPU);
	send_msg(&m);
}

static void send_mig(const struct worker *w, uint32_t index, uint32_t seq)
{
	const struct probe_mig *from = &w->migs[index];
	union worker_msg m = { .mig = { .seq = seq, .gpu = index, .n = from->n } };

	memcpy(m.mig.mig, from->mig, from->n * sizeof m.mig.mig[0]);
	worker_head(&m.head, WORKER_MIG);
	send_msg(&m);
}

static bool has_only_known_gpus(const struct worker *w, const struct worker_probe *q)
{
	for (uint32_t i = 0; i < w->n; i++) {
		uint64_t hash = worker_uuid_hash(w->gpus[i].uuid);
		bool known = !w->devices[i] || !w->gpus[i].uuid[0];

		for (uint32_t k = 0; k < q->n_known && !known; k++)
			known = q->known[k] == hash;
		if (!known)
			return false;
	}
	return true;
}

/* Links do not change while the GPUs are the same, and reading them takes thousands of calls. */
static void send_links(struct worker *w, const struct worker_probe *q)
{
	if (w->n < 2 || has_only_known_gpus(w, q))
		return;
	probe_links(&w->probe, w->n, w->gpus, w->devices, w->links);
	if (q->p2p)
		probe_p2p(&w->probe, w->n, w->gpus, w->devices, w->links);
	for (uint32_t row = 0; row < w->n; row++) {
		union worker_msg m = { .links = { .seq = q->seq, .row = row, .n = w->n } };

		memcpy(m.links.links, &w->links[(size_t)row * w->n],
			w->n * sizeof m.links.links[0]);
		worker_head(&m.head, WORKER_LINKS);
		send_msg(&m);
	}
}

static bool is_gpu_skipped(const struct worker_probe *q, uint32_t index)
{
	for (uint32_t i = 0; i < q->n_skip; i++) {
		if (q->skip[i] == index)
			return true;
	}
	return false;
}

static void probe_all_gpus(struct worker *w, const struct worker_probe *q)
{
	union worker_msg m = { .head = { .magic = 0 } };
	struct error err = ERROR_INIT;
	unsigned int count = 0;
	nvmlReturn_t r;

	if (probe_bound_gpus(&w->probe) != w->bound) {
		worker_head(&m.head, WORKER_REINIT);
		send_msg(&m);
		_exit(0);
	}
	r = PROBE_CALL(&w->probe, WORKER_GPU_NONE, nvmlDeviceGetCount_v2, &count);
	if (r != NVML_SUCCESS) {
		(void)nvml_error(&err, &w->nvml, NVML_CALL_nvmlDeviceGetCount_v2, r);
		exit_with_error(&err);
	}
	w->n = count < GPU_NODE_MAX ? count : GPU_NODE_MAX;
	send_begin(w, q->seq);
	library_check_step(&w->library, time_mono_ns());
	probe_caps_forget(&w->caps);
	for (uint32_t i = 0; i < w->n; i++) {
		struct gpu *g = &w->gpus[i];
		bool has_list = false;

		if (is_gpu_skipped(q, i)) {
			*g = (struct gpu){ .index = i };
			w->devices[i] = NULL;
			continue;
		}
		probe_gpu(&w->probe, i, g, &w->devices[i]);
		if (w->library.known)
			gpu_signal_set(g, GPU_SIGNAL_DRIVER_MISMATCH, w->library.mismatch);
		if (!g->mig_enabled)
			w->migs[i] = (struct probe_mig){ .n = 0 };
		else
			has_list = probe_mig_devices(&w->probe, g, w->devices[i], &w->caps,
				&w->migs[i]);
		if (w->events && worker_events_failed(w->events, g->uuid))
			g->xid_events = false;
		if (g->fault == GPU_FAULT_LOST || g->fault == GPU_FAULT_RESET)
			w->devices[i] = NULL;
		send_gpu(g, q->seq);
		if (has_list)
			send_mig(w, i, q->seq);
	}
	send_links(w, q);
	m.end = (struct worker_end){ .seq = q->seq };
	worker_head(&m.head, WORKER_END);
	send_msg(&m);
	if (w->events && worker_events_update(w->events, w->n, w->gpus, w->devices, &err) < 0)
		exit_with_error(&err);
}

/* --- processes on a GPU --- */

static void send_processes(struct worker *w, const struct probe_processes *list, uint32_t index,
	uint32_t seq)
{
	uint32_t sent = 0;

	do { /* an empty list is an answer, too */
		union worker_msg m = { .processes = { .seq = seq,
					       .gpu = index,
					       .code = list->code,
					       .call = list->call } };
		uint32_t n = list->n - sent;

		if (n > WORKER_PROCESSES_MAX)
			n = WORKER_PROCESSES_MAX;
		m.processes.n = n;
		memcpy(m.processes.uuid, w->gpus[index].uuid, sizeof m.processes.uuid);
		if (n > 0)
			memcpy(m.processes.v, &list->v[sent], n * sizeof m.processes.v[0]);
		worker_head(&m.head, WORKER_PROCESSES);
		send_msg(&m);
		sent += n;
	} while (sent < list->n);
}

static void read_gpu_processes(struct worker *w, const struct worker_read *q)
{
	union worker_msg m = { .read_end = { .seq = q->seq } };

	for (uint32_t i = 0; i < q->n; i++) {
		uint32_t index = q->gpus[i];

		/* A GPU that the last probe skipped or found lost is not touched. */
		if (index >= w->n || !w->devices[index])
			continue;
		probe_processes(&w->probe, index, w->devices[index], &w->processes);
		send_processes(w, &w->processes, index, q->seq);
	}
	worker_head(&m.head, WORKER_READ_END);
	send_msg(&m);
}

/* --- figures --- */

static void sample_gpus(struct worker *w, const struct worker_sample *q)
{
	struct error err = ERROR_INIT;

	if (!w->sampler)
		w->sampler = nvml_sampler_new(&w->probe, send_msg);
	if (!w->sampler) {
		(void)error_nomem(&err);
		exit_with_error(&err);
	}
	nvml_sampler_run(w->sampler, q, w->n, w->gpus, w->devices, w->migs);
}

static void serve_worker_requests(struct worker *w, bool events)
{
	for (;;) {
		union worker_msg m;
		ssize_t n = recv(WORKER_FD_SOCKET, &m, sizeof m, MSG_TRUNC);
		struct error err = ERROR_INIT;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		if (worker_msg_check(&m, (size_t)n <= sizeof m ? (size_t)n : 0, &err) < 0)
			exit_with_error(&err);
		if (m.head.type == WORKER_READ) {
			read_gpu_processes(w, &m.read);
			probe_crumb(&w->probe, WORKER_GPU_NONE, WORKER_STEP_NONE);
		} else if (m.head.type == WORKER_SAMPLE) {
			sample_gpus(w, &m.sample);
			probe_crumb(&w->probe, WORKER_GPU_NONE, WORKER_STEP_NONE);
		}
		if (m.head.type != WORKER_PROBE)
			continue;
		if (!w->ready)
			open_nvml(w, events);
		probe_all_gpus(w, &m.probe);
		probe_crumb(&w->probe, WORKER_GPU_NONE, WORKER_STEP_NONE);
	}
}

static int start_nvml_worker(struct worker *w, const struct options *o)
{
	int type = 0;
	socklen_t len = sizeof type;
	void *page;

	if (getsockopt(WORKER_FD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
		type != SOCK_SEQPACKET) {
		(void)fprintf(stderr, "gpuslice-nvml: started by gpusliced, not by hand\n");
		return 2;
	}
	/*
	 * The kernel ends the worker with the agent, which may end without closing anything. The worker must not
	 * keep the agent's open files.
	 */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, WORKER_FD_CRUMBS + 1U, ~0U, 0U);
#endif
	page = mmap(NULL, sizeof *w->crumbs, PROT_READ | PROT_WRITE, MAP_SHARED,
		WORKER_FD_CRUMBS, 0);
	if (page == MAP_FAILED) {
		struct error err = ERROR_INIT;

		(void)error_sys(&err, errno, "map the page shared with the agent");
		exit_with_error(&err);
	}
	w->crumbs = page;
	w->probe = (struct probe){ .nvml = &w->nvml,
		.sysfs = option_str(o, "sysfs", "/sys"),
		.procfs = option_str(o, "procfs", "/proc"),
		.crumb = &w->crumbs->slot[WORKER_SLOT_PROBE] };
	probe_caps_init(&w->caps);
	w->nvml_path = option_str(o, "nvml", NULL);
	w->driver_root = option_str(o, "driver-root", NULL);
	w->library = (struct library_check){ .nvml_path = w->nvml_path,
		.driver_root = w->driver_root,
		.started_ns = time_mono_ns() };
	serve_worker_requests(w, !option_bool(o, "no-events", false));
	return 0;
}

static int print_nvml_usage(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(16384);

	buf_puts(&b, "Usage: gpuslice-nvml [OPTION...]\n"
		     "Asks NVML about the node's GPUs for gpusliced, which starts it.\n\n");
	options_help(&b, option_defs, ARRAY_LEN(option_defs));
	return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
	static struct worker w; /* large; zero until used */
	struct options o;
	struct error err = ERROR_INIT;
	int r = options_parse(&o, option_defs, ARRAY_LEN(option_defs), argc, argv, 0, NULL,
		&err);

	if (r == OPTIONS_HELP) {
		r = print_nvml_usage();
	} else if (r == OPTIONS_VERSION) {
		r = printf("gpuslice-nvml %s\n", GPUSLICE_VERSION) < 0;
	} else if (r < 0) {
		(void)fprintf(stderr, "gpuslice-nvml: %s\n", err.msg);
		r = 2;
	} else if (option_bool(&o, "check-library", false)) {
		r = library_check_main(option_str(&o, "nvml", NULL),
			option_str(&o, "driver-root", NULL));
	} else {
		r = start_nvml_worker(&w, &o);
	}
	options_fini(&o);
	return r;
}
