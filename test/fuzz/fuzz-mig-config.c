/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/config/mig/mig.h"

#include <stdlib.h>
#include <string.h>

static struct mig_configs *read_text(const char *text, size_t len)
{
	const struct yaml_source src = { .name = "m.yaml", .text = text, .len = len };
	struct strv warnings = STRV_INIT;
	struct mig_configs *c = NULL;
	struct error err = ERROR_INIT;
	int r = mig_configs_parse(&c, &src, &warnings, &err);

	if ((r == 0) != (c != NULL) || (r < 0 && (err.code == ERR_NONE || !*err.msg)))
		abort();
	strv_fini(&warnings);
	return c;
}

/* The printed text reads as the same config. */
static void check_reread(const char *printed, const char *yaml)
{
	struct mig_configs *c = printed ? read_text(printed, strlen(printed)) : NULL;
	char *again = c ? mig_configs_to_yaml(c) : NULL;

	if (!again || strcmp(again, yaml) != 0)
		abort();
	free(again);
	(void)mig_configs_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mig_configs *c = read_text((const char *)data, size);
	char *yaml = c ? mig_configs_to_yaml(c) : NULL;
	char *json = c ? mig_configs_to_json(c) : NULL;

	if (c) {
		check_reread(yaml, yaml);
		check_reread(json, yaml);
	}
	free(yaml);
	free(json);
	(void)mig_configs_free(c);
	return 0;
}
