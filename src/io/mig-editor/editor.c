/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mig-editor/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 256

int mig_editor_open(struct mig_editor **ret, const char *nvml, struct error *err)
{
	CLEANUP(mig_editor_closep) struct mig_editor *e = calloc(1, sizeof(*e));

	if (!e)
		return error_nomem(err);
	if (nvml_open(&e->session.nvml, nvml, err) < 0 ||
		mig_session_start(&e->session, err) < 0)
		return -1;
	*ret = STEAL_PTR(e);
	return 0;
}

static void clear_editor_gpus(struct mig_editor *e)
{
	free(e->node.gpus);
	free(e->gpus);
	e->node = (struct mig_node){ .n = 0 };
	e->gpus = NULL;
}

struct mig_editor *mig_editor_close(struct mig_editor *e)
{
	if (!e)
		return NULL;
	clear_editor_gpus(e);
	/* The library stays loaded: the process is about to exit, and unloading would not free what
	 * such a library keeps. */
	mig_session_stop(&e->session);
	free(e);
	return NULL;
}

uint64_t mig_editor_calls(const struct mig_editor *e)
{
	return e->session.calls;
}

void mig_editor_ignore(struct mig_editor *e, const uint32_t *pids, uint32_t n)
{
	e->session.ignored = pids;
	e->session.n_ignored = n;
}

static int alloc_editor_gpus(struct mig_editor *e, uint32_t n, struct error *err)
{
	clear_editor_gpus(e);
	e->node.gpus = calloc(n ? n : 1, sizeof(*e->node.gpus));
	e->gpus = calloc(n ? n : 1, sizeof(*e->gpus));
	if (!e->node.gpus || !e->gpus)
		return error_nomem(err);
	for (uint32_t i = 0; i < n; i++)
		e->gpus[i].pub = &e->node.gpus[i];
	e->node.n = n;
	return 0;
}

int mig_editor_refresh_gpu(struct mig_editor *e, struct mig_gpu *g, bool clients,
	struct error *err)
{
	if (mig_read_state(&e->session, g, err) < 0 ||
		(clients && mig_read_clients(&e->session, g, err) < 0))
		return -1;
	return 0;
}

int mig_editor_read(struct mig_editor *e, bool clients, const struct mig_node **ret,
	struct error *err)
{
	unsigned int n = 0;

	if (MIG_TRY(&e->session, err, nvmlDeviceGetCount_v2, &n) < 0)
		return -1;
	if (n > GPUS_MAX)
		return error_set(err, ERR_LIMIT, "%u GPUs; expected at most %d", n, GPUS_MAX);
	if (alloc_editor_gpus(e, n, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		struct mig_gpu *g = &e->gpus[i];

		g->pub->fault.code = ERR_NONE;
		if (mig_read_gpu(&e->session, g, i, &g->pub->fault) == 0 && clients &&
			g->pub->state.capable)
			(void)!mig_read_clients(&e->session, g, &g->pub->fault);
	}
	/* A GPU that reports no profiles while MIG is off gets the layout of another GPU of its
	 * product with MIG on. */
	for (uint32_t i = 0; i < n; i++) {
		if (e->gpus[i].product)
			e->node.gpus[i].layout = e->gpus[i].product->layout;
	}
	e->fresh = true;
	*ret = &e->node;
	return 0;
}

int mig_editor_restart(struct mig_editor *e, struct error *err)
{
	if (mig_session_start(&e->session, err) < 0)
		return -1;
	for (uint32_t i = 0; i < e->node.n; i++) {
		struct mig_gpu *g = &e->gpus[i];

		if (!g->pub->fault.code)
			(void)!mig_read_handle(&e->session, g, &g->pub->fault);
	}
	return 0;
}

/* --- for display --- */

void mig_editor_each_client(const struct mig_editor *e, uint32_t index,
	void (*visit)(void *arg, uint32_t gi, uint32_t ci, uint32_t pid), void *arg)
{
	const struct mig_gpu *g = &e->gpus[index];

	for (uint32_t i = 0; i < g->n_clients && i < MIG_PIDS_MAX; i++)
		visit(arg, g->clients[i].gi, g->clients[i].ci, g->clients[i].pid);
}

void mig_editor_gpu_name(struct mig_editor *e, uint32_t index, char *ret, size_t cap)
{
	char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
	size_t k = 0;

	if (MIG_CALL(&e->session, nvmlDeviceGetName, e->gpus[index].d, text, sizeof(text)) !=
		NVML_SUCCESS)
		text[0] = '\0';
	text[sizeof(text) - 1] = '\0';
	for (; text[k] && k + 1 < cap; k++)
		ret[k] = text[k] >= 0x20 && text[k] < 0x7f ? text[k] : '?';
	ret[k] = '\0';
}

int mig_editor_device_ids(struct mig_editor *e, uint32_t index,
	struct mig_device_id ret[MIG_GIS_MAX * MIG_CIS_MAX], uint32_t *ret_n, struct error *err)
{
	struct mig_session *s = &e->session;
	nvmlDevice_t d = e->gpus[index].d;
	unsigned int max = 0;

	*ret_n = 0;
	if (MIG_TRY(s, err, nvmlDeviceGetMaxMigDeviceCount, d, &max) < 0)
		return -1;
	for (unsigned int i = 0; i < max && *ret_n < MIG_GIS_MAX * MIG_CIS_MAX; i++) {
		struct mig_device_id *id = &ret[*ret_n];
		nvmlDevice_t mig = NULL;

		*id = (struct mig_device_id){ .gi = 0 };
		/* MIG devices need not have consecutive numbers. */
		if (MIG_CALL(s, nvmlDeviceGetMigDeviceHandleByIndex, d, i, &mig) !=
			NVML_SUCCESS)
			continue;
		if (MIG_TRY(s, err, nvmlDeviceGetGpuInstanceId, mig, &id->gi) < 0 ||
			MIG_TRY(s, err, nvmlDeviceGetComputeInstanceId, mig, &id->ci) < 0 ||
			MIG_TRY(s, err, nvmlDeviceGetUUID, mig, id->uuid, sizeof(id->uuid)) < 0)
			return -1;
		id->uuid[sizeof(id->uuid) - 1] = '\0';
		++*ret_n;
	}
	return 0;
}
