/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/desired.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a: detects a difference, but no attack. */
#define HASH_INIT  UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

static uint64_t hash_mig_basis(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * HASH_PRIME;
	return h;
}

static uint64_t hash_mig_basis_text(uint64_t h, const char *text)
{
	return hash_mig_basis(h, text, strlen(text) + 1);
}

/* --- the desired layout --- */

static bool has_mig_capable_gpu(const struct inventory *inv)
{
	for (uint32_t i = 0; inv && i < inv->n; i++) {
		if (inv->gpus[i].mig_capable)
			return true;
	}
	return false;
}

enum mig_desired_source mig_find_desired(const struct mig_desired_input *in,
	const char **ret_name)
{
	*ret_name = "";
	if (in->label_needed && !in->label_known)
		return MIG_DESIRED_UNKNOWN;
	if (in->label_needed && in->label && *in->label) {
		*ret_name = in->label;
		return MIG_DESIRED_LABEL;
	}
	if (!*in->default_name || !has_mig_capable_gpu(in->inv))
		return MIG_DESIRED_NONE;
	*ret_name = in->default_name;
	return MIG_DESIRED_DEFAULT;
}

void mig_desired_key(const char *name, const char *text, size_t len,
	char ret[MIG_DESIRED_KEY_MAX])
{
	(void)snprintf(ret, MIG_DESIRED_KEY_MAX, "%.*s-%016" PRIx64, MIG_DESIRED_NAME_MAX - 1,
		name, hash_mig_basis(HASH_INIT, text ? text : "", len));
}

uint64_t mig_retry_ns(uint32_t failures, bool in_use)
{
	uint64_t ns = MIG_RETRY_MIN_NS;

	for (uint32_t i = 1; i < failures && ns < MIG_RETRY_MAX_NS && !in_use; i++)
		ns *= 2;
	return ns < MIG_RETRY_MAX_NS ? ns : MIG_RETRY_MAX_NS;
}

/* --- the outcome --- */

static void fill_mig_basis_gpu(struct mig_basis_gpu *ret, const struct inventory *inv,
	uint32_t gpu)
{
	const struct gpu *g = &inv->gpus[gpu];

	*ret = (struct mig_basis_gpu){ .enabled = g->mig_enabled, .hash = HASH_INIT };
	memcpy(ret->uuid, g->uuid, sizeof(ret->uuid));
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (inv->mig[i].gpu != gpu)
			continue;
		ret->n++;
		/*
		 * A UUID derives from the placement: another instance in the same place may have the same one.
		 */
		ret->hash = hash_mig_basis_text(ret->hash, inv->mig[i].uuid);
		ret->hash = hash_mig_basis_text(ret->hash, inv->mig[i].profile);
	}
}

uint64_t mig_basis_hash(const struct inventory *inv)
{
	uint64_t h = HASH_INIT;

	for (uint32_t i = 0; i < inv->n; i++) {
		struct mig_basis_gpu g;

		fill_mig_basis_gpu(&g, inv, i);
		h = hash_mig_basis_text(h, g.uuid);
		h = hash_mig_basis(h, &g.enabled, sizeof(g.enabled));
		h = hash_mig_basis(h, &inv->gpus[i].fault, sizeof(inv->gpus[i].fault));
		h = hash_mig_basis(h, &g.hash, sizeof(g.hash));
	}
	return h;
}

static bool has_basis_uuid(const char *const *uuids, size_t n, const char *uuid)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(uuids[i], uuid))
			return true;
	}
	return false;
}

int mig_basis_record(struct mig_basis *ret, const struct inventory *inv,
	const char *const *uuids, size_t n, struct error *err)
{
	mig_basis_fini(ret);
	ret->gpus = calloc(inv->n ? inv->n : 1, sizeof(*ret->gpus));
	ret->known = calloc(inv->n ? inv->n : 1, sizeof(*ret->known));
	if (!ret->gpus || !ret->known) {
		mig_basis_fini(ret);
		return error_nomem(err);
	}
	for (uint32_t i = 0; i < inv->n; i++) {
		memcpy(ret->known[ret->n_known++], inv->gpus[i].uuid, GPU_UUID_MAX);
		if (has_basis_uuid(uuids, n, inv->gpus[i].uuid))
			fill_mig_basis_gpu(&ret->gpus[ret->n++], inv, i);
	}
	return 0;
}

void mig_basis_fini(struct mig_basis *b)
{
	free(b->gpus);
	free(b->known);
	*b = (struct mig_basis){ 0 };
}

static struct mig_basis_gpu *find_mig_basis_gpu(struct mig_basis *b, const char *uuid)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (!strcmp(b->gpus[i].uuid, uuid))
			return &b->gpus[i];
	}
	return NULL;
}

static bool is_known_mig_device(const struct mig_basis *b, const char *uuid)
{
	for (uint32_t i = 0; i < b->n_known; i++) {
		if (!strcmp(b->known[i], uuid))
			return true;
	}
	return false;
}

/* The caller skips a GPU that cannot be read: such a GPU shows no instances, which is no loss. */
static enum mig_drift drift_of(struct mig_basis_gpu *was, const struct mig_basis_gpu *now)
{
	if (was->enabled == now->enabled && was->hash == now->hash) {
		was->drift_reported = false;
		return MIG_DRIFT_NONE;
	}
	if ((was->enabled && !now->enabled) || (was->n > 0 && now->n == 0))
		return MIG_DRIFT_MISSING;
	if (was->drift_reported && was->reported_hash == now->hash)
		return MIG_DRIFT_NONE;
	was->drift_reported = true;
	was->reported_hash = now->hash;
	return MIG_DRIFT_OTHER;
}

enum mig_drift mig_basis_drift(struct mig_basis *b, const struct inventory *inv,
	const struct gpu **ret_gpu)
{
	enum mig_drift found = MIG_DRIFT_NONE;

	for (uint32_t i = 0; i < inv->n; i++) {
		struct mig_basis_gpu *was = find_mig_basis_gpu(b, inv->gpus[i].uuid), now;
		enum mig_drift d;

		if (inv->gpus[i].fault != GPU_OK ||
			(!was && is_known_mig_device(b, inv->gpus[i].uuid)))
			continue;
		fill_mig_basis_gpu(&now, inv, i);
		d = was ? drift_of(was, &now) : MIG_DRIFT_MISSING;
		if (d == MIG_DRIFT_NONE || found == MIG_DRIFT_MISSING)
			continue;
		if (d == MIG_DRIFT_MISSING || found == MIG_DRIFT_NONE)
			*ret_gpu = &inv->gpus[i];
		found = d;
	}
	return found;
}
