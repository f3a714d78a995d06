/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Facts for node labels that come neither from the GPUs nor from the config but from files of the node: the
 * machine type, and whether the GPUs are vGPUs. The PCI configuration space of a GPU says the latter.
 *
 * Cost: one file for each PCI device, and a second one for each NVIDIA device. The facts change only with the
 * GPUs, so the caller reads them at start, when the set of GPUs changes, and when the config names another
 * machine-type file.
 *
 * Thread: any; blocks on files of sysfs.
 */
#include "model/labels/labels.h"

#define MACHINE_TYPE_MAX 4096 /* bytes of the machine-type file */

/* Owns what struct label_facts borrows. Zeroed: nothing known. */
struct label_facts_store {
	char *machine; /* NULL: unreadable */
	struct label_facts facts;
};

/*
 * Reads the facts again. @machine_file: NULL or "" for none, as in NVIDIA's config; @sysfs: NULL for "/sys". The
 * caller owns .facts.timestamp_s, which does not change here. @notes (may be NULL) gets a line for each thing that
 * cannot be read. The label of that thing is then "unknown" or absent. < 0: no memory, and the store is unchanged.
 */
int label_facts_read(struct label_facts_store *s, const char *machine_file, const char *sysfs,
	struct strv *notes, struct error *err) MUST_USE;
void label_facts_fini(struct label_facts_store *s); /* leaves it zeroed */
