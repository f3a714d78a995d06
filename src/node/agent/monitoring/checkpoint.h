/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The UIDs of pods that hold devices. The PodResources API does not report UIDs. The checkpoint of the kubelet's
 * device manager has them; this file is private to the kubelet (its format was checked from 1.20 to 1.36):
 *
 *	{"Data":{"PodDeviceEntries":[{"PodUID":"…","ContainerName":"…","ResourceName":"…",
 *		"DeviceIDs":{"-1":["…"]},"AllocResp":"…"}],"RegisteredDevices":{…}},"Checksum":…}
 *
 * In older kubelets DeviceIDs is a plain list. The kubelet writes the file when it allocates devices. Entries of
 * ended pods stay in the file until the next write.
 * Thread: any (plain data).
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stddef.h>

struct monitoring_checkpoint_entry {
	const char *uid, *container, *resource, *id; /* owned by .root */
};

struct monitoring_checkpoint {
	json_t *root;
	struct monitoring_checkpoint_entry *v; /* by resource, id, container */
	size_t n;
};

#define MONITORING_CHECKPOINT_IDS_MAX 65536U

/* ERR_INVALID: not a checkpoint. Malformed entries are skipped. On an error *ret is empty. */
int monitoring_checkpoint_parse(struct monitoring_checkpoint *ret, const char *text, size_t len,
	struct error *err) MUST_USE;
void monitoring_checkpoint_fini(struct monitoring_checkpoint *c);

/* The UID of the pod whose container has that device; "": no entry, or entries of several pods. Borrowed. */
const char *monitoring_checkpoint_find_uid(const struct monitoring_checkpoint *c,
	const char *container, const char *resource, const char *id);
