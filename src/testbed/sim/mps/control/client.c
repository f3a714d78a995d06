/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/control/control.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/fd.h"
#include "testbed/sim/mps/link.h"

/* Sends one command and prints the answer; false: the daemon does not take the command. */
static bool send_line(int fd, const char *line)
{
	struct mps_packet p = { .op = MPS_UI };

	(void)snprintf(p.text, sizeof(p.text), "%s", line);
	if (!mps_send(fd, &p, -1, 0))
		return false;
	for (;;) {
		if (mps_receive(fd, &p, NULL, 0) != MPS_RECEIVED)
			return false;
		if (p.op == MPS_DONE)
			break;
		(void)fputs(p.text, stdout);
	}
	return fflush(stdout) == 0;
}

static bool send_words(int fd, int argc, char **argv)
{
	char line[MPS_TEXT_MAX] = "";
	size_t n = 0;

	for (int i = 0; i < argc && n < sizeof(line); i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s", i ? " " : "",
			argv[i]);
	return send_line(fd, line);
}

static bool send_input(int fd)
{
	char line[MPS_TEXT_MAX];

	while (fgets(line, sizeof(line), stdin)) {
		if (line[strspn(line, " \t\r\n")] == '\0')
			continue;
		if (!send_line(fd, line))
			return false;
	}
	return true;
}

int ui_main(const char *dir, int argc, char **argv)
{
	CLEANUP(closep) int fd = mps_dial(dir);

	if (fd < 0) {
		(void)fputs("Cannot find MPS control daemon process\n", stderr);
		return 1;
	}
	if (argc > 0 ? send_words(fd, argc, argv) : send_input(fd))
		return 0;
	(void)fputs("Cannot send command to MPS control daemon process\n", stderr);
	return 1;
}
