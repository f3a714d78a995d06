/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/time.h"
#include "io/kube-api/stream.h"

/*
 * List, watch, and repeat without end:
 *
 *	LISTING --ok--> WATCHING --end--> WAITING --timer--> WATCHING (.version known) or LISTING
 *
 * A callback may stop the watch. So a function either calls the user last, or tests .stopped
 * afterwards. A stopped watch does nothing more; libuv's close callback of the timer frees its memory.
 */

enum api_watch_phase { WAITING, LISTING, WATCHING };

/* After so many failed attempts in a row the watch lists. The likeliest reason is a version that the
 * server no longer reaches, for example after a restore from a backup. */
#define LIST_AFTER_FAILURES 3

struct api_watch {
	struct api *api;
	LIST_ENTRY(api_watch) link;
	struct api_watch_ops ops;
	void *arg;
	char *collection, *name;
	enum api_watch_phase phase;
	bool stopped;
	/* WAITING: time of the next attempt. WATCHING: deadline of the next news, short until the
	 * answer begins. */
	uv_timer_t timer;
	uint32_t requested_s; /* timeoutSeconds of this WATCHING */
	uint64_t began_ns;
	struct api_transfer transfer;
	struct api_stream stream;
	struct backoff backoff;
	bool expired;                       /* a 410 came, and no working stream since */
	char version[RESOURCE_VERSION_MAX]; /* where to resume; "": list */

	/* What the watch reported to the user. */
	enum { OBJECT_UNREPORTED, OBJECT_ABSENT, OBJECT_PRESENT } object;
	char object_version[RESOURCE_VERSION_MAX];
	enum { STATE_UNREPORTED, STATE_CONNECTED, STATE_UNAVAILABLE } state;
	char why[ERROR_MSG_MAX];
};

static void set_version(char *version, const char *to)
{
	if (to)
		(void)snprintf(version, RESOURCE_VERSION_MAX, "%s", to);
}

/* --- to the user --- */

static void notify_watch_state(struct api_watch *w, const struct error *why)
{
	if (why ? w->state == STATE_UNAVAILABLE && !strcmp(w->why, why->msg)
		: w->state == STATE_CONNECTED)
		return;
	w->state = why ? STATE_UNAVAILABLE : STATE_CONNECTED;
	(void)snprintf(w->why, sizeof(w->why), "%s", why ? why->msg : "");
	if (w->ops.state)
		w->ops.state(w->arg, why);
}

/* @object may be NULL. Does not report the same state twice. */
static void notify_watch_object(struct api_watch *w, json_t *object)
{
	const char *version = object_version(object);

	if (!object && w->object == OBJECT_ABSENT)
		return;
	if (object && w->object == OBJECT_PRESENT && version &&
		!strcmp(version, w->object_version))
		return;
	w->object = object ? OBJECT_PRESENT : OBJECT_ABSENT;
	set_version(w->object_version, version ? version : "");
	w->ops.object(w->arg, object);
}

/* --- when --- */

static void start_watch_attempt(struct api_watch *w);

static void on_watch_timer(uv_timer_t *timer);

static void arm_watch_timer(struct api_watch *w, uint64_t ns)
{
	uv_update_time(w->api->loop);
	(void)uv_timer_start(&w->timer, on_watch_timer, (ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void arm_watch_retry(struct api_watch *w, uint64_t ns)
{
	api_transfer_stop(&w->transfer);
	w->phase = WAITING;
	arm_watch_timer(w, ns);
}

/* No failure: jitter only, so that not all nodes request at once. */
static void retry_watch_with_jitter(struct api_watch *w)
{
	uint64_t jitter = w->api->intervals.jitter_ns;

	arm_watch_retry(w, jitter ? backoff_random() % (jitter + 1) : 0);
}

static void retry_watch_with_backoff(struct api_watch *w, uint64_t retry_after_ns)
{
	arm_watch_retry(w, backoff_next(&w->backoff, retry_after_ns, backoff_random()));
	if (w->backoff.failures >= LIST_AFTER_FAILURES)
		w->version[0] = '\0';
}

static void report_watch_lost(struct api_watch *w, const struct error *why,
	uint64_t retry_after_ns)
{
	retry_watch_with_backoff(w, retry_after_ns);
	notify_watch_state(w, why);
}

/* The version to resume from is too old for the server. */
static void restart_expired_watch(struct api_watch *w)
{
	bool again = w->expired;

	w->expired = true;
	w->version[0] = '\0';
	if (again)
		retry_watch_with_backoff(w, 0);
	else
		retry_watch_with_jitter(w);
}

static bool was_quick(const struct api_watch *w)
{
	return time_mono_ns() - w->began_ns < w->api->intervals.quick_ns;
}

/* A stream that lasted .quick_ns proves that watching works. One event does not: a server may send
 * one event and break off, again and again. */
static void reset_watch_backoff(struct api_watch *w)
{
	if (was_quick(w))
		return;
	backoff_reset(&w->backoff);
	w->expired = false;
}

/* --- the list --- */

static json_t *find_item(const json_t *items, const char *name)
{
	size_t i;
	json_t *item;

	json_array_foreach(items, i, item) if (!strcmp(object_name(item), name)) return item;
	return NULL;
}

static void apply_watch_list(struct api_watch *w, const json_t *list)
{
	const json_t *items = json_object_get(list, "items");
	const char *version = object_version(list);
	struct error err = ERROR_INIT;

	/* Go may encode an empty list as null. */
	if (!version || !(json_is_array(items) || json_is_null(items))) {
		(void)error_set(&err, ERR_INVALID,
			"GET '%.80s%.120s': expected a list with a resourceVersion, found something else",
			w->api->config.server, w->collection);
		report_watch_lost(w, &err, 0);
		return;
	}
	set_version(w->version, version);
	notify_watch_state(w, NULL);
	if (!w->stopped)
		notify_watch_object(w, find_item(items, w->name));
	if (!w->stopped)
		start_watch_attempt(w);
}

/* --- the watch --- */

static void status_event(struct api_watch *w, const json_t *status)
{
	const char *message = json_string_value(json_object_get(status, "message"));
	int code = (int)json_integer_value(json_object_get(status, "code"));
	char text[API_TEXT_MAX + 1];
	struct error err = ERROR_INIT;

	if (code == 410) {
		restart_expired_watch(w);
		return;
	}
	api_printable(text, sizeof(text), message ? message : "no message");
	(void)error_set(&err,
		code >= 400 && code < 600 ? api_code_of_status(code) : ERR_UNAVAILABLE,
		"watch of '%.80s%.120s': the API server says %d: %s", w->api->config.server,
		w->collection, code, text);
	report_watch_lost(w, &err, 0);
}

static void apply_watch_event(struct api_watch *w, const struct watch_event *e)
{
	if (e->type == WATCH_EVENT_ERROR) {
		status_event(w, e->object);
		return;
	}
	set_version(w->version, object_version(e->object));
	reset_watch_backoff(w);
	if (e->type == WATCH_EVENT_BOOKMARK || strcmp(object_name(e->object), w->name) != 0)
		return;
	notify_watch_object(w, e->type == WATCH_EVENT_DELETED ? NULL : e->object);
}

/* Each event may end this phase, or the watch. */
static void apply_watch_lines(struct api_watch *w)
{
	struct error err = ERROR_INIT;
	const char *line = NULL;
	size_t len = 0;
	int r = 0;

	while (!w->stopped && w->phase == WATCHING &&
		(r = stream_next(&w->stream, &line, &len, &err)) > 0) {
		struct watch_event e;

		r = watch_event_parse(&e, line, len, &err);
		if (r < 0)
			break;
		apply_watch_event(w, &e);
		watch_event_fini(&e);
	}
	if (r >= 0)
		return;
	/* The rest of the stream cannot be trusted: list again. */
	w->version[0] = '\0';
	(void)error_prefix(&err, "'%.80s%.120s'", w->api->config.server, w->collection);
	report_watch_lost(w, &err, 0);
}

static void watch_ended(struct api_watch *w)
{
	struct error err = ERROR_INIT;

	if (stream_is_inside(&w->stream)) {
		(void)error_set(&err, ERR_UNAVAILABLE,
			"watch of '%.80s%.120s': the connection ended within an event",
			w->api->config.server, w->collection);
		report_watch_lost(w, &err, 0);
		return;
	}
	if (was_quick(w))
		retry_watch_with_backoff(w, 0);
	else
		retry_watch_with_jitter(w);
}

/* --- one request --- */

static void on_watch_transfer_end(struct api_watch *w)
{
	struct api_transfer *t = &w->transfer;
	struct buf *b = &w->stream.bytes;
	bool answered = t->result == CURLE_OK, is_list = w->phase == LISTING;
	struct error err = ERROR_INIT;
	json_t *body = NULL;

	if (t->status == 200 && !is_list)
		reset_watch_backoff(w);
	if (answered && t->status == 200 && !is_list) {
		watch_ended(w);
		return;
	}
	if (api_transfer_refresh(t)) {
		start_watch_attempt(w);
		return;
	}
	if (answered)
		body = json_loadb(buf_str(b), b->len, 0, NULL);
	if (api_transfer_error(t, "GET", w->collection, body, &err) == 0 && is_list)
		apply_watch_list(w, body);
	else if (answered && t->status == 410)
		restart_expired_watch(w);
	else {
		if (err.code == ERR_NONE)
			(void)error_set(&err, ERR_UNSUPPORTED,
				"GET '%.80s%.120s': the API server answers %d",
				w->api->config.server, w->collection, t->status);
		report_watch_lost(w, &err, t->retry_after_ns);
	}
	json_decref(body);
}

static void on_watch_transfer_news(struct api_transfer *t, unsigned news)
{
	struct api_watch *w = t->owner;
	bool is_stream = w->phase == WATCHING && t->status == 200;

	if (t->status / 100 == 2)
		t->retried = false;
	if (is_stream) {
		if (!(news & API_NEWS_END))
			arm_watch_timer(w,
				w->requested_s * NS_PER_SEC + w->api->intervals.idle_ns);
		if (news & API_NEWS_HEAD)
			notify_watch_state(w, NULL);
		if (!w->stopped && (news & API_NEWS_DATA))
			apply_watch_lines(w);
	}
	/* Not if an event has ended this phase. */
	if (!w->stopped && (news & API_NEWS_END) && w->phase != WAITING)
		on_watch_transfer_end(w);
}

static int request_watch(struct api_watch *w, struct error *err)
{
	const struct api_intervals *in = &w->api->intervals;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(16U << 10);
	struct api_request req = { .method = "GET" };
	bool list = !w->version[0];

	buf_printf(&path, "%s?fieldSelector=metadata.name%%3D", w->collection);
	api_escape(&path, w->name);
	if (!list) {
		w->requested_s =
			in->watch_min_s +
			(uint32_t)(backoff_random() % (in->watch_max_s - in->watch_min_s + 1));
		buf_printf(&path,
			"&watch=1&allowWatchBookmarks=true&timeoutSeconds=%" PRIu32
			"&resourceVersion=",
			w->requested_s);
		api_escape(&path, w->version);
	}
	if (!buf_ok(&path))
		return error_nomem(err);
	req.path = buf_str(&path);
	stream_clear(&w->stream);
	if (api_transfer_start(&w->transfer, &req, list ? in->call_ns : 0, err) < 0)
		return -1;
	w->phase = list ? LISTING : WATCHING;
	w->began_ns = time_mono_ns();
	if (list)
		(void)uv_timer_stop(&w->timer); /* the transfer has its own time-out */
	else
		arm_watch_timer(w,
			in->call_ns); /* to the answer's start; then on_watch_transfer_news() */
	return 0;
}

static void start_watch_attempt(struct api_watch *w)
{
	struct error err = ERROR_INIT;

	if (request_watch(w, &err) == 0)
		return;
	(void)error_prefix(&err, "GET '%.80s%.120s'", w->api->config.server, w->collection);
	report_watch_lost(w, &err, 0);
}

static void on_watch_timer(uv_timer_t *timer)
{
	struct api_watch *w = timer->data;
	struct error err = ERROR_INIT;

	if (w->phase == WAITING) {
		start_watch_attempt(w);
		return;
	}
	if (w->transfer.status == 200)
		reset_watch_backoff(w);
	(void)error_set(&err, ERR_TIMEOUT, "watch of '%.80s%.120s': %s", w->api->config.server,
		w->collection,
		w->transfer.status ? "the connection is silent for too long"
				   : "no answer in time");
	report_watch_lost(w, &err, 0);
}

/* --- begin and end --- */

static void on_watch_timer_closed(uv_handle_t *h)
{
	struct api_watch *w = h->data;

	api_stream_fini(&w->stream);
	free(w->collection);
	free(w->name);
	free(w);
}

int api_watch_start(struct api_watch **ret, struct api *a, const char *collection,
	const char *name, const struct api_watch_ops *ops, void *arg, struct error *err)
{
	struct api_watch *w;

	if (!*name)
		return error_set(err, ERR_INVALID, "watch of '%s': expected a name",
			collection);
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem(err);
	w->collection = strdup(collection);
	w->name = strdup(name);
	if (!w->collection || !w->name) {
		free(w->collection);
		free(w->name);
		free(w);
		return error_nomem(err);
	}
	w->api = a;
	w->ops = *ops;
	w->arg = arg;
	w->backoff = a->intervals.backoff;
	w->stream = (struct api_stream)STREAM_INIT(API_EVENT_MAX);
	w->transfer = (struct api_transfer){ .api = a,
		.body = &w->stream.bytes,
		.owner = w,
		.deliver = on_watch_transfer_news };
	LIST_INSERT_HEAD(&a->watches, w, link);
	(void)uv_timer_init(a->loop, &w->timer);
	w->timer.data = w;
	/* The timer makes the first attempt from the loop: even an error before the first request
	 * goes to the callback. */
	arm_watch_retry(w, 0);
	*ret = w;
	return 0;
}

struct api_watch *api_watch_stop(struct api_watch *w)
{
	if (!w || w->stopped)
		return NULL;
	w->stopped = true;
	LIST_REMOVE(w, link);
	api_transfer_stop(&w->transfer);
	uv_close((uv_handle_t *)&w->timer, on_watch_timer_closed);
	return NULL;
}
