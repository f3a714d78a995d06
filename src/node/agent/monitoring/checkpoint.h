/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The UIDs of pods that hold devices: PodResources does not tell them, the kubelet's checkpoint of its device
 * manager does, a file that is private to the kubelet (seen from 1.20 to 1.36):
 *
 *	{"Data":{"PodDeviceEntries":[{"PodUID":"…","ContainerName":"…","ResourceName":"…",
 *		"DeviceIDs":{"-1":["…"]},"AllocResp":"…"}],"RegisteredDevices":{…}},"Checksum":…}
 *
 * Older ones have a plain list for DeviceIDs. It is written when devices are given out, and what ended pods had stays
 * in it until the next time.
 * Thread: any (plain data).
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stddef.h>

struct monitoring_checkpoint_entry {
	const char *uid, *container, *resource, *id; /* in .root */
};

struct monitoring_checkpoint {
	json_t *root;
	struct monitoring_checkpoint_entry *v; /* by resource, id, container */
	size_t n;
};

#define MONITORING_CHECKPOINT_IDS_MAX 65536U

/* ERR_INVALID: it is none. Entries that are not understood are left out. On an error *ret is empty. */
int monitoring_checkpoint_parse(struct monitoring_checkpoint *ret, const char *text, size_t len,
	struct error *err) MUST_USE;
void monitoring_checkpoint_fini(struct monitoring_checkpoint *c);

/* Of the pod whose container has that device; "": it is not in it, or of more than one. Borrowed. */
const char *monitoring_checkpoint_find_uid(const struct monitoring_checkpoint *c,
	const char *container, const char *resource, const char *id);
