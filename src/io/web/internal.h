/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the agent's end share; those of the process are in worker/. */
#include "lib/base/time.h"
#include "io/web/packet/packet.h"
#include "io/web/web.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define WEB_READY_NS          (30 * NS_PER_SEC) /* for a process, from its start to READY */
#define WEB_END_NS            (NS_PER_SEC)      /* for a process to end by itself */
#define WEB_KILL_NS           (5 * NS_PER_SEC)  /* for the kernel to end one that was killed */
#define WEB_STOP_NS           (WEB_END_NS + WEB_KILL_NS + 2 * NS_PER_SEC) /* for the thread to end */
#define WEB_RESTART_DELAY_MAX 60                /* times .again_ns: the longest delay */
#define WEB_NOTICES_MAX       16                /* of a process at once, */
#define WEB_NOTICE_NS         (60 * NS_PER_SEC) /* and one more for each of these */

/* --- process.c: one process. Thread: web --- */

struct web_process {
	pid_t pid;   /* 0: none */
	int sock;    /* -1: none */
	pid_t stuck; /* one that was killed and has not ended yet; 0: none */
};

/* Starts @path (NULL: the installed program) with its end of a socket and a copy of @page_fd. Not as
 * long as the last one is stuck in the kernel: the next one would get stuck too. */
int web_process_start(struct web_process *p, const char *path, int page_fd,
	struct error *err) MUST_USE;
/*
 * Closes the socket, waits @grace_ns for the end, and kills the process. @how of @cap bytes: how it
 * ended, "ended by signal 11 (Segmentation fault)"; true: by itself, with status 0.
 */
bool web_process_end(struct web_process *p, uint64_t grace_ns, char *how, size_t cap);

/* --- web.c, thread.c, reply.c --- */

#define WEB_SHARED_MAX 4 /* bodies that are kept for the next request */

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
	int ended_fd; /* readable: the thread has nothing left to do */
	/* Set by the first of the two that is done, the thread or web_stop(); the second frees. While the thread works
	 * it says that nobody waits: nothing more is reported. */
	atomic_bool detached;
	unsigned listen_port;
	bool no_token;   /* then: */
	bool only_local; /* requests must name a loopback host, as it listens on one */
	struct web_shm *shm;

	pthread_t thread;
	pthread_mutex_t lock;
	enum web_state state; /* under it */
	struct error why;     /* under it: web_state() */

	/* Of the thread. */
	struct web_process process;
	uint64_t started_ns,
		next_ns;   /* when the process was started; not before this the next one */
	uint64_t delay_ns; /* before the next one, if this one ends soon */
	uint64_t loop_count,
		loop_stalled_ns; /* of the process's loop, and for how long it has been so */
	uint64_t checked_ns;     /* when that was last looked at */
	struct error files;      /* what the process last said of its files */
	bool files_news;         /* .. and is not in .why yet */
	unsigned notices;        /* that the process may still give */
	uint64_t notice_ns;      /* when that number last grew */
	struct web_shared shared[WEB_SHARED_MAX];
	unsigned next_shared;             /* the one to be replaced, modulo WEB_SHARED_MAX */
	bool served;                      /* at least once */
	char last_failure[ERROR_MSG_MAX]; /* of a start, as it was reported */
	unsigned char packet[WEB_PACKET_MAX]; /* the last that was received */
};

void *web_thread(void *web);
struct web *web_free(struct web *w);
/* The same at the end of its life: .released() follows. */
void web_release(struct web *w);

/*
 * Answers a REQUEST packet by its route. < 0: the packet is malformed, or the last reply is not read.
 * Never waits. Thread: web.
 */
int web_reply(struct web *w, const void *packet, size_t len, struct error *err) MUST_USE;
void web_reply_fini(struct web *w);
