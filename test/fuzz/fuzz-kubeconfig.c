/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "io/kube-api/internal.h"
#include "io/kube-api/kubeconfig.h"

/* A kubeconfig is a user's file. What is accepted passes the checks, and nothing of it can break a
 * header line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_config c = { .server = NULL };
	struct error err = ERROR_INIT;

	if (kubeconfig_parse(&c, "dir/fuzz.yaml", (const char *)data, size, &err) < 0) {
		if (c.server || err.code == ERR_NONE || !*err.msg || strchr(err.msg, '\n'))
			abort();
		return 0;
	}
	if (!c.server || !c.source || api_config_check(&c, &err) < 0 ||
		(c.token && strpbrk(c.token, "\r\n")))
		abort();
	api_config_fini(&c);
	return 0;
}
