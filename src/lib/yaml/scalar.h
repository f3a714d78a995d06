/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The type of an unquoted YAML 1.1 scalar. Part of yaml.c. Thread: any. */
#include "lib/yaml/yaml.h"

/* Sets .type and the value fields of @n from its .text. */
void yaml_resolve(struct yaml_node *n);
