/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognizes the values file of a Helm chart with sharing configs: NVIDIA's device plugin, the GPU
 * operator, our chart, or a chart with one of them as a subchart. Operators often check the file that they
 * use for `helm install -f`. Inside src/io/config only.
 * Thread: any (pure).
 */
#include "lib/yaml/yaml.h"

#define HELM_PATH_MAX 160

/* Whether the document @n is such a file. *ret_configs: the object with one text for each config, borrowed.
 * @ret_path: its keys from the top level, as in "config.map". NULL and "": the file has no configs. */
bool helm_values(const struct yaml_node *n, const struct yaml_node **ret_configs,
	char ret_path[HELM_PATH_MAX]);

/* Error: the values file @n of @src has no config, and where configs belong. Returns -1. */
int helm_values_empty(const struct yaml_node *n, const struct yaml_source *src,
	struct error *err);
