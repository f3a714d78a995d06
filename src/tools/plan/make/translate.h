/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts old objects of Karpenter. Each Provisioner of a manifest becomes a NodePool karpenter.sh/v1. Its
 * provider, or the AWSNodeTemplate that it names, becomes an EC2NodeClass karpenter.k8s.aws/v1. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

/* Appends the translation of the manifest @text of the file @name to @ret; adds the number of objects to *n. */
int make_translation(struct buf *ret, const char *name, const char *text, size_t len, size_t *n,
	struct error *err) MUST_USE;
