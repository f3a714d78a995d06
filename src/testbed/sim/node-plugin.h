/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the simulated vendor libraries read node files. That takes a YAML parser, on which the libraries must not
 * depend. So a plug-in in the directory of the library has the parser. This file is compiled into each library.
 * Thread: any.
 */
#include "testbed/sim/location.h"

/* A sim_node_file_fn. ERR_UNAVAILABLE: there is no plug-in. */
int sim_node_plugin_load(const char *path, struct sim_node *node, struct error *err) MUST_USE;
