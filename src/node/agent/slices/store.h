/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices of this node below the state directory: one directory each. The agent makes a directory under a name
 * with a dot, then renames it. So any reader finds a directory complete or not at all. The directories have all
 * that the agent must know about slices, and its next start reads them again.
 *
 * Making a directory and a file may take half a millisecond each (ext4 on a large disk, measured). So the agent
 * keeps some spare directories. Their disk space is reserved, so that they can become slices after the disk has
 * filled up. The agent writes a new slice without waiting for the disk, since the kubelet waits for the answer;
 * the owner of the store flushes it soon after.
 *
 * Thread: loop. Blocks: on directories and small files of the state directory.
 */
#include "node/agent/slices/file.h"

#include <limits.h>

struct stored_slice {
	struct slice_file file;
	bool superseded;        /* its devices were allocated again */
	uint64_t free_since_ns; /* monotonic; 0: held, or not known */
	uint64_t superseded_ns;
};

struct slice_store {
	char state_dir[PATH_MAX]; /* absolute; "" before slice_store_load() */
	char dir[PATH_MAX];       /* SLICES_DIR in it */
	struct stored_slice **v;
	size_t n, room;
	uint32_t made, used; /* spare directories have the numbers used to made - 1 */
	struct strv broken;  /* "path: reason" of directories that could not be parsed */
};

/* Loads the slices; without a directory there are none. Removes directories that were not completed. */
int slice_store_load(struct slice_store *s, const char *state_dir, struct error *err) MUST_USE;
void slice_store_fini(struct slice_store *s);

#define SLICE_SIBLING_S 60
/*
 * Makes a slice with a new ID for @ids of @resource. @lib: the directory of its libraries. @now_ns: monotonic;
 * @wall_s: seconds since 1970. The new slice supersedes older slices with any of these devices, except slices made
 * less than SLICE_SIBLING_S earlier: the init containers of a pod hand their devices on to its other containers.
 * *ret is borrowed. ERR_LIMIT: SLICES_MAX. After an error nothing has changed.
 */
int slice_store_add(struct slice_store *s, struct stored_slice **ret, const char *resource,
	const char *const *ids, size_t n_ids, const struct slice_plan *plan, const char *lib,
	uint64_t now_ns, uint64_t wall_s, struct error *err) MUST_USE;

/*
 * @ids of @resource are allocated without a slice. Slices with any of these devices are superseded, also for the
 * next agent, if the disk can be written.
 */
void slice_store_pass(struct slice_store *s, const char *resource, const char *const *ids,
	size_t n_ids, uint64_t now_ns);

/*
 * Whether slice_store_add() can make a slice now: a spare directory exists or can be made. Makes it in the second
 * case. ERR_LIMIT: SLICES_MAX.
 */
int slice_store_ready(struct slice_store *s, struct error *err) MUST_USE;

#define SLICE_SPARES 16
/* Makes one more spare directory. True: call again, there are fewer than SLICE_SPARES. False: there are enough, or
 * *err says why none can be made. */
bool slice_store_prepare(struct slice_store *s, struct error *err);

/* Replaces the slice's file by one with another plan. The arbiter sees the change at once. */
int slice_store_change(struct slice_store *s, struct stored_slice *slice,
	const struct slice_plan *plan, struct error *err) MUST_USE;

/* Removes the directory and frees the slice. On an error the slice stays. */
int slice_store_remove(struct slice_store *s, struct stored_slice *slice,
	struct error *err) MUST_USE;

/* STATE/slices/ID into @ret of PATH_MAX. */
int slice_store_path(const struct slice_store *s, const struct stored_slice *slice, char *ret,
	struct error *err) MUST_USE;
