/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The arbiter's parts that do input and output, on one loop but for the scheduler's thread, and what each offers
 * the others:
 *
 *	slices/    the directory of slices: their files and sockets; their compute, for the scheduler: compute.c
 *	clients/   connections of processes: conn.c; descriptors that they pass: passed-fds.h; their first packet:
 *	           register.c, for turns join.c; what they ask for then: requests.c; their pages: page.c; how many there
 *	           are: pages.c
 *	process/   what the kernel says of processes: proc.c; when one is gone: task.c; those that were there
 *	           before this arbiter: restore.c; those past the libraries: unhooked.c; those outside MPS: mps.c
 *	control/   the agent's socket: control.c; its status: status.c, of compute figures.c; when NVML is asked, and
 *	           what the figures change: readings.c
 *	turns/     the scheduler's thread: turns on the GPUs, and what they cost; scheduler.h there is the map
 *	watch.c    descriptors on the loop, sockets that listen
 *	arbiter.c  start, restore, stop
 *
 * Without input or output are what they are made of: who has been granted how much (node/arbiter/grants/grants.h, grants/), and what
 * came from outside, read (node/arbiter/clients/packet.h, node/arbiter/control/request.h, node/arbiter/slices/file.h).
 *
 * Thread: loop. Blocks: never, but for small files on local disks.
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

#define CONNS_MAX       8192 /* of the node; fewer where there are not the descriptors */
#define SLICE_CONNS_MAX 2048
#define CONN_HELLO_NS   (10 * NS_PER_SEC) /* for the first packet */
#define CONN_BATCH      16 /* packets of one connection before others have their turn */
#define ACCEPT_BATCH    64
/* Of a slice that has so many connections for clients/passed-fds.c no more are accepted for a while. */
#define SLICE_CLOSING_MAX 64
#define RESCAN_MS         10000
#define RESCAN_BLIND_MS   1000 /* where the kernel gives no events: inotify's limits */
#define SETTLE_MS         10   /* several events of one change */
/* Of a socket that cannot be accepted from: it would wake us for ever. */
#define PAUSE_MS               200
#define SLICE_BUCKETS          1024
#define UNHOOKED_MAX           4096
#define UNHOOKED_STOP_READINGS 2 /* readings in a row before a process is stopped */
/* Its descriptors are read for a lost page in so many readings, PROC_FDS_MAX in each. */
#define UNHOOKED_FD_SCANS_MAX 16
#define PAGE_NAME             "gpuslice-page"
#define PAGES_MAX \
	8192 /* of the node, that anybody has; inotify has room to say of each that it ends */
#define PAGES_BUCKETS 1024
#define PAGES_CLIENT_MAX \
	80 /* of a process: GRANTS_TASK_MEMBERS_MAX, and SCHEDULER_REGISTRATIONS_PID */
#define PAGES_CHECK_MS    100 /* at those without a watch, */
#define PAGES_CHECK_BATCH 128 /* some so many of them at a time */

/* ---- descriptors on the loop ------------------------------------------------------------------ */

struct fd_watch {
	uv_poll_t poll;
	int fd; /* owned */
	void (*fn)(void *arg);
	void *arg;
};

/* Calls @fn whenever @fd can be read or has hung up. On success the watch owns @fd; on an error the caller still does. */
int fd_watch_start(struct fd_watch **ret, uv_loop_t *loop, int fd, void (*fn)(void *arg),
	void *arg, struct error *err) MUST_USE;
void fd_watch_pause(struct fd_watch *w, bool paused);
struct fd_watch *fd_watch_stop(struct fd_watch *w); /* closes; @fn is not called again. NULL */
int fd_watch_release(struct fd_watch *w); /* the same, and the descriptor is the caller's */

/*
 * A listening socket as @name in the directory @dir, put there whole: whoever connects finds the old
 * or the new one. Descriptor, or < 0.
 */
int socket_listen(const char *dir, const char *name, int type, mode_t mode,
	struct error *err) MUST_USE;

/* ---- slices ----------------------------------------------------------------------------------- */

/* Its compute, as the scheduler's thread has it (scheduler/scheduler.h). */
struct arbiter_slice_compute {
	struct scheduler_slice *sched_slice; /* NULL: never had any */
	uint32_t on;                         /* SLICE_TURNS_...: what is in force */
	unsigned int n_gpus;                 /* of what is in force */
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	struct error error; /* why it has none although it should */
};

struct arbiter_slice {
	struct arbiter *arbiter;
	struct arbiter_slice *next, *next_in_bucket;
	char id[SLICE_ID_MAX];
	struct slice_def def;        /* in force; .n_gpus 0: none yet */
	struct grants_slice *grants; /* NULL until there was a good file */
	struct error refused;        /* why the present file is not in force */
	bool no_socket;              /* .refused: there is no socket */
	bool paused;                 /* .listener */
	struct fd_watch *listener;
	ino_t socket_ino;
	uv_fs_event_t *events;
	struct stat file_stat; /* of the file, as last read */
	struct proc_file_id dir;
	bool found; /* by the present scan */
	bool dirty; /* to be looked at */
	unsigned int n_conns;
	unsigned int n_closing; /* connections that clients/passed-fds.c has not closed yet */
	unsigned int n_stopped;
	uint64_t refusals[SLICE_GPUS_MAX]; /* as stored in the accounts */
	struct log_limit log_limit;
	struct slice_pages *pages; /* NULL: never had one */
	struct arbiter_slice_compute compute;
};

/* What slices ask of connections. */
struct arbiter_slices_ops {
	void (*accept)(void *slice); /* somebody connects */
	void (*stop_listening)(struct arbiter_slice *s);
	void (*stop_slice)(
		struct arbiter_slice *s); /* connections that have neither memory nor turns */
	void (*stop_sched)(struct arbiter_slice *s); /* those that have turns */
	void (*expire)(struct arbiter *a, uint64_t now_ns);
};

/* arbiter_slices_stop() also where it failed. @ops stays. */
int arbiter_slices_start(struct arbiter *a, const struct arbiter_slices_ops *ops,
	struct error *err) MUST_USE;
void arbiter_slices_stop(struct arbiter *a);
/* False: not all that there are could be seen. Then nothing may be taken for gone that was not found. */
bool slices_scan(struct arbiter *a);
/* NULL: none. */
struct arbiter_slice *slices_find(struct arbiter *a, const char *id);
/* The slice whose directory this is: a process that has it mounted is in that slice. NULL: of none that there is. */
struct arbiter_slice *slices_find_dir(struct arbiter *a, const struct proc_file_id *dir);
/* That of the process, or of its nearest ancestor that has one (process/proc.h). NULL: none is known. */
struct arbiter_slice *slices_of_process(struct arbiter *a, uint32_t pid);
void slices_on_removed(void *arbiter, struct grants_slice *b);

/* What .def of the slice says of compute, from now on. What cannot be is in .compute.error, and logged. */
void compute_apply(struct arbiter_slice *s);
void compute_retry(struct arbiter *a); /* those that have an error */
/* What compute the slice has, into the page of one of its processes. */
void compute_publish(const struct grants_member *m);

/* Stores what limits have refused since the last time in the accounts (scheduler/usage-accounts/usage-accounts.h), for an arbiter after this
 * one. An account begins with the first of it, as most slices without turns need none. */
void slice_save_refusals(struct arbiter_slice *s);
void slices_save_refusals(struct arbiter *a);

/*
 * The slice of a record that an earlier arbiter left. If its file is not there or names other GPUs, it has
 * the record's, until its processes are gone. A limit that is not known is
 * SLICE_LIMIT_NOT_KNOWN: nothing is granted until a page says what it was. NULL: another
 * member has other GPUs, or no memory.
 */
#define SLICE_LIMIT_NOT_KNOWN 0 /* no file has it */
struct grants_slice *slices_restore_slice(struct arbiter *a, const struct grants_record *rec);

/* Does not wake for this slice's listener for PAUSE_MS. */
void slices_pause(struct arbiter_slice *s);

/* A GPU of the slice as NVML writes it; where its file is gone, as a whole GPU. */
void slice_gpu_text(const struct grants_slice *b, unsigned int gpu, char ret[SLICE_UUID_TEXT]);

/* ---- connections ------------------------------------------------------------------------------ */

/* What a member has besides the book's data; in its .user. */
struct member_state {
	struct arbiter_conn *conn; /* NULL: it ended */
	struct slice_page *page;
	ino_t page_ino;          /* of the memfd */
	bool mps_outside_logged; /* of MPS, and the log said so */
};

struct arbiter_conn {
	struct arbiter_conn *prev, *next; /* of the arbiter */
	struct arbiter *arbiter;
	struct arbiter_slice *slice;
	struct fd_watch *watch;
	int pidfd; /* until a task has it */
	uint32_t pid;
	uid_t uid; /* as we know it */
	uint64_t start, image, since_ns;
	bool hello_received;
	bool ended;                   /* who connected was gone when the connection came */
	int passed_fd;                /* a descriptor that must not be closed here, or -1 */
	struct grants_member *member; /* NULL: it only looks */
	struct slice_want request;    /* .waiting: for the next reading, and not answered yet */
	uint64_t request_ns;          /* since when */
	bool waiting;
	struct scheduler_registration *
		sched_conn; /* it is one for turns, and the scheduler's thread reads it; no .member */
};

/* The arbiter's part of clients/passed-fds.h. */
int conns_start(struct arbiter *a, struct error *err) MUST_USE;

void conns_accept(void *slice);
void conns_stop_listening(struct arbiter_slice *s);
void conns_stop_slice(struct arbiter_slice *s); /* those that have neither member nor turns */
void conns_stop_sched(struct arbiter_slice *s); /* those that have turns */
void conns_stop(struct arbiter *a);
void conns_expire(struct arbiter *a, uint64_t now_ns);

/* As struct readings_ops has it. */
void conns_retry_waiting(struct arbiter *a, bool wait);

void conn_close(struct arbiter_conn *c);
/* A packet that came, and the descriptor with it or -1. The connection may be closed by it. */
void conn_request(struct arbiter_conn *c, const union packet *p, int fd);
/* False: the connection is closed. @page_fd < 0: without one. */
bool conn_answer(struct arbiter_conn *c, const void *data, size_t len, int page_fd);
void conn_hello(struct arbiter_conn *c, const struct slice_hello *h, int fd);
/* The answer to a hello. False: the connection is closed. */
bool conn_welcome(struct arbiter_conn *c, const struct slice_hello *h, enum slice_status status,
	const char *reason, int page_fd);

/* The answer to a hello for turns (join.c). The connection may be closed by it. */
void conn_hello_sched(struct arbiter_conn *c, const struct slice_hello *h, int fd);

/* A book's callback. */
void conns_on_dropped(void *arbiter, struct grants_member *m);

/* ---- pages ------------------------------------------------------------------------------------ */

/* Why there is no page. */
enum page_error {
	PAGE_NO_MEMORY = -1,
	PAGE_TOO_MANY = -2,
	PAGE_NOT_OURS = -3, /* another size, no seals, or its memory is not there */
};

/* For people. */
const char *page_error_text(int trouble);

/* The process and slice that the page is for. */
struct page_owner {
	struct arbiter *arbiter;
	struct arbiter_slice *slice; /* NULL: it has gone */
	uint32_t pid;
	uint64_t start;
};

/* A memfd of @bytes that nobody can make smaller, counted and mapped. Descriptor, or enum page_error. */
int page_make(const struct page_owner *who, const char *name, size_t bytes, void **ret,
	ino_t *ino);

/* Whether it is a memfd of @bytes with the seals of a page. To close one waits for nobody. */
bool page_has_form(int fd, size_t bytes);

/*
 * Counts and maps one that a process has, of which we use the first @used bytes. 0, or enum page_error. The count
 * comes first: to look at memory that is not there yet makes it ours by the kernel's account.
 */
int page_map(const struct page_owner *who, int fd, size_t bytes, size_t used, void **ret,
	ino_t *ino);

/* A page and its memfd. Descriptor, or enum page_error. *ino: of the memfd. */
int page_new(const struct page_owner *who, struct slice_page **ret, ino_t *ino);

/* Maps a page that a process has. 0, or enum page_error. */
int page_accept(const struct page_owner *who, int fd, struct slice_page **ret, ino_t *ino);

/* Whether it is of the GPUs of the slice. */
bool page_fits(const struct slice_page *page, const struct grants_slice *s);

/* Without inotify too. */
void pages_start(struct arbiter *a);
void pages_stop(struct arbiter *a);
void pages_detach_slice(struct arbiter_slice *s); /* it ends; what it has out counts on */
/* The page of this memfd counts from now on, until nobody has it. 0, or enum page_error. */
int pages_count_page(const struct page_owner *who, int fd);

/* ---- processes -------------------------------------------------------------------------------- */

/* Gives the task the pidfd, if it has none; what becomes of it when the process is gone: grants_task_abandon().
 * < 0: it could not be watched. */
int task_watch(struct arbiter *a, struct grants_task *t, int *pidfd, struct error *err);

/* A book's callback. */
void task_on_ended(void *arbiter, struct grants_task *t);

/* Members that an earlier arbiter left. */
void restore_grants(struct arbiter *a);

/* The book has nothing of this page: it was lost. What the page says is all there is to know. NULL: it
 * does not fit the slice, no room, or no memory. */
struct grants_member *restore_from_page(struct arbiter *a, struct grants_slice *s,
	struct grants_client *who, const struct slice_page *page);

enum restore_result {
	RESTORE_NO_PAGE, /* of all its descriptors none is a page that can be taken in */
	RESTORE_MORE,    /* it has more descriptors than one call reads */
	RESTORE_ADOPTED,
};

/*
 * A process of the slice @slice (an id) that the book does not have: where the process holds a page of
 * ours the book was lost, and it is taken in again by its page. *at: as proc_each_memfd() has it.
 */
enum restore_result restore_lost_process(struct arbiter *a, uint32_t pid, uint64_t start,
	const char *slice, long *at);

/* What the process of this registration says of MPS, all its registrations in the slice together:
 * SLICE_MPS_OUTSIDE where it is that on any GPU. */
uint32_t mps_get_member_state(const struct grants_member *m);

/* Whether it should run under MPS and does not: the log says so, once for each process. */
void mps_check_member(struct arbiter_slice *s, struct grants_member *m);
void mps_check_process(const struct arbiter_conn *c); /* all its registrations in the slice */

/* Notices processes that executed another program. */
void restore_detect_exec(struct arbiter *a);

/* ---- control, readings ------------------------------------------------------------------------ */

struct unhooked {
	struct unhooked *next;
	uint32_t pid;
	uint64_t start;
	char slice[SLICE_ID_MAX]; /* "": of none */
	char name[SLICE_NAME_MAX];
	unsigned int n_readings; /* seen in so many readings */
	uint64_t generation;     /* of the last one */
	long fds_offset;         /* where the next look at its descriptors begins */
	unsigned int n_fd_scans;
	bool fds_scanned; /* it has no lost page, or too many descriptors to tell */
	bool reported, stopped;
	uint64_t bytes[SLICE_GPUS_MAX];
};

int arbiter_control_start(struct arbiter *a, struct error *err) MUST_USE;
void arbiter_control_stop(struct arbiter *a);
bool control_subscribed(const struct arbiter *a);
bool control_request_reading(struct arbiter *a, uint64_t seq, const char *gpus_json);

/* The answer to status, as text to be freed; NULL: no memory. @id: that slice only, or NULL. */
char *status_render_json(struct arbiter *a, const char *id);

/* What readings ask of others. */
struct readings_ops {
	bool (*possible)(const struct arbiter *a); /* somebody reads NVML for us */
	bool (*request_reading)(struct arbiter *a, uint64_t seq, const char *gpus_json);
	void (*detect_exec)(struct arbiter *a);
	void (*on_applied)(struct arbiter *a, const struct reading *r); /* the book has it */
	/* Requests that waited for a reading: there was one, or there will be none and nobody is to @wait. */
	void (*retry_waiting)(struct arbiter *a, bool wait);
};

void readings_start(struct arbiter *a, const struct readings_ops *ops); /* @ops stays */
void readings_stop(struct arbiter *a);
bool readings_possible(const struct arbiter *a);
void readings_request_soon(struct arbiter *a);
void readings_subscribed(struct arbiter *a);
void readings_unsubscribed(struct arbiter *a); /* nobody reads NVML for us any more */
void readings_apply(struct arbiter *a, const struct reading *r);

void unhooked_apply_reading(struct arbiter *a, const struct reading *r);
void unhooked_stop(struct arbiter *a);

/* ---- all of it -------------------------------------------------------------------------------- */

struct readings {
	const struct readings_ops *ops;
	uv_timer_t timer;
	uint64_t seq, requested_ns, applied_ns; /* 0: none */
	bool waiting;
	bool repeat; /* as soon as the present one is answered */
	uint64_t generation;
};

struct pages {
	struct fair_quota quota;
	struct fd_watch *watch;                     /* inotify; NULL: there is none */
	struct issued_page *buckets[PAGES_BUCKETS]; /* by their watch */
	struct page_client *clients[PAGES_BUCKETS];
	struct fair_quota blind_quota; /* those without a watch, which have a descriptor each */
	struct issued_page *blind[PAGES_BUCKETS]; /* by their inode */
	unsigned int next_blind_bucket;           /* the next bucket of these */
	uv_timer_t blind_timer;
	struct slice_pages
		*gone_slices; /* slices that were gone when their processes were found */
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
	int spare_fd; /* given up to accept, and refuse, when there are no descriptors left */
};
