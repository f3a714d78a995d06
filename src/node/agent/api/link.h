/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of the API server and of our Node. cluster/ fills it, all others only read.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "io/kube-api/api.h"

struct api_link {
	const char *node_name, *pod_name; /* ours; "": not known */
	char namespace_[64];              /* of this pod; "": unknown */
	bool possible; /* an API server is known, or will be, and so is the name of our Node */
	bool found;    /* where the server is, and our credentials */
	struct error why;         /* why the API is not used, now or at all; ERR_NONE: it is */
	struct api *api;          /* NULL: not yet */
	struct node_object *node; /* likewise */
};

/* Why our Node is not known; "": it is. Borrowed. */
const char *api_link_error(const struct api_link *l);
