/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Old objects of Karpenter as those of today: each Provisioner of a manifest becomes a NodePool karpenter.sh/v1, and its
 * provider or the AWSNodeTemplate that it names an EC2NodeClass karpenter.k8s.aws/v1. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

/* Appends to @ret what the manifest @text of the file @name comes to; *n is increased by the objects. */
int make_translation(struct buf *ret, const char *name, const char *text, size_t len, size_t *n,
	struct error *err) MUST_USE;
