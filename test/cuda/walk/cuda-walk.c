/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks through every way to device memory, and checks after each step whether CUDA and NVML report one
 * and the same size of GPU, to the byte, and whether all came back.
 *
 *	cuda-walk [--limit BYTES] [--device ORDINAL] [--only STEP] [--verbose]
 *
 * With --limit it expects a slice of that size; without one, a GPU of its own.
 */
#include "lib/base/time.h"
#include "cuda/walk/walk.h"

#include <stdlib.h>
#include <string.h>

#define SETTLE_MS 3000 /* for memory that only the arbiter's comparison with NVML gives back */

struct figures {
	size_t free, total, device;
	nvmlMemory_t v1;
	nvmlMemory_v2_t v2;
};

static void read_figures(const struct walk *w, struct figures *f)
{
	f->v2 = (nvmlMemory_v2_t){ .version = NVML_STRUCT_VERSION(f->v2, 2) };
	must(cu.cuMemGetInfo_v2(&f->free, &f->total), "cuMemGetInfo_v2");
	must(cu.cuDeviceTotalMem_v2(&f->device, w->device), "cuDeviceTotalMem_v2");
	if (nvml.nvmlDeviceGetMemoryInfo(w->nvml, &f->v1) ||
		nvml.nvmlDeviceGetMemoryInfo_v2(w->nvml, &f->v2))
		die("NVML has no memory figures");
}

static bool are_figures_alike(const struct walk *w, const struct figures *f)
{
	if (f->device != f->total || f->v2.total - f->v2.reserved != f->total)
		return false;
	return !w->limit ||
	       (f->total == w->limit && f->v1.total == w->limit && f->v1.free == f->free &&
		       f->v2.free == f->free && f->v1.used == f->total - f->free);
}

void agree(struct walk *w, const char *when)
{
	uint64_t start = time_mono_ns();
	struct figures f;
	size_t again, total;

	w->checks++;
	do {
		read_figures(w, &f);
		must(cu.cuMemGetInfo_v2(&again, &total), "cuMemGetInfo_v2");
		/* No call of this process is in progress, but the arbiter may have compared meanwhile. */
		if (again == f.free && are_figures_alike(w, &f))
			return;
	} while (ms_since(start) < 200);
	w->failures++;
	(void)printf("step=%s when=\"%s\" differ=1 cuda_total=%zu device_total=%zu "
		     "nvml_total=%llu nvml_v2_total=%llu reserved=%llu cuda_free=%zu "
		     "nvml_free=%llu nvml_v2_free=%llu nvml_used=%llu limit=%llu\n",
		w->step, when, f.total, f.device, f.v1.total, f.v2.total, f.v2.reserved, f.free,
		f.v1.free, f.v2.free, f.v1.used, (unsigned long long)w->limit);
}

uint64_t used(const struct walk *w)
{
	nvmlMemory_t m;

	if (nvml.nvmlDeviceGetMemoryInfo(w->nvml, &m))
		die("nvmlDeviceGetMemoryInfo failed");
	return m.used;
}

bool expect(struct walk *w, const char *what, CUresult r, CUresult expected)
{
	w->checks++;
	if (r == expected)
		return true;
	w->failures++;
	(void)printf("step=%s call=\"%s\" error=%u expected=%u\n", w->step, what, r, expected);
	return false;
}

bool lacks(struct walk *w, const char *what, CUresult r)
{
	size_t len = strlen(w->skipped_names);

	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return false;
	w->skipped++;
	(void)snprintf(w->skipped_names + len, sizeof(w->skipped_names) - len, "%s%s",
		len ? "," : "", what);
	return true;
}

/* Whether what is used falls to @bytes in time. */
static bool falls_to(const struct walk *w, uint64_t bytes)
{
	uint64_t start = time_mono_ns();

	while (used(w) > bytes) {
		if (ms_since(start) > SETTLE_MS)
			return false;
		sleep_us(2000);
	}
	return true;
}

static void run_walk_step(struct walk *w, const struct walk_step *s, bool verbose)
{
	uint64_t before = used(w), start = time_mono_ns();

	w->step = s->name;
	s->run(w);
	agree(w, "after");
	if (w->limit && !s->hidden) {
		w->checks++;
		if (!falls_to(w, before)) {
			w->failures++;
			(void)printf("step=%s kept=%lld\n", s->name,
				(long long)(used(w) - before));
		}
	}
	if (verbose)
		(void)printf("step=%s ms=%.1f used_before=%llu used_after=%llu\n", s->name,
			ms_since(start), (unsigned long long)before,
			(unsigned long long)used(w));
}

int main(int argc, char **argv)
{
	struct walk w = { .argv0 = argv[0], .step = "start" };
	const char *only = NULL;
	bool verbose = false;
	unsigned int flags, releases = 0;
	uint64_t at_start;
	char uuid[64];
	int active;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--ipc-child") == 0 && i + 2 < argc)
			return ipc_child(argv[i + 1], (int)number(argv[i + 2], "ordinal"));
		if (strcmp(argv[i], "--limit") == 0)
			w.limit = number(argv[++i], "--limit");
		else if (strcmp(argv[i], "--device") == 0)
			w.ordinal = (int)number(argv[++i], "--device");
		else if (strcmp(argv[i], "--only") == 0)
			only = argv[++i];
		else if (strcmp(argv[i], "--verbose") == 0)
			verbose = true;
		else
			die("usage: cuda-walk [--limit BYTES] [--device N] [--only STEP] [--verbose]");
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	cuda_open();
	nvml_open();
	must(cu.cuDeviceGet(&w.device, w.ordinal), "cuDeviceGet");
	w.nvml = nvml_of(w.device, uuid);
	at_start = used(&w);
	w.device = cuda_start(w.ordinal, &w.context);
	must(cu.cuStreamCreate(&w.stream, 1), "cuStreamCreate");
	agree(&w, "context");
	for (unsigned int i = 0; i < walk_step_count; i++)
		if (!only || strcmp(only, walk_steps[i].name) == 0)
			run_walk_step(&w, &walk_steps[i], verbose);
	w.step = "end";
	(void)expect(&w, "cuStreamDestroy_v2", cu.cuStreamDestroy_v2(w.stream), CUDA_SUCCESS);
	/* The reset may have left the first reference, so the context may need two releases. */
	do {
		(void)expect(&w, "cuDevicePrimaryCtxRelease_v2",
			cu.cuDevicePrimaryCtxRelease_v2(w.device), CUDA_SUCCESS);
		must(cu.cuDevicePrimaryCtxGetState(w.device, &flags, &active),
			"cuDevicePrimaryCtxGetState");
	} while (active && releases++ == 0);
	if (w.limit && !falls_to(&w, at_start)) {
		w.failures++;
		(void)printf("step=end kept=%lld\n", (long long)(used(&w) - at_start));
	}
	(void)printf("walk result=%s steps=%u checks=%u failures=%u limit=%llu skipped=%s\n",
		w.failures ? "failed" : "ok", walk_step_count, w.checks, w.failures,
		(unsigned long long)w.limit, w.skipped ? w.skipped_names : "none");
	return w.failures ? 1 : 0;
}
