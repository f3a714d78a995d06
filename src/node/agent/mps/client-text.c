/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/client-text.h"

#include <ctype.h>
#include <string.h>

#define UID_LEN 36

const char *mps_environ_find(const char *env, size_t len, const char *name)
{
	size_t n = strlen(name);

	while (len > 0) {
		const char *end = memchr(env, '\0', len);
		size_t part = end ? (size_t)(end - env) : len;

		if (end && part > n && env[n] == '=' && !memcmp(env, name, n))
			return env + n + 1;
		part += end != NULL;
		env += part;
		len -= part;
	}
	return NULL;
}

/* A "_" stands for a "-" in some cgroup names. False: there is no UID at @at. */
static bool parse_pod_uid(const char *at, char ret[64])
{
	size_t n = 0;

	for (; n < UID_LEN && (isxdigit((unsigned char)at[n]) || at[n] == '-' || at[n] == '_');
		n++)
		ret[n] = at[n] == '_' ? '-' : at[n];
	ret[n] = '\0';
	if (n == UID_LEN && ret[8] == '-' && ret[13] == '-')
		return true;
	ret[0] = '\0';
	return false;
}

/* Both cgroup drivers of the kubelet write "pod" before the UID. */
bool mps_cgroup_pod_uid(const char *text, char ret[64])
{
	for (const char *at = strstr(text, "pod"); at; at = strstr(at + 1, "pod"))
		if (parse_pod_uid(at + 3, ret))
			return true;
	ret[0] = '\0';
	return false;
}

/* The kubelet's mount: "... /var/lib/kubelet/pods/UID/etc-hosts /etc/hosts ...". */
bool mps_mounts_pod_uid(const char *text, char ret[64])
{
	static const char pods[] = "/pods/", hosts[] = "/etc-hosts /etc/hosts ";
	const size_t before = sizeof(pods) - 1 + UID_LEN;
	const char *at = strstr(text, hosts);

	ret[0] = '\0';
	return at && (size_t)(at - text) >= before &&
	       !strncmp(at - before, pods, sizeof(pods) - 1) &&
	       parse_pod_uid(at - UID_LEN, ret);
}
