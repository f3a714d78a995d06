/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/mig.h"

int mig_default_configs(struct mig_configs **ret, struct error *err)
{
	const struct yaml_source src = { .name = "mig-default.yaml",
		.text = mig_default_yaml,
		.len = mig_default_yaml_len };

	return mig_configs_parse(ret, &src, NULL, err);
}

int mig_builtin_configs(struct mig_configs **ret, const struct mig_node *node,
	struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *defaults = NULL, *all = NULL;
	struct error why = ERROR_INIT;

	if (mig_default_configs(&defaults, err) < 0)
		return -1;
	if (mig_config_generate(&all, node, &why) == 0) {
		if (mig_configs_add_missing(all, defaults, err) < 0)
			return -1;
		*ret = STEAL_PTR(all);
		return 0;
	}
	if (why.code != ERR_NOT_FOUND) { /* a node without MIG gets the defaults */
		error_copy(err, &why);
		return -1;
	}
	*ret = STEAL_PTR(defaults);
	return 0;
}
