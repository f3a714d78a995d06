/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/packet/yield.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Reads for how long the thread ran, and for how long it was ready but did not run, in ns. False: the kernel
 * does not count these times. */
static bool read_sched_times(uint64_t *ret_run_ns, uint64_t *ret_wait_ns)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	char text[96], *wait, *end;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	wait = strchr(text, ' ');
	if (!wait)
		return false;
	*wait++ = '\0';
	end = strchr(wait, ' ');
	if (!end)
		return false;
	*end = '\0';
	return parse_u64(text, ret_run_ns) && parse_u64(wait, ret_wait_ns);
}

uint64_t web_thread_cpu_ns(void)
{
	struct timespec t = { .tv_sec = 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static void set_policy(int policy)
{
	const struct sched_param none = { .sched_priority = 0 };

	(void)sched_setscheduler(0, policy, &none);
}

bool web_is_starved(uint64_t run_ns, uint64_t wait_ns)
{
	return wait_ns > WEB_STARVED_NS && (wait_ns - WEB_STARVED_NS) / 4 > run_ns;
}

void web_yield_begin(struct web_yield *y, uint64_t now_ns)
{
	*y = (struct web_yield){ .checked_ns = now_ns };
	/* Linux applies this to the calling thread alone. */
	(void)setpriority(PRIO_PROCESS, 0, WEB_NICE);
	if (read_sched_times(&y->run_ns, &y->wait_ns))
		set_policy(SCHED_IDLE);
	else
		y->nice_until_ns = UINT64_MAX;
}

void web_yield_pause(struct web_yield *y, uint64_t now_ns)
{
	if (y->nice_until_ns == UINT64_MAX)
		return;
	y->nice_until_ns = now_ns + WEB_NICE_FOR_NS;
	set_policy(SCHED_OTHER);
}

void web_yield_update(struct web_yield *y, uint64_t now_ns)
{
	uint64_t run_ns, wait_ns;

	if (now_ns - y->checked_ns < WEB_YIELD_CHECK_NS || !read_sched_times(&run_ns, &wait_ns))
		return;
	if (!y->nice_until_ns && web_is_starved(run_ns - y->run_ns, wait_ns - y->wait_ns)) {
		web_yield_pause(y, now_ns);
	} else if (y->nice_until_ns && now_ns >= y->nice_until_ns) {
		y->nice_until_ns = 0;
		set_policy(SCHED_IDLE);
	}
	y->checked_ns = now_ns;
	y->run_ns = run_ns;
	y->wait_ns = wait_ns;
}
