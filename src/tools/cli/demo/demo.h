/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of `gpuslice demo`. Thread: main, which runs the loop. */
#include "lib/base/buf.h"
#include "model/gpu/gpu.h"
#include "testbed/standin/control.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* --- the node --- */

/*
 * One node of the demo: its own directory, the stand-in kubelet in this process, and gpusliced as a
 * child process. The child ends with this process, however this process ends.
 */

/* The files that the demo needs, found relative to the running program. */
struct demo_paths {
	char gpusliced[PATH_MAX];
	char nvml[PATH_MAX]; /* the simulated libnvidia-ml.so.1 */
	char examples[PATH_MAX];
	char self[PATH_MAX]; /* this program */
};

/* @examples NULL: search for them. */
int demo_paths_find(struct demo_paths *p, const char *examples, struct error *err) MUST_USE;

struct demo_node_options {
	const struct demo_paths *paths;
	const char *dir;   /* created by demo_node_start(); short, because sockets are in it */
	const char *model; /* of the simulated node; NULL: the machine's own GPUs */
	/* The ConfigMap that the stand-in mounts as the agent's configuration. */
	const char *config_map_namespace, *config_map;
	const char *entry; /* the key that the agent reads in the ConfigMap */
};

struct demo_node {
	char dir[64], kubelet_dir[80], run_dir[80], sim_dir[80], config_dir[80];
	struct standin *standin;
	struct standin_control *control;
	struct inventory *gpus;
	pid_t agent; /* 0: not started */
	bool simulated;
};

/* Makes the directory, the stand-in and the GPUs, but does not start the agent: its configuration
 * must be applied first. @ops, @arg: callbacks of the stand-in. */
int demo_node_start(struct demo_node *n, uv_loop_t *loop,
	const struct demo_node_options *options, const struct standin_ops *ops, void *arg,
	struct error *err) MUST_USE;
/* Starts gpusliced after demo_node_start(). @options: those of that call. */
int demo_node_start_agent(struct demo_node *n, const struct demo_node_options *options,
	struct error *err) MUST_USE;

/* False after the agent has ended by itself; @why then has the end of the agent's log. */
bool demo_node_agent_runs(struct demo_node *n, struct buf *why);

/* The port of the agent's status page, from the agent's log. 0: no page, for instance because the
 * port is in use. */
unsigned demo_node_page_port(const struct demo_node *n);

/* Stops the agent and the stand-in, and removes the directory. @n may be zeroed or half-started. */
void demo_node_stop(struct demo_node *n);

/* Searches for GPUs of this machine. Returns 0 and an inventory of at least one GPU, or < 0 with the
 * reason. */
int demo_real_gpus(struct inventory **ret, struct error *err) MUST_USE;

/* --- the screen --- */

/*
 * The screen of the demo: GPUs, their slices with the pods in them, the finished steps, and the next
 * step. A terminal shows one picture that is redrawn in place; other outputs get plain lines. Drawing
 * is pure: it puts a frame of a given width and height into a buf.
 */

enum demo_mark { DEMO_RUNNING, DEMO_DONE, DEMO_FAILED };

struct demo_step_line {
	enum demo_mark mark;
	char title[96];
	char result[320]; /* expected and actual state */
};

#define DEMO_STEPS_MAX 16

struct demo_picture {
	const char *headline;   /* "simulated p3.8xlarge: 4 x Tesla V100-SXM2-16GB" */
	const char *command;    /* the command that a user would type for this step; NULL */
	const char *resource;   /* the resource that the slices belong to */
	struct demo_node *node; /* NULL: no node is up */
	const struct demo_step_line *steps;
	size_t n_steps;
	const char *footer; /* several lines; NULL */
};

/* Only the GPUs and the pods, indented, for plain output. */
void demo_draw_node(struct buf *b, const struct demo_picture *p, unsigned width, bool colour);

struct demo_screen {
	bool live; /* redraw in place */
	bool colour;
	unsigned drawn; /* lines of the last frame */
	char *last;     /* the last frame, to skip an equal one */
};

/*
 * Decides by the terminal and the environment (TERM, NO_COLOR) whether to redraw in place and to use colors.
 * @plain: do not redraw. Hides the cursor of a live screen.
 */
void demo_screen_init(struct demo_screen *s, bool plain);
/* Draws @p if the picture has changed. Without .live: nothing. */
void demo_screen_update(struct demo_screen *s, const struct demo_picture *p);
void demo_screen_fini(struct demo_screen *s); /* leaves the cursor below the last frame */
