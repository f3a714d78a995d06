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

enum web_verdict web_conn_list_admit(const struct web_conn_list *list,
	const struct in6_addr *addr)
{
	unsigned n = 0;

	for (int s = 0; s < WEB_CONN_CUT; s++)
		for (const struct web_conn *c = list->first[s]; c; c = c->next)
			n += !memcmp(&c->addr, addr, sizeof(*addr));
	if (n >= list->per_address)
		return WEB_ADDRESS_FULL;
	return list->open - list->cut >= list->connections ? WEB_FULL : WEB_ADMITTED;
}

static void append_web_conn(struct web_conn_list *list, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns)
{
	list->cut += state == WEB_CONN_CUT;
	c->state = state;
	c->deadline_ns = now_ns + list->lasts_ns[state];
	c->next = NULL;
	c->prev = list->last[state];
	if (c->prev)
		c->prev->next = c;
	else
		list->first[state] = c;
	list->last[state] = c;
}

static void unlink_web_conn(struct web_conn_list *list, struct web_conn *c)
{
	list->cut -= c->state == WEB_CONN_CUT;
	if (c->prev)
		c->prev->next = c->next;
	else
		list->first[c->state] = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		list->last[c->state] = c->prev;
}

void web_conn_list_add(struct web_conn_list *list, struct web_conn *c, uint64_t now_ns)
{
	c->serial = ++list->last_serial;
	list->open++;
	append_web_conn(list, c, WEB_CONN_REQUEST, now_ns);
}

struct web_conn *web_conn_list_find_new(const struct web_conn_list *list, int fd)
{
	/* Mostly the newest connection matches. */
	for (struct web_conn *c = list->last[WEB_CONN_REQUEST]; c; c = c->prev)
		if (!c->has_request && c->fd == fd)
			return c;
	return NULL;
}

void web_conn_list_set_state(struct web_conn_list *list, struct web_conn *c,
	enum web_conn_state state, uint64_t now_ns)
{
	unlink_web_conn(list, c);
	append_web_conn(list, c, state, now_ns);
}

void web_conn_list_remove(struct web_conn_list *list, struct web_conn *c)
{
	unlink_web_conn(list, c);
	list->open--;
}

struct web_conn *web_conn_list_find_due(const struct web_conn_list *list, uint64_t now_ns)
{
	for (int s = 0; s < WEB_CONN_CUT; s++)
		if (list->first[s] && list->first[s]->deadline_ns <= now_ns)
			return list->first[s];
	return NULL;
}

struct web_conn *web_conn_list_find_victim(const struct web_conn_list *list)
{
	static const enum web_conn_state order[] = { WEB_CONN_ENDING, WEB_CONN_IDLE,
		WEB_CONN_REQUEST };

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (list->first[order[i]])
			return list->first[order[i]];
	return NULL;
}

uint64_t web_conn_list_deadline(const struct web_conn_list *list)
{
	uint64_t at = UINT64_MAX;

	for (int s = 0; s < WEB_CONN_CUT; s++)
		if (list->first[s] && list->first[s]->deadline_ns < at)
			at = list->first[s]->deadline_ns;
	return at;
}

uint64_t web_conn_list_oldest_serial(const struct web_conn_list *list)
{
	uint64_t serial = UINT64_MAX;

	for (int s = 0; s < WEB_CONN_STATES_; s++)
		for (const struct web_conn *c = list->first[s]; c; c = c->next)
			if (c->serial < serial)
				serial = c->serial;
	return serial;
}
