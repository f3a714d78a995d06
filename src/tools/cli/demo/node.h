/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One node of the demo: a directory of its own, the stand-in kubelet in this process, and gpusliced
 * as a child beside it. Whatever way this process ends, the child ends with it.
 * Thread: main, which runs the loop.
 */
#include "model/gpu/gpu.h"
#include "testbed/standin/control.h"

#include <limits.h>
#include <sys/types.h>

/* What the demo is made of, found beside the running program. */
struct demo_paths {
	char gpusliced[PATH_MAX];
	char nvml[PATH_MAX]; /* the simulated libnvidia-ml.so.1 */
	char examples[PATH_MAX];
	char self[PATH_MAX]; /* this program */
};

/* @examples NULL: look for them. */
int demo_paths_find(struct demo_paths *p, const char *examples, struct error *err) MUST_USE;

struct demo_node_options {
	const struct demo_paths *paths;
	const char *dir;   /* made here; short, for sockets are in it */
	const char *model; /* of the simulated node; NULL: the machine's own GPUs */
	const char *config_map_namespace,
		*config_map; /* mounted as the agent's configuration */
	const char *entry;   /* the key in it that the agent reads */
};

struct demo_node {
	char dir[64], kubelet_dir[80], run_dir[80], sim_dir[80], config_dir[80];
	struct standin *standin;
	struct standin_control *control;
	struct inventory *gpus;
	pid_t agent; /* 0: not started */
	bool simulated;
};

/* The directory, the stand-in and the GPUs; not the agent yet, whose configuration is applied
 * first. @changed runs whenever something moves. */
int demo_node_start(struct demo_node *n, uv_loop_t *loop,
	const struct demo_node_options *options, const struct standin_ops *ops, void *arg,
	struct error *err) MUST_USE;
int demo_node_start_agent(struct demo_node *n, const struct demo_node_options *options,
	struct error *err) MUST_USE;

/* False once the agent has ended by itself; the end of its log is in @why then. */
bool demo_node_agent_runs(struct demo_node *n, struct buf *why);

/* Where its status page is, as its log says; 0: it has none, as with the address in other hands. */
unsigned demo_node_page_port(const struct demo_node *n);

/* Ends agent and stand-in and removes the directory. Takes a zeroed or half-started node. */
void demo_node_stop(struct demo_node *n);

/* Looks for GPUs of this machine: 0 and an inventory with at least one, or < 0 with the reason. */
int demo_real_gpus(struct inventory **ret, struct error *err) MUST_USE;
