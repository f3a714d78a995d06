/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the connections to a slice's arbiter share (container/client/link.h, container/gate/gate-link.h): descriptors
 * of ours among those of a program, packets with a descriptor in them, pages that come so. Holds no
 * state and no lock. Thread: any.
 */
#include "abi/slice-wire.h"
#include "container/sys.h"

#include <stddef.h>

/* A descriptor of ours in a process that may close what it does not know and open another there. */
struct own_fd {
	bool have;
	int fd;
	dev_t dev;
	ino_t ino;
};

/* Whether it is still the one that was set. A system call. */
bool own_fd_is(const struct own_fd *o);
/* Closes it if it is, and forgets it. */
void own_fd_close(struct own_fd *o);
/* Takes over @fd, which is closed if that cannot be. */
bool own_fd_set(struct own_fd *o, int fd);

#define SOCKET_DIR_MAX 1024

/* Whether the process is in a slice; then where that lies. */
bool socket_find_dir(char ret[static SOCKET_DIR_MAX]);

/* To the slice's socket in @dir; does not block. The descriptor, or < 0 with errno. */
int socket_connect(const char *dir);

/* Sends a packet, and with it the descriptor @pass unless that is < 0, until @deadline on sys_now()'s
 * clock. */
bool socket_send(int fd, const void *packet, size_t len, int pass, int64_t deadline);

/* One packet of exactly @len bytes that answers @ask. *passed: the descriptor that came with it, the
 * caller's also where the answer is false; as it was if none came. NULL: it is closed. */
bool socket_receive(int fd, const struct slice_head *ask, uint32_t op, void *packet, size_t len,
	int *passed, int64_t deadline);

/* The hello of this process. */
void socket_hello(struct slice_hello *ret, uint32_t tag, uint32_t flags);

/* Maps a page that came, if it is a sealed one of @bytes; a child of fork does not have it. NULL: it is
 * none of ours. The descriptor stays the caller's. */
void *socket_map_page(int fd, size_t bytes);
