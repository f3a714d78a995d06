/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/monitor/reading.h"

#include "lib/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct monitor_reading_gpu {
	uint32_t index; /* NVML index */
	bool got, nomem;
	int32_t code;
	uint32_t call;
	char uuid[GPU_UUID_MAX];
	struct gpu_process *v;
	uint32_t n;
};

void reading_fini(struct processes_read *r)
{
	uint32_t seq = r->seq;

	for (uint32_t i = 0; i < r->n_gpus; i++)
		free(r->gpus[i].v);
	free(r->gpus);
	free(r->uuids);
	*r = (struct processes_read){ .seq = seq };
}

/* The GPU with @uuid, or the GPU of the MIG device with @uuid; *ret_mig: that MIG device, or NULL. */
static const struct gpu *find_reading_gpu(const struct inventory *inv, const char *uuid,
	const struct gpu_mig **ret_mig)
{
	*ret_mig = NULL;
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (strcasecmp(inv->mig[i].uuid, uuid) == 0) {
			*ret_mig = &inv->mig[i];
			return &inv->gpus[inv->mig[i].gpu];
		}
	}
	for (uint32_t i = 0; i < inv->n; i++) {
		if (strcasecmp(inv->gpus[i].uuid, uuid) == 0 &&
			inv->gpus[i].fault != GPU_FAULT_GONE)
			return &inv->gpus[i];
	}
	return NULL;
}

static struct monitor_reading_gpu *by_index(struct processes_read *r, uint32_t index)
{
	for (uint32_t i = 0; i < r->n_gpus; i++) {
		if (r->gpus[i].index == index)
			return &r->gpus[i];
	}
	return NULL;
}

int reading_begin(struct processes_read *r, const char *const *uuids, uint32_t n,
	const struct probe_round *round, uint16_t *ret_gpus, uint32_t *ret_n, struct error *err)
{
	r->uuids = calloc(n + 1, sizeof *r->uuids);
	r->gpus = calloc(n + 1, sizeof *r->gpus);
	*ret_n = 0;
	if (!r->uuids || !r->gpus) {
		reading_fini(r);
		return error_nomem(err);
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct gpu_mig *mig;
		const struct gpu *g = find_reading_gpu(round->last, uuids[i], &mig);

		(void)snprintf(r->uuids[r->n++], GPU_UUID_MAX, "%s", uuids[i]);
		if (!g || g->index >= GPU_NODE_MAX || round->marks[g->index].stuck ||
			by_index(r, g->index))
			continue;
		r->gpus[r->n_gpus].index = g->index;
		memcpy(r->gpus[r->n_gpus].uuid, g->uuid, sizeof g->uuid);
		r->n_gpus++;
		ret_gpus[(*ret_n)++] = (uint16_t)g->index;
	}
	if (++r->seq == 0)
		r->seq = 1;
	r->active = true;
	return 0;
}

void reading_apply(struct processes_read *r, const struct worker_processes *m)
{
	struct monitor_reading_gpu *g =
		r->active && m->seq == r->seq ? by_index(r, m->gpu) : NULL;

	/* The worker's indexes may mean other GPUs than those of the agent's last probe. */
	if (!g || strcmp(g->uuid, m->uuid) != 0)
		return;
	g->got = true;
	g->code = m->code;
	g->call = m->call;
	if (m->n == 0)
		return;
	if (!ARRAY_EXTEND(&g->v, g->n, m->n, UINT32_MAX)) {
		g->nomem = true;
		return;
	}
	memcpy(&g->v[g->n], m->v, m->n * sizeof *g->v);
	g->n += m->n;
}

static void fill_gpu_processes(struct gpu_processes *to, struct processes_read *r,
	const struct inventory *inv)
{
	const struct gpu_mig *mig;
	const struct gpu *gpu = find_reading_gpu(inv, to->uuid, &mig);
	const struct monitor_reading_gpu *g = gpu ? by_index(r, gpu->index) : NULL;

	if (!g || !g->got || strcmp(g->uuid, gpu->uuid) != 0) {
		(void)snprintf(to->reason, sizeof to->reason, "%s",
			gpu ? "it cannot be asked now" : "there is no such GPU");
		return;
	}
	if (g->code != 0) {
		(void)snprintf(to->reason, sizeof to->reason, "%s: error %" PRId32,
			nvml_call_name(g->call), g->code);
		return;
	}
	to->v = g->nomem ? NULL : calloc(g->n + 1, sizeof *to->v);
	if (!to->v) {
		(void)snprintf(to->reason, sizeof to->reason, "out of memory");
		return;
	}
	to->known = true;
	for (uint32_t i = 0; i < g->n; i++) {
		const struct gpu_process *p = &g->v[i];

		if (mig && (p->gi != mig->gi || (p->ci != GPU_NO_INSTANCE && p->ci != mig->ci)))
			continue;
		to->v[to->n++] = *p;
	}
}

void reading_end(struct processes_read *r, uint32_t seq, const struct inventory *inv)
{
	struct processes_read own = *r;
	struct gpu_processes *list;
	struct error err = ERROR_INIT;

	if (!r->active || seq != r->seq)
		return;
	/* The callback may start a request at once. */
	*r = (struct processes_read){ .seq = own.seq };
	list = calloc(own.n + 1, sizeof *list);
	if (!list) {
		(void)error_nomem(&err);
		own.done(own.arg, NULL, 0, &err);
		reading_fini(&own);
		return;
	}
	for (uint32_t i = 0; i < own.n; i++) {
		list[i].uuid = own.uuids[i];
		fill_gpu_processes(&list[i], &own, inv);
	}
	own.done(own.arg, list, own.n, NULL);
	for (uint32_t i = 0; i < own.n; i++)
		free(list[i].v);
	free(list);
	reading_fini(&own);
}

void reading_fail(struct processes_read *r, const struct error *err)
{
	struct processes_read own = *r;

	*r = (struct processes_read){ .seq = own.seq };
	if (own.active)
		own.done(own.arg, NULL, 0, err);
	reading_fini(&own);
}
