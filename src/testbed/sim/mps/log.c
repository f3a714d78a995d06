/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mps/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "testbed/sim/location.h"

#define TEXT_MAX   960
#define ENV_FAULT  "GPUSLICE_SIM_MPS_FAULT"
#define FAULT_FILE "mps-fault"
#define SEPARATORS " ,\t\r\n"

void mps_log(int fd, const char *tag, const char *fmt, ...)
{
	char text[TEXT_MAX], line[TEXT_MAX + 64];
	struct timespec now;
	struct tm tm;
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it does not see the va_start() */
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)localtime_r(&now.tv_sec, &tm);
	n = strftime(line, sizeof(line), "[%Y-%m-%d %H:%M:%S", &tm);
	n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ld %s %5d] %s\n",
		now.tv_nsec / 1000000, tag, (int)getpid(), text);
	/* With a full pipe the line is lost, and the writer goes on. */
	if (fd >= 0)
		(void)!write(fd, line, n);
}

static bool find_fault_word(const char *text, const char *word, char *value, size_t cap)
{
	size_t len = strlen(word);

	for (text += strspn(text, SEPARATORS); *text; text += strspn(text, SEPARATORS)) {
		size_t n = strcspn(text, SEPARATORS);

		if (n >= len && !strncmp(text, word, len) && (n == len || text[len] == '=')) {
			(void)snprintf(value, cap, "%.*s", n > len ? (int)(n - len - 1) : 0,
				text + len + (n > len));
			return true;
		}
		text += n;
	}
	return false;
}

bool mps_fault(const char *word, char *value, size_t cap)
{
	const char *env = getenv(ENV_FAULT);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	char path[SIM_PATH_MAX];
	struct sim_location location;

	if (env && find_fault_word(env, word, value, cap))
		return true;
	return sim_location_from_env(&location, NULL, NULL) == 0 && location.dir[0] &&
	       path_join(path, sizeof(path), location.dir, FAULT_FILE, NULL) == 0 &&
	       access(path, F_OK) == 0 && file_read(path, &b, NULL) == 0 &&
	       find_fault_word(buf_str(&b), word, value, cap);
}

bool mps_fault_is(const char *word)
{
	char value[64];

	return mps_fault(word, value, sizeof(value));
}
