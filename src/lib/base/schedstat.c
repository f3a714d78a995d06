/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/schedstat.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* "TIME_ON_CPU TIME_WAITED SLICES" */
bool schedstat_waited(const char *path, uint64_t *ret_ns)
{
	char text[96], *waited;
	CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	waited = strchr(text, ' ');
	if (!waited)
		return false;
	waited++;
	waited[strcspn(waited, " ")] = '\0';
	return parse_u64(waited, ret_ns);
}
