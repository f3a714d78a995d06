/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/client-text.h"

#include <string.h>

const char *mps_environ_find(const char *env, size_t len, const char *name)
{
	size_t n = strlen(name);

	while (len > 0) {
		const char *end = memchr(env, '\0', len);
		size_t part = end ? (size_t)(end - env) : len;

		if (end && part > n && env[n] == '=' && !memcmp(env, name, n))
			return env + n + 1;
		part += end != NULL;
		env += part;
		len -= part;
	}
	return NULL;
}
