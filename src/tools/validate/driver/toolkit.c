/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The container toolkit, which brings the driver into containers. So the proof is what this container
 * got: NVML in its own library path, and the device nodes. The roots of the node and of the driver
 * container do not count here.
 */
#include "tools/validate/internal.h"

#include <limits.h>

#include "lib/base/fd.h"
#include "tools/validate/driver/dev-nodes.h"

void validate_toolkit(const struct validate_settings *s, struct validate_report *r)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	char dir[PATH_MAX];

	if (report_gpus(r, s, /* driver_root= */ NULL, &inv) < 0) {
		if (r->code == VALIDATE_CODE_LIBRARY_MISSING)
			report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NOT_INJECTED,
				"no libnvidia-ml.so.1 in this container's library path");
		return;
	}
	if (path_join(dir, sizeof(dir), or_default(s->own_root, "/"), "dev", &err) < 0 ||
		dev_nodes_check(dir, NULL, inv, /* make= */ false, /* all= */ false, &err) <
			0) {
		report_set(r, VALIDATE_FAIL, VALIDATE_CODE_NODE_NOT_INJECTED, "%s", err.msg);
		return;
	}
	report_set(r, VALIDATE_PASS, VALIDATE_CODE_OK,
		"the runtime brought in driver %s and %u GPU%s", r->driver_version,
		(unsigned)inv->n, inv->n == 1 ? "" : "s");
}
