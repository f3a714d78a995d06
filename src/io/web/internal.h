/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the agent's side share. The files of the process gpuslice-web are in worker/. */
#include "lib/base/time.h"
#include "io/web/packet/packet.h"
#include "io/web/web.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define WEB_READY_NS          (30 * NS_PER_SEC) /* from the start of a process to READY */
#define WEB_END_NS            (NS_PER_SEC)      /* for a process to exit by itself */
#define WEB_KILL_NS           (5 * NS_PER_SEC)  /* for the kernel to end a killed process */
#define WEB_STOP_NS           (WEB_END_NS + WEB_KILL_NS + 2 * NS_PER_SEC) /* for the thread to end */
#define WEB_RESTART_DELAY_MAX 60 /* times .restart_ns: the longest delay */
#define WEB_NOTICES_MAX       16 /* notices of one process that the thread reports in a row */
#define WEB_NOTICE_NS         (60 * NS_PER_SEC) /* time until the thread may report one more */

/* --- process.c: one process. Thread: web --- */

struct web_process {
	pid_t pid;   /* 0: no process */
	int sock;    /* -1: none */
	pid_t stuck; /* a killed process that has not ended yet; 0: none */
};

/* Starts @path (NULL: the installed program). The process gets one end of a socket pair and a copy of
 * @page_fd. ERR_UNAVAILABLE: the last process is stuck in the kernel. A new process would get stuck too. */
int web_process_start(struct web_process *p, const char *path, int page_fd,
	struct error *err) MUST_USE;
/*
 * Closes the socket, waits up to @grace_ns for the process to exit, then kills it and waits up to WEB_KILL_NS.
 * @how (@cap bytes) gets how the process ended: "ended by signal 11 (Segmentation fault)". Returns true if the
 * process exited by itself with status 0, or if there was none (@how is unchanged then).
 */
bool web_process_end(struct web_process *p, uint64_t grace_ns, char *how, size_t cap);

/* --- web.c, thread.c, reply.c --- */

#define WEB_SHARED_MAX 4 /* bodies kept for the next request */

/* A body in a sealed memfd. */
struct web_shared {
	void *map; /* of .len bytes; NULL: none */
	size_t len;
	int fd;
};

struct web {
	struct web_ops ops;
	void *arg;
	struct web_limits limits;
	char *listen, *worker_path;
	struct buf start; /* the packet START */
	atomic_uint port; /* 0: none yet */
	int listen_fd, shm_fd, stop_fd;
	int ended_fd; /* readable: the thread has finished its work */
	/*
	 * Decides whether the thread or web_stop() frees the struct.
	 *  1. The thread writes @ended_fd, then exchanges true into this flag. If it reads true, it frees.
	 *  2. web_stop() waits up to WEB_STOP_NS for @ended_fd. If that comes, it joins the thread and frees.
	 *  3. Otherwise web_stop() exchanges true into this flag. If it reads true, it joins the thread and
	 *     frees. If it reads false, it detaches the thread and returns.
	 * While the thread works, true means that web_stop() has returned: the thread reports nothing more.
	 */
	atomic_bool detached;
	unsigned listen_port;
	bool no_token; /* there is no token file */
	/* Without a token file: requests must name a loopback host, as the server listens on a loopback
	 * address. */
	bool only_local;
	struct web_shm *shm;

	pthread_t thread;
	pthread_mutex_t lock;
	enum web_state state; /* under .lock */
	struct error why;     /* under .lock: web_state() */

	/* Of the web thread alone. */
	struct web_process process;
	uint64_t started_ns, next_ns; /* start of the process; earliest start of the next */
	uint64_t delay_ns;            /* before the next start, if this process ends soon */
	uint64_t loop_count, loop_stalled_ns; /* of the process's loop; unchanged for so long */
	uint64_t checked_ns;                  /* when the thread last read .loop_count */
	struct error files;                   /* last NOTICE of the process */
	bool files_news;                      /* .files is not in .why yet */
	unsigned notices;   /* how many the thread may still report for the process */
	uint64_t notice_ns; /* when .notices last grew */
	struct web_shared shared[WEB_SHARED_MAX];
	unsigned next_shared;             /* the body to replace next, modulo WEB_SHARED_MAX */
	bool served;                      /* has served at least once */
	char last_failure[ERROR_MSG_MAX]; /* of a start, as last reported */
	unsigned char packet[WEB_PACKET_MAX]; /* the last packet received */
};

/* The web thread, for pthread_create(). @web: the struct web. Ends after .stop_fd, and frees @web if web_stop()
 * has left the thread behind. Returns NULL. */
void *web_thread(void *web);
/* web_free() at the end of the server's life, then .released(). */
void web_release(struct web *w);

/*
 * Answers a REQUEST packet by its route. < 0: the packet is malformed, the process has not read the last reply,
 * or the reply cannot be sent. Never waits.
 * Thread: web.
 */
int web_reply(struct web *w, const void *packet, size_t len, struct error *err) MUST_USE;
void web_reply_fini(struct web *w); /* frees the kept bodies */
