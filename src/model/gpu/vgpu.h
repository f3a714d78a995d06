/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a vGPU tells its guest about the host, in a capability of its PCI configuration space:
 * signature "VF", then records of an id, a length and data, of which record 0 holds version and
 * branch of the host's driver.
 * Thread: any (pure).
 */
#include "model/labels/labels.h"

#define PCI_CONFIG_STANDARD 256  /* bytes; fewer are read without privilege */
#define PCI_CONFIG_MAX      4096 /* bytes, PCI Express */

struct vgpu {
	enum vgpu_state state;                  /* ABSENT or PRESENT */
	char host_version[16], host_branch[16]; /* "" if there is no such record */
};

/*
 * From the first @len bytes of a device's configuration space. ERR_PERMISSION: fewer than
 * PCI_CONFIG_STANDARD. Broken lists end the search; texts hold only what a label may hold.
 */
int vgpu_parse(struct vgpu *ret, const void *space, size_t len, struct error *err) MUST_USE;
