/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The web server's process, the only one that remote clients reach. It reads and checks their requests, and
 * asks the agent for what they may have.
 *
 * A client may take over the process. It can then get what the agent serves, read files as the process's user
 * can, and waste the process's share of processor and memory (worker/confine.h). The process has no other
 * descriptor of the agent.
 */
#include "io/web/worker/internal.h"

#include "lib/base/fd.h"
#include "lib/base/option.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/web/worker/confine.h"
#include "io/web/packet/yield.h"

/* The process ends with its agent. Signals that a terminal or systemd sends to all processes are for the
 * agent. */
static void set_signals(void)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGPIPE, SIGTERM };

	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	/* For an agent that ends without closing anything. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Allows the return from SCHED_IDLE to this niceness. */
static void allow_nice(void)
{
	const struct rlimit nice = { 20 - WEB_NICE, 20 - WEB_NICE };

	(void)setrlimit(RLIMIT_NICE, &nice);
}

/* Closes the other descriptors that the process inherited from the agent. */
static void close_others(void)
{
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, WEB_FD_SHM + 1U, ~0U, 0U);
#endif
}

/* Waits for a packet of the agent. *ret_len 0: the agent has gone. */
static int wait_packet(void *packet, size_t *ret_len, int *ret_fd, struct error *err)
{
	struct pollfd agent = { .fd = WEB_FD_SOCKET, .events = POLLIN };
	int r;

	while ((r = web_packet_receive(WEB_FD_SOCKET, packet, ret_len, ret_fd, err)) > 0)
		(void)poll(&agent, 1, -1);
	return r;
}

static int prepare_web_server(struct web_server *w, struct error *err)
{
	size_t len = 0;
	void *page = mmap(NULL, sizeof(struct web_shm), PROT_READ | PROT_WRITE, MAP_SHARED,
		WEB_FD_SHM, 0);

	if (page == MAP_FAILED)
		return error_sys(err, errno, "map the page shared with the agent");
	if (wait_packet(w->start, &len, NULL, err) < 0)
		return -1;
	return web_server_init(w, len, page, err);
}

static int receive_web_listener(struct web_server *w, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	bool only_local = true;
	size_t len = 0;

	if (wait_packet(w->link.packet, &len, &fd, err) < 0)
		return -1;
	if (len == 0) {
		w->link.ended = true;
		return 0;
	}
	if (web_unpack_listen(w->link.packet, len, &only_local, err) < 0)
		return -1;
	return web_server_listen(w, steal_fd(&fd), only_local, err);
}

static int run_web_worker(struct web_server *w)
{
	struct error err = ERROR_INIT;
	int r = web_drop_privileges(&err);

	if (r == 0)
		r = prepare_web_server(w, &err);
	if (r == 0) {
		(void)web_message_send(WEB_FD_SOCKET, WEB_PACKET_READY, &err);
		r = receive_web_listener(w, &err);
	}
	/* Before the process reads the first byte of a remote client. */
	if (r == 0)
		r = web_confine(&err);
	if (r < 0)
		(void)web_message_send(WEB_FD_SOCKET, WEB_PACKET_REFUSED, &err);
	else
		web_server_run(w);
	web_server_fini(w);
	return r < 0;
}

static bool is_started_by_agent(void)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(WEB_FD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

static int print_web_usage(void)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(16384);

	buf_puts(&b, "Usage: gpuslice-web [OPTION...]\n"
		     "Serves metrics and the status page for gpusliced, which starts it.\n\n");
	options_help(&b, NULL, 0);
	return fputs(buf_str(&b), stdout) < 0 || fflush(stdout) != 0;
}

static int start_web_worker(void)
{
	static struct web_server server = { .listen_fd = -1, .epoll_fd = -1 };

	if (!is_started_by_agent()) {
		(void)fprintf(stderr, "gpuslice-web: started by gpusliced, not by hand\n");
		return 2;
	}
	set_signals();
	close_others();
	allow_nice();
	return run_web_worker(&server);
}

int main(int argc, char **argv)
{
	struct options o;
	struct error err = ERROR_INIT;
	int r = options_parse(&o, NULL, 0, argc, argv, 0, NULL, &err);

	if (r == OPTIONS_HELP) {
		r = print_web_usage();
	} else if (r == OPTIONS_VERSION) {
		r = printf("gpuslice-web %s\n", GPUSLICE_VERSION) < 0;
	} else if (r < 0) {
		(void)fprintf(stderr, "gpuslice-web: %s\n", err.msg);
		r = 2;
	} else {
		r = start_web_worker();
	}
	options_fini(&o);
	return r;
}
