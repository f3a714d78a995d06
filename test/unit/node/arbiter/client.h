/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process's end of a slice, as plain as can be: what container/client/link.c and charges.c do, for tests and
 * measurements of the arbiter. One thread for each client.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"

#include <stdbool.h>
#include <stddef.h>

struct slice_client {
	char path[128]; /* of the slice's socket */
	int fd, page_fd;
	uint32_t tag, unanswered;
	struct slice_page *page;
	struct slice_welcome welcome;
	struct turn_page *turns; /* of a connection for quanta, in place of .page */
};

/* 0, or -1: no arbiter answers there. */
int client_connect(struct slice_client *c, const char *slice_dir);

/* The status of the welcome, or -1. Without SLICE_HELLO_AGAIN a page comes along. */
int client_hello(struct slice_client *c, uint32_t flags);

/* Connects again and shows its page, until the arbiter answers or @tries of 1 ms are over. For quanta: where
 * the client has such a page. */
int client_reconnect(struct slice_client *c, int tries);

/* The status, or -1: the connection ended. */
int client_request(struct slice_client *c, unsigned int gpu, uint64_t bytes,
	uint64_t *free_bytes);
int client_view(struct slice_client *c, unsigned int first, struct slice_viewed *ret);
int client_compare(struct slice_client *c, unsigned int gpu);

/* One request and its answer. Length of that, or -1. */
int client_call(struct slice_client *c, void *request, size_t len, void *ret, size_t cap);

/* Takes @bytes from the credit or requests them, also across a restart of the arbiter. False: refused. */
bool client_allocate(struct slice_client *c, unsigned int gpu, uint64_t bytes);
void client_free_bytes(struct slice_client *c, unsigned int gpu, uint64_t bytes);

/* Sends SLICE_STATE, with the gate's present generation. -1: the connection ended. */
int client_report_state(struct slice_client *c, unsigned int gpu, bool busy, bool wants);
/* TURN_OPEN, TURN_THROTTLED, TURN_CLOSED. */
uint32_t client_gate(const struct slice_client *c, unsigned int gpu);
/* Sleeps until the gate lets work through, or, if not @open, until it does not. False: @ms are over. */
bool client_wait_gate(const struct slice_client *c, unsigned int gpu, bool open, int ms);

void client_hang_up(struct slice_client *c); /* keeps the page */
void client_close(struct slice_client *c);
