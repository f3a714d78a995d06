/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/api/link.h"

const char *api_link_error(const struct api_link *l)
{
	if (!l->node)
		return l->why.code ? l->why.msg : "the API server is not asked yet";
	if (node_object_error(l->node)->code != ERR_NONE)
		return node_object_error(l->node)->msg;
	return node_object_state(l->node) == NODE_ABSENT ? "there is no Node of our name" : "";
}
