/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"
#include "lib/base/defaults.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tools/cli/profile/profile.h"
#include "lib/http/client/client.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_NS (10 * NS_PER_SEC)

static const char *get_pod_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static bool is_pod_named(const json_t *pod, const char *name)
{
	const char *namespace = get_pod_text(pod, "namespace");
	size_t n = strlen(namespace);

	return !strncmp(name, namespace, n) && name[n] == '/' &&
	       !strcmp(name + n + 1, get_pod_text(pod, "pod"));
}

int profile_pod_uid(char ret[static PROFILE_UID_MAX], const char *pod, const char *run_dir,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(HTTP_REPLY_MAX);
	char socket[PATH_MAX], address[PATH_MAX + 8];
	json_auto_t *o = NULL;
	const json_t *each;
	size_t i;

	if (path_join(socket, sizeof(socket), run_dir, AGENT_SOCKET, err) < 0)
		return -1;
	(void)snprintf(address, sizeof(address), "unix:%s", socket);
	if (http_call_json(address, "GET", "/api/v1/pods", NULL, TIMEOUT_NS, &body, err) < 0)
		return error_prefix(err,
			"ask gpusliced for the pod; is it running, with this --run-dir?");
	o = json_loadb(buf_str(&body), body.len, 0, NULL);
	json_array_foreach(json_object_get(o, "pods"), i, each)
	{
		const char *uid = get_pod_text(each, "uid");

		if (is_pod_named(each, pod) && *uid && strlen(uid) < PROFILE_UID_MAX &&
			json_is_true(json_object_get(each, "live"))) {
			(void)snprintf(ret, PROFILE_UID_MAX, "%s", uid);
			return 0;
		}
	}
	return error_set(err, ERR_NOT_FOUND,
		"no pod '%.120s' has a GPU of this node; gpuslice status --slices shows who has",
		pod);
}
