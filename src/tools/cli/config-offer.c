/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/config-offer.h"

int config_offer_make(struct config_offer *ret, const char *name, const struct config *config,
	const struct inventory *inv, struct error *err)
{
	*ret = (struct config_offer){ .offer = NULL };
	if (offer_new(&ret->offer, inv, config, err) == 0 &&
		mps_plan_new(&ret->mps, ret->offer, inv, config, err) == 0)
		return 0;
	config_offer_fini(ret);
	return error_prefix(err, "%s", name);
}

void config_offer_fini(struct config_offer *o)
{
	o->mps = mps_plan_free(o->mps);
	o->offer = offer_free(o->offer);
}
