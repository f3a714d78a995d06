/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists whose links are inside the elements: joining needs no memory, leaving no search. Thread: one. */
#include <stdbool.h>
#include <stddef.h>

struct link {
	struct link *next, *prev; /* NULL: in no list */
};

#define OWNER(type, member, at) ((type *)(void *)((char *)(at)-offsetof(type, member)))

static inline void list_init(struct link *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct link *head)
{
	return head->next == head;
}

static inline void link_before(struct link *at, struct link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

static inline void link_out(struct link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->next = l->prev = NULL;
}
