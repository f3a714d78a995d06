/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/web-config.h"

#include "fuzz.h"

#include <stdlib.h>

/* The file of --web-config-file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct web_config c;

	if (size > WEB_CONFIG_MAX)
		return 0;
	if (web_config_parse(&c, "dir/web.yaml", (const char *)data, size, &err) < 0) {
		if (err.code == ERR_NONE)
			abort();
		return 0;
	}
	/* A config has both a certificate and a key, or none of the two. */
	if (!c.cert_file != !c.key_file)
		abort();
	web_config_fini(&c);
	return 0;
}
