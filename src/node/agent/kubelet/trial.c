/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "node/agent/kubelet/host.h"

#include <string.h>

/*
 * Which devices an Allocate would refuse now. If a device is advertised as healthy and then refused, a
 * Deployment creates failed pods without end. So a trial makes an answer with the code of an Allocate,
 * allocation_new(), and calls slices_check(). The agent does this for one device of each physical device and
 * share, and discards the answer.
 */

static int get_trial_host(const struct agent *a, struct alloc_host *host, struct error *err)
{
	const struct config *c = a->facts.config;

	if (alloc_host_probe(host, c, err) < 0)
		return -1;
	return agent_cdi_facts(&a->cdi, c, &host->cdi, err);
}

static int try_device(struct agent *a, const struct resource *r, const struct offer_device *d,
	const struct alloc_host *host, struct error *err)
{
	CLEANUP(allocation_freep) struct allocation *answer = NULL;
	const char *id = d->id;

	if (allocation_new(&answer, r, a->facts.offered.inv, a->facts.config, host, &id, 1,
		    err) < 0)
		return -1;
	return slices_check(&a->slices, r, &id, 1, err);
}

static bool is_same_trial_device(const struct offer_device *a, const struct offer_device *b)
{
	return a->gpu == b->gpu && a->mig == b->mig && a->share == b->share;
}

static int add_refusal(struct agent_trial *t, const struct offer_device *d,
	const struct error *why)
{
	struct agent_refusal *more = reallocarray(t->v, t->n + 1, sizeof(*more));

	if (!more)
		return -1;
	t->v = more;
	more = &t->v[t->n++];
	*more = (struct agent_refusal){ .gpu = d->gpu, .mig = d->mig, .share = d->share };
	memcpy(more->why, why->msg, sizeof(more->why));
	return 0;
}

void agent_trial_fini(struct agent_trial *t)
{
	free(t->v);
	*t = (struct agent_trial){ .n = 0 };
}

/* Devices are sorted, so those of one physical device and share are neighbors. */
static void run_allocation_trial(struct agent *a, const struct resource *r,
	struct agent_trial *ret)
{
	CLEANUP(alloc_host_fini) struct alloc_host host = { .control_nodes = STRV_INIT };
	struct error host_error = ERROR_INIT;
	int host_known = get_trial_host(a, &host, &host_error);

	*ret = (struct agent_trial){ .n = 0 };
	for (uint32_t i = 0; i < r->n_devices; i++) {
		const struct offer_device *d = &r->devices[i];
		struct error err = ERROR_INIT;

		if (d->why || (i && is_same_trial_device(d, d - 1)))
			continue;
		if (host_known < 0)
			err = host_error;
		else if (try_device(a, r, d, &host, &err) == 0)
			continue;
		if (add_refusal(ret, d, &err) < 0)
			return;
	}
}

static bool is_same_trial_result(const struct agent_trial *a, const struct agent_trial *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = a->v[i].gpu == b->v[i].gpu && a->v[i].mig == b->v[i].mig &&
		       a->v[i].share == b->v[i].share && !strcmp(a->v[i].why, b->v[i].why);
	return same;
}

static void report_allocation_trial(struct agent *a, const char *resource,
	const struct agent_trial *t)
{
	if (t->n == 0) {
		log_info("devices can be allocated again", LOG_STR("resource", resource));
		report_event(&a->reporter, EVENT_NORMAL, "DevicesAllocatable",
			"%s: its devices can be allocated again", resource);
		return;
	}
	log_error("devices cannot be allocated, and are unhealthy",
		LOG_STR("resource", resource), LOG_STR("reason", t->v[0].why));
	report_event(&a->reporter, EVENT_WARNING, "DevicesNotAllocatable",
		"%s: devices are unhealthy, as they cannot be allocated: %s", resource,
		t->v[0].why);
}

bool agent_trial_run(struct agent *a, struct agent_trial *t, const struct resource *r)
{
	struct agent_trial now;
	bool news;

	run_allocation_trial(a, r, &now);
	news = !is_same_trial_result(&now, t);
	if (news)
		report_allocation_trial(a, r->name, &now);
	agent_trial_fini(t);
	*t = now;
	return news;
}

const char *agent_trial_refusal(const struct agent_trial *t, const struct offer_device *d)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].gpu == d->gpu && t->v[i].mig == d->mig && t->v[i].share == d->share)
			return t->v[i].why;
	return NULL;
}
