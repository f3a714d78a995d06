/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mps/clients.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/time.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENVIRON_MAX (4 << 20)
#define CGROUP_MAX  65536
#define MOUNTS_MAX  (1 << 20)
#define UID_LEN     36

void mps_clients_fini(struct mps_clients *c)
{
	free(c->v);
	*c = (struct mps_clients){ .n = 0 };
}

/* --- who a process is --- */

const char *environ_find(const char *env, size_t len, const char *name)
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

/* "-" may be written "_"; false: there is none at @at. */
static bool take_uid(const char *at, char ret[64])
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

/* "pod" comes before, with both drivers of the kubelet. */
bool cgroup_pod_uid(const char *text, char ret[64])
{
	for (const char *at = strstr(text, "pod"); at; at = strstr(at + 1, "pod"))
		if (take_uid(at + 3, ret))
			return true;
	ret[0] = '\0';
	return false;
}

/* Of the kubelet: "... /var/lib/kubelet/pods/UID/etc-hosts /etc/hosts ...". */
bool mounts_pod_uid(const char *text, char ret[64])
{
	static const char pods[] = "/pods/", hosts[] = "/etc-hosts /etc/hosts ";
	const size_t before = sizeof(pods) - 1 + UID_LEN;
	const char *at = strstr(text, hosts);

	ret[0] = '\0';
	return at && (size_t)(at - text) >= before &&
	       !strncmp(at - before, pods, sizeof(pods) - 1) && take_uid(at - UID_LEN, ret);
}

static int read_proc(uint32_t pid, const char *file, struct buf *b)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%u/%s", (unsigned)pid, file);
	return file_read(path, b, NULL);
}

static void read_client(struct mps_client *c)
{
	CLEANUP(buf_fini) struct buf env = BUF_INIT(ENVIRON_MAX);
	CLEANUP(buf_fini) struct buf cgroup = BUF_INIT(CGROUP_MAX);
	CLEANUP(buf_fini) struct buf mounts = BUF_INIT(MOUNTS_MAX);
	CLEANUP(buf_fini) struct buf comm = BUF_INIT(256);
	const char *devices = NULL;

	if (read_proc(c->pid, "comm", &comm) == 0)
		(void)snprintf(c->name, sizeof(c->name), "%.*s",
			(int)strcspn(buf_str(&comm), "\n"), buf_str(&comm));
	if (read_proc(c->pid, "environ", &env) == 0)
		devices = environ_find(buf_str(&env), env.len, MPS_DEVICES_VARIABLE);
	(void)snprintf(c->devices, sizeof(c->devices), "%s", devices ? devices : "");
	if (read_proc(c->pid, "cgroup", &cgroup) == 0 &&
		cgroup_pod_uid(buf_str(&cgroup), c->pod_uid))
		return;
	if (read_proc(c->pid, "mountinfo", &mounts) == 0)
		(void)mounts_pod_uid(buf_str(&mounts), c->pod_uid);
}

/* --- the list --- */

struct mps_client *mps_clients_find(const struct mps_clients *c, uint32_t pid)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->v[i].pid == pid)
			return &c->v[i];
	return NULL;
}

static struct mps_client *place(struct mps_clients *c)
{
	struct mps_client *more;

	for (uint32_t i = 0; c->n >= MPS_CLIENTS_MAX && i < c->n; i++)
		if (!c->v[i].here && !c->v[i].hit)
			return &c->v[i];
	if (c->n >= MPS_CLIENTS_MAX)
		return NULL;
	more = reallocarray(c->v, c->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	c->v = more;
	return &c->v[c->n++];
}

struct mps_client *mps_clients_add(struct mps_clients *c, uint32_t pid)
{
	struct mps_client *m = mps_clients_find(c, pid);

	if (m && m->here)
		return m;
	if (!m)
		m = place(c);
	if (!m)
		return NULL;
	*m = (struct mps_client){ .pid = pid, .here = true };
	read_client(m);
	return m;
}

static void leave(struct mps_client *m)
{
	if (m->here)
		m->gone_ns = time_mono_ns();
	m->here = false;
}

/* Those of which there is nothing to tell any more. */
static void forget_old(struct mps_clients *c)
{
	uint64_t now = time_mono_ns();

	for (uint32_t i = c->n; i-- > 0;)
		if (!c->v[i].here && !c->v[i].hit && now - c->v[i].gone_ns >= MPS_GONE_NS)
			c->v[i] = c->v[--c->n];
}

void mps_clients_remove(struct mps_clients *c, uint32_t pid)
{
	struct mps_client *m = mps_clients_find(c, pid);

	if (m)
		leave(m);
	forget_old(c);
}

void mps_clients_set(struct mps_clients *c, const uint32_t *pids, uint32_t n)
{
	for (uint32_t i = 0; i < c->n; i++) {
		bool found = false;

		for (uint32_t k = 0; k < n && !found; k++)
			found = pids[k] == c->v[i].pid;
		if (!found)
			leave(&c->v[i]);
	}
	forget_old(c);
	for (uint32_t k = 0; k < n; k++)
		(void)mps_clients_add(c, pids[k]);
}

const struct mps_client *mps_clients_last_gone(const struct mps_clients *c, uint64_t since_ns)
{
	const struct mps_client *last = NULL;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct mps_client *m = &c->v[i];

		if (!m->here && !m->hit && m->gone_ns >= since_ns &&
			(!last || m->gone_ns > last->gone_ns))
			last = m;
	}
	return last;
}

uint32_t mps_clients_count(const struct mps_clients *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		n += c->v[i].here;
	return n;
}

uint32_t mps_clients_count_hit(const struct mps_clients *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		n += c->v[i].here && c->v[i].hit;
	return n;
}

/* --- its pod --- */

bool mps_client_pod(const struct mps_client *c, const struct pod_devices *holders,
	struct event_about *ret)
{
	size_t len = strcspn(c->devices, ",");

	*ret = (struct event_about){ .pod = "" };
	for (size_t i = 0; len > 0 && holders && i < holders->n; i++) {
		const struct pod_device *d = &holders->v[i];

		if (strlen(d->id) != len || strncmp(d->id, c->devices, len) != 0)
			continue;
		(void)snprintf(ret->namespace_, sizeof(ret->namespace_), "%s", d->namespace_);
		(void)snprintf(ret->pod, sizeof(ret->pod), "%s", d->pod);
		memcpy(ret->uid, c->pod_uid, sizeof(ret->uid));
		return true;
	}
	return false;
}
