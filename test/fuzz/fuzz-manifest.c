/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "testbed/standin/manifest/manifest.h"

/* Manifests come from users' files and over the control socket: whatever they hold, objects come
 * out whole or not at all, and what comes out can be walked. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	CLEANUP(manifest_freep) struct manifest *m = NULL;
	struct error err = ERROR_INIT;

	if (manifest_parse(&m, "fuzz.yaml", (const char *)data, len, &err) < 0) {
		if (m || err.code == ERR_NONE || !*err.msg)
			__builtin_trap();
		return 0;
	}
	for (size_t i = 0; i < m->n; i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		const struct object *o = &m->objects[i];

		if (!o->name || !o->namespace_ || !dns_name_valid(o->name, true))
			__builtin_trap();
		if (o->kind == OBJECT_DEPLOYMENT &&
			!str_map_covers(&o->spec->labels, &o->selector))
			__builtin_trap();
		if (!o->spec || pod_spec_resources(o->spec, &names, NULL) < 0)
			continue;
		for (size_t k = 0; k < names.n; k++) {
			if (!extended_resource_valid(names.v[k]) ||
				pod_spec_request(o->spec, names.v[k]) == 0)
				__builtin_trap();
		}
	}
	return 0;
}
