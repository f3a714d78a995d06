/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A web server on a loopback port and what remote clients do to it, by bytes on sockets. Each read ends
 * the test after WEB_TIMEOUT_S without an end; nothing here depends on how fast the machine is.
 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "io/web/web.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define WEB_TIMEOUT_S 20
#define REPLY_MAX     (16U << 20)
#define BIG_BODY      (8U << 20) /* of /big: more than the buffers of a socket take */
#define BIG_BODY_TEXT "8388608"

struct web_env {
	struct web *web;
	struct web_options options; /* set before web_env_start() */
	char *dir;
	const char *at;             /* address that clients connect to; 127.0.0.1 */
	atomic_uint made, released; /* bodies */
	atomic_uint notices;
	pthread_mutex_t lock;
	char notice[ERROR_MSG_MAX]; /* the last; under the lock */
	pthread_mutex_t gate;       /* of /held */
};

/* Routes: /metrics, /healthz (open), /items/ and below, /query?a=, /etag, /big, /held, /unavailable. */
void web_env_init(struct web_env *e);
/* Starts the server, on 127.0.0.1 where options.listen is NULL. begin: does not wait until it serves. */
void web_env_begin(struct web_env *e);
void web_env_start(struct web_env *e);
void web_wait_serving(const struct web_env *e);
void web_env_fini(struct web_env *e);

/* Waits for the process of the server that is not @other (0: any), and returns its process id. */
pid_t web_wait_process(pid_t other);
/* Descriptors that a process has open; -1: this one. */
unsigned web_count_fds(pid_t pid);

void web_wait_notices(struct web_env *e, unsigned n); /* until there are so many */
/* The last notice has @text in it. */
void web_assert_notice(struct web_env *e, const char *text);

/* A file in e->dir; the name is yours. */
char *web_env_file(struct web_env *e, const char *name, const char *text);

/* A socket connected from @source ("127.0.0.1"), to the server. */
int web_connect_from(const struct web_env *e, const char *source);
int web_connect(const struct web_env *e);
void web_send(int fd, const void *bytes, size_t len);
void web_send_text(int fd, const char *text);

/* Reads until the other end closes. */
void web_read_all(int fd, struct buf *b);
/* Reads one reply with its body from a connection that stays open. @head: the reply has no body. */
void web_read_reply(int fd, bool head, struct buf *b);
/* Waits until the other end has closed, by whatever means. */
void web_wait_closed(int fd);

/* Sends @request on a new connection and reads to the end; the connection must be closed by it. */
void web_talk(const struct web_env *e, const char *request, struct buf *b);
/* web_talk(), and the answer must have this status. */
void web_expect(const struct web_env *e, const char *request, unsigned status);
/* The same, as soon as the server is there. */
void web_expect_when_serving(const struct web_env *e, const char *request, unsigned status);
unsigned web_status_of(const struct buf *b);

/* Waits until @field of the counts has come to @value. */
#define web_wait_count(e, field, value)                                                  \
	do {                                                                             \
		unsigned wait_i_ = 0;                                                    \
		while (web_counts((e)->web).field != (value)) {                          \
			if (++wait_i_ > WEB_TIMEOUT_S * 1000)                            \
				fail_msg("waited in vain for %s to be %llu, it is %llu", \
					#field, (unsigned long long)(value),             \
					(unsigned long long)web_counts((e)->web).field); \
			web_nap();                                                       \
		}                                                                        \
	} while (0)
void web_nap(void); /* a millisecond, between polls */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
