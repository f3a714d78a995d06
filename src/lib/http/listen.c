/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/listen.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PORT_MAX 65535

static bool is_socket_served(const struct sockaddr_un *addr)
{
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0;
}

int http_listen_unix(const char *path, unsigned mode, int *ret_fd, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ERR_LIMIT,
			"listen on '%s': a unix socket path has at most %zu bytes", path,
			sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (is_socket_served(&addr))
		return error_set(err, ERR_EXISTS, "listen on '%s': another process serves it",
			path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket for '%s'", path);
	(void)unlink(path);
	/* Sets the mode before listen(): no client may connect before the mode is in force. */
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		chmod(path, (mode_t)mode) < 0 || listen(fd, SOMAXCONN) < 0)
		return error_sys(err, errno, "listen on '%s'", path);
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* Splits into the two words that getaddrinfo() needs. It would accept any port number and keep the low 16
 * bits. */
int http_split_address(const char *address, char host[HTTP_HOST_MAX], const char **ret_port,
	struct error *err)
{
	const char *colon = strrchr(address, ':');
	const char *from = address;
	uint32_t port;
	size_t len;

	if (!colon || !colon[1])
		return error_set(err, ERR_INVALID,
			"listen on '%s': expected host:port, :port or unix:/path", address);
	if (!parse_u32(colon + 1, &port) || port > PORT_MAX)
		return error_set(err, ERR_INVALID,
			"listen on '%s': expected a port from 0 to %d, found '%.60s'", address,
			PORT_MAX, colon + 1);
	len = (size_t)(colon - address);
	if (len >= 2 && from[0] == '[' && from[len - 1] == ']') {
		from++;
		len -= 2;
	}
	if (len >= HTTP_HOST_MAX)
		return error_set(err, ERR_LIMIT, "listen on '%s': the host is too long",
			address);
	memcpy(host, from, len);
	host[len] = '\0';
	*ret_port = colon + 1;
	return 0;
}

static int bind_one(const struct addrinfo *ai, int *ret_fd)
{
	CLEANUP(closep)
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		ai->ai_protocol);
	int on = 1, off = 0;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	*ret_fd = steal_fd(&fd);
	return 0;
}

/* @family AF_UNSPEC: any. */
static int bind_first(const struct addrinfo *list, int family, int *ret_fd)
{
	int r = -EADDRNOTAVAIL;

	for (const struct addrinfo *ai = list; ai && r < 0; ai = ai->ai_next)
		if (family == AF_UNSPEC || ai->ai_family == family)
			r = bind_one(ai, ret_fd);
	return r;
}

static unsigned port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} name = { .any.sa_family = AF_UNSPEC };
	socklen_t len = sizeof(name);

	if (getsockname(fd, &name.any, &len) < 0)
		return 0;
	return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
}

int http_listen_tcp(const char *address, int *ret_fd, unsigned *ret_port, struct error *err)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	const char *port = NULL;
	char host[HTTP_HOST_MAX];
	int r;

	if (http_split_address(address, host, &port, err) < 0)
		return -1;
	r = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	if (r != 0)
		return error_set(err, ERR_INVALID, "listen on '%s': %s", address,
			gai_strerror(r));
	/* Without a host: IPv6 first, since its socket serves both families. The resolver lists 0.0.0.0
	 * first. */
	r = *host ? -EADDRNOTAVAIL : bind_first(list, AF_INET6, ret_fd);
	if (r < 0)
		r = bind_first(list, AF_UNSPEC, ret_fd);
	freeaddrinfo(list);
	if (r < 0)
		return error_sys(err, -r, "listen on '%s'", address);
	*ret_port = port_of(*ret_fd);
	return 0;
}
