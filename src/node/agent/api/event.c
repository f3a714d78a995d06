/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/api/event.h"

#include "lib/base/time.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The API server refuses an Event with a longer message. */
#define NOTE_MAX 1024
static_assert(sizeof(((struct kube_event *)0)->message) <= NOTE_MAX, "the API server takes it");

#define NODE_NAMESPACE "default" /* namespace of the kubelet's Events of its Node */

/* --- the list --- */

static bool has_unsent_event(const struct kube_event *e)
{
	return e->count > e->reported_count;
}

/* The entry for a new event: a free one, else the oldest that is already sent. */
static struct kube_event *find_free_event(struct event_list *l)
{
	struct kube_event *oldest = NULL;

	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct kube_event *e = &l->v[i];

		if (!*e->reason)
			return e;
		if (!has_unsent_event(e) && (!oldest || e->last_ns < oldest->last_ns))
			oldest = e;
	}
	return oldest;
}

static bool same_object(const struct event_about *a, const struct event_about *b)
{
	return !strcmp(a->pod, b->pod) && !strcmp(a->namespace_, b->namespace_) &&
	       !strcmp(a->uid, b->uid);
}

static struct kube_event *find_same_event(struct event_list *l, const struct kube_event *want)
{
	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct kube_event *e = &l->v[i];

		if (e->type == want->type && !strcmp(e->reason, want->reason) &&
			!strcmp(e->message, want->message) &&
			same_object(&e->about, &want->about))
			return e;
	}
	return NULL;
}

bool event_list_add(struct event_list *l, const struct event_about *about, enum event_type type,
	const char *reason, const char *message, uint64_t wall_ns)
{
	struct kube_event want = { .type = type, .first_ns = wall_ns };
	struct kube_event *e;

	if (about)
		want.about = *about;
	(void)snprintf(want.reason, sizeof(want.reason), "%s", reason);
	(void)snprintf(want.message, sizeof(want.message), "%s", message);
	e = find_same_event(l, &want);
	if (!e) {
		e = find_free_event(l);
		if (!e)
			return false;
		*e = want;
	}
	e->last_ns = wall_ns;
	if (e->count < INT32_MAX)
		e->count++;
	return true;
}

struct kube_event *event_list_next(struct event_list *l)
{
	struct kube_event *next = NULL;

	for (size_t i = 0; i < EVENTS_MAX; i++) {
		struct kube_event *e = &l->v[i];

		if (has_unsent_event(e) && (!next || e->last_ns < next->last_ns))
			next = e;
	}
	return next;
}

/* --- request bodies --- */

static char *dump_event_json(json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	return text;
}

static const char *namespace_of(const struct kube_event *e)
{
	return *e->about.pod ? e->about.namespace_ : NODE_NAMESPACE;
}

/* Has the kubelet's form for a Node: the uid is the name. */
static json_t *object_of(const struct kube_event *e, const char *node)
{
	json_t *o;

	if (!*e->about.pod)
		return json_pack("{s:s, s:s, s:s}", "kind", "Node", "name", node, "uid", node);
	o = json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Pod", "namespace",
		e->about.namespace_, "name", e->about.pod);
	if (*e->about.uid)
		(void)json_object_set_new(o, "uid", json_string(e->about.uid));
	return o;
}

char *event_create_body(const struct kube_event *e, const char *node)
{
	char first[TIME_RFC3339_MAX], last[TIME_RFC3339_MAX];

	time_rfc3339(e->first_ns, first);
	time_rfc3339(e->last_ns, last);
	return dump_event_json(json_pack("{s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:s, s:s,"
					 " s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:i}",
		"apiVersion", "v1", "kind", "Event", "metadata", "name", e->name, "namespace",
		namespace_of(e), "involvedObject", object_of(e, node), "reason", e->reason,
		"message", e->message, "type", e->type == EVENT_WARNING ? "Warning" : "Normal",
		"source", "component", "gpusliced", "host", node, "reportingComponent",
		"gpusliced", "reportingInstance", node, "firstTimestamp", first,
		"lastTimestamp", last, "count", (int)e->count));
}

char *event_patch_body(const struct kube_event *e)
{
	char last[TIME_RFC3339_MAX];

	time_rfc3339(e->last_ns, last);
	return dump_event_json(
		json_pack("{s:i, s:s}", "count", (int)e->count, "lastTimestamp", last));
}

/* --- sending --- */

/* 0: the sender may send now; else the wait in ns. */
static uint64_t take_event_token(struct event_sender *s)
{
	uint64_t now = time_mono_ns();

	s->tokens += (double)(now - s->tokens_at_ns) / (double)EVENT_PER_NS;
	if (s->tokens > EVENT_BURST)
		s->tokens = EVENT_BURST;
	s->tokens_at_ns = now;
	if (s->tokens < 1)
		return (uint64_t)((1 - s->tokens) * (double)EVENT_PER_NS) + NS_PER_MS;
	s->tokens -= 1;
	return 0;
}

static void send_one(struct event_sender *s, struct kube_event *e)
{
	bool fresh = e->name[0] == '\0' || e->reported_count == 0;
	CLEANUP(freep) char *body = NULL;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

	/* Names the object by the time, as the kubelet does: the name is unique. */
	if (e->name[0] == '\0')
		(void)snprintf(e->name, sizeof(e->name), "%.200s.%" PRIx64,
			*e->about.pod ? e->about.pod : s->node, e->first_ns);
	body = fresh ? event_create_body(e, s->node) : event_patch_body(e);
	buf_puts(&path, "/api/v1/namespaces/");
	api_escape(&path, namespace_of(e));
	buf_puts(&path, "/events");
	if (!fresh) {
		buf_putc(&path, '/');
		api_escape(&path, e->name);
	}
	buf_puts(&path, "?fieldManager=gpusliced");
	if (!body || !buf_ok(&path)) { /* no memory, or no valid text: the other events go on */
		e->reported_count = e->count;
		s->dropped++;
		task_wait(&s->task, NS_PER_SEC);
		return;
	}
	s->sent = e;
	s->sent_count = e->count;
	task_send(&s->task, &(struct api_request){ .method = fresh ? "POST" : "PATCH",
				    .path = buf_str(&path),
				    .content_type = fresh ? API_JSON : API_MERGE_PATCH,
				    .body = body });
}

static void send_next_event(struct api_task *t)
{
	struct event_sender *s = (struct event_sender *)t;
	struct kube_event *e = event_list_next(&s->list);
	uint64_t wait = e && s->node ? take_event_token(s) : 0;

	if (!e || !s->node)
		return;
	if (wait)
		task_wait(t, wait);
	else
		send_one(s, e);
}

static void on_event_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct event_sender *s = (struct event_sender *)t;
	struct kube_event *e = s->sent;

	if (!err || (reply->status == 409 && e->reported_count == 0)) {
		/* A 409 of a new name: the agent made the object, and the answer was lost. */
		e->reported_count = s->sent_count;
		task_reached(t);
	} else if (reply->status == 404 && e->reported_count > 0) {
		/* The server keeps events for an hour. The agent creates this one again. */
		e->name[0] = '\0';
		e->first_ns = e->last_ns;
		e->count -= e->reported_count;
		e->reported_count = 0;
	} else if (reply->status >= 400 && reply->status < 500 && reply->status != 429 &&
		   reply->status != 401) {
		/* The server refuses for good (403: no such right): the agent gives this event up. */
		e->reported_count = e->count;
		task_complain(t);
	}
	s->sent = NULL;
	if (event_list_next(&s->list))
		task_poke(t);
}

void event_sender_init(struct event_sender *s, uv_loop_t *loop)
{
	task_init(&s->task, loop, "event not sent", send_next_event, on_event_reply);
	s->tokens = EVENT_BURST;
	s->tokens_at_ns = time_mono_ns();
}

void event_send(struct event_sender *s, const struct event_about *about, enum event_type type,
	const char *reason, const char *message)
{
	if (!s->node)
		return;
	if (!event_list_add(&s->list, about, type, reason, message, time_wall_ns()))
		s->dropped++;
	task_poke(&s->task);
}
