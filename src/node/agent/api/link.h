/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent knows of the API server and of its Node. Only cluster/ writes this; all other parts read it.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "io/kube-api/api.h"

struct api_link {
	const char *node_name, *pod_name; /* of this node and this pod; "": not known */
	char namespace_[64];              /* of this pod; "": not known */
	bool possible; /* the Node's name is known, and so is the API server, or it will be */
	bool found;    /* the server's address and the credentials */
	struct error why; /* why the API is not used, now or at all; ERR_NONE: it is used */
	struct api *api;  /* NULL: not created yet */
	struct node_object *node; /* NULL: not created yet */
};

/* Why the Node is not known; "": the Node is known. Borrowed. */
const char *api_link_error(const struct api_link *l);
