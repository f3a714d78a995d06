/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices of this node as they lie below the state directory: one directory each, made whole under a
 * name with a dot and renamed, so that whoever looks finds it complete or not at all. All that the agent
 * has to know about slices is in there, and is found again at its next start.
 *
 * To make a directory and a file may take a file system half a millisecond each (ext4 on a large disk, measured),
 * so some lie ready. Their room on the disk is reserved, so that they become slices on a disk that has filled up.
 * A new slice is written without waiting for the disk, since the kubelet waits for the answer; whoever owns the store has
 * it flushed soon after.
 * Thread: loop. Blocks: on directories and small files of the state directory.
 */
#include "node/agent/slices/file.h"

#include <limits.h>

struct stored_slice {
	struct slice_file file;
	bool superseded;        /* its devices were given away again */
	uint64_t free_since_ns; /* monotonic; 0: held, or it is not known */
	uint64_t superseded_ns;
};

struct slice_store {
	char state_dir[PATH_MAX]; /* absolute; "" before slice_store_load() */
	char dir[PATH_MAX];       /* SLICES_DIR in it */
	struct stored_slice **v;
	size_t n;
	uint32_t made, used; /* directories that lie ready: numbers taken to made - 1 */
	struct strv broken;  /* "path: reason" of directories that could not be understood */
};

/* Finds what is there; no directory is no slice. What was half made is removed. */
int slice_store_load(struct slice_store *s, const char *state_dir, struct error *err) MUST_USE;
void slice_store_fini(struct slice_store *s);

/*
 * Makes a slice with a new id for @ids of @resource, in place of those that have any of them: these are
 * marked as superseded, unless they were made less than SIBLING_S before, which is what the containers of
 * one pod do whose init containers hand their devices on. *ret is borrowed. ERR_LIMIT: SLICES_MAX.
 */
#define SLICE_SIBLING_S 60
int slice_store_add(struct slice_store *s, struct stored_slice **ret, const char *resource,
	const char *const *ids, size_t n_ids, const struct slice_plan *plan, const char *lib,
	uint64_t now_ns, uint64_t wall_s, struct error *err) MUST_USE;

/*
 * @ids of @resource are given out without a slice: those that have any of them are superseded, also for the
 * agent after this one, as far as the disk allows.
 */
void slice_store_pass(struct slice_store *s, const char *resource, const char *const *ids,
	size_t n_ids, uint64_t now_ns);

/*
 * Whether slice_store_add() can make a slice now: a directory lies ready, or one can be made, which then lies ready.
 * ERR_LIMIT: SLICES_MAX.
 */
int slice_store_ready(struct slice_store *s, struct error *err) MUST_USE;

/* Makes one more directory ready; true: call again, there are not SLICE_SPARES yet. */
#define SLICE_SPARES 16
bool slice_store_prepare(struct slice_store *s, struct error *err);

/* Writes the slice's file with another plan, at once for the arbiter. */
int slice_store_change(struct slice_store *s, struct stored_slice *slice,
	const struct slice_plan *plan, struct error *err) MUST_USE;

/* Takes the directory away and forgets the slice, which is freed. On an error it stays. */
int slice_store_remove(struct slice_store *s, struct stored_slice *slice,
	struct error *err) MUST_USE;

/* STATE/slices/ID into @ret of PATH_MAX. */
int slice_store_path(const struct slice_store *s, const struct stored_slice *slice, char *ret,
	struct error *err) MUST_USE;

const struct stored_slice *slice_store_find(const struct slice_store *s, const char *id);
