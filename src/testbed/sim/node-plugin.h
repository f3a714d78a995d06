/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the simulated vendor libraries read node files. That needs a YAML parser, which would be a dependency
 * of theirs: a plug-in in the directory of the library has it. Compiled into each of them. Thread: any.
 */
#include "testbed/sim/location.h"

/* A sim_node_file_fn. ERR_UNAVAILABLE: the plug-in is not there. */
int sim_node_plugin_load(const char *path, struct sim_node *node, struct error *err) MUST_USE;
