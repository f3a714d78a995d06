/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/spec.h"

#include <string.h>

int mps_spec_set(struct mps_spec *s, const struct mps_daemon *d, struct error *err)
{
	strv_clear(&s->uuids);
	for (uint32_t i = 0; i < d->n && i < GPU_NODE_MAX; i++) {
		s->limits[i] = d->devices[i].limit_mib;
		s->lost[i] = d->devices[i].lost;
		if (strv_add(&s->uuids, d->devices[i].uuid, err) < 0)
			return -1;
	}
	s->percent = d->percent;
	s->exclusive = d->exclusive;
	return 0;
}

void mps_spec_fini(struct mps_spec *s)
{
	strv_fini(&s->uuids);
}

bool mps_spec_same(const struct mps_spec *a, const struct mps_spec *b)
{
	if (a->percent != b->percent || a->uuids.n != b->uuids.n)
		return false;
	for (size_t i = 0; i < a->uuids.n && i < GPU_NODE_MAX; i++)
		if (a->limits[i] != b->limits[i])
			return false;
	return true;
}

void mps_spec_set_applied(struct mps_spec *applied, const struct mps_spec *desired)
{
	memcpy(applied->limits, desired->limits, sizeof(applied->limits));
	applied->percent = desired->percent;
	strv_clear(&applied->uuids);
	if (strv_copy(&applied->uuids, &desired->uuids, NULL) < 0)
		applied->percent = 0; /* the limits are set once more */
}

int mps_spec_list_devices(const struct mps_spec *s, struct strv *ret, struct error *err)
{
	strv_clear(ret);
	for (size_t i = 0; i < s->uuids.n && i < GPU_NODE_MAX; i++)
		if (!s->lost[i] && strv_add(ret, s->uuids.v[i], err) < 0)
			return -1;
	return ret->n ? 0 : strv_copy(ret, &s->uuids, err);
}

bool mps_spec_lacks_device(const struct mps_spec *s, const struct strv *started)
{
	for (size_t i = 0; i < s->uuids.n && i < GPU_NODE_MAX; i++)
		if (!s->lost[i] && !strv_has(started, s->uuids.v[i]))
			return true;
	return false;
}
