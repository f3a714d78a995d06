/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API server that has our Node "n-1", a watch of it, and a virtual clock. For code that reads the Node
 * and writes to it: the watch is connected, and a test scripts the answers to other requests (SCRIPT() of env).
 * Link with wrap_clock.
 */
#include "unit/io/kube-api/api-env.h"

#include "node/agent/api/node-object.h"
#include "node/agent/api/task.h"
#include "model/labels/labels.h"

#define NODE_NAME "n-1"

/* A whole answer; the connection ends with it, so that the watch's is the one that was asked last. */
#define ANSWER(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
#define STEP(what, status, body)                                                   \
	{                                                                          \
		.expects = (what), .answer = ANSWER(status, body), .hang_up = true \
	}

struct node_env {
	struct env *e;
	struct node_object *node;
	struct step steps[2]; /* the list and the watch */
	char *listed;
	unsigned version;
	unsigned changes, condition_changes; /* calls of node_object_ops */
	unsigned calls;                      /* of both */
};

/* cmocka's: *state is a struct node_env with an open API client. */
int node_env_setup(void **state);
int node_env_teardown(void **state);

/* @text is JSON, perhaps with ' for "; yours: json_decref(). NULL: NULL. */
json_t *json_of(const char *text);

/* Watches the Node that is @object (JSON as above without name and version; NULL: there is none) until that is known. */
void node_env_watch(struct node_env *n, const char *object, const char *condition_type);
/* Scripts the list and the watch alone, for a test that starts the watch by itself. */
void node_env_script(struct node_env *n, const char *object);
/* The Node is changed to @object (NULL: deleted); does not wait for the watch. */
void node_env_send(struct node_env *n, const char *object);
/* The same, and waits until the watch has called. */
void node_env_send_event(struct node_env *n, const char *object);

/* Puts the monotonic clock forward; libuv's is another. */
void clock_skip(uint64_t ns);

/* How long @t waits now; the test fails if it does not wait. */
uint64_t task_due_ms(const struct api_task *t);
/* The time that @t waits for passes: @t runs in the loop's next round. */
void task_skip(struct api_task *t);
/* Runs until @t rests, or waits for more than the moment. */
void task_settle(struct env *e, const struct api_task *t);
/* Closes what @t is, and lets the loop release it. */
void task_end(struct env *e, struct api_task *t);

/* "key=value,key=value", sorted, as labels; yours. */
struct labels *labels_of(const char *list);
/* The body of request @i of the script; yours. */
json_t *request_body(const struct env *e, size_t i);
/* @got (a reference, may be NULL) is @want, JSON as above, NULL: nothing. */
void assert_json(json_t *got, const char *want);

#define NODE_TEST(f) cmocka_unit_test_setup_teardown(f, node_env_setup, node_env_teardown)
