/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stand-in's control API: JSON over HTTP on a unix socket in the kubelet's directory.
 *
 *	GET  /v1/pods /v1/deployments /v1/configmaps  ?namespace=&name=
 *	GET  /v1/nodes /v1/resources
 *	POST /v1/apply   {"name": "a.yaml", "manifest": "..."}     {"lines": ["pod/a created"]}
 *	POST /v1/delete  the same, or {"kind": "pod", "name": "a", "namespace": "default"}
 *	POST /v1/scale   {"name": "a", "namespace": "default", "replicas": 3}
 *	POST /v1/label   {"key": "a/b", "value": "c" or null}
 *	POST /v1/restart {"downMs": 0, "killed": false}
 *	POST /v1/fault   {"name": "refuse", "args": ["2"]}
 *
 * Thread: loop.
 */
#include "testbed/standin/standin.h"

struct standin_control;

/*
 * Serves on the socket of control_address(), mode 0600. @s must outlive the control. ERR_LIMIT: the path is too
 * long for a socket.
 */
int standin_control_start(struct standin_control **ret, uv_loop_t *loop, struct standin *s,
	struct error *err) MUST_USE;
struct standin_control *standin_control_stop(struct standin_control *c); /* returns NULL */

/* "unix:<dir>/stand-in.sock" for http_call(); ERR_LIMIT if it does not fit. */
int control_address(char *ret, size_t cap, const char *kubelet_dir, struct error *err) MUST_USE;
