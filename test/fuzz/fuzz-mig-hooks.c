/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "io/config/mig/mig.h"

#include <stdlib.h>
#include <string.h>

static void check_hook_result(int r, bool made, const struct error *err)
{
	if ((r == 0) != made || (r < 0 && (err->code == ERR_NONE || !*err->msg)))
		abort();
}

/* A hooks file and a GPU clients file: each text is given to both readers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct yaml_source src = { .name = "h.yaml",
		.text = (const char *)data,
		.len = size };
	struct strv warnings = STRV_INIT, services = STRV_INIT;
	struct mig_hooks *h = NULL;
	struct error err = ERROR_INIT;
	int r = mig_hooks_parse(&h, &src, &warnings, &err);

	check_hook_result(r, h != NULL, &err);
	for (size_t i = 0; h && i < h->n; i++) {
		for (size_t k = 0; k < h->lists[i].n; k++)
			if (!*h->lists[i].hooks[k].command || !h->lists[i].hooks[k].workdir)
				abort();
	}
	error_clear(&err);
	r = mig_services_parse(&services, &src, &warnings, &err);
	if (r < 0 && (services.n || !*err.msg))
		abort();
	for (size_t i = 0; i < services.n; i++) {
		if (services.v[i][0] == '-' || !services.v[i][0] ||
			strpbrk(services.v[i], " /;\n"))
			abort();
	}
	(void)mig_hooks_free(h);
	strv_fini(&services);
	strv_fini(&warnings);
	return 0;
}
