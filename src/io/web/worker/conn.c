/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/worker/conn.h"

#include <string.h>

struct in6_addr web_address(const struct sockaddr_storage *from)
{
	struct in6_addr a = IN6ADDR_ANY_INIT;

	if (from->ss_family == AF_INET6) {
		memcpy(&a, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(a));
	} else if (from->ss_family == AF_INET) {
		a.s6_addr[10] = a.s6_addr[11] = 0xff;
		memcpy(&a.s6_addr[12], &((const struct sockaddr_in *)from)->sin_addr, 4);
	}
	return a;
}

enum web_verdict web_conn_list_admit(const struct web_conn_list *b, const struct in6_addr *addr)
{
	unsigned n = 0;

	for (int s = 0; s < WEB_CONN_CUT; s++)
		for (const struct web_conn *c = b->first[s]; c; c = c->next)
			n += !memcmp(&c->addr, addr, sizeof(*addr));
	if (n >= b->per_address)
		return WEB_ADDRESS_FULL;
	return b->open - b->cut >= b->connections ? WEB_FULL : WEB_ADMITTED;
}

static void append_web_conn(struct web_conn_list *b, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns)
{
	b->cut += state == WEB_CONN_CUT;
	c->state = state;
	c->deadline_ns = now_ns + b->lasts_ns[state];
	c->next = NULL;
	c->prev = b->last[state];
	if (c->prev)
		c->prev->next = c;
	else
		b->first[state] = c;
	b->last[state] = c;
}

static void unlink_web_conn(struct web_conn_list *b, struct web_conn *c)
{
	b->cut -= c->state == WEB_CONN_CUT;
	if (c->prev)
		c->prev->next = c->next;
	else
		b->first[c->state] = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		b->last[c->state] = c->prev;
}

void web_conn_list_add(struct web_conn_list *b, struct web_conn *c, uint64_t now_ns)
{
	c->serial = ++b->last_serial;
	b->open++;
	append_web_conn(b, c, WEB_CONN_REQUEST, now_ns);
}

struct web_conn *web_conn_list_find_new(const struct web_conn_list *b, int fd)
{
	/* Mostly the newest connection matches. */
	for (struct web_conn *c = b->last[WEB_CONN_REQUEST]; c; c = c->prev)
		if (!c->has_request && c->fd == fd)
			return c;
	return NULL;
}

void web_conn_list_set_state(struct web_conn_list *b, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns)
{
	unlink_web_conn(b, c);
	append_web_conn(b, c, state, now_ns);
}

void web_conn_list_remove(struct web_conn_list *b, struct web_conn *c)
{
	unlink_web_conn(b, c);
	b->open--;
}

struct web_conn *web_conn_list_find_due(const struct web_conn_list *b, uint64_t now_ns)
{
	for (int s = 0; s < WEB_CONN_CUT; s++)
		if (b->first[s] && b->first[s]->deadline_ns <= now_ns)
			return b->first[s];
	return NULL;
}

struct web_conn *web_conn_list_find_victim(const struct web_conn_list *b)
{
	static const enum web_conn_state order[] = { WEB_CONN_ENDING, WEB_CONN_IDLE,
		WEB_CONN_REQUEST };

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (b->first[order[i]])
			return b->first[order[i]];
	return NULL;
}

uint64_t web_conn_list_deadline(const struct web_conn_list *b)
{
	uint64_t at = UINT64_MAX;

	for (int s = 0; s < WEB_CONN_CUT; s++)
		if (b->first[s] && b->first[s]->deadline_ns < at)
			at = b->first[s]->deadline_ns;
	return at;
}

uint64_t web_conn_list_oldest_serial(const struct web_conn_list *b)
{
	uint64_t serial = UINT64_MAX;

	for (int s = 0; s < WEB_CONN_STATES_; s++)
		for (const struct web_conn *c = b->first[s]; c; c = c->next)
			if (c->serial < serial)
				serial = c->serial;
	return serial;
}
