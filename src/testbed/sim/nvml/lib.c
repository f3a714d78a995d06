/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/nvml/lib.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/time.h"
#include "testbed/sim/fake-root/fake-root.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/node-plugin.h"

#define STDERR_LINES 16

/*
 * The state in use, and the earlier ones. The library never unmaps a state, because a call of another thread may
 * be reading it. Only tests change directories.
 */
struct sim_nvml_session {
	struct sim_state *state;
	char dev[SIM_PATH_MAX]; /* device nodes of the container; "": on the host */
	struct sim_nvml_session *older;
};

/* `lock` guards init alone; calls and nvmlShutdown() use the two atomics. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t init_count;
static struct sim_nvml_session *_Atomic current;

/* --- messages --- */

static void log_nvml_error(const char *text)
{
	static _Atomic uint32_t lines;
	char line[ERROR_MSG_MAX + 64];
	int n;

	if (atomic_fetch_add(&lines, 1) >= STDERR_LINES)
		return;
	n = snprintf(line, sizeof(line), "gpuslice simulated NVML: %s\n", text);
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr is closed: there is no other log */
}

/* --- handles --- */

/*
 * 63..48 tag and kind, 47..32 epoch, 31..16 serial of the instance, 15..12 GI, 11..8 CI, 7..0 slot.
 * The low half is the slot alone for a GPU.
 */
#define HANDLE_TAG UINT64_C(0x6E76)

static_assert(SIM_MAX_GPUS <= 256 && SIM_MIG_GI_IDS <= 16 && SIM_MAX_CIS <= 16,
	"bits of a handle");

nvmlDevice_t handle_encode(struct handle h)
{
	return (nvmlDevice_t)(uintptr_t)((HANDLE_TAG + h.kind) << 48 |
					 (uint64_t)(h.epoch & 0xFFFF) << 32 |
					 (uint64_t)(h.serial & 0xFFFF) << 16 |
					 (uint64_t)(h.gi & 0xF) << 12 |
					 (uint64_t)(h.ci & 0xF) << 8 | (h.slot & 0xFF));
}

bool handle_read(nvmlDevice_t d, struct handle *ret)
{
	uint64_t v = (uintptr_t)d, kind = (v >> 48) - HANDLE_TAG;

	if (kind >= HANDLE_KINDS || (kind == HANDLE_GPU && (v & 0xFFFFFF00)))
		return false;
	*ret = (struct handle){ .slot = v & 0xFF,
		.epoch = v >> 32 & 0xFFFF,
		.kind = (enum handle_kind)kind,
		.gi = v >> 12 & 0xF,
		.ci = v >> 8 & 0xF,
		.serial = v >> 16 & 0xFFFF };
	return true;
}

uint32_t gpu_slot(nvmlDevice_t d)
{
	return (uint32_t)((uintptr_t)d & 0xFF) % SIM_MAX_GPUS;
}

/* --- entry --- */

nvmlReturn_t lib_again(const struct sim_state **ret)
{
	const struct sim_nvml_session *session;

	if (!atomic_load_explicit(&init_count, memory_order_acquire))
		return NVML_ERROR_UNINITIALIZED;
	session = atomic_load_explicit(&current, memory_order_acquire);
	*ret = session->state;
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_lib_enter(const struct sim_state **ret)
{
	nvmlReturn_t r = lib_again(ret);

	if (r == NVML_SUCCESS)
		sim_count(*ret, SIM_COUNT_CALLS);
	return r;
}

int nvml_lib_stub(void)
{
	const struct sim_state *s;
	nvmlReturn_t r = nvml_lib_enter(&s);

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

static bool in_container(void)
{
	return atomic_load(&current)->dev[0];
}

static nvmlReturn_t read_node_head(const struct sim_state *s, struct sim_node_head *head)
{
	struct sim_gpu g;

	sim_state_read(s, &SIM_PART_HEAD(head), 1);
	if (head->info.slot_count > SIM_MAX_GPUS)
		head->info.slot_count = SIM_MAX_GPUS;
	for (uint32_t i = 0; in_container() && i < head->info.slot_count; i++) {
		if (!head->slots[i].present)
			continue;
		sim_state_read(s, &SIM_PART_GPU(i, &g), 1);
		head->slots[i].present = lib_is_gpu_visible(&g.keys);
	}
	return head->info.driver == SIM_DRIVER_UNLOADED ? NVML_ERROR_DRIVER_NOT_LOADED
							: NVML_SUCCESS;
}

nvmlReturn_t lib_read_visible_head(struct sim_node_head *head)
{
	const struct sim_state *s;
	nvmlReturn_t r = lib_again(&s);

	return r ? r : read_node_head(s, head);
}

nvmlReturn_t lib_enter_node(bool args_ok, const struct sim_state **ret,
	struct sim_node_head *head)
{
	nvmlReturn_t r = nvml_lib_enter(ret);

	if (r)
		return r;
	return args_ok ? read_node_head(*ret, head) : NVML_ERROR_INVALID_ARGUMENT;
}

/* Reads the GPU of a handle, and returns a code for an invalid handle. */
static nvmlReturn_t read_handle_gpu(const struct sim_state *s, struct handle h,
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

/*
 * The code for a MIG device where only its GPU has an answer: functions that identify or locate the board refuse
 * the argument; functions that measure the board return NOT_SUPPORTED.
 */
static nvmlReturn_t refuse_mig(enum sim_group group)
{
	static const enum sim_group arguments[] = { SIM_GROUP_BOARD, SIM_GROUP_EVENTS,
		SIM_GROUP_HANDLE, SIM_GROUP_INFOROM, SIM_GROUP_MIG, SIM_GROUP_MINOR,
		SIM_GROUP_MODULE_ID, SIM_GROUP_NVLINK, SIM_GROUP_PCI, SIM_GROUP_SERIAL,
		SIM_GROUP_TOPOLOGY, SIM_GROUP_VBIOS };

	for (size_t i = 0; i < ARRAY_LEN(arguments); i++)
		if (arguments[i] == group)
			return NVML_ERROR_INVALID_ARGUMENT;
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Limits the counts of a GPU that was read, so that no index leaves a table. */
void lib_clamp(struct sim_gpu *g)
{
	if (g->process_count > SIM_MAX_PROCESSES)
		g->process_count = SIM_MAX_PROCESSES;
	if (g->mig.gi_count > SIM_MAX_GIS)
		g->mig.gi_count = SIM_MAX_GIS;
	for (uint32_t i = 0; i < g->mig.gi_count; i++)
		if (g->mig.gis[i].ci_count > SIM_MAX_CIS)
			g->mig.gis[i].ci_count = SIM_MAX_CIS;
}

/* Finds the instance of a handle; false: it was destroyed. */
static bool find_target(struct sim_gpu *g, const struct handle *h, struct target *t)
{
	*t = (struct target){ .kind = h->kind, .handle = *h };
	if (h->kind == HANDLE_GPU)
		return true;
	t->gi = sim_gi_find(g, h->gi);
	if (!t->gi || h->kind == HANDLE_GI)
		return t->gi && t->gi->serial == h->serial;
	t->ci = sim_ci_find(t->gi, h->ci);
	return t->ci && t->ci->serial == h->serial;
}

struct nvml_call_entry {
	const struct sim_state *state;
	struct handle handle;
	bool all; /* the GPU with its tables */
};

/* Enters with a valid handle, and reads its GPU into *g. */
static nvmlReturn_t enter_gpu(const struct nvml_call_entry *e, struct sim_gpu *g)
{
	uint32_t slot = e->handle.slot;
	struct sim_part part = e->all ? SIM_PART_GPU_ALL(slot, g) : SIM_PART_GPU(slot, g);
	nvmlReturn_t r = read_handle_gpu(e->state, e->handle, part);

	if (r == NVML_SUCCESS && sim_hang_ns(e->state, slot)) {
		sim_hang_wait(e->state, slot);
		/* The GPU may have changed during the hang. */
		r = read_handle_gpu(e->state, e->handle, part);
	}
	if (r == NVML_SUCCESS && e->all)
		lib_clamp(g);
	return r;
}

/* Accepts a handle of a GPU alone. Looks up instances only to separate a live MIG handle from a stale one. */
static nvmlReturn_t enter_gpu_handle(nvmlDevice_t d, enum sim_group group, bool args_ok,
	struct sim_gpu *g, bool again)
{
	struct nvml_call_entry e = { .all = false };
	struct target t;
	nvmlReturn_t r = again ? lib_again(&e.state) : nvml_lib_enter(&e.state);

	if (r)
		return r;
	if (!args_ok || !handle_read(d, &e.handle) || e.handle.kind > HANDLE_MIG)
		return NVML_ERROR_INVALID_ARGUMENT;
	e.all = e.handle.kind == HANDLE_MIG;
	if (e.handle.kind == HANDLE_GPU) {
		r = enter_gpu(&e, g);
		return r ? r : (nvmlReturn_t)g->fail[group];
	}
	/* The function refuses a MIG device, so the caller does not need *g. */
	struct sim_gpu whole;
	r = enter_gpu(&e, &whole);
	if (r)
		return r;
	return find_target(&whole, &e.handle, &t) ? refuse_mig(group)
						  : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t gpu_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g)
{
	return enter_gpu_handle(d, group, args_ok, g, false);
}

nvmlReturn_t gpu_again(nvmlDevice_t d, enum sim_group group, struct sim_gpu *g)
{
	return enter_gpu_handle(d, group, true, g, true);
}

static nvmlReturn_t enter_any_handle(const void *handle, unsigned kinds, enum sim_group group,
	bool args_ok, struct sim_gpu *g, struct target *t, bool again)
{
	struct nvml_call_entry e = { .all = true };
	nvmlReturn_t r = again ? lib_again(&e.state) : nvml_lib_enter(&e.state);

	if (r)
		return r;
	if (!args_ok || !handle_read((nvmlDevice_t)(uintptr_t)handle, &e.handle) ||
		!(kinds >> e.handle.kind & 1))
		return NVML_ERROR_INVALID_ARGUMENT;
	r = enter_gpu(&e, g);
	if (r)
		return r;
	return find_target(g, &e.handle, t) ? (nvmlReturn_t)g->fail[group]
					    : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t any_enter(const void *handle, unsigned kinds, enum sim_group group, bool args_ok,
	struct sim_gpu *g, struct target *t)
{
	return enter_any_handle(handle, kinds, group, args_ok, g, t, false);
}

nvmlReturn_t any_again(const void *handle, unsigned kinds, enum sim_group group,
	struct sim_gpu *g, struct target *t)
{
	return enter_any_handle(handle, kinds, group, true, g, t, true);
}

nvmlReturn_t device_enter(nvmlDevice_t d, enum sim_group group, bool args_ok, struct sim_gpu *g,
	struct target *t)
{
	return any_enter(d, 1U << HANDLE_GPU | 1U << HANDLE_MIG, group, args_ok, g, t);
}

nvmlReturn_t slot_check(const struct sim_state *s, uint32_t slot, enum sim_group group)
{
	struct sim_slot row;
	struct sim_gpu g;

	sim_state_read(s, &SIM_PART_SLOT(slot, &row), 1);
	return gpu_again(handle_encode((struct handle){ .slot = slot, .epoch = row.epoch }),
		group, &g);
}

/* --- what the process sees --- */

static bool has_node(const char *rel)
{
	const char *dev = atomic_load(&current)->dev;
	char path[SIM_PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", dev, rel);
	return access(path, F_OK) == 0;
}

static bool has_cap(uint32_t minor)
{
	char rel[48];

	(void)snprintf(rel, sizeof(rel), "nvidia-caps/nvidia-cap%u", minor);
	return has_node(rel);
}

bool lib_is_gpu_visible(const struct sim_keys *k)
{
	char rel[32];

	(void)snprintf(rel, sizeof(rel), "nvidia%u", k->minor);
	return !in_container() || has_node(rel);
}

bool lib_is_instance_visible(const struct sim_keys *k, uint32_t gi, uint32_t ci)
{
	return lib_may_monitor() ||
	       (has_cap(sim_cap_minor(k->minor, gi, SIM_NO_INSTANCE)) &&
		       (ci == SIM_NO_INSTANCE || has_cap(sim_cap_minor(k->minor, gi, ci))));
}

bool lib_may_config(void)
{
	return geteuid() == 0 && (!in_container() || has_cap(SIM_CAP_CONFIG));
}

bool lib_may_monitor(void)
{
	return !in_container() || has_cap(SIM_CAP_MONITOR);
}

nvmlReturn_t lib_change(const struct target *t, struct sim_txn *txn, struct sim_gpu **g)
{
	const struct sim_slot *slot;
	struct target now;

	if (sim_txn_begin(atomic_load(&current)->state, txn, NULL) < 0)
		return NVML_ERROR_UNKNOWN;
	slot = &txn->node->head.slots[t->handle.slot];
	*g = &txn->node->gpus[t->handle.slot];
	lib_clamp(*g);
	if (!slot->present || (slot->epoch & 0xFFFF) != t->handle.epoch ||
		!find_target(*g, &t->handle, &now)) {
		sim_txn_end(txn);
		return NVML_ERROR_INVALID_ARGUMENT;
	}
	sim_settle(*g, time_wall_ns());
	return NVML_SUCCESS;
}

nvmlReturn_t lib_change_mig(const struct target *t, struct sim_txn *txn)
{
	sim_txn_post(txn, (struct sim_event){ .type = NVML_EVENT_MIG_CONFIG,
				  .slot = t->handle.slot,
				  .epoch = txn->node->head.slots[t->handle.slot].epoch,
				  .gi = SIM_NO_INSTANCE,
				  .ci = SIM_NO_INSTANCE });
	return sim_txn_commit_files(txn, t->handle.slot, NULL) < 0 ? NVML_ERROR_UNKNOWN
								   : NVML_SUCCESS;
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

/* --- init --- */

/* Makes @s the state in use, unless that state is already in use with the /dev of @location. */
static int use_state(struct sim_state *s, const struct sim_location *location,
	struct error *err)
{
	struct sim_nvml_session *old = atomic_load(&current), *new;

	if (old && sim_state_is_current(old->state, location->dir) &&
		!strcmp(old->dev, location->dev)) {
		(void)sim_state_close(s);
		return 0;
	}
	new = malloc(sizeof(*new));
	if (!new) {
		(void)sim_state_close(s);
		return error_nomem(err);
	}
	*new = (struct sim_nvml_session){ .state = s, .older = old };
	memcpy(new->dev, location->dev, sizeof(new->dev));
	atomic_store(&current, new);
	return 0;
}

static nvmlReturn_t open_state(struct error *err)
{
	struct sim_state *s = NULL;
	struct sim_node_info info;
	struct sim_location location;
	int r;

	if (sim_location_from_env(&location, NULL, err) < 0)
		return NVML_ERROR_UNKNOWN;
	r = sim_location_open(&location, sim_node_plugin_load, &s, err);
	if (r == SIM_LOCATION_E_NONE && location.dir[0])
		(void)error_set(err, ERR_NOT_FOUND,
			"no node in '%s', and " SIM_ENV_NODE " names none", location.dir);
	if (r == SIM_LOCATION_E_NONE)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (r < 0)
		return NVML_ERROR_UNKNOWN;
	if (use_state(s, &location, err) < 0)
		return NVML_ERROR_MEMORY;
	sim_state_read(atomic_load(&current)->state, &SIM_PART_INFO(&info), 1);
	return driver_code(info.driver);
}

static void lock_lib_before_fork(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void unlock_lib_after_fork(void)
{
	(void)pthread_mutex_unlock(&lock);
}

static void register_lib_atfork(void)
{
	(void)pthread_atfork(lock_lib_before_fork, unlock_lib_after_fork,
		unlock_lib_after_fork);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct error err = ERROR_INIT;
	nvmlReturn_t r = NVML_SUCCESS;

	(void)flags; /* a node without GPUs is not an error here: flag 1 changes nothing */
	(void)pthread_once(&once, register_lib_atfork);
	(void)pthread_mutex_lock(&lock);
	if (atomic_load(&init_count) == 0)
		r = open_state(&err);
	if (r == NVML_SUCCESS)
		atomic_fetch_add(&init_count, 1);
	(void)pthread_mutex_unlock(&lock);
	if (err.code != ERR_NONE)
		log_nvml_error(err.msg);
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
