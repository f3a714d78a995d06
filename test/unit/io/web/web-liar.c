/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program in place of gpuslice-web that remote clients have taken over: it reports that it is ready,
 * and then does what TEST_WEB_LIE names.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/web/packet/packet.h"

static unsigned char packet[WEB_PACKET_MAX];

/* Waits for a packet of the agent, and its descriptor, -1 if it has none; ends with the agent. */
static int wait_packet(void)
{
	struct pollfd agent = { .fd = WEB_FD_SOCKET, .events = POLLIN };
	size_t len = 0;
	int fd = -1;

	while (web_packet_receive(WEB_FD_SOCKET, packet, &len, &fd, NULL) > 0)
		(void)poll(&agent, 1, -1);
	if (len == 0)
		exit(0);
	return fd;
}

static struct web_shm *map_web_shm(void)
{
	struct web_shm *page =
		mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, WEB_FD_SHM, 0);

	return page == MAP_FAILED ? NULL : page;
}

/* Becomes the real worker from the second start on, by a counter that all processes of a server share. */
static void be_good_the_second_time(void)
{
	struct web_shm *page = map_web_shm();

	if (page && atomic_fetch_add(&page->displaced, 1) > 0)
		(void)execl(TEST_WEB_WORKER, "gpuslice-web", (char *)NULL);
}

static void send_raw(const void *bytes, size_t len)
{
	(void)!send(WEB_FD_SOCKET, bytes, len, MSG_NOSIGNAL);
}

static void pack_liar_request(struct buf *b, const char *path)
{
	const struct web_request req = { .path = path, .accept = "" };

	buf_clear(b);
	web_pack_request(b, &req);
}

/*
 * The client that is connected to @listener decides how long close() takes. The agent's is the last descriptor: this
 * process closed its own while a request delayed the agent, and reports that in the page.
 */
static void send_lingering(int listener)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	const struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
	struct pollfd client = { .fd = listener, .events = POLLIN };
	static const char data[65536];
	struct web_shm *page = map_web_shm();
	int fd;

	(void)poll(&client, 1, -1);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour));
	(void)fcntl(fd, F_SETFL, 0);
	pack_liar_request(&b, "/held");
	send_raw(b.data, b.len);
	pack_liar_request(&b, "/big");
	if (page && web_packet_send(WEB_FD_SOCKET, &b, fd, NULL) == 0 && close(fd) == 0)
		atomic_store(&page->displaced, 1);
}

static void spoil_listener(int listener, const char *what)
{
	if (!strcmp(what, "linger"))
		send_lingering(listener);
	if (!strcmp(what, "shutdown"))
		exit(shutdown(listener, SHUT_RD) < 0);
	if (!strcmp(what, "blocking"))
		exit(fcntl(listener, F_SETFL, 0) < 0);
}

static void send_lie(const char *what)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(WEB_PACKET_MAX);
	const struct error notice = { .code = ERR_IO, .msg = "listen to me" };

	pack_liar_request(&b, "/big");
	if (!strcmp(what, "short"))
		send_raw("x", 1);
	else if (!strcmp(what, "empty"))
		send_raw("", 0);
	else if (!strcmp(what, "large"))
		send_raw(calloc(1, 2 * WEB_PACKET_MAX), 2 * WEB_PACKET_MAX);
	else if (!strcmp(what, "version")) {
		b.data[4]++;
		send_raw(b.data, b.len);
	} else if (!strcmp(what, "cut")) {
		send_raw(b.data, b.len - 1);
	} else if (!strcmp(what, "again"))
		(void)web_message_send(WEB_FD_SOCKET, WEB_PACKET_READY, &notice);
	else if (!strcmp(what, "silent"))
		return;
	else if (!strcmp(what, "notices"))
		for (int i = 0; i < 1000; i++)
			(void)web_message_send(WEB_FD_SOCKET, WEB_PACKET_NOTICE, &notice);
	else if (!strcmp(what, "deaf"))
		for (;;)
			send_raw(b.data, b.len);
	else if (!strcmp(what, "page"))
		_exit(ftruncate(WEB_FD_SHM, 0) < 0 ? 44 : 0);
}

int main(void)
{
	const char *what = getenv("TEST_WEB_LIE");
	const struct error none = ERROR_INIT;

	if (!what)
		return 2;
	if (!strcmp(what, "shutdown") || !strcmp(what, "blocking"))
		be_good_the_second_time();
	(void)wait_packet();
	(void)web_message_send(WEB_FD_SOCKET, WEB_PACKET_READY, &none);
	spoil_listener(wait_packet(), what);
	send_lie(what);
	for (;;)
		(void)wait_packet();
}
