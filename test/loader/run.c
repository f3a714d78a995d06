/* SPDX-License-Identifier: Apache-2.0 */
/* run [NAME=VALUE...] COMMAND...: env -i for roots that have no programs. UID=nobody changes to that user. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char *environment[16];
	int i = 1, n = 0;

	for (; i < argc && strchr(argv[i], '=') && n < 15; i++) {
		if (strncmp(argv[i], "UID=", 4) == 0) {
			if (setuid(65534) != 0)
				return 126;
		} else {
			environment[n++] = argv[i];
		}
	}
	if (i == argc)
		return 125;
	execve(argv[i], argv + i, environment);
	return 127;
}
