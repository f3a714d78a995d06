/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/agent/base/pod-of-process.h"
#include "node/agent/monitoring/checkpoint.h"
#include "node/agent/monitoring/devices.h"

#include <stdlib.h>
#include <string.h>

/*
 * What other programs report about allocations: the kubelet's checkpoint, /proc of a tenant's process, device IDs.
 * The first byte of the input selects the parser.
 */

static void fuzz_checkpoint(const char *text, size_t len)
{
	struct monitoring_checkpoint c;
	struct error err = ERROR_INIT;

	if (monitoring_checkpoint_parse(&c, text, len, &err) < 0) {
		if (err.code == ERR_NONE || c.n)
			abort();
		return;
	}
	for (size_t i = 0; i < c.n; i++) {
		const char *uid = monitoring_checkpoint_find_uid(&c, c.v[i].container,
			c.v[i].resource, c.v[i].id);

		if (*uid && strcmp(uid, c.v[i].uid) != 0)
			abort();
	}
	monitoring_checkpoint_fini(&c);
}

static void fuzz_proc(const char *text, size_t len)
{
	char uid[POD_UID_MAX], container[POD_CONTAINER_MAX];

	if (pod_uid_from_cgroup(text, len, uid) && strlen(uid) != 36 && strlen(uid) != 32)
		abort();
	if (pod_uid_from_mounts(text, len, uid) && strlen(uid) != 36 && strlen(uid) != 32)
		abort();
	if (pod_container_from_mounts(text, len, "u", container) && !*container)
		abort();
}

static void fuzz_device(const char *text)
{
	struct gpu gpu = { .uuid = "GPU-0", .has_minor = true, .minor = 1 };
	struct gpu_mig mig = { .uuid = "MIG-0", .gi = 1, .placed = true, .start = 4 };
	struct monitoring_device v[] = { { .gpu = &gpu, .uuid = gpu.uuid },
		{ .gpu = &gpu, .mig = &mig, .uuid = mig.uuid } };
	const struct monitoring_devices devices = { .v = v, .n = 2 };
	uint32_t at = monitoring_devices_find_id(&devices, text, false);
	uint32_t dynamic = monitoring_devices_find_id(&devices, text, true);

	if ((at != MONITORING_NONE && at > 1) || (dynamic != MONITORING_NONE && dynamic > 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] % 3 == 0)
		fuzz_checkpoint(text, size - 1);
	else if (data[0] % 3 == 1)
		fuzz_proc(text, size - 1);
	else
		fuzz_device(text);
	free(text);
	return 0;
}
