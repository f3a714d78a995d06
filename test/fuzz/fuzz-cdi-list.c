/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "tools/cli/cdi-list/cdi-list.h"
#include "io/cdi/cdi.h"

#include <stdlib.h>
#include <string.h>

/* A CDI specification of unknown origin. An accepted one has a kind and valid names; a refused one has a
 * reason. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct cdi_listed l;
	int r = cdi_list_parse(&l, "f", (const char *)data, size, &err);

	if (r < 0 ? err.code == ERR_NONE : !l.kind || !strchr(l.kind, '/') || !l.devices.n)
		abort();
	for (size_t i = 0; r == 0 && i < l.devices.n; i++)
		if (!cdi_device_name_valid(l.devices.v[i]))
			abort();
	cdi_listed_fini(&l);
	return 0;
}
