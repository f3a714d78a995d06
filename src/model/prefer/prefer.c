/* SPDX-License-Identifier: Apache-2.0 */
#include "model/prefer/prefer.h"

#include <string.h>

#include "model/prefer/internal.h"

static bool is_whole_gpus(const struct resource *r, const struct prefer_request *req)
{
	for (size_t i = 0; i < req->n_available; i++)
		if (device_id_is_replica(req->available[i]))
			return false;
	for (uint32_t i = 0; i < r->n_devices; i++)
		if (strncmp(r->devices[i].id, "MIG-", 4) == 0)
			return false;
	return true;
}

int prefer_choose(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err)
{
	*ret_n = 0;
	if (req->n_available > PREFER_MAX_IDS || req->n_required > PREFER_MAX_IDS)
		return error_set(err, ERR_LIMIT, "more than %d devices", PREFER_MAX_IDS);
	if (is_whole_gpus(r, req))
		return prefer_aligned(r, inv, req, ret_ids, ret_n, err);
	return prefer_greedy(r, inv, policy, req, ret_ids, ret_n, err);
}
