/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts the provider of a Provisioner, or an AWSNodeTemplate. Inside src/tools/plan/make only. */
#include "tools/plan/make/karpenter-old.h"

/*
 * Renders the EC2NodeClass @name of today. @spec: the provider, or the template's spec. @kubelet: the
 * Provisioner's configuration of the kubelet; NULL: none.
 */
void karpenter_render_class(struct buf *b, const char *name, const struct yaml_node *spec,
	const struct yaml_node *kubelet);

bool karpenter_is_own_key(const char *key); /* labels and tags that only Karpenter may set */
