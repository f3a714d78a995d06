/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognizes the values file of a Helm chart that brings sharing configs: NVIDIA's device plugin, the GPU operator,
 * ours, or a chart that has one of them as a subchart. People check the file that they have, and that is
 * often the one for `helm install -f`. Inside src/io/config only.
 * Thread: any (pure).
 */
#include "lib/yaml/yaml.h"

#define HELM_PATH_MAX 160

/*
 * Whether the document @n is such a file. *ret_configs: the object with one text for each config, borrowed, and
 * @ret_path its keys from the top, as in "config.map"; NULL and "" where the file has none.
 */
bool helm_values(const struct yaml_node *n, const struct yaml_node **ret_configs,
	char ret_path[HELM_PATH_MAX]);

/* Says that the values file @n of @src has no config, and where it is. Returns -1. */
int helm_values_empty(const struct yaml_node *n, const struct yaml_source *src,
	struct error *err);
