/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool device_id_make(char *ret, size_t cap, const char *uuid, uint32_t replica)
{
	int n = snprintf(ret, cap, "%s::%" PRIu32, uuid, replica);

	return n >= 0 && (size_t)n < cap;
}

bool device_id_make_slice(char *ret, size_t cap, const char *uuid, const char *resource,
	uint32_t number)
{
	const char *slash = strrchr(resource, '/');
	int n = snprintf(ret, cap, "%s::%s::%" PRIu32, uuid, slash ? slash + 1 : resource,
		number);

	return n >= 0 && (size_t)n < cap;
}

bool device_id_is_replica(const char *id)
{
	return strstr(id, "::");
}

size_t device_id_physical_len(const char *id)
{
	const char *sep = strstr(id, "::");

	return sep ? (size_t)(sep - id) : strlen(id);
}
