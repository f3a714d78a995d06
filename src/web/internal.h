/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of the web server share. All of it belongs to the web thread but for the counters
 * and what is set before the thread starts. */
#include "base/time.h"
#include "web/conn.h"
#include "web/file.h"
#include "web/web.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

struct web {
	struct web_ops ops;
	void *arg;
	struct web_limits limits;
	char host[256];  /* of the address that was asked for; "": none */
	bool only_local; /* requests must name a loopback host */
	unsigned port;
	char *paths[3]; /* of token, certificate, key; copies */

	struct MHD_Daemon *daemon;
	int listen_fd, epoll_fd, stop_fd;
	/* In epoll's data: the address of what has an event, or of a struct web_conn. */
	pthread_t thread;

	struct web_book book;
	uint64_t accept_after_ns; /* no descriptors were left: not before this */
	struct web_token token;
	struct web_tls tls;
	uint64_t checked_ns;            /* when the files were last looked at */
	char noticed[2][ERROR_MSG_MAX]; /* the last message on the token, the certificate */

	/* Read by web_counts() from any thread; each stands alone, so relaxed order does. */
	atomic_uint_fast64_t requests[5], refused_full, refused_address, displaced, timeouts,
		malformed, throttled;
	atomic_uint open;
};

static inline void web_count(atomic_uint_fast64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* --- request.c: callbacks of libmicrohttpd, with the struct web --- */

enum MHD_Result web_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state);
void web_on_completed(void *cls, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode why);

/* --- loop.c --- */

/* Connections above the limit that may be there, on their way out. */
#define WEB_LEAVING_MAX 64U

#define WEB_ENDING_NS (NS_PER_SEC) /* to read what came before the end of what comes */

void *web_main(void *web);
void web_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode what);
/* Looks at the files again, if it is time; what cannot be read is told once. */
void web_check_files(struct web *w, uint64_t now_ns);
