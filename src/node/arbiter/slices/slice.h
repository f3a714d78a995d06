/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One slice: its file in force, its socket, its compute. slices.h has the directory of slices, and when a slice
 * is compared with its directory. Thread: loop. Blocks: on small files of local disks, and for calls of the
 * scheduler thread (scheduler/scheduler.h).
 */
#include "node/arbiter/grants/grants.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/slices/file.h"
#include "lib/base/error.h"
#include "lib/base/log.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <uv.h>

struct arbiter;

/* The slice's compute, as the scheduler thread has it. */
struct arbiter_slice_compute {
	struct scheduler_slice *sched_slice; /* owned; NULL: never had any */
	uint32_t on;                         /* SLICE_TURNS_...: in force */
	unsigned int n_gpus;                 /* of what is in force */
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	struct error error; /* why the configured compute is not in force */
};

struct arbiter_slice {
	struct arbiter *arbiter;
	struct arbiter_slice *next, *next_in_bucket;
	char id[SLICE_ID_MAX];       /* slice_id_valid() */
	struct slice_def def;        /* in force; .n_gpus 0: none yet */
	struct grants_slice *grants; /* NULL until there was a valid file */
	struct error refused;        /* why the present file is not in force */
	bool no_socket;              /* .refused: there is no socket */
	bool paused;                 /* .listener */
	struct fd_watch *listener;
	ino_t socket_ino;
	uv_fs_event_t *events;
	struct stat file_stat; /* of the file, as last read */
	struct proc_file_id dir;
	bool found; /* by the present scan */
	bool dirty; /* compare with its directory soon */
	unsigned int n_conns;
	unsigned int n_closing; /* connections that clients/passed-fds.c has not closed yet */
	unsigned int n_stopped;
	uint64_t refusals[SLICE_GPUS_MAX]; /* as stored in the usage accounts */
	struct log_limit log_limit;
	struct slice_pages *pages; /* NULL: never had one */
	struct arbiter_slice_compute compute;
};

/*
 * Compares the slice's directory with what is served: reads the file if it has changed, and makes the socket if
 * it is missing. A failure is logged and stays in .refused; what was in force stays. May close connections.
 */
void arbiter_slice_sync_dir(struct arbiter_slice *s);

/*
 * Ends service, because the slice's directory no longer exists: no process may register any more. Registered
 * processes stay, and so do @s and its grants until the last of them has ended.
 */
void arbiter_slice_stop_serving(struct arbiter_slice *s);

/*
 * Frees @s, its share of compute and what it watches. The caller has removed @s from all lists, and closed its
 * connections. Issued pages still count. Returns NULL.
 */
struct arbiter_slice *arbiter_slice_free(struct arbiter_slice *s);

/* Puts the slice's compute settings in force if they could not be before. A failure stays in .compute.error. */
void arbiter_slice_retry_compute(struct arbiter_slice *s);

/*
 * Publishes the compute of @m's slice in the page of @m. Does nothing for a member without a page or a slice.
 */
void arbiter_slice_publish_compute(const struct grants_member *m);

/*
 * Stores the refusals of limits since the last call in the usage accounts
 * (scheduler/usage-accounts/usage-accounts.h), for the next arbiter. The first refusal creates the account,
 * since most slices without quanta need none. If there is no space for an account, the next call retries.
 */
void arbiter_slice_save_refusals(struct arbiter_slice *s);

/* The .removed of struct grants_table: the slice loses its grants. */
void arbiter_slice_on_removed(void *arbiter, struct grants_slice *slice);

/*
 * The limit of a GPU whose limit no file and no page gives yet: nothing is granted there. Never valid in
 * slice.json.
 */
#define SLICE_LIMIT_NOT_KNOWN 0

/*
 * The grants of the slice of @rec, a record that an earlier arbiter left. @rec is valid
 * (grants_record_is_valid()). If the slice's file is missing or names other GPUs, the slice has the record's
 * GPUs until its processes have ended. A GPU without a known limit has SLICE_LIMIT_NOT_KNOWN, until a page
 * gives the limit. NULL: another member of the slice has other GPUs, or no memory. The grants table owns the
 * result.
 */
struct grants_slice *arbiter_slice_restore(struct arbiter *a, const struct grants_record *rec);

/*
 * Writes the UUID of GPU number @gpu of @slice (less than .n_gpus) to @ret, as NVML writes it. Without slice.json a
 * MIG device is written as "GPU-" too.
 */
void arbiter_slice_gpu_text(const struct grants_slice *slice, unsigned int gpu,
	char ret[SLICE_UUID_TEXT]);
