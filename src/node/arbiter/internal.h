/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The arbiter's parts with input and output, and what each offers the others. All run on one loop, except the
 * scheduler thread:
 *
 *	slices/    the directory of slices: slices.c; their files, sockets and compute: slice.c
 *	clients/   connections of processes: conn.c; passed descriptors: passed-fds.c; the first packet: register.c;
 *	           requests after that: requests.c; pages, and how many there are: pages.c
 *	process/   what the kernel reports of processes: proc.c; their end: task.c; processes that were there before
 *	           this arbiter: restore.c; unhooked processes: unhooked.c; processes outside MPS: mps.c
 *	control/   the agent's socket: control.c; status: status.c; questions for NVML's figures, and what the figures
 *	           change: readings.c
 *	scheduler/ the scheduler thread: quanta on the GPUs, and their cost; scheduler.h there is the map
 *	watch.c    descriptors on the loop, listening sockets
 *	arbiter.c  start, restore, stop
 *
 * These parts build on parts without input or output: the grants (node/arbiter/grants/) and the parsers of
 * external input (node/arbiter/clients/packet.h, node/arbiter/control/request.h, node/arbiter/slices/file.h).
 *
 * Thread: loop. Blocks: never, except on small files of local disks.
 */
#include "node/arbiter/arbiter.h"
#include "node/arbiter/grants/grants.h"
#include "node/arbiter/grants/journal.h"
#include "node/arbiter/clients/packet.h"
#include "node/arbiter/process/proc.h"
#include "node/arbiter/control/request.h"
#include "node/arbiter/grants/fair-quota.h"
#include "node/arbiter/slices/file.h"
#include "lib/base/log.h"

#include <sys/stat.h>
#include <uv.h>

#define CONNS_MAX       8192 /* per node; fewer if RLIMIT_NOFILE is too low */
#define SLICE_CONNS_MAX 2048
#define CONN_HELLO_NS   (10 * NS_PER_SEC) /* for the first packet */
#define CONN_BATCH      16 /* packets of one connection before other connections are served */
#define ACCEPT_BATCH    64
/* A slice with so many connections in clients/passed-fds.c pauses accepting. */
#define SLICE_CLOSING_MAX 64
#define RESCAN_MS         10000
#define RESCAN_BLIND_MS   1000 /* without events of the kernel: inotify's limits */
#define SETTLE_MS         10   /* several events of one change */
/* Pause of a socket from which accept fails. The socket would keep waking the loop. */
#define PAUSE_MS               200
#define SLICE_BUCKETS          1024
#define UNHOOKED_MAX           4096
#define UNHOOKED_STOP_READINGS 2 /* successive readings before a process is killed */
/* Limit of readings in which a process's descriptors are searched for a lost page, PROC_FDS_MAX in each. */
#define UNHOOKED_FD_SCANS_MAX 16
#define PAGE_NAME             "gpuslice-page"
#define PAGES_MAX \
	8192 /* per node, open or mapped; inotify's queue has space for the end of each */
#define PAGES_BUCKETS 1024
#define PAGES_CLIENT_MAX \
	80 /* per process: GRANTS_TASK_MEMBERS_MAX + SCHEDULER_REGISTRATIONS_PID */
#define PAGES_CHECK_MS    100 /* of pages without a watch, */
#define PAGES_CHECK_BATCH 128 /* so many at a time */

/* ---- descriptors on the loop ------------------------------------------------------------------ */

struct fd_watch {
	uv_poll_t poll;
	int fd; /* owned */
	void (*fn)(void *arg);
	void *arg;
};

/* Calls @fn whenever @fd is readable or has hung up. On success the watch owns @fd, on an error the caller does. */
int fd_watch_start(struct fd_watch **ret, uv_loop_t *loop, int fd, void (*fn)(void *arg),
	void *arg, struct error *err) MUST_USE;
void fd_watch_pause(struct fd_watch *w, bool paused);
struct fd_watch *fd_watch_stop(struct fd_watch *w); /* closes; @fn is not called again. NULL */
int fd_watch_release(struct fd_watch *w); /* the same, but the caller owns the descriptor */

/*
 * A socket that listens as @name in the directory @dir. The new socket replaces an older one atomically: a client
 * that connects finds the old or the new one. Descriptor, or < 0.
 */
int socket_listen(const char *dir, const char *name, int type, mode_t mode,
	struct error *err) MUST_USE;

/* ---- slices ----------------------------------------------------------------------------------- */

/* The slice's compute, as the scheduler thread has it (scheduler/scheduler.h). */
struct arbiter_slice_compute {
	struct scheduler_slice *sched_slice; /* NULL: never had any */
	uint32_t on;                         /* SLICE_TURNS_...: in force */
	unsigned int n_gpus;                 /* of what is in force */
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	struct error error; /* why the configured compute is not in force */
};

struct arbiter_slice {
	struct arbiter *arbiter;
	struct arbiter_slice *next, *next_in_bucket;
	char id[SLICE_ID_MAX];
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

/* Called by slices/, implemented by clients/. */
struct arbiter_slices_ops {
	void (*accept)(void *slice); /* a process connects */
	void (*stop_listening)(struct arbiter_slice *s);
	void (*stop_slice)(
		struct arbiter_slice *s); /* connections with neither memory nor quanta */
	void (*stop_sched)(struct arbiter_slice *s); /* connections with quanta */
	void (*expire)(struct arbiter *a, uint64_t now_ns);
};

/* Call arbiter_slices_stop() after a failure too. @ops must stay valid. */
int arbiter_slices_start(struct arbiter *a, const struct arbiter_slices_ops *ops,
	struct error *err) MUST_USE;
void arbiter_slices_stop(struct arbiter *a);
/* Compares the directory with the slices served. False: some slices could not be seen. In that case the caller
 * must not treat a slice that was not found as gone. */
bool arbiter_slices_scan(struct arbiter *a);
/* NULL: none. */
struct arbiter_slice *arbiter_slices_find(struct arbiter *a, const char *id);
/* The slice of the process, or of its nearest ancestor that has one (process/proc.h). NULL: none is known. */
struct arbiter_slice *arbiter_slices_find_by_pid(struct arbiter *a, uint32_t pid);
void arbiter_slice_on_removed(void *arbiter, struct grants_slice *b);

/* Puts compute settings in force that could not be before. */
void arbiter_slices_retry_compute(struct arbiter *a);
/* Publishes the slice's compute in the page of one of its processes. */
void arbiter_slice_publish_compute(const struct grants_member *m);

/*
 * Stores the refusals of limits since the last call in the usage accounts
 * (scheduler/usage-accounts/usage-accounts.h), for the next arbiter. The first refusal creates the account, since
 * most slices without quanta need none.
 */
void arbiter_slice_save_refusals(struct arbiter_slice *s);
void arbiter_slices_save_refusals(struct arbiter *a);

/*
 * The slice of a record that an earlier arbiter left. If its file is missing or names other GPUs, the slice has
 * the record's GPUs until its processes have ended. A GPU without a known limit has SLICE_LIMIT_NOT_KNOWN: nothing
 * is granted there until a page gives the limit. NULL: another member has other GPUs, or no memory.
 */
#define SLICE_LIMIT_NOT_KNOWN 0 /* never valid in slice.json */
struct grants_slice *arbiter_slice_restore(struct arbiter *a, const struct grants_record *rec);

/* Stops waking the loop for this slice's listener for PAUSE_MS. */
void arbiter_slices_pause(struct arbiter_slice *s);

/* A GPU of the slice as NVML writes it. Without slice.json a MIG device is written as "GPU-" too. */
void arbiter_slice_gpu_text(const struct grants_slice *b, unsigned int gpu,
	char ret[SLICE_UUID_TEXT]);

/* ---- connections ------------------------------------------------------------------------------ */

/* The arbiter's state of a member, in its .user. */
struct member_state {
	struct arbiter_conn *conn; /* NULL: it ended */
	struct slice_page *page;
	ino_t page_ino;          /* of the memfd */
	bool mps_outside_logged; /* the log reported it as outside MPS */
};

struct arbiter_conn {
	struct arbiter_conn *prev, *next; /* of the arbiter */
	struct arbiter *arbiter;
	struct arbiter_slice *slice;
	struct fd_watch *watch;
	int pidfd; /* until a task owns it */
	uint32_t pid;
	uid_t uid; /* in the arbiter's user namespace */
	uint64_t start, image, since_ns;
	bool hello_received;
	bool ended;                   /* the peer had ended when the connection was accepted */
	int passed_fd;                /* a descriptor that the loop must not close, or -1 */
	struct grants_member *member; /* NULL: without memory */
	struct slice_want request;    /* while .waiting: answered after the next reading */
	uint64_t request_ns;          /* when it was received */
	bool waiting;
	struct scheduler_registration *
		sched_conn; /* for quanta: the scheduler thread reads it, and .member is NULL */
};

/* Starts what clients/passed-fds.h needs. */
int conns_start(struct arbiter *a, struct error *err) MUST_USE;

void conns_accept(void *slice);
void conns_stop_listening(struct arbiter_slice *s);
void conns_stop_slice(struct arbiter_slice *s); /* those with neither member nor quanta */
void conns_stop_sched(struct arbiter_slice *s); /* those with quanta */
void conns_stop(struct arbiter *a);
void conns_expire(struct arbiter *a, uint64_t now_ns);

/* See struct readings_ops. */
void conns_retry_waiting(struct arbiter *a, bool wait);

void conn_close(struct arbiter_conn *c);
/* Handles a packet, and the descriptor that came with it or -1. May close the connection. */
void conn_request(struct arbiter_conn *c, const union packet *p, int fd);
/* False: the connection is closed. @page_fd < 0: without a page. */
bool conn_answer(struct arbiter_conn *c, const void *data, size_t len, int page_fd);
void conn_hello(struct arbiter_conn *c, const struct slice_hello *h, int fd);
/* The answer to a hello. False: the connection is closed. */
bool conn_welcome(struct arbiter_conn *c, const struct slice_hello *h, enum slice_status status,
	const char *reason, int page_fd);

/* The .dropped of struct grants_table. */
void conns_on_dropped(void *arbiter, struct grants_member *m);

/* ---- pages ------------------------------------------------------------------------------------ */

/* Why there is no page. */
enum page_error {
	PAGE_NO_MEMORY = -1,
	PAGE_TOO_MANY = -2,
	PAGE_NOT_OURS = -3, /* another size, no seals, or its memory is missing */
};

/* A text for logs and answers. */
const char *page_error_text(int trouble);

/* The process and slice that the page is for. */
struct page_owner {
	struct arbiter *arbiter;
	struct arbiter_slice *slice; /* NULL: it no longer exists */
	uint32_t pid;
	uint64_t start;
};

/* Makes a memfd of @bytes that no process can shrink; counts and maps it. Descriptor, or enum page_error. */
int page_make(const struct page_owner *who, const char *name, size_t bytes, void **ret,
	ino_t *ino);

/* Whether @fd is a memfd of @bytes with the seals of a page. Closing such a descriptor does not block. */
bool page_has_form(int fd, size_t bytes);

/*
 * Counts a page that a process has, and maps its first @used bytes. 0, or enum page_error. The count comes first:
 * reading memory that is not there yet charges it to the arbiter in the kernel's accounting.
 */
int page_map(const struct page_owner *who, int fd, size_t bytes, size_t used, void **ret,
	ino_t *ino);

/* Makes a page. Descriptor of its memfd, or enum page_error. *ino: of the memfd. */
int page_new(const struct page_owner *who, struct slice_page **ret, ino_t *ino);

/* Maps a page that a process has. 0, or enum page_error. */
int page_accept(const struct page_owner *who, int fd, struct slice_page **ret, ino_t *ino);

/* Whether the page is for the GPUs of the slice. */
bool page_fits(const struct slice_page *page, const struct grants_slice *s);

/* Works without inotify too. */
void pages_start(struct arbiter *a);
void pages_stop(struct arbiter *a);
void pages_detach_slice(struct arbiter_slice *s); /* its issued pages still count */

/* ---- processes -------------------------------------------------------------------------------- */

/*
 * Watches the end of the task's process. The task takes the pidfd, unless it has one. When the process ends:
 * grants_task_abandon(), or grants_task_remove() if no subscriber reads NVML. < 0: it could not be watched.
 */
int arbiter_task_watch(struct arbiter *a, struct grants_task *t, int *pidfd, struct error *err);

/* The .ended of struct grants_table. */
void arbiter_task_on_ended(void *arbiter, struct grants_task *t);

/* Restores the members that an earlier arbiter left. */
void restore_grants(struct arbiter *a);

/* Makes a member from a page that the grants do not have, because the grants file was lost. The page is the only
 * source. NULL: it does not fit the slice, a limit is reached, or no memory. */
struct grants_member *restore_from_page(struct arbiter *a, struct grants_slice *s,
	struct grants_client *who, const struct slice_page *page);

enum restore_result {
	RESTORE_NO_PAGE, /* none of its descriptors is a page that can be adopted */
	RESTORE_MORE,    /* it has more descriptors than one call reads */
	RESTORE_ADOPTED,
};

/*
 * For a process of the slice @slice (an id) that the grants do not have. If the process holds a page of the
 * arbiter, the grants file was lost, and the process is registered again from its page. *at: see
 * proc_each_memfd().
 */
enum restore_result restore_lost_process(struct arbiter *a, uint32_t pid, uint64_t start,
	const char *slice, long *at);

/* What all registrations of the member's process in the slice report of MPS together. SLICE_MPS_OUTSIDE if one
 * reports that for any GPU. */
uint32_t arbiter_mps_get_member_state(const struct grants_member *m);

/* Logs, once per process, that a process should run under MPS and does not. */
void arbiter_mps_check_member(struct arbiter_slice *s, struct grants_member *m);
void arbiter_mps_check_process(
	const struct arbiter_conn *c); /* all its registrations in the slice */

/* Abandons the members of processes that executed another program. */
void restore_detect_exec(struct arbiter *a);

/* ---- control, readings ------------------------------------------------------------------------ */

struct unhooked {
	struct unhooked *next;
	uint32_t pid;
	uint64_t start;
	char slice[SLICE_ID_MAX]; /* "": of none */
	char name[SLICE_NAME_MAX];
	unsigned int n_readings; /* number of readings that listed it */
	uint64_t generation;     /* of the last one */
	long fds_offset;         /* where the next search of its descriptors begins */
	unsigned int n_fd_scans;
	bool fds_scanned; /* it has no lost page, or the limit of searches is reached */
	bool reported, stopped;
	uint64_t bytes[SLICE_GPUS_MAX];
};

int arbiter_control_start(struct arbiter *a, struct error *err) MUST_USE;
void arbiter_control_stop(struct arbiter *a);
bool control_subscribed(const struct arbiter *a);
bool control_request_reading(struct arbiter *a, uint64_t seq, const char *gpus_json);

/* The answer to "status", as text to be freed; NULL: no memory. @id: only this slice, or NULL. */
char *status_render_json(struct arbiter *a, const char *id);

/* Called by readings.c, implemented by the other parts. */
struct readings_ops {
	bool (*possible)(const struct arbiter *a); /* a subscriber reads NVML for the arbiter */
	bool (*request_reading)(struct arbiter *a, uint64_t seq, const char *gpus_json);
	void (*detect_exec)(struct arbiter *a);
	void (*on_applied)(struct arbiter *a,
		const struct reading *r); /* the grants have the figures */
	/* Requests that waited for a reading: @wait says whether they may wait for another one. */
	void (*retry_waiting)(struct arbiter *a, bool wait);
};

void readings_start(struct arbiter *a,
	const struct readings_ops *ops); /* @ops must stay valid */
void readings_stop(struct arbiter *a);
bool readings_possible(const struct arbiter *a);
void readings_request_soon(struct arbiter *a);
void readings_subscribed(struct arbiter *a);
void readings_unsubscribed(struct arbiter *a); /* no subscriber reads NVML any more */
void readings_apply(struct arbiter *a, const struct reading *r);

void unhooked_apply_reading(struct arbiter *a, const struct reading *r);
void unhooked_stop(struct arbiter *a);

/* ---- the arbiter ------------------------------------------------------------------------------- */

struct readings {
	const struct readings_ops *ops;
	uv_timer_t timer;
	uint64_t seq, requested_ns, applied_ns; /* 0: none */
	bool waiting;
	bool repeat; /* ask again after the present answer */
	uint64_t generation;
};

struct pages {
	struct fair_quota quota;
	struct fd_watch *watch;                     /* inotify; NULL: none */
	struct issued_page *buckets[PAGES_BUCKETS]; /* by their watch */
	struct page_client *clients[PAGES_BUCKETS];
	struct fair_quota blind_quota; /* pages without a watch: one descriptor each */
	struct issued_page *blind[PAGES_BUCKETS]; /* by their inode */
	unsigned int next_blind_bucket;           /* of .blind */
	uv_timer_t blind_timer;
	struct slice_pages *
		gone_slices; /* slices that no longer existed when their processes were found */
};

struct arbiter {
	uv_loop_t *loop;
	struct arbiter_options o;
	char slices_dir[PATH_MAX];
	struct grants_table grants;
	struct journal journal;
	const struct arbiter_slices_ops *slices_ops;
	struct arbiter_slice *slices, *buckets[SLICE_BUCKETS];
	bool scan_needed;
	ino_t slices_ino;
	dev_t slices_dev;
	uv_fs_event_t *slices_events;
	uv_timer_t rescan, settle;
	struct arbiter_conn *conns;
	struct fair_quota conn_quota; /* connections */
	uint64_t n_closed;            /* of them */
	struct pages pages;
	struct passed_fds *passed_fds;
	unsigned int n_slices;
	struct arbiter_control *control;
	struct readings readings;
	struct unhooked *unhooked;
	unsigned int n_unhooked;
	struct scheduler *sched;
	struct log_limit log_limit;
	int spare_fd; /* closed to accept and refuse a connection when descriptors run out */
};
