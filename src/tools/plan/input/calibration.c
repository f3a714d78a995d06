/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/internal.h"

#include <math.h>
#include <stdlib.h>

/* GPUs by name, and their measured costs of sharing. */

int input_gpu(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	const struct plan_gpu *g = NULL;

	if (n->type == YAML_STR)
		g = plan_gpu_find(n->text);
	if (!g)
		return input_fail(r, n, key->key,
			"a GPU of the catalogue, such as L4 or A100-SXM4-80GB");
	*(const struct plan_gpu **)to = g;
	return 0;
}

#define AT(field) offsetof(struct plan_calibration, field)

static const struct input_key keys[] = {
	{ "gpu", input_gpu, AT(gpu), 0, 0, NULL, false },
	{ "time_slicing", input_real, AT(sigma_time_slicing), 0, 10, NULL, false },
	{ "slices", input_real, AT(sigma_fair_share), 0, 10, NULL, false },
	{ "mps_bandwidth", input_real, AT(kappa), 0, 10, NULL, false },
};

int input_calibration(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	struct plan_input *in = r->in;

	(void)to;
	if (n->type != YAML_LIST || in->policy.n_calibrations + n->n > PLAN_CALIBRATIONS_MAX)
		return input_fail(r, n, key->key, "a list of up to 64 objects with gpu");
	for (size_t i = 0; i < n->n; i++) {
		struct plan_calibration one = { NULL, NAN, NAN, NAN }, *more;

		if (input_object(r, n->items[i], key->key, keys, ARRAY_LEN(keys), &one) < 0)
			return -1;
		if (!one.gpu)
			return input_fail(r, n->items[i], key->key, "an object with gpu");
		more = reallocarray(in->calibrations, in->policy.n_calibrations + 1,
			sizeof(*more));
		if (!more)
			return error_nomem(r->err);
		more[in->policy.n_calibrations++] = one;
		in->calibrations = more;
		in->policy.calibrations = more;
	}
	return 0;
}
