/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mps/clients.h"

#include "lib/base/array.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mps_clients_fini(struct mps_clients *c)
{
	free(c->v);
	*c = (struct mps_clients){ .n = 0 };
}

/* Constant work, done on the loop: the client may be gone before the helper answers. */
static void read_mps_client_name(struct mps_client *c)
{
	CLEANUP(buf_fini) struct buf comm = BUF_INIT(256);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", (unsigned)c->pid);
	if (file_read(path, &comm, NULL) == 0)
		(void)snprintf(c->name, sizeof(c->name), "%.*s",
			(int)strcspn(buf_str(&comm), "\n"), buf_str(&comm));
}

/* --- the list --- */

struct mps_client *mps_clients_find(const struct mps_clients *c, uint32_t pid)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->v[i].pid == pid)
			return &c->v[i];
	return NULL;
}

static struct mps_client *find_mps_client_slot(struct mps_clients *c)
{
	for (uint32_t i = 0; c->n >= MPS_CLIENTS_MAX && i < c->n; i++)
		if (!c->v[i].connected && !c->v[i].faulted)
			return &c->v[i];
	if (!ARRAY_GROW(&c->v, c->n, &c->room, MPS_CLIENTS_MAX))
		return NULL;
	return &c->v[c->n++];
}

struct mps_client *mps_clients_add(struct mps_clients *c, uint32_t pid)
{
	struct mps_client *m = mps_clients_find(c, pid);

	if (m && m->connected)
		return m;
	if (!m)
		m = find_mps_client_slot(c);
	if (!m)
		return NULL;
	*m = (struct mps_client){ .pid = pid, .connected = true };
	read_mps_client_name(m);
	return m;
}

static void set_mps_client_gone(struct mps_client *m)
{
	if (m->connected)
		m->disconnected_ns = time_mono_ns();
	m->connected = false;
}

/* Removes the clients that no report needs any more. */
static void forget_old(struct mps_clients *c)
{
	uint64_t now = time_mono_ns();

	for (uint32_t i = c->n; i-- > 0;)
		if (!c->v[i].connected && !c->v[i].faulted &&
			now - c->v[i].disconnected_ns >= MPS_DISCONNECTED_RETAIN_NS)
			c->v[i] = c->v[--c->n];
}

void mps_clients_remove(struct mps_clients *c, uint32_t pid)
{
	struct mps_client *m = mps_clients_find(c, pid);

	if (m)
		set_mps_client_gone(m);
	forget_old(c);
}

void mps_clients_set(struct mps_clients *c, const uint32_t *pids, uint32_t n)
{
	for (uint32_t i = 0; i < c->n; i++) {
		bool found = false;

		for (uint32_t k = 0; k < n && !found; k++)
			found = pids[k] == c->v[i].pid;
		if (!found)
			set_mps_client_gone(&c->v[i]);
	}
	forget_old(c);
	for (uint32_t k = 0; k < n; k++)
		(void)mps_clients_add(c, pids[k]);
}

const struct mps_client *mps_clients_last_disconnected(const struct mps_clients *c,
	uint64_t since_ns)
{
	const struct mps_client *last = NULL;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct mps_client *m = &c->v[i];

		if (!m->connected && !m->faulted && m->disconnected_ns >= since_ns &&
			(!last || m->disconnected_ns > last->disconnected_ns))
			last = m;
	}
	return last;
}

uint32_t mps_clients_count(const struct mps_clients *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		n += c->v[i].connected;
	return n;
}

uint32_t mps_clients_count_faulted(const struct mps_clients *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		n += c->v[i].connected && c->v[i].faulted;
	return n;
}

/* --- identity --- */

bool mps_unanswered_may_query(const struct mps_unanswered *s, uint64_t now_ns)
{
	return s->until_ns <= now_ns ||
	       s->until_ns - now_ns <= (MPS_UNANSWERED_MAX - 1) * MPS_UNANSWERED_RETRY_NS;
}

void mps_unanswered_count(struct mps_unanswered *s, uint64_t now_ns)
{
	if (s->until_ns < now_ns)
		s->until_ns = now_ns;
	s->until_ns += MPS_UNANSWERED_RETRY_NS;
}

struct mps_client *mps_clients_next_unidentified(const struct mps_clients *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->v[i].connected && c->v[i].identity == MPS_IDENTITY_NEEDED)
			return &c->v[i];
	return NULL;
}

/* Copies the word at *at to @ret and moves *at behind it; "-" becomes "". False: no word, or too long. */
static bool parse_client_word(const char **at, const char *end, char *ret, size_t cap)
{
	const char *stop = memchr(*at, ' ', (size_t)(end - *at));
	size_t n = (size_t)((stop ? stop : end) - *at);

	if (n == 0 || n >= cap)
		return false;
	memcpy(ret, *at, n);
	ret[n] = '\0';
	if (!strcmp(ret, "-"))
		ret[0] = '\0';
	*at = stop ? stop + 1 : end;
	return true;
}

int mps_clients_answer(struct mps_clients *c, const char *line, size_t len, struct error *err)
{
	const char *at = line, *end = line + len;
	struct mps_client got = { .pid = 0 }, *m;
	char pid[16];

	if (!parse_client_word(&at, end, pid, sizeof(pid)) || !parse_u32(pid, &got.pid) ||
		!parse_client_word(&at, end, got.pod_uid, sizeof(got.pod_uid)) ||
		!parse_client_word(&at, end, got.devices, sizeof(got.devices)) || at != end)
		return error_set(err, ERR_INVALID,
			"expected \"PID POD-UID DEVICES\", found \"%.*s\"",
			len < 80 ? (int)len : 80, line);
	m = mps_clients_find(c, got.pid);
	if (!m || m->identity != MPS_IDENTITY_REQUESTED)
		return 0;
	memcpy(m->pod_uid, got.pod_uid, sizeof(m->pod_uid));
	memcpy(m->devices, got.devices, sizeof(m->devices));
	m->identity = MPS_IDENTITY_KNOWN;
	return 0;
}

/* --- its pod --- */

bool mps_client_pod(const struct mps_client *c, const struct pod_devices *pod_devices,
	struct event_about *ret)
{
	size_t len = strcspn(c->devices, ",");

	*ret = (struct event_about){ .pod = "" };
	for (size_t i = 0; len > 0 && pod_devices && i < pod_devices->n; i++) {
		const struct pod_device *d = &pod_devices->v[i];

		if (strlen(d->id) != len || strncmp(d->id, c->devices, len) != 0)
			continue;
		(void)snprintf(ret->namespace_, sizeof(ret->namespace_), "%s", d->namespace_);
		(void)snprintf(ret->pod, sizeof(ret->pod), "%s", d->pod);
		memcpy(ret->uid, c->pod_uid, sizeof(ret->uid));
		return true;
	}
	return false;
}
