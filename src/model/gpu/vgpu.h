/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a vGPU reports to its guest about the host, in a capability of its PCI configuration space:
 * signature "VF", then records of ID, length and data. Record 0 has the version and branch of the host's
 * driver.
 * Thread: any (pure).
 */
#include "model/labels/labels.h"

#define PCI_CONFIG_STANDARD 256  /* bytes; an unprivileged process reads fewer */
#define PCI_CONFIG_MAX      4096 /* bytes, PCI Express */

struct vgpu {
	enum vgpu_state state;                  /* ABSENT or PRESENT */
	char host_version[16], host_branch[16]; /* "": no such record */
};

/* Parses the first @len bytes of a device's configuration space. ERR_PERMISSION: fewer than
 * PCI_CONFIG_STANDARD. A broken list ends the search. Texts contain only characters that a label may have. */
int vgpu_parse(struct vgpu *ret, const void *space, size_t len, struct error *err) MUST_USE;
