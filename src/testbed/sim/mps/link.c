/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/fd-pass.h"
#include "lib/base/fd.h"

const char *mps_dir(void)
{
	const char *dir = getenv(MPS_ENV_DIR);

	return dir && dir[0] ? dir : MPS_DIR_DEFAULT;
}

/* Through a descriptor of the directory, since a socket's path has at most 107 bytes. */
int mps_dial(const char *dir)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	CLEANUP(closep) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir_fd < 0 || fd < 0)
		return -1;
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/" MPS_CONTROL,
		dir_fd);
	while (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
		if (errno != EINTR)
			return -1;
	return steal_fd(&fd);
}

bool mps_send(int fd, struct mps_packet *p, int send_fd, int flags)
{
	p->version = MPS_VERSION;
	return fd_pass_send(fd, p, sizeof(*p), &send_fd, send_fd >= 0, flags) ==
	       (ssize_t)sizeof(*p);
}

/* Checks the numbers from the peer, which serve as indexes and widths. */
static bool is_packet_in_range(const struct mps_packet *p)
{
	return p->version == MPS_VERSION && p->count <= MPS_DEVICES_MAX &&
	       p->device < MPS_DEVICES_MAX && p->settings.percent <= MPS_PERCENT_ALL &&
	       p->settings.priority <= 1;
}

enum mps_receive_result mps_receive(int fd, struct mps_packet *p, int *recv_fd, int flags)
{
	CLEANUP(closep) int got = -1;
	int came;
	ssize_t n = fd_pass_receive(fd, p, sizeof(*p), &got, 1, flags, &came);

	if (recv_fd)
		*recv_fd = -1;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return MPS_RETRY;
	if (n != (ssize_t)sizeof(*p) || (came & (MSG_TRUNC | MSG_CTRUNC)) ||
		!is_packet_in_range(p))
		return MPS_GONE;
	p->text[sizeof(p->text) - 1] = '\0';
	if (recv_fd)
		*recv_fd = steal_fd(&got);
	return MPS_RECEIVED;
}

bool mps_is_alive(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return fd >= 0 && poll(&p, 1, 0) == 0;
}

void mps_peer(int fd, pid_t *pid, uid_t *uid)
{
	struct ucred cred = { .pid = 0, .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		cred = (struct ucred){ .pid = 0, .uid = (uid_t)-1 };
	*pid = cred.pid;
	*uid = cred.uid;
}
