/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/container/cuda/memory-test.h"

#include "support/test.h"

#include "container/cuda/memory/pool-reservation.h"

#include <sys/wait.h>
#include <unistd.h>

char *mt_dir;
struct slice_arbiter *arbiter;
bool mt_no_slice;
unsigned int mt_status_of_hello;

void mt_in_child(void (*fn)(void))
{
	int status = -1, go[2];
	pid_t pid;

	md_new();
	assert_int_equal(pipe(go), 0);
	pid = fork(); /* before there are threads: TSan allows none in a child of a threaded process */
	if (!pid) {
		char byte;

		alarm(30);
		(void)close(go[1]);
		while (read(go[0], &byte, 1) > 0)
			;
		if (!mt_no_slice)
			CHECK(!setenv("GPUSLICE_SLICE_DIR", mt_dir, 1));
		md.strict = charges_active() && link_page();
		fn();
		CHECK(!md_shared->over);
		CHECK(!link_page() || page()->begun == page()->done);
		_exit(0);
	}
	slice_arbiter_start_memory(arbiter, mt_dir, LIMIT);
	atomic_store(&arbiter->memory.status, mt_status_of_hello);
	(void)close(go[0]);
	(void)close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	slice_arbiter_stop(arbiter);
	assert_int_equal(status, 0);
}

void mt_make_pool(uint64_t bytes)
{
	struct pool_reservation *reservation =
		pool_reservation_get(POOL_RESERVATION_POOL, IN_POOL, 3, 0, CHARGE_SEEN);
	struct pool_reservation_op op;

	CHECK(reservation && !pool_reservation_begin(&op, reservation, bytes));
	md_driver_take(bytes);
	md.pool = bytes;
	pool_reservation_end(&op);
	CHECK(page()->seen >= bytes);
}

int mt_setup(void **state)
{
	(void)state;
	mt_dir = test_tmpdir();
	arbiter = slice_arbiter_new();
	return 0;
}

int mt_teardown(void **state)
{
	(void)state;
	test_rmdir(mt_dir);
	return 0;
}
