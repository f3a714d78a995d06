/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What was the provider of a Provisioner, or an AWSNodeTemplate. Inside src/tools/plan/make only. */
#include "tools/plan/make/karpenter-old.h"

/*
 * The EC2NodeClass @name of today: @spec is the provider or the template's, @kubelet the Provisioner's configuration
 * of the kubelet; NULL: none.
 */
void karpenter_render_class(struct buf *b, const char *name, const struct yaml_node *spec,
	const struct yaml_node *kubelet);

bool karpenter_is_own_key(const char *key); /* labels and tags that nobody else may set */
