/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/base/pod-of-process.h"

#include "lib/base/cleanup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define UID_DIGITS 32

/* Positions of the separators in a UID: 8-4-4-4-12. */
static bool separator_at(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

static bool is_hex(char c)
{
	return isxdigit((unsigned char)c) != 0;
}

/* The length of the UID at @p: 36 with separators, 32 without; 0: no UID. */
static size_t uid_length(const char *p, const char *end)
{
	size_t n = 0, digits = 0;

	for (; p + n < end && digits < UID_DIGITS; n++) {
		if (is_hex(p[n]))
			digits++;
		else if ((p[n] != '-' && p[n] != '_') || !separator_at(n))
			return 0;
	}
	if (digits < UID_DIGITS || (n != UID_DIGITS && n != UID_DIGITS + 4))
		return 0;
	return p + n < end && (is_hex(p[n]) || p[n] == '-' || p[n] == '_') ? 0 : n;
}

bool pod_uid_from_cgroup(const char *text, size_t len, char ret[POD_UID_MAX])
{
	const char *end = text + len, *p = text;

	while ((p = memmem(p, (size_t)(end - p), "pod", 3)) != NULL) {
		char before = p > text ? p[-1] : '\n';
		size_t n;

		p += 3;
		if (before != '/' && before != '-')
			continue;
		n = uid_length(p, end);
		if (!n)
			continue;
		for (size_t i = 0; i < n; i++)
			ret[i] = p[i] == '_' ? '-' : p[i];
		ret[n] = '\0';
		return true;
	}
	return false;
}

/* Whether the kubelet mounts this path only into containers. Volumes of pods are also mounted in the node's own
 * tree. */
static bool of_container(const char *p, const char *end)
{
	static const char *const files[] = { "/etc-hosts ", "/containers/" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		size_t n = strlen(files[i]);

		if ((size_t)(end - p) >= n && !memcmp(p, files[i], n))
			return true;
	}
	return false;
}

/* The tenant controls the path below the pod's, so the first match of a line counts. */
bool pod_uid_from_mounts(const char *text, size_t len, char ret[POD_UID_MAX])
{
	static const char mark[] = "/pods/";
	const char *end = text + len, *next;

	for (const char *line = text; line < end; line = next) {
		const char *stop = memchr(line, '\n', (size_t)(end - line)), *p;
		size_t n;

		stop = stop ? stop : end;
		next = stop < end ? stop + 1 : end;
		p = memmem(line, (size_t)(stop - line), mark, sizeof(mark) - 1);
		if (!p)
			continue;
		p += sizeof(mark) - 1;
		n = uid_length(p, stop);
		if (!n || !of_container(p + n, stop))
			continue;
		memcpy(ret, p, n);
		ret[n] = '\0';
		return true;
	}
	return false;
}

bool pod_container_from_mounts(const char *text, size_t len, const char *uid,
	char ret[POD_CONTAINER_MAX])
{
	const char *end = text + len, *p = text;
	char mark[POD_UID_MAX + 32];
	int n = snprintf(mark, sizeof(mark), "/pods/%s/containers/", uid);

	if (!*uid || n < 0 || (size_t)n >= sizeof(mark))
		return false;
	while ((p = memmem(p, (size_t)(end - p), mark, (size_t)n)) != NULL) {
		size_t k = 0;

		p += n;
		while (p + k < end && k < POD_CONTAINER_MAX - 1 &&
			(islower((unsigned char)p[k]) || isdigit((unsigned char)p[k]) ||
				p[k] == '-'))
			k++;
		if (!k || p + k >= end || p[k] != '/')
			continue;
		memcpy(ret, p, k);
		ret[k] = '\0';
		return true;
	}
	return false;
}
