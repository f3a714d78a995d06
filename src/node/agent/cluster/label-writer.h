/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the labels about the GPUs to one of three places: the agent's Node, the NodeFeature object that node
 * feature discovery reads, or its feature file. The agent writes nothing that is there already. It corrects
 * changes by other writers after ever longer waits, so that two writers in conflict do not keep the API server
 * busy.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "node/agent/api/task.h"
#include "model/labels/labels.h"

/* Corrections after which an Event reports that another writer keeps changing the labels. */
#define LABEL_ROUNDS_REPORTED 5

enum labels_where { LABELS_OFF, LABELS_NODE, LABELS_NFD, LABELS_FILE };

/* "off", "node", "nfd", "file"; false: none of them. */
bool labels_where_parse(const char *text, enum labels_where *ret);
const char *labels_where_text(enum labels_where where); /* what labels_where_parse() accepts */

struct label_writer;

struct label_writer_kind {
	/* Does what is due now, with .desired_labels. */
	void (*sync)(struct label_writer *w);
	void (*done)(struct label_writer *w, const struct api_reply *reply,
		const struct error *err);
};

struct label_writer {
	struct api_task task;
	const struct label_writer_kind *kind; /* NULL: off */
	enum labels_where where;
	struct labels *desired_labels; /* NULL: nothing is known yet */
	uint64_t generation, sent; /* of .desired_labels; of the labels in the last request */
	/* never the agent's: the label that chooses the config; borrowed */
	const char *excluded_label;
	uint64_t written_wall_ns;
	uint64_t writes;

	/* Called once in a series of changes by other writers. */
	void (*on_conflict)(void *arg, uint32_t rounds);
	void *arg;

	/* LABELS_NODE */
	const struct node_object *node; /* borrowed; NULL: not yet */
	char uid[64];                   /* of the Node that was written last */
	bool written;                   /* all kinds: .desired_labels are in place */
	uint64_t written_ns, not_before_ns, drift_ns;
	struct backoff drift;

	/* LABELS_NFD */
	const char *node_name, *namespace_, *pod_name; /* borrowed */
	enum { NFD_OWNERS, NFD_READ, NFD_WRITE } step;
	bool owners_known, creates;
	json_t *owners; /* array; NULL: none */

	/* LABELS_FILE */
	char *path; /* NULL: none */
};

/* The caller sets the borrowed members of the kind, and .task.api once there is an API client. */
void label_writer_init(struct label_writer *w, uv_loop_t *loop, enum labels_where where);

/* Sets the labels to write, and takes over @desired. @file: where LABELS_FILE writes them. */
void label_writer_set(struct label_writer *w, struct labels *desired, const char *file);

/* Removes the file, as NVIDIA's feature discovery does. Labels and NodeFeature objects stay. */
void label_writer_close(struct label_writer *w);
void label_writer_fini(struct label_writer *w); /* after the loop has run */
