/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small nodes for golden texts: an H100 as the simulator has it, whole, shared or cut by MIG; every field of the default
 * set that such a GPU has is known.
 */
#include "node/metrics/metrics.h"

enum node_kind {
	NODE_WHOLE,  /* one pod alone on the node */
	NODE_IDLE,   /* no pod on the node */
	NODE_SHARED, /* time-slicing, four replicas, two pods, 10 % by an unknown process */
	NODE_MIG,    /* 3g.40gb allocated, 1g.10gb idle, and a 1g.10gb of two halves */
	NODE_OLD,    /* a T4: no GPM, no reserved memory, an XID */
};

/* One more figure, of a device of the view's sample. */
void node_add(struct sample_device *s, const char *field, double value);

int node_view(struct view **ret, enum node_kind kind, struct error *err) MUST_USE;

/* The text; ends the test on an error. Yours. */
char *node_text(const struct view *v, const struct metrics_options *o, const char *csv,
	enum metrics_format format);

/*
 * The whole @text is that of the file test/data/metrics/@name.txt. With UPDATE_GOLDEN=1 in the environment the files
 * are written instead. Check the difference with git then.
 */
void node_expect_text(const char *name, const char *text);

/* Cuts @text off before gpuslice's own families. */
void node_extract_dcgm(char *text);

struct metrics_options node_options(void); /* the defaults */
