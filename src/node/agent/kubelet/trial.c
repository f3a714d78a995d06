/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/kubelet/trial.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

static bool is_same_trial_device(const struct offer_device *a, const struct offer_device *b)
{
	return a->gpu == b->gpu && a->mig == b->mig && a->share == b->share;
}

static int add_refusal(struct allocate_trial *t, const struct offer_device *d,
	const struct error *why)
{
	struct allocate_refusal *added;

	if (!ARRAY_GROW(&t->v, t->n, &t->room, OFFER_DEVICES_MAX))
		return -1;
	added = &t->v[t->n++];
	*added = (struct allocate_refusal){ .gpu = d->gpu, .mig = d->mig, .share = d->share };
	memcpy(added->why, why->msg, sizeof(added->why));
	return 0;
}

static bool is_same_trial_result(const struct allocate_trial *a, const struct allocate_trial *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = a->v[i].gpu == b->v[i].gpu && a->v[i].mig == b->v[i].mig &&
		       a->v[i].share == b->v[i].share && !strcmp(a->v[i].why, b->v[i].why);
	return same;
}

bool allocate_trial_run(struct allocate_trial *t, const struct resource *r, allocate_try *try,
	void *arg)
{
	struct allocate_trial now = { .n = 0 };
	bool news;

	/* Devices are sorted, so those of one physical device and share are neighbors. */
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];
		struct error err = ERROR_INIT;

		if (d->why || (i && is_same_trial_device(d, d - 1)))
			continue;
		if (try(arg, r, d, &err) < 0 && add_refusal(&now, d, &err) < 0) {
			allocate_trial_fini(&now);
			return false;
		}
	}
	news = !is_same_trial_result(&now, t);
	allocate_trial_fini(t);
	*t = now;
	return news;
}

const char *allocate_trial_refusal(const struct allocate_trial *t, const struct offer_device *d)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].gpu == d->gpu && t->v[i].mig == d->mig && t->v[i].share == d->share)
			return t->v[i].why;
	return NULL;
}

void allocate_trial_fini(struct allocate_trial *t)
{
	free(t->v);
	*t = (struct allocate_trial){ .n = 0 };
}
