/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "unit/container/slice-arbiter.h"

#include "abi/slice-dir.h"
#include "container/client/link.h"
#include "container/sys.h"

#include <dirent.h>
#include <sys/wait.h>

#define MIB   (UINT64_C(1) << 20)
#define LIMIT (1024 * MIB)

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

static char *dir;
static struct slice_arbiter *arbiter;

static void in_child(void (*fn)(void))
{
	int status = -1;
	pid_t pid;

	slice_arbiter_start_memory(arbiter, dir, LIMIT);
	pid = fork();
	if (!pid) {
		alarm(30);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	slice_arbiter_stop(arbiter);
	assert_int_equal(status, 0);
}

static uint64_t used(void)
{
	return link_page()->gpus[0].granted - link_page()->gpus[0].credit;
}

static void register_at_first_use(void)
{
	const struct slice_welcome *w;
	struct slice_viewed v;
	uint64_t left = 0;

	CHECK(!link_page() && arbiter->memory.hellos == 0);
	errno = 1234;
	CHECK(link_open(true) == LINK_UP && link_page());
	CHECK(errno == 1234);
	w = link_welcome();
	CHECK(w->gpu_count == 1 && w->gpus[0].limit == LIMIT);
	CHECK(!memcmp(w->gpus[0].uuid, slice_arbiter_uuid, sizeof(slice_arbiter_uuid)));
	CHECK(link_open(true) == LINK_UP && link_open(false) == LINK_UP &&
		arbiter->memory.hellos == 1);
	CHECK(link_request_bytes(0, 10 * MIB, &left) == SLICE_OK && left == LIMIT - 10 * MIB);
	CHECK(used() == 10 * MIB);
	CHECK(link_request_bytes(0, LIMIT, &left) == SLICE_NO_ROOM && used() == 10 * MIB);
	CHECK(!link_view(0, &v) && v.gpu_count == 1 && v.gpus[0].used == 10 * MIB);
	link_compare(0);
	CHECK(arbiter->compares == 1 && errno == 1234);
}

static void link__registers_at_the_first_use(void **state)
{
	(void)state;
	in_child(register_at_first_use);
}

static void read_without_page(void)
{
	CHECK(link_open(false) == LINK_UP && !link_page());
	CHECK(link_welcome()->gpus[0].limit == LIMIT);
	CHECK(link_open(true) == LINK_UP && link_page() && arbiter->memory.hellos == 2);
}

static void link__requests_a_page_only_when_it_is_needed(void **state)
{
	(void)state;
	in_child(read_without_page);
}

static enum slice_arbiter_page bad_page;

static void reject_bad_page(void)
{
	atomic_store(&arbiter->memory.page, bad_page);
	CHECK(link_open(true) == LINK_DOWN && !link_page());
	CHECK(link_request_bytes(0, 1, NULL) == -1);
	/* The client tries the page again, but not at once. */
	CHECK(link_open(true) == LINK_DOWN && arbiter->memory.hellos == 1);
	atomic_store(&arbiter->memory.page, SLICE_ARBITER_PAGE_GOOD);
	(void)usleep(150 * 1000);
	CHECK(link_open(true) == LINK_UP && link_page());
}

static void link__rejects_an_invalid_page(void **state)
{
	(void)state;
	for (bad_page = SLICE_ARBITER_PAGE_SHORT; bad_page <= SLICE_ARBITER_PAGE_NONE;
		bad_page++)
		in_child(reject_bad_page);
}

static void accept_refusal(void)
{
	int64_t began = sys_now();

	atomic_store(&arbiter->memory.status, SLICE_REFUSED);
	CHECK(link_open(true) == LINK_DOWN && sys_now() - began < LINK_DEADLINE_MS);
}

static void link__accepts_a_refusal(void **state)
{
	(void)state;
	in_child(accept_refusal);
}

#define TRIED_MS \
	250 /* so long a call has waited for an answer, and did not only check whether it may */

/* Whether one of the next tries is given up before the first was. A busy machine makes some longer. */
static bool try_shorter(void)
{
	for (int tries = 0; tries < 5;) {
		int64_t began = sys_now(), took;

		CHECK(link_open(true) == LINK_DOWN);
		took = sys_now() - began;
		if (took >= TRIED_MS && took < LINK_DEADLINE_MS)
			return true;
		tries += took >= TRIED_MS;
		(void)usleep(1000);
	}
	return false;
}

/* Soon, on a machine that lets the arbiter answer in the time that a later try has. */
static bool start_arbiter_later(void)
{
	for (int i = 0; i < 2000 && link_open(true) != LINK_UP; i++)
		(void)usleep(10 * 1000);
	return link_open(true) == LINK_UP;
}

static bool is_granted(uint64_t bytes)
{
	for (int i = 0; i < 2000; i++) {
		if (link_request_bytes(0, bytes, NULL) == SLICE_OK)
			return true;
		(void)usleep(10 * 1000);
	}
	return false;
}

static void wait_for_mute_arbiter(void)
{
	int64_t began = sys_now();
	int tries = 0;

	slice_arbiter_mute(arbiter);
	CHECK(link_open(true) == LINK_DOWN);
	CHECK(sys_now() - began >= LINK_DEADLINE_MS - 10);
	for (int i = 0; i < 1000; i++) {
		began = sys_now();
		CHECK(link_open(true) == LINK_DOWN && link_request_bytes(0, 1, NULL) == -1);
		tries += sys_now() - began >= TRIED_MS;
	}
	CHECK(tries < 5);
	CHECK(try_shorter());
	atomic_store(&arbiter->mute, false);
	CHECK(start_arbiter_later());
	slice_arbiter_mute(arbiter);
	began = sys_now();
	CHECK(link_request_bytes(0, MIB, NULL) == -1);
	CHECK(sys_now() - began >=
		LINK_DEADLINE_MS - 10); /* the link was up, so the full deadline applies */
	CHECK(link_page() && link_open(true) == LINK_DOWN);
	atomic_store(&arbiter->mute, false);
	CHECK(is_granted(MIB));
	CHECK(used() == MIB); /* and not two: the first was never answered */
}

static void link__waits_for_a_mute_arbiter_once_then_shorter(void **state)
{
	(void)state;
	in_child(wait_for_mute_arbiter);
}

static void restart_arbiter(void)
{
	struct slice_page *page;

	CHECK(link_open(true) == LINK_UP);
	CHECK(link_request_bytes(0, 10 * MIB, NULL) == SLICE_OK);
	page = link_page();
	atomic_store(&arbiter->restart_ms, 200);
	while (atomic_load(&arbiter->restart_ms))
		(void)usleep(1000);
	CHECK(link_request_bytes(0, 10 * MIB, NULL) == SLICE_OK);
	CHECK(link_page() == page && used() == 20 * MIB && arbiter->memory.again == 1);
	/* The process requests while the arbiter is down. */
	atomic_store(&arbiter->restart_ms, 200);
	(void)usleep(50 * 1000);
	CHECK(link_request_bytes(0, 10 * MIB, NULL) == SLICE_OK && used() == 30 * MIB);
	/* The arbiter grants, and hangs up before its answer. The link requests again, and the grant counts
	 * once. */
	atomic_store(&arbiter->hang_up_at, 1);
	CHECK(link_request_bytes(0, 10 * MIB, NULL) == SLICE_OK);
	CHECK(used() == 40 * MIB && arbiter->memory.again == 3);
}

static void link__keeps_its_page_when_the_arbiter_restarts(void **state)
{
	(void)state;
	in_child(restart_arbiter);
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void replace_descriptors(void)
{
	int before = open_fds(), status = -1, fds[8];
	bool was_open[64];
	pid_t pid;

	for (int fd = 3; fd < 64; fd++)
		was_open[fd] = fcntl(fd, F_GETFD) >= 0;

	CHECK(link_open(true) == LINK_UP && open_fds() == before + 2);
	for (int fd = 3; fd < 64; fd++) {
		int flags = fcntl(fd, F_GETFD);

		CHECK(flags < 0 || was_open[fd] || flags & FD_CLOEXEC);
	}
	pid = fork();
	if (!pid) {
		CHECK(link_open(true) == LINK_UP);
		CHECK(open_fds() == before + 2); /* its own two, not the parent's */
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	/* A program closes descriptors that it does not know, and opens others with their numbers. */
	for (int fd = 3; fd < 64; fd++)
		(void)close(fd);
	for (int i = 0; i < 8; i++)
		CHECK((fds[i] = open("/dev/null", O_RDONLY)) >= 0);
	CHECK(link_request_bytes(0, MIB, NULL) == -1);
	for (int i = 0; i < 8; i++)
		CHECK(fcntl(fds[i], F_GETFD) >= 0);
}

static void link__leaves_the_descriptors_of_the_program_alone(void **state)
{
	(void)state;
	in_child(replace_descriptors);
}

static void connect_in_long_dir(void)
{
	char name[200], path[400];

	memset(name, 'd', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK(!symlink(dir, path));
	CHECK(!setenv(SLICE_DIR_VARIABLE, path, 1));
	CHECK(link_open(true) == LINK_UP);
}

static void link__reaches_a_socket_of_any_length(void **state)
{
	(void)state;
	in_child(connect_in_long_dir);
}

static void connect_without_slice(void)
{
	CHECK(!unsetenv(SLICE_DIR_VARIABLE));
	CHECK(link_open(true) == LINK_NO_SLICE && atomic_load(&link_off));
	CHECK(link_request_bytes(0, 1, NULL) == -1);
	link_compare(0);
}

static void link__detects_that_there_is_no_slice(void **state)
{
	(void)state;
	in_child(connect_without_slice);
}

static int setup(void **state)
{
	(void)state;
	dir = test_tmpdir();
	arbiter = slice_arbiter_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link__registers_at_the_first_use),
		cmocka_unit_test(link__requests_a_page_only_when_it_is_needed),
		cmocka_unit_test(link__rejects_an_invalid_page),
		cmocka_unit_test(link__accepts_a_refusal),
		cmocka_unit_test(link__waits_for_a_mute_arbiter_once_then_shorter),
		cmocka_unit_test(link__keeps_its_page_when_the_arbiter_restarts),
		cmocka_unit_test(link__leaves_the_descriptors_of_the_program_alone),
		cmocka_unit_test(link__reaches_a_socket_of_any_length),
		cmocka_unit_test(link__detects_that_there_is_no_slice),
	};

	return cmocka_run_group_tests_name("link", tests, setup, teardown);
}
