/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "sim/node-file.h"
#include "sim/place.h"

#define PLUGIN_FILE  "gpuslice-sim-node-file.so"
#define STDERR_LINES 16

/*
 * The state in use, and those before it: a state that was once opened is never unmapped, because a
 * call of another thread may be reading it. Programs change directories in tests only.
 */
struct session {
	struct sim_state *state;
	struct session *older;
};

/* `lock` guards opening and closing; calls read the two atomics. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t init_count;
static struct session *_Atomic current;

/* Messages. */

static void complain(const char *text)
{
	static _Atomic uint32_t lines;
	char line[ERROR_MSG_MAX + 64];
	int n;

	if (atomic_fetch_add(&lines, 1) >= STDERR_LINES)
		return;
	n = snprintf(line, sizeof(line), "gpuslice simulated NVML: %s\n", text);
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody to tell */
}

/* Handles. */

/* 63..48 tag, 47..32 epoch, 31..16 kept for instance ids of MIG, 15..0 slot. */
#define HANDLE_TAG UINT64_C(0x6E76)

nvmlDevice_t handle_of(struct handle h)
{
	return (nvmlDevice_t)(uintptr_t)(HANDLE_TAG << 48 | (uint64_t)(h.epoch & 0xFFFF) << 32 |
					 h.slot);
}

bool handle_read(nvmlDevice_t d, struct handle *ret)
{
	uint64_t v = (uintptr_t)d;

	if (v >> 48 != HANDLE_TAG || (v >> 16 & 0xFFFF) != 0 || (v & 0xFFFF) >= SIM_MAX_GPUS)
		return false;
	ret->slot = v & 0xFFFF;
	ret->epoch = v >> 32 & 0xFFFF;
	return true;
}

uint32_t gpu_slot(nvmlDevice_t d)
{
	return (uint32_t)((uintptr_t)d & 0xFFFF) % SIM_MAX_GPUS;
}

/* Entry. */

nvmlReturn_t lib_enter(const struct sim_state **ret)
{
	const struct session *session;

	if (!atomic_load_explicit(&init_count, memory_order_acquire))
		return NVML_ERROR_UNINITIALIZED;
	session = atomic_load_explicit(&current, memory_order_acquire);
	*ret = session->state;
	return NVML_SUCCESS;
}

int lib_stub(void)
{
	const struct sim_state *s;
	nvmlReturn_t r = lib_enter(&s);

	return r ? r : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t driver_code(uint32_t driver)
{
	static const nvmlReturn_t codes[] = {
		[SIM_DRIVER_LOADED] = NVML_SUCCESS,
		[SIM_DRIVER_UNLOADED] = NVML_ERROR_DRIVER_NOT_LOADED,
		[SIM_DRIVER_MISMATCH] = NVML_ERROR_LIB_RM_VERSION_MISMATCH,
		[SIM_DRIVER_NO_PERMISSION] = NVML_ERROR_NO_PERMISSION,
	};

	return driver < ARRAY_LEN(codes) ? codes[driver] : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t lib_enter_node(bool args_ok, const struct sim_state **ret,
	struct sim_node_head *head)
{
	nvmlReturn_t r = lib_enter(ret);

	if (r)
		return r;
	if (!args_ok)
		return NVML_ERROR_INVALID_ARGUMENT;
	sim_state_read(*ret, &SIM_PART_HEAD(head), 1);
	if (head->info.slot_count > SIM_MAX_GPUS)
		head->info.slot_count = SIM_MAX_GPUS;
	return head->info.driver == SIM_DRIVER_UNLOADED ? NVML_ERROR_DRIVER_NOT_LOADED
							: NVML_SUCCESS;
}

/* Reads the GPU of a handle; what is wrong with the handle comes out as a code. */
static nvmlReturn_t read_gpu(const struct sim_state *s, struct handle h,
	struct sim_part gpu_part)
{
	struct sim_node_info info;
	struct sim_slot slot;
	struct sim_part parts[] = { SIM_PART_INFO(&info), SIM_PART_SLOT(h.slot, &slot),
		gpu_part };

	sim_state_read(s, parts, ARRAY_LEN(parts));
	if (info.driver == SIM_DRIVER_UNLOADED)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (h.epoch == 0 || h.epoch != (slot.epoch & 0xFFFF))
		return NVML_ERROR_INVALID_ARGUMENT;
	return slot.present && !slot.lost ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

static nvmlReturn_t enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g,
	bool all)
{
	const struct sim_state *s;
	struct handle h;
	nvmlReturn_t r = lib_enter(&s);

	if (r)
		return r;
	if (!args_ok || !handle_read(d, &h))
		return NVML_ERROR_INVALID_ARGUMENT;
	r = read_gpu(s, h, all ? SIM_PART_GPU_ALL(h.slot, g) : SIM_PART_GPU(h.slot, g));
	if (r)
		return r;
	if (sim_hang_ns(s, h.slot)) {
		sim_hang_wait(s, h.slot);
		/* The world may have changed meanwhile. */
		r = read_gpu(s, h, all ? SIM_PART_GPU_ALL(h.slot, g) : SIM_PART_GPU(h.slot, g));
		if (r)
			return r;
	}
	if (all && g->process_count > SIM_MAX_PROCESSES)
		g->process_count = SIM_MAX_PROCESSES;
	return (nvmlReturn_t)g->fail[group];
}

nvmlReturn_t gpu_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g)
{
	return enter(d, group, args_ok, g, false);
}

nvmlReturn_t gpu_enter_all(nvmlDevice_t d, enum sim_group group, bool args_ok,
	struct sim_gpu *g)
{
	return enter(d, group, args_ok, g, true);
}

nvmlReturn_t slot_check(const struct sim_state *s, uint32_t slot, enum sim_group group)
{
	struct sim_slot row;
	struct sim_gpu g;

	sim_state_read(s, &SIM_PART_SLOT(slot, &row), 1);
	return gpu_enter(handle_of((struct handle){ slot, row.epoch }), group, true, &g);
}

nvmlReturn_t text_out(const char *text, size_t size, char *to, unsigned int len)
{
	size_t n = strnlen(text, size);

	if (n >= len)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, text, n);
	to[n] = '\0';
	return NVML_SUCCESS;
}

nvmlReturn_t gpu_set_u32(nvmlDevice_t d, enum sim_group group, bool value_ok, size_t key_offset,
	uint32_t value)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, group, value_ok, &g);
	uint32_t slot = gpu_slot(d);

	if (r)
		return r;
	if (geteuid() != 0)
		return NVML_ERROR_NO_PERMISSION;
	if (sim_txn_begin(atomic_load(&current)->state, &txn, NULL) < 0)
		return NVML_ERROR_UNKNOWN;
	sim_settle(&txn.node->gpus[slot], time_wall_ns());
	memcpy((char *)&txn.node->gpus[slot].keys + key_offset, &value, sizeof(value));
	sim_txn_commit(&txn);
	return NVML_SUCCESS;
}

/* Init. */

/* Node files need a YAML parser, which would be a dependency: a plug-in beside us has it. */
static int load_node_file(const char *path, struct sim_node *node, struct error *err)
{
	char plugin[SIM_PATH_MAX];
	sim_node_file_fn *fn = NULL;
	const char *slash;
	Dl_info info;
	void *h;

	if (!dladdr((const void *)handle_of, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return error_set(err, ERR_UNAVAILABLE, "cannot tell where this library lies");
	(void)snprintf(plugin, sizeof(plugin), "%.*s/" PLUGIN_FILE,
		(int)(slash - info.dli_fname), info.dli_fname);
	h = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
	if (h)
		*(void **)&fn = dlsym(h, "gpuslice_sim_node_file_load");
	if (!fn)
		return error_set(err, ERR_UNAVAILABLE,
			"node files need %s beside this library, or run gpuslice sim create first: %s",
			PLUGIN_FILE, dlerror());
	return fn(path, node, err);
}

/* Makes @s the state in use, unless it is the one in use already. */
static int use_state(struct sim_state *s, const char *dir, struct error *err)
{
	struct session *old = atomic_load(&current), *new;

	if (old && sim_state_is_current(old->state, dir)) {
		(void)sim_state_close(s);
		return 0;
	}
	new = malloc(sizeof(*new));
	if (!new) {
		(void)sim_state_close(s);
		return error_nomem(err);
	}
	*new = (struct session){ .state = s, .older = old };
	atomic_store(&current, new);
	return 0;
}

static nvmlReturn_t open_state(struct error *err)
{
	struct sim_state *s = NULL;
	struct sim_node_info info;
	struct sim_place place;
	int r;

	if (sim_place_from_env(&place, NULL, err) < 0)
		return NVML_ERROR_UNKNOWN;
	r = sim_place_open(&place, load_node_file, &s, err);
	if (r == SIM_PLACE_E_NONE && place.dir[0])
		(void)error_set(err, ERR_NOT_FOUND,
			"no node in '%s', and " SIM_ENV_NODE " names none", place.dir);
	if (r == SIM_PLACE_E_NONE)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (r < 0)
		return NVML_ERROR_UNKNOWN;
	if (use_state(s, place.dir, err) < 0)
		return NVML_ERROR_MEMORY;
	sim_state_read(atomic_load(&current)->state, &SIM_PART_INFO(&info), 1);
	return driver_code(info.driver);
}

static void fork_prepare(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void fork_done(void)
{
	(void)pthread_mutex_unlock(&lock);
}

static void fork_handlers(void)
{
	(void)pthread_atfork(fork_prepare, fork_done, fork_done);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct error err = ERROR_INIT;
	nvmlReturn_t r = NVML_SUCCESS;

	(void)flags; /* a node without GPUs is not an error here: flag 1 changes nothing */
	(void)pthread_once(&once, fork_handlers);
	(void)pthread_mutex_lock(&lock);
	if (atomic_load(&init_count) == 0)
		r = open_state(&err);
	if (r == NVML_SUCCESS)
		atomic_fetch_add(&init_count, 1);
	(void)pthread_mutex_unlock(&lock);
	if (err.code != ERR_NONE)
		complain(err.msg);
	return r;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	uint32_t n = atomic_load(&init_count);

	do
		if (n == 0)
			return NVML_ERROR_UNINITIALIZED;
	while (!atomic_compare_exchange_weak(&init_count, &n, n - 1));
	return NVML_SUCCESS;
}

#define TEXT_CASE_(name, number, text) \
	case number:                   \
		return text;

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch ((int)result) {
		NVML_RESULTS(TEXT_CASE_)
	default:
		return "Unknown Error";
	}
}
