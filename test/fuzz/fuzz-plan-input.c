/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "tools/plan/input/input.h"

#include <stdlib.h>
#include <string.h>

static bool is_share(const struct plan_number *n)
{
	return !n->known || (n->v >= 0 && n->v <= 1);
}

/* Reads a user's plan file. A file that is accepted is within the limits; an error is one line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	struct error err = ERROR_INIT;

	if (plan_input_new(&in, &err) < 0)
		return 0;
	if (plan_input_parse(in, "f", (const char *)data, size, &err) < 0 ||
		plan_input_end(in, &err) < 0) {
		if (err.code == ERR_NONE || !*err.msg || strchr(err.msg, '\n'))
			abort();
		return 0;
	}
	if (!in->n_workloads || !in->regions.n || in->policy.headroom > 0.9 ||
		!in->policy.pods_per_gpu || in->policy.pods_per_gpu > PLAN_PODS_MAX)
		abort();
	for (size_t i = 0; i < in->n_notes; i++)
		for (const char *c = in->notes[i].text; *c; c++)
			if ((unsigned char)*c < ' ' || i >= PLAN_NOTES_MAX)
				abort();
	for (size_t i = 0; i < in->n_workloads; i++) {
		const struct plan_workload *w = &in->workloads[i];

		if (!w->name || !w->gpus || w->gpus > PLAN_NODE_GPUS_MAX ||
			!is_share(&w->busy) || !is_share(&w->u) || !is_share(&w->u_bw) ||
			(w->solo_s.known && !(w->solo_s.v > 0)))
			abort();
	}
	return 0;
}
