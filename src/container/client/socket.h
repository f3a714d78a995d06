/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the connections to a slice's arbiter have in common (container/client/link.h,
 * container/gate/report.c): own descriptors among those of a program, packets that carry a descriptor, and
 * pages that arrive that way. Holds no state and no lock. Thread: any.
 */
#include "abi/slice-wire.h"
#include "container/sys.h"

#include <stddef.h>

/* A descriptor of the library. The program may close it, as a descriptor that it does not know, and open another
 * file under its number. Device and inode detect this. */
struct own_fd {
	bool have;
	int fd;
	dev_t dev;
	ino_t ino;
};

/* Whether the descriptor is still the one that own_fd_set() took. A system call. */
bool own_fd_is(const struct own_fd *o);
/* Closes the descriptor if own_fd_is(), and forgets it. */
void own_fd_close(struct own_fd *o);
/* Takes over @fd. False: fstat() failed, and @fd is closed. */
bool own_fd_set(struct own_fd *o, int fd);

#define SOCKET_DIR_MAX 1024

/* Whether the process is in a slice. If so, @ret has the path of its directory. */
bool socket_find_dir(char ret[static SOCKET_DIR_MAX]);

/* Connects to the slice's socket in @dir; does not block. Returns the descriptor, or < 0 with errno. */
int socket_connect(const char *dir);

/* Sends a packet, and the descriptor @pass unless that is < 0. Waits until @deadline at most, on sys_now()'s
 * clock. */
bool socket_send(int fd, const void *packet, size_t len, int pass, int64_t deadline);

/* Receives one packet of exactly @len bytes that answers @ask. *passed: the descriptor that came with it, which
 * the caller owns even if the result is false; unchanged if none came. @passed NULL: the function closes it. */
bool socket_receive(int fd, const struct slice_head *ask, uint32_t op, void *packet, size_t len,
	int *passed, int64_t deadline);

/* Fills in the hello of this process. */
void socket_hello(struct slice_hello *ret, uint32_t tag, uint32_t flags);

/* Maps a page that the arbiter sent; a child of fork does not have the mapping. NULL: @fd is not a sealed memory
 * file of @bytes, or mmap() failed. @fd stays the caller's. */
void *socket_map_page(int fd, size_t bytes);
