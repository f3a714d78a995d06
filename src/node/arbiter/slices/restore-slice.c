/* SPDX-License-Identifier: Apache-2.0 */

/* Slices of an earlier arbiter's processes whose files are missing or name other GPUs now. */
#include "node/arbiter/slices/slice.h"

#include <string.h>

static bool has_gpus_of(const struct grants_slice *b, const struct grants_record *rec)
{
	if (b->n_gpus != rec->gpu_count)
		return false;
	for (unsigned int i = 0; i < b->n_gpus; i++) {
		if (memcmp(b->gpus[i].uuid, rec->uuids[i], SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

/* Copies the file's limits of those GPUs that the record also has. */
static void limits_for(const struct grants_slice *b, const struct grants_record *rec,
	uint64_t *limits)
{
	for (unsigned int i = 0; i < rec->gpu_count; i++) {
		for (unsigned int k = 0; k < b->n_gpus; k++) {
			if (!memcmp(b->gpus[k].uuid, rec->uuids[i], SLICE_UUID_BYTES))
				limits[i] = b->gpus[k].limit;
		}
	}
}

struct grants_slice *slices_restore_slice(struct arbiter *a, const struct grants_record *rec)
{
	uint64_t limits[SLICE_GPUS_MAX] = { SLICE_LIMIT_NOT_KNOWN };
	struct grants_slice *b = grants_slice_find(&a->grants, rec->slice);
	struct arbiter_slice *s = b ? b->user : NULL;

	if (b && has_gpus_of(b, rec))
		return b;
	if (b && b->n_members)
		return NULL;
	if (b) {
		limits_for(b, rec, limits);
		grants_slice_remove(&a->grants, b);
	}
	b = grants_slice_new(&a->grants, rec->slice, rec->gpu_count, rec->uuids, limits);
	if (!b)
		return NULL;
	b->removed = !s;
	if (s) {
		/* As if the file had come after the processes. */
		struct error err = ERROR_INIT;

		slice_attach_grants(s, b);
		(void)error_set(&err, ERR_INVALID,
			"gpus: expected those that its processes have, found others");
		slice_refuse(s, &err);
		memset(&s->file_stat, 0, sizeof(s->file_stat));
	}
	return b;
}
