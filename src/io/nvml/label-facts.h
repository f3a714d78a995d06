/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What node labels are made from besides GPUs and config, read from the node's files: the type of
 * the machine, and whether its GPUs are vGPUs, which stands in their PCI configuration space.
 *
 * It costs a file for each NVIDIA device. Neither changes without the GPUs changing, so read them
 * at start, when the set of GPUs changes, and when the config names another machine-type file.
 * Thread: any; blocks on files of sysfs.
 */
#include "model/labels/labels.h"

#define MACHINE_TYPE_MAX 4096 /* bytes of the machine-type file */

/* What struct label_facts borrows. Zeroed: nothing known. */
struct label_facts_store {
	char *machine; /* NULL: unreadable */
	struct label_facts facts;
};

/*
 * Reads them anew. @machine_file: NULL or "" for none, as in NVIDIA's config; @sysfs: NULL for
 * "/sys". .facts.timestamp_s stays as it is, it is the caller's. @notes (may be NULL) gets a line
 * for each thing that cannot be read; the label is then "unknown" or not there. < 0: no memory,
 * and the store is as it was.
 */
int label_facts_read(struct label_facts_store *s, const char *machine_file, const char *sysfs,
	struct strv *notes, struct error *err) MUST_USE;
void label_facts_fini(struct label_facts_store *s);
